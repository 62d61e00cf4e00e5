"""Where the external data of a model goes when its file is written: it stays where it is, or its ranges are copied."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.model_format import CopiedWeights
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import Span, TensorPlace, find_stored
from graphshare.formats.onnx.wire import encode_text, scan
from graphshare.formats.paths import describe_file
from graphshare.ir.graph import Graph, Node
from graphshare.text.format import format_bytes, format_names
from graphshare.text.urls import is_url, redact

_NAME, _EXTERNAL, _LOCATION = 8, 13, 14
_PAGE = 4096
_LARGE = 1 << 20  # bytes from which on data begins at a page, so that it can be mapped
_ALIGNMENT = 64
_Range = tuple[str, int, int]


class Placement:
    """The external data of a model that is written to ``target``, with new places where the old ones cannot be reached.

    ``ranges`` are what the file ``beside`` gets: path, begin and end of each range and its offset there. ``beside`` is empty
    where all data stays in its files.
    """

    def __init__(self, graph: Graph, target: str, weights: CopiedWeights = "share", *, no_copy: bool = False) -> None:
        self._is_remote = is_url(target)
        self._folder = os.path.realpath(os.path.dirname(target) or ".")
        self._locations: dict[str, str | None] = {}
        self._changes: dict[Node, tuple[str, int]] = {}
        self.ranges: list[tuple[_Range, int]] = []
        self.size = 0
        placed: dict[_Range, int] = {}
        used: set[_Range] = set()
        for node, place in list_external(graph):
            where = (place.path, place.start, place.end)
            location = self._find_location(place.path)
            is_copy = weights == "copy" and where in used
            used.add(where)
            if location is not None and not is_copy:
                if location != dict(place.external).get("location"):
                    self._changes[node] = (location, place.start)
                continue
            if where not in placed or is_copy:
                placed[where] = self._append(where)
            self._changes[node] = ("", placed[where])
        self.beside = f"{target}.data" if self.ranges else ""
        if self.ranges and no_copy:
            files = format_names(dict.fromkeys(os.path.basename(path) for (path, _, _), _ in self.ranges))
            hint = "write the model into the directory of its data, or leave --no-copy out"
            message = f"{format_bytes(self.size)} of {files} would have to be copied, and --no-copy refuses that"
            raise RefusedError(Fault(message, where=target, hint=hint))

    def encode(self, node: Node, name: str) -> Message | None:
        """Return the TensorProto of an initializer whose data has a new place; None for any other."""
        change, stored = self._changes.get(node), find_stored(node.details)
        if change is None or stored.tensor is None or stored.place is None:
            return None
        location, offset = change
        span, message = stored.tensor.span, Message()
        kept = [field for field in scan(span.file.data, span.start, span.end) if field[0] not in (_NAME, _EXTERNAL, _LOCATION)]
        for number, _, begin, _, end in kept:
            if number < _NAME:
                message.add_encoded(Span(span.file, begin, end))
        message.add_bytes(_NAME, encode_text(name))
        size = stored.place.end - stored.place.start
        values = {"location": location or os.path.basename(self.beside), "offset": str(offset), "length": str(size)}
        for key, value in values.items():
            pair = Message()
            pair.add_bytes(1, key.encode())
            pair.add_bytes(2, encode_text(value))
            message.add_message(_EXTERNAL, pair)
        message.add_integer(_LOCATION, 1)
        for number, _, begin, _, end in kept:
            if number > _NAME:
                message.add_encoded(Span(span.file, begin, end))
        return message

    def _find_location(self, path: str) -> str | None:
        """Return the location of a file as the model names it from its directory; None where it is not in that."""
        if path not in self._locations:
            real = os.path.realpath(path)
            inside = is_url(path) == self._is_remote and os.path.commonpath((real, self._folder)) == self._folder
            self._locations[path] = os.path.relpath(real, self._folder).replace(os.sep, "/") if inside else None
        return self._locations[path]

    def _append(self, where: _Range) -> int:
        size = where[2] - where[1]
        alignment = _PAGE if size >= _LARGE else _ALIGNMENT
        offset = -(-self.size // alignment) * alignment
        self.ranges.append((where, offset))
        self.size = offset + size
        return offset


def list_external(graph: Graph) -> Iterator[tuple[Node, TensorPlace]]:
    """Yield the initializers of a graph and of its subgraphs whose data is in another file."""
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            place = find_stored(node.details).place
            if place is not None and place.path:
                yield node, place
            pending.extend(node.subgraphs)


class MissingData(msgspec.Struct, frozen=True, eq=False):
    """An initializer whose external data is not there, and why."""

    node: Node
    reason: str


def find_missing_data(graph: Graph) -> Iterator[MissingData]:
    """Yield the initializers whose external data is missing or too short."""
    sizes: dict[str, int | None] = {}
    for node in graph.variables():
        place = find_stored(node.details).place
        if place is None or not place.path:
            continue
        if place.path not in sizes:
            try:
                sizes[place.path] = describe_file(place.path).size
            except (OSError, InputError):
                sizes[place.path] = None
        size, name = sizes[place.path], redact(place.path)
        if size is None:
            yield MissingData(node, f"{name} does not exist")
        elif size < place.end:
            yield MissingData(node, f"{name} has {size:,} bytes, and the data ends at byte {place.end:,}")
