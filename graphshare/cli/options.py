"""Options that mean the same in every command that has them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any, TypeVar, get_args

import click

from graphshare.analysis.free_sizes import is_size_name
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.save import write_text
from graphshare.cli.command import LIMITS, AnswerFile, option
from graphshare.cli.console import collect_answer, say, say_fault
from graphshare.errors import Fault, UsageError
from graphshare.files.paths import UsedFile, collect_read_files
from graphshare.formats.model_format import CopiedWeights
from graphshare.resources import memory_limit, parse_size, time_error
from graphshare.resources import time_limit as end_after
from graphshare.text.names import split_pair

F = TypeVar("F", bound=Callable[..., Any])
_Sizes = tuple[int | str | None, ...]

GRAPH = click.argument("graph", metavar="GRAPH")
_FAILED = 2  # the exit code of a question that was not answered

# As in messages: in parentheses, or with a comma at the end.
_SHAPE = r"\(?\s*((?:[\w?*:]+\s*(?:,\s*|$|(?=\))))*)\)?"


def no_verify(text: str) -> Callable[[F], F]:
    """Return the option that leaves out the proof, explained by ``text``."""
    return option("--no-verify", "verify", is_flag=True, flag_value=False, default=True, help=text)


def _limit_memory(context: click.Context, option: click.Parameter, text: str | None) -> None:
    """Raises UsageError for a text that is not a size."""
    # With resilient_parsing a shell asks for completions: the line is incomplete, and nothing runs.
    if text is not None and not context.resilient_parsing:
        _open_limits(context).enter_context(memory_limit(parse_size(text)))


def _limit_time(context: click.Context, option: click.Parameter, seconds: float | None) -> None:
    """End the command after ``seconds``, even if native code does not return: no files are written
    at that time.
    """
    if seconds is None or context.resilient_parsing:
        return

    def overrun() -> None:
        error = time_error(seconds)
        say_fault(error.faults[0])
        say(error.faults[0].hint, style="hint")
        # Native code holds the main thread, so no exception could reach it.
        os._exit(_FAILED)

    _open_limits(context).enter_context(end_after(seconds, overrun=overrun))


def _open_limits(context: click.Context) -> ExitStack:
    """The command's own invocation closes the stack (:class:`graphshare.cli.command.Command`)."""
    stack: ExitStack = context.meta.setdefault(LIMITS, ExitStack())
    return stack


epoch = option(
    "--epoch",
    type=click.IntRange(min=0),
    metavar="N",
    help="Epoch of a stem's parameter file, STEM-000N.params.",
)
params = option(
    "--params",
    metavar="FILE",
    help="Parameter file of the graph, in any format that `params` reads.",
)
out = option(
    "-o",
    "--out",
    metavar="OUT",
    help="A path, - for stdout, a directory, or a stem (siam for siam-symbol.json).",
)
in_place = option(
    "--in-place",
    is_flag=True,
    help="Replace the files that are read, or allow an output to be one of them.",
)
params_out = option(
    "--params-out",
    metavar="FILE",
    help="Write the rewritten parameters to this file; its suffix chooses the format.",
)
map_out = option(
    "--map-out", metavar="FILE", help="Write a map file: which node became which, as JSON."
)
dry_run = option("--dry-run", is_flag=True, help="Print the plan on stdout and write nothing.")
as_input = option(
    "--as-input", metavar="NAME", multiple=True, help="Treat this variable as an input."
)
as_parameter = option(
    "--as-parameter", metavar="NAME", multiple=True, help="Treat this variable as a parameter."
)
verify_bytes = option(
    "--verify-bytes",
    is_flag=True,
    help="Compare the written parameters with their source, byte by byte.",
)
external_data = option(
    "--external-data",
    type=click.Choice(get_args(CopiedWeights)),
    help="ONNX: let copies of a parameter share one range of external data, or copy the data too [share].",
)
no_copy = option(
    "--no-copy", is_flag=True, help="ONNX: refuse to copy external data into another directory."
)
strict = option("--strict", is_flag=True, help="Treat warnings as errors.")
format_ = option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Output format [text].",
)

exclude = option(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="In folders, leave out files whose path or name matches this glob.",
)
feeds = option(
    "--feed",
    "feeds",
    metavar="NAME=FILE",
    multiple=True,
    help="Value of an input: a .npy file, an image, a folder of images or a number; a .npz file needs no NAME.",
)
shapes = option(
    "--shape",
    "shapes",
    metavar="NAME=1,3,?,?",
    multiple=True,
    callback=lambda context, option, texts: parse_shapes(texts),
    help="Shape of the variables of this name or pattern; ? is an unknown size.",
)
dynamic_batch = option(
    "--dynamic-batch", is_flag=True, help="Let the caller of the model choose the batch size."
)
named_shapes = option(
    "--shape",
    "shapes",
    metavar="NAME=n,3,h,w",
    multiple=True,
    callback=lambda context, option, texts: parse_shapes(texts, names=True),
    help="Sizes of an input: a number fixes one, a name leaves it to the caller, 32*h is a multiple, ? any.",
)
tolerance = option(
    "--tolerance",
    type=click.FloatRange(min=0),
    metavar="T",
    help="Allowed difference, relative to the largest output value [1e-4; float16: 1e-2].",
)
max_memory = option(
    "--max-memory",
    metavar="SIZE",
    expose_value=False,
    callback=_limit_memory,
    help="Refuse work that would take more memory than SIZE, such as 2G [the free memory].",
)
time_limit = option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    expose_value=False,
    callback=_limit_time,
    help="Stop with an error after this many seconds; nothing is written.",
)
engine = option(
    "--engine",
    metavar="[numpy|onnxruntime|auto]",
    help="Engine; auto takes the faster one [numpy; for ONNX models onnxruntime].",
)
engines = option(
    "--engine",
    metavar="NAME,...",
    callback=lambda context, option, text: text or (),
    help="Engine, or several to compare, such as numpy,onnxruntime [numpy; for ONNX models onnxruntime].",
)
strict_engine = option(
    "--strict-engine", is_flag=True, help="Refuse nodes that the engine cannot compute."
)
upgrade_first = option(
    "--upgrade", "upgrade_first", is_flag=True, help="Upgrade the graph to MXNet 1.9.1 first."
)
branch_prefixes = option(
    "-p",
    "--prefix",
    "prefixes",
    metavar="P",
    multiple=True,
    help="Prefix of a branch, or another part of its names [detected if possible].",
)


def answer_file(command: F) -> F:
    """Add the option ``-o``, the file for the answer.

    It must not be one that the command reads; it is written when the command is done.
    """

    @wraps(command)
    def run(*words: Any, out: str | None, **settings: Any) -> Any:
        if out in (None, "-"):
            return command(*words, **settings)
        with collect_read_files() as paths, collect_answer() as answer:
            code = command(*words, **settings)
        write_text(out, b"".join(answer), inputs=[UsedFile(path, "file") for path in paths])
        say(f"wrote {out}")
        return code

    return option(
        "-o", "--out", cls=AnswerFile, metavar="FILE", help="Write the answer to this file."
    )(run)  # type: ignore[return-value]


def types(what: str) -> Callable[[F], F]:
    """Return the option that states types of values, such as ``a target``."""
    return option(
        "--type",
        "types",
        metavar="NAME=float32[n,3]",
        multiple=True,
        callback=lambda context, option, texts: dict(
            parse_pairs(texts, "--type names no value and type", "write --type gelu=float32[n,3]")
        ),
        help=f"ONNX: type of {what} of which neither the file nor ONNX knows it [as onnxruntime computes it].",
    )


_REWRITING = (
    GRAPH,
    epoch,
    params,
    out,
    params_out,
    map_out,
    in_place,
    dry_run,
    format_,
    verify_bytes,
)
_OUTPUT = (
    "out",
    "params_out",
    "map_out",
    "in_place",
    "dry_run",
    "format_",
    "verify_bytes",
    "external_data",
    "no_copy",
    "strict",
)


def rewriting(command: F) -> F:
    """Add the options of every command that rewrites a graph of any format.

    The command gets ``source``, the model, and ``output``, the options of its outputs; all others
    are its own.
    """
    return gather("output", _OUTPUT, (*_REWRITING, external_data, no_copy, strict))(
        _with_source(command)
    )


def rewriting_onnx(command: F) -> F:
    """Like :func:`rewriting`, for only ONNX models: they have no parameter file."""
    files = (
        GRAPH,
        out,
        map_out,
        in_place,
        dry_run,
        format_,
        verify_bytes,
        external_data,
        no_copy,
        strict,
    )
    return gather("output", _OUTPUT, files)(_with_source(command))


def rewriting_symbols(command: F) -> F:
    """Like :func:`rewriting`, for only MXNet graphs: they have no external data."""
    return gather("output", _OUTPUT, (*_REWRITING, strict))(_with_source(command))


def reading(command: F) -> F:
    """Add the options that name a model; the command gets ``source``, the model."""
    return GRAPH(epoch(params(_with_source(command))))


def grouping(command: F) -> F:
    """Add the options of a command that reads several graphs and writes one; it gets ``output``."""
    graphs = click.argument("graphs", metavar="GRAPH...", nargs=-1)
    many = option(
        "--params",
        metavar="FILE",
        multiple=True,
        help="Parameter file of a GRAPH, once for each in order; '' for none.",
    )
    return gather(
        "output", _OUTPUT, (graphs, epoch, many, *_REWRITING[3:], external_data, no_copy, strict)
    )(command)


def gather(
    name: str,
    keys: Iterable[str],
    options: Sequence[Callable[[Any], Any]],
    parse: Callable[[dict[str, Any]], Any] = dict,
) -> Callable[[F], F]:
    """Return a decorator that adds ``options``; the command gets their values, parsed by ``parse``,
    as ``name``.
    """

    def add(command: F) -> F:
        @wraps(command)
        def collect(*context: click.Context, **values: Any) -> Any:
            values[name] = parse({key: values.pop(key) for key in keys if key in values})
            return command(*context, **values)

        result: Any = collect
        # The last decorator applies first; reversed, the help keeps the order of the list.
        for add_option in reversed(options):
            result = add_option(result)
        return result  # type: ignore[no-any-return]

    return add


def _with_source(command: F) -> F:
    @wraps(command)
    def with_source(
        *context: click.Context,
        graph: str,
        epoch: int | None = None,
        params: str | None = None,
        **values: Any,
    ) -> Any:
        source = load(graph, epoch=epoch, params=params)
        if values.pop("upgrade_first", False):
            source = upgrade_model(source)
        return command(*context, source=source, **values)

    return with_source  # type: ignore[return-value]


def upgrade_model(model: Checkpoint) -> Checkpoint:
    """Return the upgraded model; ``--upgrade`` applies before anything else."""
    from graphshare.api.upgrade import upgrade  # start-up: most files need none

    return upgrade(model)


def parse_pairs(
    texts: Iterable[str], problem: str, hint: str, is_valid: Callable[[tuple[str, str]], bool] = all
) -> list[tuple[str, str]]:
    """Parse texts such as ``NAME=VALUE``.

    Raises:
        UsageError: texts are not pairs, or not valid; all are listed. ``problem`` begins with the
            option.
    """
    pairs = [(text, split_pair(text)) for text in texts]
    option, _, rest = problem.partition(" ")
    wrong = [text for text, pair in pairs if pair is None or not is_valid(pair)]
    if wrong:
        raise UsageError([Fault(f"{option} {text!r} {rest}", hint=hint) for text in wrong])
    return [pair for _, pair in pairs if pair is not None]


def parse_shapes(texts: Iterable[str], *, names: bool = False) -> dict[str, Any]:
    """Parse ``data=1,3,?,?`` into shapes by name; ``?`` is an unknown dimension, and an empty shape
    is a scalar's.

    With ``names`` a size may have a name, such as ``n``, ``h:480`` or ``32*h``.

    Raises:
        UsageError: texts are not shapes, or one name has several shapes; all are listed.
    """
    shapes: dict[str, _Sizes] = {}
    example = (
        "data=n,3,h,w; a number is fixed, a name free"
        if names
        else "data=1,3,224,224; ? is a size to be found"
    )
    faults = []
    for text in texts:
        pair = _parse_shape(text, names=names)
        if pair is None:
            faults.append(
                Fault(f"--shape {text!r} is not a shape", hint=f"write --shape {example}")
            )
            continue
        name, shape = pair
        if shapes.setdefault(name, shape) != shape:
            hint = "a number behind a name, as in h:480, is the size to start from" if names else ""
            faults.append(
                Fault(f"--shape gives {name!r} two shapes, {shapes[name]} and {shape}", hint=hint)
            )
    if faults:
        raise UsageError(faults)
    return shapes


def _parse_shape(text: str, *, names: bool) -> tuple[str, _Sizes] | None:
    """Return the name and the shape in a text such as ``data=1,3,?,?``, or None for any other text."""
    name, value = split_pair(text) or ("", "")
    match = re.fullmatch(_SHAPE, value.strip())
    if not name or match is None:
        return None
    sizes = [size.strip() for size in match[1].split(",") if size.strip()]
    if not all(size == "?" or size.isdecimal() or (names and is_size_name(size)) for size in sizes):
        return None
    return name, tuple(
        None if size == "?" else int(size) if size.isdecimal() else size for size in sizes
    )


def refuse_old(name: str, hint: str, *, is_flag: bool = False) -> Callable[[F], F]:
    """Return a decorator that adds an option of an earlier version; using it is an error that names
    the replacement.
    """

    def refuse(context: click.Context, option: click.Parameter, value: Any) -> None:
        if value and not context.resilient_parsing:
            raise UsageError(Fault(f"there is no option {name} any more", hint=hint))

    return option(name, is_flag=is_flag, hidden=True, expose_value=False, callback=refuse)
