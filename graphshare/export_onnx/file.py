"""The files of an exported model: the model itself, and with ``external`` the file of its weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.export_onnx.opsets import IR_VERSIONS, list_versions, refuse_versions
from graphshare.export_onnx.weights import Placed, Weights, place_in_parameter_files, place_outside
from graphshare.formats.atomic import OutputTransaction
from graphshare.formats.onnx.encode import encode_model
from graphshare.formats.open_source import open_source
from graphshare.formats.params.byte_ranges import write_all
from graphshare.formats.paths import base_name, extend, split
from graphshare.formats.staged_file import StagedFile
from graphshare.ir.onnx import ExternalData, OnnxGraph, OnnxModel
from graphshare.text.format import format_bytes

LARGEST = (1 << 31) - 1
"""The largest message that protobuf takes, in bytes."""
_CHUNK = 1 << 22


class StagedModel(msgspec.Struct, frozen=True, eq=False):
    """A model whose files are written beside their places.

    ``proof`` is the model as it is now, its external data being where the bytes are until the commit, in ``folder``. ``staged``
    is the file that holds these very bytes; None if that one names the places after the commit, or cannot be read.
    """

    proof: OnnxModel
    folder: str
    staged: str | None
    files: Sequence[str]
    size: int
    embedded: Sequence[str]

    def read(self) -> bytes:
        """Return the bytes of the model as it is now, those on disk if it can be."""
        if self.staged is None:
            return b"".join(encode_model(self.proof).pieces())
        with open_source(self.staged) as source:
            return source.read_at(0, source.size)


def stage_model(
    graph: OnnxGraph,
    path: str,
    stage: OutputTransaction,
    *,
    opset: int,
    weights: Weights,
    metadata: Mapping[str, str],
    version: str,
) -> StagedModel:
    """Write the model of ``graph`` to ``path``; it becomes visible when ``stage`` is committed. ``version`` is this package's.

    Raises:
        RefusedError: nodes do not exist in this opset; the weights do not fit into the model, or cannot stay where they are.
        OutputError: a file cannot be written.
    """
    faults = refuse_versions(graph, opset)
    if faults:
        raise RefusedError(faults)
    beside = extend(path, ".data")
    placed = _place_weights(graph, weights, split(path)[0] or ".", base_name(beside))
    hashes = {f"graphshare.sha256.{base_name(file)}": hash_file(file) for file in placed.files}
    model = OnnxModel(
        placed.graph,
        list_versions(placed.graph, opset),
        IR_VERSIONS[opset],
        producer_version=version,
        metadata={**metadata, **hashes},
    )
    message = encode_model(model)
    if message.size > LARGEST:
        hint = "--weights external puts them beside the model, --weights params leaves them in their file"
        raise RefusedError(Fault(f"the model would take {format_bytes(message.size)}, and 2 GiB is the most", hint=hint))
    out = stage.open(path, last=True)
    folder = "." if out.direct else os.path.dirname(out.name) or "."
    _write(out, message.pieces())
    if not placed.outside:
        return StagedModel(model, folder, None if out.direct else out.name, [path], message.size, placed.embedded)
    data = stage.open(beside)
    for part in placed.outside:
        _write(data, (part,) if isinstance(part, bytes) else part.pieces())
    proof = msgspec.structs.replace(model, graph=_relocate(placed.graph, os.path.basename(data.name)))
    return StagedModel(proof, folder, None, [path, beside], message.size, placed.embedded)


def _place_weights(graph: OnnxGraph, weights: Weights, folder: str, beside: str) -> Placed:
    if weights == "external":
        return place_outside(graph, beside)
    return place_in_parameter_files(graph, folder) if weights == "params" else Placed(graph)


def _write(out: StagedFile, pieces: Iterable[bytes | memoryview]) -> None:
    for piece in pieces:
        write_all(out, piece)
    out.flush()


def _relocate(graph: OnnxGraph, location: str) -> OnnxGraph:
    """Return a graph whose external data is in the file ``location``."""
    moved = [
        msgspec.structs.replace(tensor, data=msgspec.structs.replace(tensor.data, location=location))
        if isinstance(tensor.data, ExternalData)
        else tensor
        for tensor in graph.initializers
    ]
    return msgspec.structs.replace(graph, initializers=tuple(moved))


def hash_file(path: str) -> str:
    """Return the sha256 of a file in hexadecimal digits."""
    digest = sha256()
    with open_source(path) as source:
        for start in range(0, source.size, _CHUNK):
            digest.update(source.read_at(start, min(_CHUNK, source.size - start)))
    return digest.hexdigest()
