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
_WORDS = {dtype: word for word, dtype in DTYPES.items()}
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
    word = _WORDS.get(dtype)
    if word is None or shape is None:
        rank = " of any rank" if shape is None else ""
        raise RefusedError(Fault(f"Paddle has no tensors of {dtype}{rank}"))
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    return msgspec.json.encode(
        {"#": "0.t_dtensor", "D": [{"#": f"0.{word}"}, sizes, "NCHW", [], 0]}
    )


def find_type_text(entry: Entry) -> bytes:
    """Return the JSON of the type of a value. Raises RefusedError if the file states none."""
    text = _read_type_text(entry)
    if parse_type(text) is None:
        raise RefusedError(
            Fault(f"the file states no type of {name_value(entry)}", node=entry.node.name)
        )
    return text


def find_type(entry: Entry) -> StaticType | None:
    """Return the type of a value; None if the file states none."""
    return parse_type(_read_type_text(entry))


def _read_type_text(entry: Entry) -> bytes:
    stored = find_stored(entry.node)
    if stored is None or entry.index >= len(stored.results):
        return b""
    return stored.results[entry.index].type_text


class PaddleTypes(Types):
    """The types that a file states."""

    are_stated = True

    def list_types(self, graph: Graph) -> Mapping[str, StaticType]:
        inputs = [Entry(node) for node in graph.variables() if not node.details.holds_value]
        types: dict[str, StaticType] = {}
        for entry in (*inputs, *graph.heads):
            kind = find_type(entry)
            if kind is not None:
                types[name_value(entry)] = kind
        return types

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
            if independent and entry.node.op:
                continue
            kind = find_type(entry)
            if isinstance(kind, TensorType) and not entry.node.op and entry.node.name in shapes:
                kind = TensorType(kind.dtype, tuple(shapes[entry.node.name]))
            if kind is not None:
                types[entry.node, entry.index] = kind
        return types
