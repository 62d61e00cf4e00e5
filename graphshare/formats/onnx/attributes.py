"""Read an operator's attributes: a text for people, a value for comparison, and the subgraphs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from graphshare.formats.onnx.protobuf import (
    BYTES,
    Field,
    WireError,
    expect,
    floats_at,
    integer_at,
    integers_at,
    once,
    scan,
    text_at,
)
from graphshare.formats.onnx.stated_once import refuse_repeats
from graphshare.formats.onnx.stored import OnnxFile, Span, TensorPlace
from graphshare.formats.onnx.tensors import is_weight, locate_sparse, locate_tensor
from graphshare.formats.onnx.values import StoredValue, read_attribute
from graphshare.ir.graph import EMPTY, Graph, freeze
from graphshare.ir.onnx import dtype_name
from graphshare.text.format import shorten

TENSOR, GRAPH, TENSORS, GRAPHS, SPARSE_TENSOR, SPARSE_TENSORS = 5, 6, 10, 11, 22, 23
_SINGLE = once(1, 2, 3, 4, TENSOR, GRAPH, 13, 14, 20, 21, SPARSE_TENSOR)
_LONGEST = 16  # most numbers of a list in a text
_CACHED = 256  # bytes of attributes that are shared when they repeat

ReadGraph = Callable[[int, int], Graph]


class Weight(NamedTuple):
    """A tensor as large as a weight: places of its message and its data, None for a SparseTensorProto."""

    start: int
    end: int
    place: TensorPlace | None


class Attributes(NamedTuple):
    """Attributes by name: texts, values (for subgraphs their texts), and subgraphs with their names.

    ``outer`` are places of tensors in other files, ``weight`` the last weight in a Constant.
    """

    texts: Mapping[str, str] = EMPTY
    values: Mapping[str, Any] = EMPTY
    graphs: tuple[Graph, ...] = ()
    bodies: tuple[str, ...] = ()
    outer: tuple[TensorPlace, ...] = ()
    weight: Weight | None = None


NO_ATTRIBUTES = Attributes()


class AttributeReader:
    """Reads the attributes of one file's operators; equal ones become one object."""

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        self._known: dict[bytes, Attributes] = {}
        self._outer: list[TensorPlace] = []
        self._weight: Weight | None = None

    def read(self, fields: Sequence[Field], read_graph: ReadGraph) -> Attributes:
        """Return the attributes in ``fields``. Raises WireError."""
        if not fields:
            return NO_ATTRIBUTES
        data = self._file.data
        key = None
        if sum(field[4] - field[3] for field in fields) <= _CACHED:
            key = b"".join([data[field[2] : field[4]] for field in fields])
            if key in self._known:
                return self._known[key]
        self._weight = None
        texts: dict[str, str] = {}
        values: dict[str, Any] = {}
        graphs: list[Graph] = []
        bodies: list[str] = []
        outer: list[TensorPlace] = []
        for field in fields:
            expect(field, BYTES, "an attribute")
            name, text, inner = self._read_attribute(field[3], field[4], read_graph)
            outer += self._outer
            self._outer = []
            if name in texts:
                raise WireError(f"attribute {name!r} occurs twice", field[2])
            texts[name] = text
            graphs += inner
            bodies += [name] * len(inner)
            values[name] = (
                text
                if inner
                else StoredValue(Span(self._file, field[3], field[4]), read_attribute, text)
            )
        result = Attributes(
            freeze(texts), freeze(values), tuple(graphs), tuple(bodies), tuple(outer), self._weight
        )
        # Bodies and weights belong to one operator each, even if bytes are equal.
        if key is not None and not graphs and self._weight is None:
            self._known[key] = result
        return result

    def _read_attribute(
        self, start: int, end: int, read_graph: ReadGraph
    ) -> tuple[str, str, list[Graph]]:
        data = self._file.data
        name, parts, numbers, graphs = "", list[str](), list[str](), list[Graph]()
        is_list = False
        for field in scan(data, start, end, _SINGLE):
            which = field[0]
            if which == 1:
                name = text_at(data, field)
            elif which in (GRAPH, GRAPHS):
                expect(field, BYTES, "a graph")
                graphs.append(read_graph(field[3], field[4]))
                parts.append("graph")
            # Floats and ints: unpacked lists have a field for each number.
            elif which in (7, 8):
                is_list = True
                if len(numbers) <= _LONGEST:
                    numbers += self._list_numbers(field)
            elif which in (2, 3, 4, 5, 9, 10, 14, 15, 21, 22, 23):
                is_list |= which in (9, 10, 15, 23)
                # Tensors and types are read even after the text ends: data may be in another file.
                if len(parts) <= _LONGEST or which in (
                    TENSOR,
                    TENSORS,
                    15,
                    SPARSE_TENSOR,
                    SPARSE_TENSORS,
                ):
                    parts.append(self._describe(field))
        items = numbers or parts
        if is_list or len(items) > 1:
            return (
                name,
                f"[{', '.join(items[:_LONGEST])}{', ...' if len(items) > _LONGEST else ''}]",
                graphs,
            )
        return name, items[0] if items else "", graphs

    def _list_numbers(self, field: Field) -> list[str]:
        data = self._file.data
        if field[1] == BYTES and field[4] - field[3] > 64 * _LONGEST:
            size = field[4] - field[3]
            return [f"{size:,} bytes of {'floats' if field[0] == 7 else 'integers'}"]
        return (
            [repr(x) for x in floats_at(data, field)]
            if field[0] == 7
            else [str(x) for x in integers_at(data, field)]
        )

    def _describe(self, field: Field) -> str:
        data, which = self._file.data, field[0]
        if which == 2:
            # Nine digits tell any two float32 numbers apart.
            return (
                f"{struct.unpack('<f', data[field[3] : field[4]])[0]:.9g}"
                if field[4] - field[3] == 4
                else "?"
            )
        if which == 3:
            return str(integer_at(data, field))
        expect(field, BYTES, "a value of an attribute")
        if which in (4, 9, 21):
            text = shorten(
                data[field[3] : min(field[4], field[3] + 400)].decode("utf-8", "backslashreplace"),
                200,
            )
            return f"@{text}" if which == 21 else text
        if which in (5, 10):
            place = locate_tensor(self._file, field[3], field[4])
            self._outer += [place] if place.path else []
            if is_weight(place.shape, place.code):
                self._weight = Weight(field[3], field[4], place)
            return f"{dtype_name(place.code)} tensor {place.shape}"
        if which in (SPARSE_TENSOR, SPARSE_TENSORS):
            values = locate_sparse(self._file, field[3], field[4])
            if values is not None and which == SPARSE_TENSOR:
                self._weight = (
                    Weight(field[3], field[4], None)
                    if is_weight(values.shape, values.code)
                    else None
                )
        else:
            refuse_repeats(data, field, "type")
        return {14: "type", 15: "type", 22: "sparse tensor", 23: "sparse tensor"}[which]
