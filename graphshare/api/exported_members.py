"""Members of a group in one format: MXNet models beside ONNX models are exported first."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache

import msgspec

from graphshare.api.export import export
from graphshare.api.models import Shapes
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import GraphshareError
from graphshare.export_onnx.opsets import DEFAULT
from graphshare.formats.onnx.stored import OnnxSource

_HINT = "an MXNet model in a group with an ONNX model is exported first: give the shapes of its inputs with --shape"


def export_members(sources: Sequence[Checkpoint], shapes: Shapes, as_input: Sequence[str]) -> list[Checkpoint]:
    """Return the models, those of MXNet as they are exported for the operator set of the first ONNX model.

    What is exported stays in a temporary file until the process ends.

    Raises:
        RefusedError: a model cannot be exported; shapes do not follow from ``shapes``.
        UsageError: the operator set is none that is written.
    """
    opset = next((s.graph.source.opsets.get("", DEFAULT) for s in sources if isinstance(s.graph.source, OnnxSource)), DEFAULT)
    members = []
    for number, source in enumerate(sources):
        if source.graph.source.format == "onnx":
            members.append(source)
            continue
        own = {node.name for node in source.graph.variables()}
        given = {name: shape for name, shape in shapes.items() if name in own}
        path = os.path.join(_temporary_folder(), f"{len(os.listdir(_temporary_folder()))}-{number}.onnx")
        try:
            export(source, path, shapes=given, as_input=as_input, opset=opset, verify=False)
        except GraphshareError as error:
            faults = [msgspec.structs.replace(fault, hint=fault.hint or _HINT) for fault in error.faults]
            raise type(error)(faults) from None
        members.append(msgspec.structs.replace(load(path), where=source.where))
    return members


@cache
def _temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix="graphshare-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
