"""The types of values: the file states all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.formats.facets import NestedType, StaticType, TensorType, Types
from graphshare.formats.paddle.records import find_stored, name_value
from graphshare.formats.paddle.text import read_list, read_typed
from graphshare.ir.graph import EMPTY, Entry, Graph, Node

DTYPES = {"t_bool": "bool", "t_i8": "int8", "t_ui8": "uint8", "t_i16": "int16", "t_i32": "int32", "t_i64": "int64",
          "t_f16": "float16", "t_bf16": "bfloat16", "t_f32": "float32", "t_f64": "float64", "t_c64": "complex64",
          "t_c128": "complex128"}  # fmt: skip
"""The dtypes by their names in types."""
_DEEPEST = 16


def parse_type(text: bytes) -> StaticType | None:
    """Return the type in a ``TT``; None for no value or an unknown type."""
    try:
        return _parse(text, 0) if text else None
    except (msgspec.MsgspecError, ValueError):
        return None


def _parse(text: bytes, depth: int) -> StaticType | None:
    kind, data = read_typed(text)
    if kind == "t_vec" and depth < _DEEPEST:
        inner = [_parse(item, depth + 1) for item in read_list(data)]
        return NestedType("sequence", inner[0]) if inner and inner[0] is not None else None
    if kind != "t_dtensor":
        return None
    dtype, sizes, *_ = read_list(data)
    numbers = msgspec.json.decode(sizes, type=list[int])
    name = read_typed(dtype)[0]
    return TensorType(
        DTYPES.get(name, name), tuple([None if size < 0 else size for size in numbers])
    )


def write_type(dtype: str, shape: Sequence[int | str | None] | None) -> bytes:
    """Return the JSON of the type of a tensor.

    Raises RefusedError for a dtype that Paddle lacks, or an unknown rank.
    """
    word = next((word for word, name in DTYPES.items() if name == dtype), None)
    if word is None or shape is None:
        raise RefusedError(
            Fault(f"Paddle has no tensors of {dtype}{'' if shape is not None else ' of any rank'}")
        )
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    return msgspec.json.encode(
        {"#": "0.t_dtensor", "D": [{"#": f"0.{word}"}, sizes, "NCHW", [], 0]}
    )


def find_type_text(entry: Entry) -> bytes:
    """Return the JSON of the type of a value. Raises RefusedError if the file states none."""
    stored = find_stored(entry.node)
    text = (
        stored.results[entry.index].type_text
        if stored is not None and entry.index < len(stored.results)
        else b""
    )
    if parse_type(text) is None:
        raise RefusedError(
            Fault(f"the file states no type of {name_value(entry)}", node=entry.node.name)
        )
    return text


def find_type(entry: Entry) -> StaticType | None:
    """Return the type of a value; None if the file states none."""
    stored = find_stored(entry.node)
    return (
        parse_type(stored.results[entry.index].type_text)
        if stored is not None and entry.index < len(stored.results)
        else None
    )


class PaddleTypes(Types):
    """The types that a file states."""

    are_stated = True

    def list_types(self, graph: Graph) -> Mapping[str, StaticType]:
        entries = [
            *(Entry(node) for node in graph.variables() if not node.details.holds_value),
            *graph.heads,
        ]
        return {
            name_value(entry): kind for entry in entries if (kind := find_type(entry)) is not None
        }

    def find_types(
        self,
        graph: Graph,
        entries: Iterable[Entry],
        *,
        shapes: Mapping[str, Sequence[int | None]] = EMPTY,
        independent: bool = False,
    ) -> Mapping[tuple[Node, int], StaticType]:
        """Inputs get ``shapes``; with ``independent`` operators' outputs have no types."""
        types: dict[tuple[Node, int], StaticType] = {}
        for entry in entries:
            kind = find_type(entry) if not (independent and entry.node.op) else None
            if isinstance(kind, TensorType) and not entry.node.op and entry.node.name in shapes:
                kind = TensorType(kind.dtype, tuple(shapes[entry.node.name]))
            if kind is not None:
                types[entry.node, entry.index] = kind
        return types
