"""Save a model as ONNX: write its file and data that moves, checked before they are put in place."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

import msgspec

from graphshare.errors import BUG, Fault, RefusedError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.byte_source import ByteSource, hash_pieces
from graphshare.files.open_source import open_source
from graphshare.files.paths import UsedFile, base_name, is_inside, refuse_inputs_as_outputs
from graphshare.files.staged_file import StagedFile
from graphshare.formats.model_format import SaveOptions
from graphshare.formats.onnx.compose import add_metadata
from graphshare.formats.onnx.external import (
    Placement,
    list_external,
    list_outside,
    refuse_missing_data,
)
from graphshare.formats.onnx.protobuf import Blob
from graphshare.formats.onnx.read_back import check_written
from graphshare.formats.onnx.stored import FileRange, get_source
from graphshare.formats.onnx.value_types import find_head_types
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.byte_ranges import copy_ranges, first_difference, write_all
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import EMPTY, Graph
from graphshare.progress import task
from graphshare.text.format import format_bytes
from graphshare.text.urls import is_url

LARGEST = (1 << 31) - 1
"""The largest protobuf message in bytes."""
_CHUNK = 1 << 22
_EXPORTED = (
    "`weights='external'` puts them beside the model, `weights='params'` leaves them in their file"
)
_REWRITTEN = (
    "`mode='tie'` keeps one copy of the weights; `gs.pool` moves them to a file beside the models"
)
_Facts = tuple[object, ...]


class ModelBytes(msgspec.Struct, frozen=True, eq=False):
    """A model that can be computed before or without saving; its external data is in ``folder``.

    ``staged`` is a file of these bytes, if any; ``beside`` the current name of the weights' file.
    """

    graph: Graph
    placement: Placement
    folder: str = ""
    staged: str = ""
    beside: str = ""

    def encode(self, graph: Graph) -> tuple[bytes, str]:
        """Return the bytes of the model, or of ``graph`` with other outputs, and the external
        data's folder.

        Raises:
            RefusedError: they are more than protobuf allows.
        """
        return b"".join(self.pieces(graph)), self.folder

    def pieces(self, graph: Graph) -> Iterator[bytes | memoryview]:
        """Yield the bytes of :meth:`encode` in pieces, each valid until the next."""
        is_whole = graph.heads == self.graph.heads
        if self.staged and is_whole:
            with open_source(self.staged) as source:
                yield source.read_at(0, source.size)
            return
        with self.placement.open_records() as reader:
            wanted = self.graph if is_whole else self.placement.move_inner(graph)
            data = encode_graph_file(wanted, self.placement.make_encoder(reader, self.beside))
            if data.size > LARGEST:
                raise RefusedError(
                    Fault(f"the model has {format_bytes(data.size)}, and the limit is 2 GiB")
                )
            yield from data.pieces()


def keep_in_memory(graph: Graph, parameters: ParameterFile | None) -> ModelBytes:
    """Return an unsaved model; its ONNX file's external data stays outside unless it is at a URL.

    Raises:
        RefusedError: its external data is in several directories.
    """
    folder = get_source(graph).file.folder
    is_remote = is_url(folder)
    embedded = _list_remote(graph, parameters) if is_remote else EMPTY
    folder = "" if is_remote else folder
    outside = [place.path for _, _, place in list_outside(graph)]
    if any(not is_inside(path, folder) for path in outside):
        folder = get_source(graph).file.real_folder
    placement = Placement(graph, os.path.join(folder, "model.onnx"), parameters, embedded=embedded)
    if placement.outside:
        hint = "write the model first: its data is then beside it"
        raise RefusedError(Fault("the model has external data in several directories", hint=hint))
    return ModelBytes(placement.move_inner(graph), placement, folder if outside else "")


class StagedOnnx(msgspec.Struct, frozen=True, eq=False):
    """A model whose files are written beside their places, or the bytes for stdout instead.

    ``size`` counts the bytes of the model's own file, ``embedded`` are parameters that had to leave
    theirs.
    """

    model: ModelBytes
    files: tuple[str, ...]
    size: int
    embedded: tuple[str, ...]
    to_stdout: list[bytes]


def stage_onnx(
    graph: Graph,
    parameters: ParameterFile | None,
    target: str,
    stage: OutputTransaction,
    options: SaveOptions,
) -> StagedOnnx:
    """Write the model's file, and data that must move, beside their targets; check the file.

    Raises:
        InputError: external data to copy does not exist, or its file is too short.
        RefusedError: the file would be larger than protobuf allows; data would replace an input,
            cannot stay, or must not be copied.
        SelfCheckError: it does not read back as its graph.
    """
    place = "" if target == "-" else target
    placement = Placement(
        graph,
        place,
        parameters,
        weights=options.weights,
        copies=options.copies,
        no_copy=options.no_copy,
    )
    if placement.copies_data:
        refuse_missing_data(graph, parameters)
    graph = placement.move_inner(graph)
    if target == "-" and placement.outside:
        hint = "name a file with `out`; the data goes beside it"
        raise RefusedError(
            Fault("the model has external data, which cannot be written to stdout", hint=hint)
        )
    graph = _add_hashes(graph, placement.files)
    with placement.open_records() as reader:
        data = _encode_file(graph, placement, reader)
        if target == "-":
            pieces = [bytes(piece) for piece in data.pieces()]
            return StagedOnnx(ModelBytes(graph, placement), (), data.size, (), pieces)
        out = stage.open(target, last=True)
        folder = "." if out.direct else os.path.dirname(out.name) or "."
        # With data beside it, the written file names the data's final place, where nothing is yet.
        staged = "" if out.direct or placement.outside else out.name
        replaced = {name for name, record in placement.records.items() if record.other_file is None}
        _write_model(data, graph, out, target, replaced)
        beside = _write_data(placement, reader, stage, options) if placement.outside else ""
    files = tuple(filter(None, (target, placement.beside)))
    written = ModelBytes(graph, placement, folder if placement.has_external else "", staged, beside)
    return StagedOnnx(written, files, data.size, tuple(placement.embedded), [])


def encode_for_session(
    graph: Graph, parameters: ParameterFile | None
) -> tuple[Iterator[bytes | memoryview], str]:
    """Return the pieces of an unsaved model and its data's directory; data at a URL is embedded.

    Raises:
        InputError: external data does not exist, or its file is too short.
        RefusedError: its external data is in several directories, or it is larger than protobuf
            allows.
    """
    refuse_missing_data(graph, parameters)
    model = keep_in_memory(graph, parameters)
    return model.pieces(model.graph), model.folder


def _list_remote(graph: Graph, parameters: ParameterFile | None) -> dict[str, Record]:
    """Return the records of external data by name. Raises RefusedError if they do not fit one model."""
    places = {node.name: place for node, place in list_external(graph)}
    size = sum(place.end - place.start for place in places.values())
    records = (
        {record.full_name: record for record in parameters.records}
        if parameters is not None
        else {}
    )
    if size > LARGEST or not records.keys() >= places.keys():
        hint = "copy the model and its data to this machine first"
        message = f"the model has {format_bytes(size)} of external data at a URL, which onnxruntime cannot open"
        raise RefusedError(Fault(message, hint=hint))
    return {name: records[name] for name in places}


def _add_hashes(graph: Graph, files: Sequence[str]) -> Graph:
    """State in the metadata the SHA-256 of each parameter file that the model points into."""
    hashes = {f"graphshare.sha256.{base_name(file)}": hash_file(file) for file in files}
    return (
        msgspec.structs.replace(graph, source=add_metadata(get_source(graph), hashes))
        if hashes
        else graph
    )


def _encode_file(graph: Graph, placement: Placement, reader: ArrayReader | None) -> Blob:
    data = encode_graph_file(graph, placement.make_encoder(reader), find_head_types(graph))
    if data.size > LARGEST:
        message = f"the model would take {format_bytes(data.size)}, and the limit is 2 GiB"
        raise RefusedError(Fault(message, hint=_EXPORTED if placement.records else _REWRITTEN))
    return data


def _write_model(
    data: Blob, graph: Graph, out: StagedFile, target: str, changed: Collection[str]
) -> None:
    with task("writing", data.size, "B") as advance:
        for piece in data.pieces():
            write_all(out, piece)
            advance(len(piece))
    out.flush()
    if not out.direct:
        check_written(out.name, graph, where=target, changed=changed)


def _write_data(
    placement: Placement, reader: ArrayReader | None, stage: OutputTransaction, options: SaveOptions
) -> str:
    """Write the file beside the model, and return its temporary name."""
    sources = {
        data.path: UsedFile(data.path, "parameters")
        for data, _ in placement.outside
        if isinstance(data, FileRange)
    }
    refuse_inputs_as_outputs([UsedFile(placement.beside, "parameters")], sources.values())
    out = stage.open(placement.beside)
    end = 0
    with task("copying", placement.size, "B") as advance:
        for data, offset in placement.outside:
            write_all(out, bytes(offset - end))
            if isinstance(data, FileRange):
                with open_source(data.path) as source:
                    copy_ranges(source, [(data.start, data.size)], out, advance=advance)
                end = offset + data.size
            elif reader is not None:
                for piece in reader.chunks(data):
                    write_all(out, piece)
                    advance(len(piece))
                end = offset + data.dense_size
    out.flush()
    if options.verify_bytes and not out.direct:
        with open_source(out.name) as written:
            _compare_data(placement, written)
    return os.path.basename(out.name)


def _compare_data(placement: Placement, written: ByteSource) -> None:
    for data, offset in placement.outside:
        if not isinstance(data, FileRange):
            continue
        with open_source(data.path) as source:
            place = first_difference(source, data.start, written, offset, data.size)
        if place is not None:
            message = f"differs from byte {data.start + place:,} of {data.path}"
            raise SelfCheckError(
                Fault(message, where=placement.beside, path=f"byte {offset + place}", hint=BUG)
            )


def hash_file(path: str) -> str:
    """Return the sha256 of a file in hexadecimal digits."""
    with open_source(path) as source:
        return hash_pieces(
            source.read_at(start, min(_CHUNK, source.size - start))
            for start in range(0, source.size, _CHUNK)
        )
