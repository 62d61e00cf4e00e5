"""The command line for :func:`graphshare.foreach`: make a template of a command's words, and run
commands in workers.

A worker runs commands repeatedly; their exit codes and output are returned as values.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Literal, NamedTuple

import click

from graphshare.cli.command import AnswerFile, refuse_other_values
from graphshare.cli.console import choose_color, choose_command, choose_quiet, collect_faults
from graphshare.cli.main import CONTEXT, Terminated, cli, run
from graphshare.errors import Fault, UsageError
from graphshare.files.staged_file import note_inherited_descriptors
from graphshare.fleet.listing import GRAPHS, Kind
from graphshare.fleet.records import Captured
from graphshare.fleet.tasks import Template
from graphshare.text.markup import quote_shell
from graphshare.text.names import find_similar

_OUTPUTS = {"--out": "graph", "--params-out": "params", "--map-out": "map"}
_SUFFIXES = {"export": ".onnx", "run": ".npz", "pool": "folder", "params rename": "params"}
_DRAWN = {"svg": ".svg", "dot": ".dot", "mermaid": ".mmd", "png": ".png", "pdf": ".pdf"}
_KINDS: dict[str, frozenset[Kind]] = {
    **dict.fromkeys(("check", "inspect"), GRAPHS | {"checkpoints"}),
    **dict.fromkeys(
        (f"params {name}" for name in "list show stats diff convert rename".split()),
        GRAPHS | {"checkpoints"},
    ),
    **dict.fromkeys(("params tie", "params untie"), frozenset(("checkpoints",))),
}
"""The kinds of models that a command takes, if not only graphs."""
_AGGREGATED = ("check", "inspect", "diff", "params stats", "export", "verify", "compare")
"""The commands whose reports become one report."""
_REFUSED = {
    "foreach": "it cannot be its own command",
    "completion": "it is not about models",
    "group": "it joins several models in one",
    "rules": "it is about rules, not about models",
}
_OWN = {
    "-o": "foreach names the outputs itself",
    "--reduce": "the parts of all models would be in one folder",
    "--in-place": "foreach does not replace its inputs",
    "--fix": "foreach does not replace its inputs",
    "--format": "foreach prints one report for all models",
}


def make_template(words: Sequence[str]) -> Template:
    """Return the template of a command line without ``graphshare``.

    Raises:
        UsageError: the command cannot be run for each model, an option does not exist, or foreach
            itself gives an option; all of the latter are listed.
    """
    line = _parse(words)
    is_aggregated = line.name in _AGGREGATED
    _refuse_own(line.used, is_aggregated=is_aggregated, name=line.name)
    return Template(
        tuple(words),
        tuple(line.list_outputs()),
        subject=line.find_subject(),
        takes_params="--params" in line.options and not line.used & {"--params", "--epoch"},
        extra=("--format", "json") if is_aggregated else (),
        has_report=is_aggregated,
        name=line.name,
        kinds=line.find_kinds(),
    )


class _Line(NamedTuple):
    """A parsed command line: name, options by flag, the flags in the line, and all values by name."""

    name: str
    options: Mapping[str, click.Option]
    used: set[str]
    values: Mapping[str, Sequence[Any]]

    def list_outputs(self) -> Iterator[tuple[str, str]]:
        # With these options a command writes nothing; check writes only with --fix, and that is
        # rejected.
        if isinstance(self.options.get("--out"), AnswerFile) or self.used & {
            "--dry-run",
            "--check",
            "--detect",
        }:
            return
        # Only training has parameters to write
        trains = self.name != "run" or "--sgd-steps" in self.used
        for flag, content in _OUTPUTS.items():
            if flag in self.options and (flag != "--params-out" or trains):
                yield flag, self._find_suffix() if flag == "--out" else content

    def _find_suffix(self) -> str:
        if self.name == "draw":
            return _DRAWN.get(self.values.get("to", ("html",))[-1], ".html")
        return _SUFFIXES.get(self.name, "graph")

    def find_kinds(self) -> frozenset[Kind]:
        of_graphs = {"--fingerprint", "--shared", "--module", "--shape", "--names"}
        return (
            GRAPHS
            if self.name == "inspect" and self.used & of_graphs
            else _KINDS.get(self.name, GRAPHS)
        )

    def find_subject(self) -> Literal["graph", "params", "stem"]:
        if self.name.startswith("params "):
            return "params"
        return "stem" if "--epoch" in self.used else "graph"


def refuse_misspelt(before: Sequence[str], words: Sequence[str]) -> None:
    """Reject a command that is misspelt or not after ``--``, if the intention is clear; ``words``
    follow ``--``.

    Raises:
        UsageError: the hint is the whole line to type.
    """
    is_given = bool(words)
    if not is_given:
        at = _find_start(before)
        before, words = before[:at], before[at:]
    fixed = _correct(words)
    if not fixed or (is_given and fixed == list(words)):
        return
    wrong = [word for word, right in zip(words, fixed, strict=True) if word != right]
    message = f"no such command {wrong[0]!r}" if is_given else "no command is given after --"
    model = [] if _has_mark(fixed) else ["{}"]
    line = quote_shell("graphshare", "foreach", *before, "--", *fixed, *model)
    raise UsageError(Fault(message, hint=f"write `{line}`"))


def _find_start(words: Sequence[str]) -> int:
    """Return the start of a command without ``--``, or the number of words."""
    # A word after an option may be its value.
    starts = (
        i
        for i in range(1, len(words))
        if not words[i].startswith("-") and not words[i - 1].startswith("-")
    )
    commands = [i for i in starts if _correct(words[i:])] or [len(words)]
    # The last word that looks like a command wins, unless {} follows an earlier one: patterns come
    # first.
    return next((i for i in commands if _has_mark(words[i + 1 :])), commands[-1])


def _has_mark(words: Sequence[str]) -> bool:
    return any("{" in word for word in words)


def _correct(words: Sequence[str]) -> list[str]:
    """Return the words with the nearest command name, or none."""
    command: click.Command | None = cli
    fixed: list[str] = []
    for word in words:
        if not isinstance(command, click.Group):
            break
        context = click.Context(command)
        known = command.list_commands(context)
        near = [word] if word in known else find_similar(word, known)
        if not near:
            return []
        fixed.append(near[0])
        command = command.get_command(context, near[0])
    return [*fixed, *words[len(fixed) :]]


def _find_command(words: Sequence[str]) -> tuple[click.Command, str, list[str]]:
    """Return a command, its name and the remaining words. Raises UsageError."""
    if not words:
        hint = "write it after --, as in `graphshare foreach 'models/*' -o out -- duplicate {} --prefix sha-`"
        raise UsageError(Fault("no command is given", hint=hint))
    command: click.Command = cli
    name, rest = "", list(words)
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=f"graphshare {name}".strip(), **CONTEXT)
        if not rest:
            raise UsageError(
                Fault(f"{name} needs a subcommand", hint=f"see `graphshare {name} --help`")
            )
        word = rest.pop(0)
        _, subcommand, _ = command.resolve_command(context, [word])
        if subcommand is None:
            raise UsageError(Fault(f"there is no command {word!r}", hint="see `graphshare --help`"))
        command, name = subcommand, f"{name} {word}".strip()
        if word in _REFUSED:
            raise UsageError(Fault(f"{word} cannot be run for each model: {_REFUSED[word]}"))
    return command, name, rest


def _parse(words: Sequence[str]) -> _Line:
    """Raises UsageError."""
    command, name, rest = _find_command(words)
    context = click.Context(command, info_name=f"graphshare {name}", **CONTEXT)
    try:
        values, _, order = command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        raise UsageError(
            Fault(error.format_message(), hint=f"see `{context.command_path} --help`")
        ) from None
    refuse_other_values(command, values)
    used = {
        flag
        for parameter in order
        if isinstance(parameter, click.Option)
        for flag in parameter.opts
    }
    options = {
        flag: each
        for each in command.params
        if isinstance(each, click.Option)
        for flag in each.opts
    }
    return _Line(name, options, used, values)


def _refuse_own(used: set[str], *, is_aggregated: bool, name: str) -> None:
    own = {
        "-o",
        "--params-out",
        "--map-out",
        "--in-place",
        "--fix",
        *(("--format",) if is_aggregated else ()),
    }
    faults = []
    for flag in sorted(own & used):
        reason = _OWN.get(flag, _OWN["-o"])
        hint = {
            "-o": "name the folder of all outputs with -o before --",
            "--format": "name it with --report before --",
        }
        faults.append(
            Fault(f"foreach does not accept {flag} of {name}: {reason}", hint=hint.get(flag, ""))
        )
    if faults:
        raise UsageError(faults)


def prepare_worker() -> None:
    """Prepare a worker: streams lead nowhere, and SIGTERM removes half-written files."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # native code prints, too
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    note_inherited_descriptors()
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _terminate)
    gc.collect()
    # Imported modules live as long as the worker, so no later collection needs to walk them.
    gc.freeze()


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def run_captured(words: Sequence[str]) -> Captured:
    """Run ``graphshare WORDS`` with an empty stdin; return its exit code, stdout, stderr and
    faults.
    """
    saved = sys.stdin, sys.stdout, sys.stderr
    streams = _FREE.pop() if _FREE else _Streams()
    gc.disable()  # as in the command itself
    try:
        sys.stdin, sys.stdout, sys.stderr = streams.nothing, streams.out, streams.err
        with collect_faults() as faults:
            code = run(list(words))
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved
        # Options of one command must not affect the next one in this process.
        choose_quiet(False)
        choose_color("auto")
        choose_command(None)
        gc.enable()
    out, err = streams.take()
    _FREE.append(streams)
    return Captured(code, out, err.decode(), faults)


class _Streams:
    """stdout and stderr in memory. They are reused, because click keeps every stream that it has
    printed to.
    """

    def __init__(self) -> None:
        self.nothing = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
        self._bytes = io.BytesIO(), io.BytesIO()
        self.out, self.err = (
            io.TextIOWrapper(b, "utf-8", "backslashreplace", write_through=True)
            for b in self._bytes
        )

    def take(self) -> tuple[bytes, bytes]:
        self.out.flush()
        self.err.flush()
        out, err = (buffer.getvalue() for buffer in self._bytes)
        for buffer in self._bytes:
            buffer.seek(0)
            buffer.truncate()
        return out, err


_FREE: list[_Streams] = []
