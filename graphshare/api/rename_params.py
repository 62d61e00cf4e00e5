"""``rename_params``: rename the arrays of a parameter file without its graph."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from graphshare.arguments import Natural
from graphshare.checkpoint.load import Names, StrPath, as_names, find_params
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import notes_on, split_by_origin
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import UsedFile, base_name, place_params, refuse_inputs_as_outputs
from graphshare.formats.params.convert import stage_params
from graphshare.formats.params.format import WriteOptions, choose_format, read_index
from graphshare.formats.params.records import ParameterFile, select_keys
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.rewrite.rules.model import Ruleset
from graphshare.text.names import split_key


class RenamedKeys(msgspec.Struct, frozen=True):
    """The result of ``rename_params``: ``renamed`` maps old to new names, ``arrays`` counts all
    arrays.
    """

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

    ``source`` is a file, ``-`` for stdin, a checkpoint folder, or the stem of a checkpoint, with
    its ``epoch`` if it has several. ``target`` chooses the format by its suffix; None writes
    nothing, and with ``in_place`` it may be the source. The names are given as for :func:`rename`:
    by ``prefix`` and ``strip_prefix``, by ``names`` or the file ``map`` (reversed with
    ``inverse``), or by ``rules`` and ``match``. They apply to the part after ``arg:`` or ``aux:``;
    these prefixes stay. Only names that match the patterns ``select`` and none of ``leave_out``
    change. Arrays are streamed.

    Raises:
        InputError: the source, the map or the rules cannot be read.
        UsageError: names are given in no way, or in two ways that exclude each other; a stem has
            several parameter files; ``target`` is stdout, or a directory and the source is stdin.
        RefusedError: no name would change, or two arrays would get one name; all are listed.
        OutputError: the target cannot be written; it is left unchanged.
    """
    from graphshare.api.rename import rename  # start-up: the other functions need no rewrite

    path = find_params(source, epoch=epoch)
    target = "" if target is None else os.fspath(target)
    target = place_params(target, base_name(path), source=path)
    refuse_inputs_as_outputs(
        [UsedFile(target, "parameters")], [UsedFile(path, "parameters")], in_place=in_place
    )
    file = read_index(path)
    chosen = select_keys(file, as_names(select), leave_out=as_names(leave_out))
    variables = {
        split_key(r.key)[1]: None for r in file.records if r.key is not None and r.key in chosen
    }
    graph = Graph(tuple(Node("", name) for name in variables), ())
    model = Checkpoint(graph, file, where=path)
    renamed = rename(
        model,
        rules,
        prefix=prefix,
        strip_prefix=strip_prefix,
        names=names,
        map=map,
        inverse=inverse,
        match=match,
    )
    assert renamed.parameter_file is not None
    if target:
        _write(renamed.parameter_file, target)
    unrelated = notes_on(file, graph)  # notes on names that are not selected
    notes = tuple(note for note in renamed.notes if note not in unrelated)
    return RenamedKeys(
        target, len(renamed.parameter_file.records), _list_renamed(renamed.parameter_file), notes
    )


def _list_renamed(file: ParameterFile) -> dict[str, str]:
    pairs = (
        (record.origin.key if record.origin else record.key, record.key) for record in file.records
    )
    return {old: new for old, new in pairs if old and new and old != new}


def _write(file: ParameterFile, target: str) -> None:
    format_ = choose_format(target)
    # MXNet reads no file with V2 and V3 records
    np_shape = any(record.layout == "V3" for record in file.records)
    with OutputTransaction() as stage:
        stage_params(
            split_by_origin(file),
            stage,
            target,
            to=format_.name,
            options=WriteOptions(np_shape=np_shape),
        )
        stage.commit()
