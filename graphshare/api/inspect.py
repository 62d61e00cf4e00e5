"""``inspect``: facts about a model, the models of a folder, or a checkpoint folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from graphshare.checkpoint.folder import ModelFiles, Sieve, find_models
from graphshare.checkpoint.load import (
    Model,
    Names,
    Shapes,
    StrPath,
    as_checkpoint,
    as_names,
    as_shapes,
    check_roles,
    find_roles,
)
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, GraphshareError, RefusedError, locate_refusals
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.formats.params.records import element_count
from graphshare.formats.params.safetensors import name_dtype
from graphshare.formats.params.shards import Kind, find_faults, read_shard_folder, require_sound
from graphshare.formats.params.tied_names import (
    TiedPair,
    find_pairs,
    list_architectures,
    read_statement,
)
from graphshare.inspection.folder import ModelFacts, SharedWeights, find_shared, inspect_model
from graphshare.inspection.graph import Inspection, list_facts
from graphshare.progress import item_progress
from graphshare.text.format import format_count
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import redact

if TYPE_CHECKING:
    from graphshare.execute.prepare.shape_report import Shaped

_HARMLESS: tuple[Kind, ...] = ("index", "twice", "empty", "unlisted")
"""Faults of a folder whose tensors can still be counted."""


class StatedTie(msgspec.Struct, frozen=True):
    """Two names that the architecture ties: ``name`` (for example the output layer's) and ``kept``
    (the embedding's).

    ``stored`` is ``once`` if only one name is stored, ``twice`` if both are with the same dtype and
    shape (headers do not tell whether they are equal), else ``unlike``. ``size`` is the size of the
    second copy in bytes, or 0.
    """

    name: str
    kept: str
    stored: Literal["once", "twice", "unlike"]
    size: int


class CheckpointFacts(ShortRepr, msgspec.Struct, frozen=True):
    """A summary of the headers in a checkpoint folder.

    ``tied`` is the configuration's statement on ties, None if it is absent or contradictory;
    ``statement`` quotes its place. ``index`` is the name of the index, or None. ``tensors`` counts
    the names that a loader finds, ``numbers`` their elements, ``size`` their bytes; ``dtypes`` has
    the bytes by dtype. ``remarks`` are the faults of index and shards.
    """

    folder: str
    architectures: tuple[str, ...]
    tied: bool | None
    statement: str
    ties: tuple[StatedTie, ...]
    index: str | None
    shards: int
    tensors: int
    numbers: int
    size: int
    dtypes: dict[str, int]
    remarks: tuple[Fault, ...]

    @property
    def generation(self) -> str:
        """A short description of the folder."""
        return f"checkpoint of {format_count(self.shards, 'shard')}, {self.statement}"


def inspect(
    model: Model, *, shapes: Shapes | None = None, as_input: Names = (), as_parameter: Names = ()
) -> Inspection:
    """List arguments, states, outputs, operators and roles; the lists are MXNet's own, in MXNet's
    order.

    With ``shapes``, ``shaped`` has the shape of every output, layers, parameter counts and
    multiply-adds, as far as they follow from ``shapes``, the parameter file and the graph's own
    annotations. With empty ``shapes`` only the files count; the batch is then 1 if it is the only
    unknown. For an ONNX model ``shaped`` has the shapes that the file states or ONNX infers.

    Raises:
        RefusedError: the parameter file's records have no names; a name in ``shapes`` is not a
            variable; ``shapes`` contradict the files or each other.
    """
    source = as_checkpoint(model)
    with locate_refusals(source):
        roles = find_roles(source, as_input, as_parameter)
    facts = list_facts(source.graph, roles)
    if shapes or (shapes is not None and find_format(source.graph).types.are_stated):
        return msgspec.structs.replace(
            facts, shaped=infer_shapes(source, shapes, as_input=as_input, as_parameter=as_parameter)
        )
    declared = any("__shape__" in node.attrs for node in source.graph.variables())
    if shapes is None or not (declared or source.parameter_file is not None):
        return facts  # without any shape there is nothing to infer, so numpy is not imported
    try:
        shaped = _infer_shapes(
            source, {}, as_names(as_input), as_names(as_parameter), one_sample=True
        )
    except RefusedError as error:
        return msgspec.structs.replace(facts, contradiction=str(error.faults[0]))
    return msgspec.structs.replace(facts, shaped=shaped)


def infer_shapes(
    model: Model, shapes: Shapes, *, as_input: Names = (), as_parameter: Names = ()
) -> Shaped:
    """Infer the shape and dtype of every output, and count parameters and multiply-adds by layer
    and operator.

    Raises:
        RefusedError: a name is not a variable; shapes contradict each other; the model's operators
            are unknown.
    """
    return _infer_shapes(as_checkpoint(model), shapes, as_names(as_input), as_names(as_parameter))


def _infer_shapes(
    source: Checkpoint,
    shapes: Shapes,
    as_input: tuple[str, ...],
    as_parameter: tuple[str, ...],
    *,
    one_sample: bool = False,
) -> Shaped:
    from graphshare.execute.prepare.shape_report import shape_graph  # start-up: imports numpy

    if shapes:
        require(source.graph, Operation.SHAPES, what="`shapes`", where=source.where)
    with locate_refusals(source):
        check_roles(source.graph.variables(), as_input, as_parameter)
        return shape_graph(
            source.graph,
            as_shapes(shapes, source.graph),
            params=source.parameter_file,
            as_input=as_input,
            as_parameter=as_parameter,
            one_sample=one_sample,
        )


def inspect_folder(folder: StrPath, *, exclude: Names = ()) -> Iterator[ModelFacts]:
    """Inspect every model below ``folder`` with its newest parameters, and every checkpoint folder
    by its headers.

    One model is in memory at a time. A model that cannot be read is among the results, with its
    faults. ``exclude`` are globs of files to skip.

    Raises:
        InputError: there is no model; folders cannot be read.
    """
    return inspect_models(
        find_models(os.fspath(folder), Sieve(as_names(exclude)), checkpoints=True)
    )


def inspect_models(models: list[ModelFiles]) -> Iterator[ModelFacts]:
    """Yield the facts of each model, in order; one that cannot be read has faults."""
    for files in item_progress(models, "inspecting", "models"):
        yield inspect_model(files) if files.graph else _inspect_shards(files.path)


def _inspect_shards(folder: str) -> ModelFacts:
    try:
        checkpoint = inspect_checkpoint(folder)
    except GraphshareError as error:
        return ModelFacts(redact(folder), None, (), faults=error.faults)
    return ModelFacts(
        checkpoint.folder,
        None,
        (),
        generation=checkpoint.generation,
        parameters=checkpoint.tensors,
        numbers=checkpoint.numbers,
        remarks=tuple(map(str, checkpoint.remarks)),
    )


def inspect_shared(folder: StrPath, *, exclude: Names = ()) -> SharedWeights:
    """Find arrays of equal bytes in the ONNX models below ``folder``, and the bytes that a pool
    would save.

    All weights are read. ``exclude`` are globs of files to skip.

    Raises:
        InputError: there is no model; folders cannot be read.
    """
    return find_shared(find_models(os.fspath(folder), Sieve(as_names(exclude))))


def inspect_checkpoint(folder: StrPath) -> CheckpointFacts:
    """Summarize a checkpoint folder of safetensors files from their headers; no tensor is read.

    ``folder`` has the files, their index if there are several, and ``config.json``.

    Raises:
        InputError: the folder has no safetensors file, or a file of it cannot be read.
    """
    path = os.fspath(folder)
    shards = read_shard_folder(path)
    require_sound(shards, allow=_HARMLESS)
    entries = [entry for _, entry in shards.list_tensors().values()]
    dtypes: Counter[str] = Counter()
    for entry in entries:
        dtypes[name_dtype(entry.dtype)] += entry.size
    statement = read_statement(shards)
    return CheckpointFacts(
        folder=redact(shards.path),
        architectures=tuple(list_architectures(shards)),
        tied=statement.tied,
        statement=str(statement),
        ties=tuple(map(_describe_tie, find_pairs(shards))),
        index=os.path.basename(redact(shards.index_path)) or None,
        shards=len(shards.shards),
        tensors=len(entries),
        numbers=sum(element_count(entry.shape) for entry in entries),
        size=sum(entry.size for entry in entries),
        dtypes=dict(dtypes.most_common()),
        remarks=tuple(fault for _, fault in find_faults(shards)),  # of the kinds above
    )


def _describe_tie(pair: TiedPair) -> StatedTie:
    return StatedTie(
        pair.name, pair.kept, pair.stored, pair.first[1].size if pair.first and pair.second else 0
    )
