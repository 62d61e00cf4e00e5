"""``graphshare params``: parameter files without their graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from graphshare.api.diff_params import diff_params
from graphshare.api.params import convert as convert_params
from graphshare.api.params import list_params, measure_params, show_params
from graphshare.cli import options, rule_options
from graphshare.cli.command import SuggestingGroup, option
from graphshare.cli.console import is_terminal, put, put_colored, put_json, put_table, say
from graphshare.cli.report import format_parameter_diff
from graphshare.errors import Fault, UsageError
from graphshare.formats.model_names import PARAMETER_FORMATS
from graphshare.formats.params.convert import FLOATS, Conversion
from graphshare.inspection.params import (
    ArrayDetails,
    ArrayStatistics,
    ListedRecord,
    ParameterListing,
)
from graphshare.text.format import (
    escape_control,
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_number,
)

if TYPE_CHECKING:
    from graphshare.formats.params.statistics import Statistics

select = option(
    "--select",
    metavar="PATTERN",
    multiple=True,
    help="Take only names that match this glob or =name.",
)
leave_out = option(
    "--except",
    "leave_out",
    metavar="PATTERN",
    multiple=True,
    help="Leave out names that match this.",
)
EXAMPLES = {
    "params list": [
        ("names, types, shapes", "graphshare params list lenet"),
    ],
    "params show": [
        ("one layer", "graphshare params show lenet-0000.params --select 'conv1*'"),
    ],
    "params stats": [
        ("look for NaN", "graphshare params stats lenet-0000.params"),
    ],
    "params diff": [
        ("did training move it", "graphshare params diff lenet-0000.params lenet-0000.params"),
    ],
    "params convert": [
        ("for other tools", "graphshare params convert lenet-0000.params lenet.safetensors"),
        ("one layer", "graphshare params convert lenet-0000.params conv1.npz --select 'conv1*'"),
        (
            "the names of a graph",
            "graphshare params convert lenet-0000.params named.params --graph lenet-symbol.json",
        ),
        (
            "half the size",
            "graphshare params convert lenet-0000.params half.params --dtype float16",
        ),
    ],
    "params rename": [
        (
            "without its graph",
            "graphshare params rename lenet-0000.params --prefix net1_ --except 'bn*' -o net1.params",
        ),
    ],
    "params tie": [
        ("what it would save", "graphshare params tie gpt-twice --dry-run"),
        ("one copy", "graphshare params tie gpt-twice -o gpt-once"),
    ],
    "params untie": [
        ("an output layer of its own", "graphshare params untie gpt -o untied"),
    ],
}


@click.group("params", cls=SuggestingGroup)
def command() -> None:
    """List, compare, measure and convert parameter files.

    Formats are recognized by content, not by file name. No more than one array is in memory at a time.
    """


@command.command("list")
@click.argument("file", metavar="FILE")
@options.epoch
@options.format_
@options.answer_file
def list_(file: str, epoch: int | None, format_: str) -> None:
    """List the arrays of a parameter file without reading them.

    FILE is a parameter file, - for stdin, or the stem of a checkpoint. On a terminal the list is a
    table, in a pipe its columns are separated by tabs.
    """
    listing = list_params(file, epoch=epoch)
    for remark in listing.remarks:
        say(str(remark), style="warning")
    if format_ == "json":
        put_json(listing)
    else:
        _print_table(listing)


@command.command
@click.argument("file", metavar="FILE")
@options.epoch
@select
@leave_out
@options.format_
@options.answer_file
def show(file: str, format_: str, **settings: Any) -> None:
    """Show shape, type, size and place of each array, and which are equal.

    "tied to" means one array under two names; "same as" means equal arrays that are stored twice.
    """

    listing = show_params(file, **settings)
    if format_ == "json":
        put_json(listing)
        return
    rows = []
    for array in listing.arrays:
        size = format_bytes(array.size)
        if array.storage != "default":
            size += f" {array.storage}"
        offset = "compressed" if array.offset is None else f"{array.offset:,}"
        shares = ""
        if array.tied_to:
            shares = f"tied to {array.tied_to}"
        elif array.equal_to:
            shares = f"same as {array.equal_to}"
        rows.append((*_describe_array(array), size, offset, shares))
    put_table(("name", "shape", "type", "size", "offset", "shares"), rows, right=("size", "offset"))
    again = f", {format_bytes(listing.repeated)} of them stored twice" if listing.repeated else ""
    say(f"{format_count(len(listing.arrays), 'array')}, {format_bytes(listing.size)}{again}")


def _describe_array(array: ListedRecord | ArrayDetails | ArrayStatistics) -> tuple[str, str, str]:
    """Return the name, shape and dtype of an array for a table."""
    name = "(no name)" if array.key is None else array.key
    return name, format_dims(array.shape, unknown="never filled"), array.dtype or "-"


@command.command
@click.argument("file", metavar="FILE")
@options.epoch
@select
@leave_out
@options.time_limit
@options.format_
@options.answer_file
def stats(file: str, format_: str, **settings: Any) -> None:
    """Show extremes, mean, deviation, norm, zeros and NaN of each array."""

    listing = measure_params(file, **settings)
    if format_ == "json":
        put_json(listing)
        return
    rows = []
    for array in listing.arrays:
        rows.append([*_describe_array(array), *_format_figures(array.statistics)])
    titles = ("name", "shape", "type", "min", "max", "mean", "std", "norm", "zeros", "nan/inf")
    put_table(titles, rows, right=titles[3:])
    for array in listing.arrays:
        figures = array.statistics
        if figures is not None and figures.nans + figures.infinities:
            say(
                f"{array.key} holds {figures.nans} NaN and {format_count(figures.infinities, 'infinity')}",
                style="warning",
            )


def _format_figures(figures: Statistics | None) -> list[str]:
    # An array that was never filled has no statistics.
    if figures is None:
        return ["-"] * 7
    numbers = (figures.min, figures.max, figures.mean, figures.std, figures.norm)
    zeros = f"{100 * figures.zeros / figures.count:.3g}%" if figures.count else "-"
    return [*map(format_number, numbers), zeros, str(figures.nans + figures.infinities)]


@command.command("diff")
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@options.epoch
@option(
    "--extra-prefix",
    metavar="P",
    default="",
    help="Names in B have this prefix, those in A do not.",
)
@option(
    "--atol",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="A",
    help="Absolute tolerance of parameters [0].",
)
@option(
    "--rtol",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="R",
    help="Relative tolerance of parameters [0].",
)
@option(
    "--across-dtypes",
    is_flag=True,
    help="Compare arrays of different types by value; without it they differ.",
)
@select
@leave_out
@options.format_
@options.answer_file
def diff_(left: str, right: str, format_: str, **settings: Any) -> int:
    """Compare two parameter files by name and value.

    A and B are parameter files, - for stdin, or stems of checkpoints. With --epoch each stem means
    its file of that epoch.

    The exit code is 0 when nothing differs, 1 when something does. The formats may differ. Values
    are compared bit for bit (0 is not -0), with --atol or --rtol as numbers. Different types are a
    difference; with --across-dtypes a float32 file and its float16 copy are equal up to the
    rounding of float16.
    """

    difference = diff_params(left, right, **settings)
    if format_ == "json":
        put_json({"version": 2, "different": bool(difference), **msgspec.to_builtins(difference)})
    else:
        put_colored(format_parameter_diff(difference))
    return 1 if difference else 0


@command.command("convert")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@options.epoch
@option(
    "--to", type=click.Choice(list(PARAMETER_FORMATS)), help="Format of the target [by its suffix]."
)
@option(
    "--densify",
    is_flag=True,
    help="Write sparse arrays in dense form, the only one outside of .params.",
)
@option("--np-shape", is_flag=True, help="Write V3 records, which MXNet reads with np-shape on.")
@option(
    "--tie",
    is_flag=True,
    help="Write equal arrays once, under several names, in a format that can.",
)
@option(
    "--dtype",
    type=click.Choice(FLOATS),
    help="Convert floating-point arrays to this type [unchanged].",
)
@option(
    "--keep",
    metavar="PATTERN",
    multiple=True,
    help="With --dtype: names that keep their type, a glob or =name; '' for none [float16: BatchNorm].",
)
@option(
    "--graph",
    metavar="GRAPH",
    help="Give names of Gluon's save_parameters those that this exported graph has.",
)
@option(
    "--blocks",
    metavar="FILE",
    help="With --graph: give the graph's names those of this save_parameters file.",
)
@select
@leave_out
@options.in_place
def convert(
    source: str, target: str, dtype: str | None, keep: tuple[str, ...], **settings: Any
) -> None:
    """Convert a parameter file; keys keep their arg: and aux: in every format.

    SOURCE is a parameter file, - for stdin, or the stem of a checkpoint. The suffix of TARGET chooses the format.

    With --dtype float16 the statistics, gamma and beta of BatchNorm stay as they are, which MXNet
    takes in float32 only; in an ONNX model so do the inputs of BatchNormalization and Resize other
    than the data. --keep names different ones instead.

    Gluon's save_parameters numbers blocks (features.0.weight), and the graph that the net exports
    has other names. With --graph they are matched by attributes, shapes and order: a block's layers
    must have been set in the order in which they were made. Blocks that cannot be told apart are
    refused by name. --blocks goes the other way, to the names of a file of the same net.

    Ties of .safetensors (names that its metadata map to others, as safetensors.torch.save_model
    writes them) stay ties there.
    """

    done = convert_params(source, target, dtype=dtype, keep=keep or None, **settings)
    tied = f", {len(done.tied)} of them tied" if done.tied else ""
    say(f"wrote {done.target}: {format_count(done.arrays, 'array')} as {done.format}{tied}")
    if done.lost_names:
        say(
            "the names of the arrays are not written: the graph beside the file has them",
            style="warning",
        )
    for key in done.densified:
        say(f"{key!r} was sparse and is dense now", style="warning")
    for key in done.untied:
        say(f"{key!r} was tied and has an array of its own now", style="warning")
    if dtype is not None:
        _say_cast(done, dtype, by_default=not keep)


@command.command("rename")
@click.argument("source", metavar="SOURCE")
@click.argument("renames", metavar="OLD=NEW...", nargs=-1)
@option(
    "-o", "--out", "target", metavar="FILE", help="Write this file; its suffix chooses the format."
)
@options.epoch
@rule_options.prefix
@rule_options.strip_prefix
@rule_options.names_file
@option("--inverse", is_flag=True, help="Undo the renames of --map.")
@rule_options.matches
@rule_options.targets
@rule_options.rules
@select
@leave_out
@options.in_place
@options.dry_run
def rename_(
    source: str,
    renames: tuple[str, ...],
    target: str | None,
    match: tuple[str, ...],
    to: tuple[str, ...],
    rules: str | None,
    dry_run: bool,
    **settings: Any,
) -> None:
    """Rename the arrays of a parameter file, without its graph.

    SOURCE is a parameter file, or the stem of a checkpoint; names are given as to `graphshare
    rename`, and arg: and aux: stay in front of them. Two arrays of one name are refused. Byte
    ranges or arrays are copied one at a time.
    """
    # Start-up: the other commands read no rules
    from graphshare.api.load_rules import make_ruleset
    from graphshare.api.rename_params import rename_params
    from graphshare.cli.output import warn
    from graphshare.rewrite.rules.model import matches_of_options, renames_of_arguments

    own_rules = [*matches_of_options(match, to), *renames_of_arguments(renames)]
    target = target or (source if settings["in_place"] else None)
    if target is None and not dry_run:
        raise UsageError(Fault("there is no output", hint="add -o FILE, --in-place or --dry-run"))
    ruleset = make_ruleset(rules, own_rules) if own_rules or rules else None
    done = rename_params(source, None if dry_run else target, ruleset, **settings)
    warn(done.notes)
    if dry_run:
        put([f"{old} -> {new}" for old, new in done.renamed.items()])
    say(
        f"{'would rename' if dry_run else 'renamed'} {len(done.renamed)} of {format_count(done.arrays, 'array')}"
    )
    if not dry_run:
        say(f"wrote {done.target}")


def _retying(function: Callable[..., None]) -> Callable[..., None]:
    """Add the argument and the options of ``tie`` and ``untie``."""
    folder = click.argument("folder", metavar="FOLDER")
    out = option(
        "-o", "--out", metavar="DIR", help="Write the checkpoint to this new or empty folder."
    )
    in_place = option(
        "--in-place", is_flag=True, help="Write the shards that change in FOLDER itself."
    )
    for add in (options.format_, options.dry_run, in_place, out, folder):
        function = add(function)
    return function


@command.command
@_retying
@option(
    "--keep",
    metavar="NAME",
    multiple=True,
    help="Keep this name of a pair [that of the embedding].",
)
def tie(folder: str, format_: str, **settings: Any) -> None:
    """Write a checkpoint with one copy of each array that its architecture ties.

    FOLDER has safetensors files, an index if there are several, and a config.json, whose
    architecture says which arrays are tied: an output layer with its embedding. Two copies that are
    equal byte for byte become one; shards, index and tie_word_embeddings agree afterwards. Every
    other tensor keeps its bytes. Files are put in place together or not at all.
    """
    _retie(folder, format_, untie=False, **settings)


@command.command
@_retying
def untie(folder: str, format_: str, **settings: Any) -> None:
    """Write a checkpoint with a copy for each name of a tied array.

    FOLDER is as for tie. The output layer gets a copy of the embedding beside it in its shard, so
    that both can be trained apart, and config.json says that they are not tied.
    """
    _retie(folder, format_, untie=True, **settings)


def _retie(folder: str, format_: str, *, dry_run: bool, **settings: Any) -> None:
    from graphshare.api.tie_params import tie_params  # start-up: as above

    done = tie_params(folder, dry_run=dry_run, **settings)
    if format_ == "json":
        put_json({"version": 1, "size": done.size, **msgspec.to_builtins(done)})
        return
    verb = "is" if done.how == "tie" else "gets a copy of"
    lines = [
        f"{array.name} {verb} {array.kept}: {format_count(array.size, 'byte')}"
        for array in done.arrays
    ]
    put([*lines, f"{format_bytes(done.size)} {'less' if done.how == 'tie' else 'more'}"])
    say(f"{'would write' if dry_run else 'wrote'} {', '.join(done.files)}")
    if done.left:
        say(f"not copied: {format_names(done.left)}")


def _say_cast(done: Conversion, dtype: str, *, by_default: bool) -> None:
    say(
        f"cast to {dtype}: {len(done.cast)} of {format_count(done.arrays, 'array')}; the graph is unchanged"
    )
    if done.kept and by_default:
        say(
            f"{format_count(len(done.kept), 'array')} of {done.keeper}; --keep chooses different ones"
        )
    for key, count in done.overflows.items():
        say(
            f"{key!r}: {format_count(count, 'number')} beyond the range of {dtype} became infinite",
            style="warning",
        )


def _print_table(listing: ParameterListing) -> None:
    rows = []
    for array in listing.arrays:
        name, shape, dtype = _describe_array(array)
        is_sparse = array.storage != "default"
        layout = f"{array.layout} {array.storage}" if is_sparse else array.layout
        rows.append((name, dtype, shape, layout))
    if is_terminal():
        put_table(("name", "type", "shape", "layout"), rows)
    else:
        put(("\t".join(map(escape_control, row)) for row in rows), keep="\t")
    say(
        f"{format_count(len(listing.arrays), 'array')}, {format_count(listing.data_size, 'byte')} "
        f"of data in {listing.size:,}"
    )
