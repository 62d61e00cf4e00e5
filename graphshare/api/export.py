"""``export``: a model as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from graphshare.api.models import Model, Names, Shapes, as_checkpoint, as_names, as_shapes
from graphshare.checkpoint.load import StrPath, locate_refusals
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError
from graphshare.execute.static_shapes import infer_part
from graphshare.export_onnx.translate import Translated, translate_graph
from graphshare.export_onnx.weights import list_weights
from graphshare.formats.atomic import OutputTransaction
from graphshare.formats.onnx.encode import encode_model
from graphshare.formats.params.arrays import ArrayReader
from graphshare.ir.onnx import OnnxModel

DEFAULT_OPSET = 17
IR_VERSIONS = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}
"""The lowest IR version that each version of the operator set may have."""


class Exported(msgspec.Struct, frozen=True):
    """What ``export`` wrote: the ``path``, inputs and outputs by name, and how many nodes.

    ``renamed`` are inputs, parameters and outputs that could not keep MXNet's names, ``dropped`` variables that nothing needs
    any more, as labels. ``notes`` tell the user what was decided for them.
    """

    path: str
    inputs: list[str]
    outputs: list[str]
    nodes: int
    renamed: Mapping[str, str]
    dropped: list[str]
    notes: list[str]


def export(
    model: Model,
    out: StrPath,
    *,
    shapes: Shapes | None = None,
    feeds: Mapping[str, Any] | None = None,
    upto: Names = (),
    as_input: Names = (),
    opset: int = DEFAULT_OPSET,
) -> Exported:
    """Write a model as the ONNX file ``out``.

    Raises:
        RefusedError: nodes have no translation, shapes do not follow, parameters are missing; all of a kind are listed.
        OutputError: the file could not be written; what it held before is still there.
    """
    source = as_checkpoint(model)
    path = os.fspath(out)
    given = {name: tuple(array.shape) for name, array in (feeds or {}).items()}
    types = {name: str(array.dtype) for name, array in (feeds or {}).items()}
    with locate_refusals(source):
        static = infer_part(
            source.graph,
            params=source.parameter_file,
            shapes={**given, **as_shapes(shapes)},
            types=types,
            targets=as_names(upto),
            as_input=as_names(as_input),
        )
        if source.parameter_file is None:
            return _write(source, static, None, path, opset)
        with ArrayReader(source.parameter_file) as reader:
            return _write(source, static, reader, path, opset)


def _write(source: Checkpoint, static: Any, reader: ArrayReader | None, path: str, opset: int) -> Exported:
    variables = [node for node in static.inference.nodes if node.is_variable]
    values, tensors = list_weights(variables, static.roles, source.parameter_file, reader)
    translated = translate_graph(static.part, static.inference, values, tensors, opset=opset, name=source.stem or "graph")
    if translated.graph is None:
        raise RefusedError(translated.faults)
    metadata = {"graphshare.sha256": sha256(source.data).hexdigest()} if source.data else {}
    model = OnnxModel(translated.graph, {"": opset}, IR_VERSIONS[opset], metadata=metadata)
    with OutputTransaction() as stage:
        file = stage.open(path)
        for piece in encode_model(model, "graphshare", _version()):
            file.write(piece)
        stage.commit()
    return _describe(translated, path, static.notes)


def _version() -> str:
    from graphshare import __version__  # the package imports this module's function when it is asked for

    return __version__


def _describe(translated: Translated, path: str, notes: Any) -> Exported:
    graph = translated.graph
    assert graph is not None
    return Exported(
        path,
        [value.name for value in graph.inputs],
        [value.name for value in graph.outputs],
        len(graph.nodes),
        translated.renamed,
        list(translated.dropped),
        list(notes),
    )
