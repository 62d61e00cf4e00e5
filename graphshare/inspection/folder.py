"""``inspect DIR``: facts about each model in a folder, and arrays of equal bytes in several models.

One model is in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import msgspec

from graphshare.analysis.roles import assign_roles
from graphshare.checkpoint.folder import ModelFiles
from graphshare.checkpoint.load import load
from graphshare.checkpoint.parameters import notes_on
from graphshare.errors import Fault, GraphshareError
from graphshare.formats.facets import Content
from graphshare.formats.model_format import find_format
from graphshare.formats.params.format import read_index
from graphshare.formats.params.records import ParameterFile
from graphshare.inspection.graph import list_facts
from graphshare.progress import item_progress
from graphshare.text.summary import ShortRepr
from graphshare.text.urls import redact


class ModelFacts(ShortRepr, msgspec.Struct, frozen=True):
    """Facts about a model. With ``faults`` it cannot be read, and other fields are None or empty.

    For a checkpoint folder, ``graph`` is the folder and ``parameters`` the number of tensors; there
    are no nodes. ``params`` is the parameter file of the newest of ``epochs``. ``parameters``
    counts parameters and auxiliary states, ``numbers`` their elements if the file has them all.
    ``remarks`` list misfits of graph and file.
    """

    graph: str
    params: str | None
    epochs: tuple[int, ...]
    generation: str | None = None
    mxnet_version: int | None = None
    nodes: int | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: int | None = None
    numbers: int | None = None
    faults: tuple[Fault, ...] = ()
    remarks: tuple[str, ...] = ()


def inspect_model(files: ModelFiles) -> ModelFacts:
    """Return the facts of a model with its newest parameters; one that cannot be read has faults."""
    params = files.newest or None
    facts = ModelFacts(redact(files.graph), params and redact(params), tuple(files.params))
    try:
        model = load(files.graph, params=params)
        model_facts = list_facts(model.graph, assign_roles(model.graph, held=model.held))
        remarks = notes_on(model.parameter_file, model.graph)
        # A broken file of an older epoch is also a fault of the model.
        for path in files.params.values():
            if path != params:
                read_index(path)
    except GraphshareError as error:
        return msgspec.structs.replace(facts, faults=error.faults)
    except (MemoryError, RecursionError):
        return msgspec.structs.replace(
            facts, faults=(Fault("does not fit in memory", where=files.graph),)
        )
    return msgspec.structs.replace(
        facts,
        generation=model_facts.generation,
        mxnet_version=model_facts.mxnet_version,
        nodes=model_facts.nodes,
        inputs=tuple(model_facts.inputs),
        outputs=tuple(model_facts.outputs),
        parameters=len(model_facts.parameters),
        numbers=count_numbers(model.parameter_file, model_facts.parameters),
        remarks=tuple(remarks),
    )


def count_numbers(file: ParameterFile | None, names: Sequence[str]) -> int | None:
    """Sum the sizes of these parameters; None if the file lacks one."""
    if file is None:
        return None
    shapes = {record.name: record.shape for record in file.records}
    sizes = [
        None if (shape := shapes.get(name)) is None else prod(shape)
        for name in dict.fromkeys(names)
    ]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


class SharedArrays(ShortRepr, msgspec.Struct, frozen=True):
    """Arrays of equal bytes in exactly these ``models``; ``size`` counts one copy of each in bytes."""

    models: tuple[str, ...]
    arrays: int
    size: int


class SharedWeights(ShortRepr, msgspec.Struct, frozen=True):
    """The arrays that ONNX models of a folder have in common, largest group first.

    ``weights`` sums the bytes of all arrays of at least 1,024 bytes; ``distinct`` counts equal
    arrays once, and a pool saves the difference. ``left`` are models that cannot be read or pooled.
    """

    groups: tuple[SharedArrays, ...]
    weights: int
    distinct: int
    left: tuple[str, ...]


def find_shared(models: list[ModelFiles]) -> SharedWeights:
    """Return the arrays of equal bytes that models have in common."""
    users: dict[Content, dict[str, None]] = {}
    counts: Counter[Content] = Counter()
    left = []
    for files in item_progress(models, "reading", "models"):
        path = redact(files.graph)
        try:
            model = load(files.graph)
            pooling = find_format(model.graph).pooling
            if pooling is None:
                left.append(path)
                continue
            contents = pooling.hash_arrays(model.graph, model.parameter_file)
        except GraphshareError:
            left.append(path)
            continue
        for content in contents:
            users.setdefault(content, {})[path] = None
            counts[content] += 1
    sizes: dict[tuple[str, ...], list[int]] = {}
    for content, paths in users.items():
        # Equal arrays in one model count, too: a pool has them once.
        if counts[content] > 1:
            sizes.setdefault(tuple(paths), []).append(content.size)
    groups = [SharedArrays(paths, len(each), sum(each)) for paths, each in sizes.items()]
    return SharedWeights(
        tuple(sorted(groups, key=lambda group: -group.size * len(group.models))),
        sum(content.size * count for content, count in counts.items()),
        sum(content.size for content in counts),
        tuple(left),
    )
