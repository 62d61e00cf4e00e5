"""``pool``: many models on one file of weights, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from graphshare.arguments import Text
from graphshare.checkpoint.load import Model, StrPath, as_checkpoint
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.save import input_files
from graphshare.errors import Fault, InputError, RefusedError, UsageError, locate_refusals
from graphshare.files.atomic import OutputTransaction, make_folder, refuse_links, refusing_links
from graphshare.files.leftovers import TEMPORARY_START, hold_folder
from graphshare.files.open_source import describe_file
from graphshare.files.paths import (
    UsedFile,
    base_name,
    exists,
    find_identity,
    find_stdout_faults,
    is_folder,
    is_snapshot,
    refuse_inputs_as_outputs,
)
from graphshare.formats.facets import ModelPooling, StagedModel
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.model_names import list_model_endings, suggest_suffix
from graphshare.text.format import format_bytes, format_count
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import is_url

DATA = "weights.data"


class PooledModel(ShortRepr, msgspec.Struct, frozen=True):
    """A model that was pooled, or whose weights were moved back into its file.

    ``source`` is the file it was read from, ``out`` the new one; ``before`` and ``after`` count
    their bytes. ``arrays`` counts arrays in the pool and ``weights`` their bytes; ``kept`` counts
    bytes of arrays that stay in the model although they are large enough for a pool. ``proof``
    describes the comparison in onnxruntime, if there was one.
    """

    source: str
    out: str
    before: int
    after: int
    arrays: int
    weights: int
    kept: int = 0
    proof: str = ""


class Pooling(ShortRepr, msgspec.Struct, frozen=True):
    """The result of :func:`graphshare.pool`.

    ``data`` is the file of the weights, empty if each model contains its own; ``size`` counts its
    bytes, ``orphans`` those that no model in its folder points to. ``weights`` sums the bytes of
    all models' arrays in it; ``distinct`` counts shared arrays once. ``before`` counts the bytes of
    all files that were read, ``after`` the models and ``distinct``.
    """

    models: tuple[PooledModel, ...]
    data: str
    size: int
    orphans: int
    before: int
    after: int
    weights: int
    distinct: int

    def _summary(self) -> str:
        return f"{format_count(len(self.models), 'model')}, {format_bytes(self.before)} to {format_bytes(self.after)}"


def pool(
    models: Iterable[Model],
    out: StrPath,
    *,
    data: Text = DATA,
    embed: bool = False,
    in_place: bool = False,
    verify: bool = True,
) -> Pooling:
    """Write ONNX models into the folder ``out``, where they share one file of weights; equal arrays
    are stored once.

    The folder is created if it does not exist. Every array of at least 1,024 bytes goes into the
    file, whether it is an initializer or a Constant, in a body or not. ``data`` is the file's name
    in the folder. An existing file keeps its bytes, so that earlier models still find their
    weights, and grows if a model in the folder points into it; a parameter file (``.safetensors``,
    ``.params``) does not grow, and arrays that it lacks stay in the models. With ``embed`` the
    weights move back into the models' own files. ``in_place`` allows pooled models to replace their
    sources.

    Every array is read back and compared with its source, byte by byte. With ``verify`` onnxruntime
    computes each model before and after, on drawn inputs, and all outputs must be equal bit for
    bit. All files are put in place together, or none.

    Raises:
        UsageError: there is no model; ``out`` is not a folder; ``data`` is not the name of a file
            in it, names a model, or has a misspelt suffix.
        RefusedError: a model is not an ONNX model; two would have one name; an output is an input,
            a link in ``out``, or a file of weights that another program has written.
        InputError: a file cannot be read; weights in a pool are not the ones that a model was
            pooled with.
        DisprovedError: onnxruntime computes different outputs.
        OutputError: a file could not be written; all files are left unchanged.
    """
    sources = [as_checkpoint(model) for model in models]
    folder = os.fspath(out)
    targets = _place_models(sources, folder)
    location = "" if embed else _place_data(data, targets)
    refuse_links(folder, [*targets, os.path.join(folder, location)])
    outputs = [UsedFile(target, "graph") for target in targets]
    refuse_inputs_as_outputs(
        outputs, [file for source in sources for file in input_files(source)], in_place=in_place
    )
    pooling = _find_pooling(sources)
    before = _count_bytes(sources)  # pooled models may replace their sources
    sizes = [describe_file(source.where).size for source in sources]
    with (
        make_folder(folder),
        hold_folder(folder),
        refusing_links(folder),
        OutputTransaction() as stage,
    ):
        members = [
            (source.graph, source.parameter_file, target)
            for source, target in zip(sources, targets, strict=True)
        ]
        path = os.path.join(folder, location) if location else ""
        staged, size = pooling.stage(members, path, stage)
        proofs = [""] * len(staged)
        if verify:
            proofs = [_prove(*pair) for pair in zip(sources, staged, strict=True)]
        stage.commit()
        rows = zip(sources, sizes, staged, proofs, strict=True)
        pooled = tuple(_describe_model(*row) for row in rows)
        is_pooled = any(one.contents for one in staged)
        if not path or not is_pooled:
            return _sum_up(pooled, staged, before, data="", size=0, orphans=0)
        orphans = pooling.count_orphans(path)
        return _sum_up(pooled, staged, before, data=path, size=size, orphans=orphans)


def _find_pooling(sources: Sequence[Checkpoint]) -> ModelPooling:
    format_ = find_format(sources[0].graph)
    pooling = format_.demand(format_.pooling, Operation.POOL)
    faults: list[Fault] = []
    for source in sources:
        faults += pooling.find_faults(source.graph, source.parameter_file)
    if faults:
        raise InputError(faults)
    return pooling


def _describe_model(
    source: Checkpoint, before: int, staged: StagedModel, proof: str
) -> PooledModel:
    """Describe a model in place; its source is not read, because it may have been replaced."""
    weights = sum(content.size for content in staged.contents)
    return PooledModel(
        source.where,
        staged.target,
        before,
        staged.size,
        len(staged.contents),
        weights,
        staged.kept,
        proof,
    )


def _sum_up(
    models: tuple[PooledModel, ...],
    staged: Sequence[StagedModel],
    before: int,
    *,
    data: str,
    size: int,
    orphans: int,
) -> Pooling:
    contents = set(chain.from_iterable(one.contents for one in staged))
    distinct = sum(content.size for content in contents)
    weights = sum(model.weights for model in models)
    after = distinct + sum(model.after for model in models)
    return Pooling(models, data, size, orphans, before, after, weights, distinct)


def _check_folder(folder: str) -> None:
    hint = "name a folder with `out`"
    UsageError.raise_any(find_stdout_faults(folder, "a folder of models", hint))
    if is_url(folder):
        raise UsageError(
            Fault(
                "is a URL, but models are pooled in a local folder",
                where=folder,
                hint="copy the folder there",
            )
        )
    if is_snapshot(folder):
        reason = "is in a model hub's cache, which is not written to"
        raise RefusedError(Fault(reason, where=folder, hint="name another folder with `out`"))
    if exists(folder) and not is_folder(folder):
        raise UsageError(
            Fault(
                "is not a folder",
                where=folder,
                hint="models are pooled in a folder, under their own names",
            )
        )


def _place_models(sources: Sequence[Checkpoint], folder: str) -> list[str]:
    if not sources:
        hint = "as in `gs.pool(['a.onnx', 'b.onnx'], out=DIR)`"
        raise UsageError(Fault("there is no model to pool", hint=hint))
    _check_folder(folder)
    faults: list[Fault] = []
    by_name: dict[str, list[str]] = {}
    for source in sources:
        where = source.where or "a graph"
        faults += find_format(source.graph).find_lacks(Operation.POOL, [""], where=where)
        if not _is_in_file(source):
            hint = "save it first: a model is pooled from its file"
            faults.append(Fault("is not in a file", where=where, hint=hint))
        by_name.setdefault(base_name(source.where), []).append(source.where)
    for name, same in by_name.items():
        if len(same) > 1:
            message = f"{len(same)} models would have this name: {', '.join(same)}"
            hint = "give them other names, or pool them into folders of their own"
            faults.append(Fault(message, where=os.path.join(folder, name), hint=hint))
    if faults:
        raise RefusedError(faults)
    return [os.path.join(folder, name) for name in by_name]


def _is_in_file(source: Checkpoint) -> bool:
    if not source.where or source.where.startswith("<"):
        return False
    # A rewritten graph differs from its file, whose bytes would be compared and counted.
    return source.rewrite is None and not source.needs_params


def _place_data(data: str, targets: Sequence[str]) -> str:
    is_name = data == base_name(data) and data not in (os.curdir, os.pardir, "-")
    if not is_name or "\\" in data or "\0" in data:
        message = f"`data` is the name of a file in the folder of the models, not {data!r}"
        raise UsageError(Fault(message, hint=f"name the weights as in {DATA}"))
    # The default is not misspelt, even if a format has a similar name.
    if data != DATA and (hint := suggest_suffix(data)):
        raise UsageError(Fault(f"`data={data!r}` is not the name of a parameter file", hint=hint))
    name = data.lower()  # some systems ignore letter case in file names
    models = {base_name(target).lower() for target in targets}
    # A command on the folder would mistake the file for a model, or remove it as a leftover.
    if name in models or name.endswith(list_model_endings()):
        what = "a model"
    elif name.startswith(TEMPORARY_START):
        what = "a temporary file"
    else:
        return data
    hint = f"name the weights otherwise, as in {DATA}"
    raise UsageError(Fault(f"`data={data!r}` is the name of {what}", hint=hint))


def _count_bytes(sources: Iterable[Checkpoint]) -> int:
    # Several models may point into one file of weights.
    distinct: dict[object, str] = {}
    for source in sources:
        for path in (source.where, *(file.path for file in input_files(source))):
            distinct[find_identity(path)] = path
    return sum(describe_file(path).size for path in distinct.values())


def _prove(source: Checkpoint, staged: StagedModel) -> str:
    # Start-up: --help must not import numpy
    from graphshare.verification.whole_model import compare_bits

    with locate_refusals(source):
        return compare_bits(source, source, staged.target, staged.read).text
