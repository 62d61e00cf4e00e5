"""``convert``, ``diff_params``, ``rename_params`` and ``tie_params``: parameter files, which stems name too."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import msgspec

from graphshare.arguments import Natural, NotNegative
from graphshare.checkpoint.load import Names, StrPath, as_checkpoint, as_names, find_both_params, find_params, name_by_stem
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import notes_on, split_by_origin
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.files.atomic import OutputTransaction, make_folder, refusing_links
from graphshare.files.leftovers import TEMPORARY_START
from graphshare.files.paths import (
    UsedFile,
    base_name,
    is_folder,
    is_snapshot,
    list_names,
    place_output,
    refuse_inputs_as_outputs,
)
from graphshare.formats.model_format import Operation, require
from graphshare.formats.model_names import CONFIG, PARAMETER_FORMATS, name_of_file
from graphshare.formats.params.convert import Conversion, choose_cast, describe_conversion, plan_conversion, stage_params
from graphshare.formats.params.diff import ParameterDiff, diff_parameters
from graphshare.formats.params.format import choose_format, find_format, read_index
from graphshare.formats.params.records import select_keys
from graphshare.formats.params.shards import read_shard_folder, require_sound
from graphshare.formats.params.tie import How, Retied, choose_tied, choose_untied, plan_retie, stage_retie
from graphshare.formats.params.tied_names import find_pairs, read_statement
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.rewrite.rules.model import Ruleset
from graphshare.text.format import format_count, format_names
from graphshare.text.names import split_key
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import is_url, local_path


def convert(
    source: StrPath,
    target: StrPath,
    *,
    epoch: Natural | None = None,
    to: str | None = None,
    densify: bool = False,
    np_shape: bool = False,
    select: Names = (),
    leave_out: Names = (),
    tie: bool = False,
    dtype: str | None = None,
    keep: Names | None = None,
    in_place: bool = False,
    graph: StrPath | None = None,
    blocks: StrPath | None = None,
) -> Conversion:
    """Convert the parameter file ``source`` (format by content) to ``target`` (format ``to``, or by its suffix).

    ``source`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has several. In a directory the
    target gets the source's name. With ``in_place`` it may be the source itself.

    ``.params`` from another format is what ``mx.nd.save`` writes: V3 records when ``np_shape``, else V2; a scalar needs V3.
    Within ``.params`` records are copied as they are, sparse ones too, unless ``densify`` makes those dense; the other formats
    have no sparse form, so that they need ``densify``. ``select`` limits the conversion to what these patterns match, and
    ``leave_out`` leaves out what these match. With
    ``tie`` equal arrays become one where the format has ties, under the first of their names. With ``dtype`` (``float16``,
    ``float32`` or ``float64``) floating-point arrays get that dtype; integers, booleans and what the patterns ``keep`` match
    keep theirs. Without ``keep`` float16 leaves out the statistics, gamma and beta of BatchNorm, which MXNet takes in float32
    only; an empty ``keep`` keeps nothing. Streams one array at a time.

    With ``graph`` the names of Gluon's ``save_parameters`` (``features.0.weight``) become those of the graph that the net
    exported, with ``arg:`` and ``aux:``; with a file ``blocks`` of ``save_parameters`` too, the graph's names become its names.

    Raises:
        InputError: the source cannot be read.
        UsageError: a stem has several parameter files; ``blocks`` is given without ``graph``.
        RefusedError: records that the target cannot hold; blocks whose place in the graph cannot be told; all are named.
        OutputError: the target cannot be written; it is then as it was.
    """
    path, target = local_path(find_params(source, epoch=epoch)), local_path(os.fspath(target))
    if to not in (None, *PARAMETER_FORMATS):
        raise UsageError(Fault(f"there is no format {to!r}", hint=f"the formats are {', '.join(PARAMETER_FORMATS)}"))
    target = place_output(target, base_name(path) if to is None else f"{name_of_file(path)}.{to}")
    format_ = choose_format(target) if to is None else find_format(to)
    refuse_inputs_as_outputs([UsedFile(target, "parameters")], [UsedFile(path, "parameters")], in_place=in_place)
    file = name_by_stem(read_index(path), source)
    plan = plan_conversion(file, format_, as_names(select), tie, as_names(leave_out))
    if graph is not None:
        from graphshare.api.block_names import name_for_blocks, name_for_graph  # shapes need numpy, other conversions do not

        nodes = as_checkpoint(graph).graph
        require(nodes, Operation.PARAMETER_FILE, what="`graph`")
        named = name_for_graph(nodes, file, plan) if blocks is None else name_for_blocks(nodes, file, plan, find_params(blocks))
        plan = list(named)
    elif blocks is not None:
        raise UsageError(Fault("`blocks` needs `graph`", hint="name the symbol file that the net exported"))
    cast = choose_cast(file, plan, dtype, None if keep is None else as_names(keep))
    np_shape |= any(record.layout == "V3" for record, _ in plan)  # MXNet reads no file with V2 and V3 records
    with OutputTransaction() as stage:
        stage_params([(file, plan)], stage, target, to=format_.name, densify=densify, np_shape=np_shape, cast=cast)
        stage.commit()
    return describe_conversion(file, plan, target, format_, densify, cast)


def diff_params(
    left: StrPath,
    right: StrPath,
    *,
    epoch: Natural | None = None,
    extra_prefix: str = "",
    select: Names = (),
    atol: NotNegative = 0.0,
    rtol: NotNegative = 0.0,
    across_dtypes: bool = False,
) -> ParameterDiff:
    """Return the differences between two parameter files, or those of two stems.

    Names of the second file begin with ``extra_prefix``, names of the first do not. ``epoch`` chooses the file of a stem that
    has several, on both sides. With ``across_dtypes`` floating-point arrays of unlike dtypes are compared by value, and are
    equal up to the rounding of the less precise one: ``across`` of the result counts them. Without it unlike dtypes are a
    difference.

    Raises:
        InputError: a file cannot be read.
        UsageError: a stem has several parameter files, or neither is a stem and ``epoch`` is given.
        RefusedError: a pattern of ``select`` matches nothing.
    """
    paths = zip(find_both_params(left, right, epoch=epoch), (left, right), strict=True)
    one, other = (name_by_stem(read_index(path), source) for path, source in paths)
    keys, keys_there = ([record.key for record in file.records if record.key is not None] for file in (one, other))
    patterns = as_names(select)
    # A pattern may match in one of the two files only.
    chosen = {*select_keys(one, patterns, others=keys_there), *select_keys(other, patterns, others=keys)} if patterns else None
    names = {split_key(key)[1]: (extra_prefix + split_key(key)[1],) for key in keys}
    return diff_parameters(one, other, names, atol=atol, rtol=rtol, chosen=chosen, across_dtypes=across_dtypes)


class RenamedKeys(msgspec.Struct, frozen=True):
    """The result of ``rename_params``: old and new names of ``renamed``, and ``arrays`` the number of all."""

    target: str
    arrays: int
    renamed: dict[str, str]
    notes: tuple[str, ...]


def rename_params(
    source: StrPath,
    target: StrPath | None,
    rules: Ruleset | StrPath | None = None,
    *,
    epoch: Natural | None = None,
    prefix: str = "",
    strip_prefix: str = "",
    names: Mapping[str, str] | None = None,
    map: StrPath | None = None,
    inverse: bool = False,
    match: Mapping[str, str] = EMPTY,
    select: Names = (),
    leave_out: Names = (),
    in_place: bool = False,
) -> RenamedKeys:
    """Write a parameter file under other names, without its graph.

    ``source`` is a file, ``-`` for stdin, a checkpoint folder, or the stem of a checkpoint, with its ``epoch`` if it has
    several. ``target`` chooses the format by its suffix; None writes nothing, and with ``in_place`` it may be the source.
    The names are given as to :func:`rename` by ``prefix`` and ``strip_prefix``, by ``names`` or the file ``map`` (``inverse``
    the other way round), or by ``rules`` and ``match``; they are those behind ``arg:`` and ``aux:``, which stay. ``select``
    limits them to what these patterns match, ``leave_out`` to what these do not match; other arrays keep their names. Arrays
    are streamed.

    Raises:
        InputError: the source, the map or the rules cannot be read.
        UsageError: no way of giving names, or two that exclude each other; a stem has several parameter files.
        RefusedError: no name would change, or two arrays would get one name; all are listed.
        OutputError: the target cannot be written; it is then as it was.
    """
    from graphshare.rewrite.rename import rename  # start-up: the other functions need no rewrite

    path = local_path(find_params(source, epoch=epoch))
    target = place_output(local_path(os.fspath(target)), base_name(path)) if target is not None else ""
    refuse_inputs_as_outputs([UsedFile(target, "parameters")], [UsedFile(path, "parameters")], in_place=in_place)
    file = read_index(path)
    chosen = select_keys(file, as_names(select), leave_out=as_names(leave_out))
    variables = {split_key(r.key)[1]: None for r in file.records if r.key is not None and r.key in chosen}
    # The names as a graph of nothing but parameters
    graph = Graph(tuple(Node("", name) for name in variables), ())
    model = Checkpoint(graph, file, where=path)
    renamed = rename(model, rules, prefix=prefix, strip_prefix=strip_prefix, names=names, map=map, inverse=inverse, match=match)
    assert renamed.parameter_file is not None
    pairs = [(r.origin.key if r.origin else r.key, r.key) for r in renamed.parameter_file.records]
    if target:
        format_ = choose_format(target)
        np_shape = any(record.layout == "V3" for record in file.records)  # MXNet reads no file with V2 and V3 records
        parts = split_by_origin(renamed.parameter_file)
        with OutputTransaction() as stage:
            stage_params(parts, stage, target, to=format_.name, np_shape=np_shape)
            stage.commit()
    unrelated = notes_on(file, graph)  # what is not chosen
    notes = tuple(note for note in renamed.notes if note not in unrelated)
    return RenamedKeys(target, len(pairs), {old: new for old, new in pairs if old and new and old != new}, notes)


class RetiedFolder(ShortRepr, msgspec.Struct, frozen=True):
    """The result of ``tie_params``: ``arrays`` with the names that they lose or get, and the ``files``, or those to be written.

    ``left`` are the other files of the folder, which are not copied.
    """

    source: str
    how: How
    arrays: tuple[Retied, ...]
    files: tuple[str, ...]
    left: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that the folder loses or gets."""
        return sum(array.size for array in self.arrays)

    def _summary(self) -> str:
        return f"{self.how} {format_names([array.name for array in self.arrays])}, {format_count(self.size, 'byte')}"


def tie_params(
    folder: StrPath,
    out: StrPath | None = None,
    *,
    untie: bool = False,
    keep: Names = (),
    in_place: bool = False,
    dry_run: bool = False,
) -> RetiedFolder:
    """Write a checkpoint folder of safetensors with one copy of the arrays that its architecture ties; with ``untie`` with two.

    ``folder`` has shards, their index if there are several, and ``config.json``. The names of a pair are those that
    transformers ties for the architecture in ``config.json``. Two equal copies become one, under the name of the embedding
    unless ``keep`` has the other one; shards, index and configuration agree. Every other tensor keeps its bytes. ``out`` is a
    new folder, or one of no other files than an earlier run wrote; ``in_place`` writes the shards that change in ``folder``
    itself. ``dry_run`` writes nothing.

    Raises:
        InputError: a file cannot be read, or index and shards contradict each other.
        UsageError: neither or both of ``out`` and ``in_place`` are given.
        RefusedError: there is nothing to tie, copies differ, ``out`` has other files, or is in a model hub's cache.
        OutputError: a file cannot be written; then all are as they were.
    """
    path, target = local_path(os.fspath(folder)), local_path(os.fspath(out)) if out is not None else ""
    if not dry_run and bool(target) == in_place:
        raise UsageError(Fault("needs either `out` or `in_place`", hint="name a new folder for the result"))
    if not dry_run:
        _refuse_target(path, target or path)
    shards = read_shard_folder(path)
    require_sound(shards)
    pairs, statement = find_pairs(shards), read_statement(shards)
    arrays = choose_untied(shards, pairs) if untie else choose_tied(shards, pairs, as_names(keep))
    plan = plan_retie(shards, "untie" if untie else "tie", arrays, statement)
    written = {*plan.shards, base_name(shards.index_path), CONFIG}
    if dry_run:
        files = list(plan.changed)
    else:
        if not in_place:
            _refuse_others(path, target, written)
        target = target or path
        with make_folder(target), refusing_links(target), OutputTransaction() as stage:
            files = stage_retie(shards, plan, target, stage)
            stage.commit()
    left = () if in_place or dry_run else tuple(name for name in list_names(path) if name not in written)
    return RetiedFolder(path, plan.how, plan.arrays, tuple(files), left)


def _refuse_target(path: str, target: str) -> None:
    """Refuse a target at a URL, or in a hub's cache. Raises RefusedError."""
    if is_url(path) or is_url(target):
        raise RefusedError(Fault("is a URL; tied folders are written on this machine", where=target, hint="copy it first"))
    if is_snapshot(target if is_folder(target) else os.path.dirname(os.path.abspath(target))):
        hint = "write it elsewhere with `out`"
        raise RefusedError(Fault("is in a model hub's cache, which is not written to", where=target, hint=hint))


def _refuse_others(path: str, target: str, names: Collection[str]) -> None:
    """Refuse a folder that is the source, or that has more than the files to be written. Raises RefusedError."""
    if is_folder(target):
        others = [n for n in list_names(target) if n not in names and not n.startswith(TEMPORARY_START)]
        if os.path.samefile(path, target):
            raise RefusedError(Fault("is the source itself", where=target, hint="add --in-place, or name a new folder"))
        if others:
            message = f"is a folder with other files in it: {format_names(others, 5)}"
            raise RefusedError(Fault(message, where=target, hint="name a new or an empty folder"))
