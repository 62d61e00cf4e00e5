"""Save a model that was read from ONNX files: the file itself and data that has to move, checked before they are in place."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping

from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.formats.atomic import OutputTransaction
from graphshare.formats.byte_source import ByteSource
from graphshare.formats.model_format import BUG, WriteOptions, refuse_differences
from graphshare.formats.onnx.differences import find_differences
from graphshare.formats.onnx.encode import encode_tensor
from graphshare.formats.onnx.external import Placement, list_external
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import OnnxSource
from graphshare.formats.onnx.value_types import infer_types, list_untyped
from graphshare.formats.onnx.write import TensorEncoder, encode_graph_file
from graphshare.formats.open_source import open_source
from graphshare.formats.output_paths import UsedFile, refuse_inputs_as_outputs
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.byte_ranges import copy_ranges, first_difference, write_all
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import Bytes, Data, Tensor
from graphshare.progress import task
from graphshare.text.format import format_bytes
from graphshare.text.urls import is_url

LARGEST = (1 << 31) - 1
"""The largest message that protobuf takes, in bytes."""


def stage_onnx(
    graph: Graph, parameters: ParameterFile | None, target: str, stage: OutputTransaction, options: WriteOptions
) -> list[bytes]:
    """Write the model's file, and data that it cannot reach where it is, beside their targets; check the file.

    What goes to stdout is returned instead.

    Raises:
        RefusedError: the file would be larger than protobuf allows; external data would have to be copied and must not, or
            would replace an input.
        SelfCheckError: it does not read back as the graph that it was made from.
    """
    placement = Placement(graph, "" if target == "-" else target, options.weights, no_copy=options.no_copy)
    if target == "-" and placement.ranges:
        hint = "name a file with -o; the data goes beside it"
        raise RefusedError(Fault("the model has external data, which stdout has no place for", hint=hint))
    arrays = _list_arrays(parameters)
    encode = _make_encoder(placement, parameters, arrays)
    data = encode_graph_file(graph, encode, infer_types(graph, list_untyped(graph)))
    if data.size > LARGEST:
        hint = "--mode tie keeps one copy of the weights; onnx.save_model moves them to external data"
        raise RefusedError(Fault(f"the model would take {format_bytes(data.size)}, and 2 GiB is the most", hint=hint))
    if target == "-":
        return [bytes(piece) for piece in data.pieces()]
    _write_model(data, graph, target, stage, arrays)
    if placement.ranges:
        _write_data(placement, stage, verify_bytes=options.verify_bytes)
    return []


def encode_for_session(graph: Graph, parameters: ParameterFile | None) -> tuple[bytes, str]:
    """Return the bytes of a model that is not saved, and the directory of its external data; data at a URL is embedded.

    Raises:
        RefusedError: its external data is in several directories, or the bytes would be more than protobuf allows.
    """
    folder = graph.source.file.folder if isinstance(graph.source, OnnxSource) else ""
    arrays = _list_arrays(parameters)
    is_remote = is_url(folder)
    if is_remote:
        arrays = _list_remote(graph, parameters) | arrays
        folder = ""
    placement = Placement(graph, os.path.join(folder, "model.onnx"))
    if placement.ranges and not is_remote:
        hint = "write the model first: its data is then beside it"
        raise RefusedError(Fault("the model has external data in several directories", hint=hint))
    data = encode_graph_file(graph, _make_encoder(placement, parameters, arrays))
    if data.size > LARGEST:
        raise RefusedError(Fault(f"the model has {format_bytes(data.size)}, and 2 GiB is the most"))
    return b"".join(data.pieces()), folder


def _list_remote(graph: Graph, parameters: ParameterFile | None) -> dict[str, Record]:
    """Return the records of external data by name. Raises RefusedError where it cannot be read into one model."""
    places = {node.name: place for node, place in list_external(graph)}
    size = sum(place.end - place.start for place in places.values())
    records = {record.key or "": record for record in parameters.records} if parameters is not None else {}
    if size > LARGEST or not records.keys() >= places.keys():
        hint = "copy the model and its data to this machine first"
        message = f"the model has {format_bytes(size)} of external data at a URL, which onnxruntime cannot open"
        raise RefusedError(Fault(message, hint=hint))
    return {name: records[name] for name in places}


def _make_encoder(placement: Placement, parameters: ParameterFile | None, arrays: Mapping[str, Record]) -> TensorEncoder:
    def encode(node: Node, name: str) -> Message | None:
        record = arrays.get(node.name) if arrays else None
        if record is None or parameters is None:
            return placement.encode(node, name)
        return _encode_array(parameters, record, name)

    return encode


def _write_model(data: Data, graph: Graph, target: str, stage: OutputTransaction, changed: Collection[str]) -> None:
    out = stage.open(target, last=True)
    with task("writing", data.size, "B") as advance:
        for piece in data.pieces():
            write_all(out, piece)
            advance(len(piece))
    out.flush()
    if not out.direct:
        check_written(out.name, graph, where=target, changed=changed)


def _list_arrays(parameters: ParameterFile | None) -> dict[str, Record]:
    """Return the parameters that were given as arrays since the model was loaded, by name."""
    records = parameters.records if parameters is not None else ()
    return {r.key or "": r for r in records if r.origin is not None and r.origin.array is not None}


def _encode_array(parameters: ParameterFile, record: Record, name: str) -> Message:
    shape, dtype = record.shape_and_dtype()
    with ArrayReader(parameters) as reader:
        content = b"".join(reader.chunks(record))
    return encode_tensor(Tensor(name, dtype, shape, Bytes(content)))


def _write_data(placement: Placement, stage: OutputTransaction, *, verify_bytes: bool) -> None:
    """Copy ranges of external data into the one file beside the model."""
    sources = {path: UsedFile(path, "parameters") for (path, _, _), _ in placement.ranges}
    refuse_inputs_as_outputs([UsedFile(placement.beside, "parameters")], sources.values())
    out = stage.open(placement.beside)
    end = 0
    with task("copying", placement.size, "B") as advance:
        for (path, start, stop), offset in placement.ranges:
            write_all(out, bytes(offset - end))
            with open_source(path) as source:
                copy_ranges(source, [(start, stop - start)], out, advance=advance)
            end = offset + stop - start
    out.flush()
    if verify_bytes and not out.direct:
        with open_source(out.name) as written:
            _compare_data(placement, written)


def _compare_data(placement: Placement, written: ByteSource) -> None:
    for (path, start, stop), offset in placement.ranges:
        with open_source(path) as source:
            place = first_difference(source, start, written, offset, stop - start)
        if place is not None:
            message = f"differs from byte {start + place:,} of {path}"
            raise SelfCheckError(Fault(message, where=placement.beside, path=f"byte {offset + place}", hint=BUG))


def check_written(path: str, graph: Graph, *, where: str, changed: Collection[str] = ()) -> None:
    """Compare a written file with the graph that it came from; initializers ``changed`` have other values.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """

    def find() -> Iterator[Fault]:
        with open_source(path) as source:
            yield from find_differences(source, graph, changed)

    refuse_differences(find, where=where)
