"""Feeds of onnxruntime models: tensors of any dtype, sequences, and optional values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graphshare.errors import Fault, RefusedError
from graphshare.execute.prepare.variable_values import as_array, convert_feed
from graphshare.formats.model_format import find_format
from graphshare.formats.params.array_files import ValueFile
from graphshare.formats.params.narrow_dtypes import (
    find_numpy_dtype,
    has_bytes_of,
    is_narrow,
    name_dtype,
)
from graphshare.ir.graph import Entry, Graph
from graphshare.text.format import format_count

_SEQUENCE, _OPTIONAL = "sequence of ", "optional of "
_PARTS = {"seq(": "sequence", "optional(": "optional"}
_TEXTS = "OUST"


def as_values(feeds: Mapping[str, Any] | None, *graphs: Graph) -> dict[str, Any]:
    """Return fed values as graphs declare them: arrays, lists (sequences), or None (nothing).

    The first graph with a name counts. Raises RefusedError as :func:`as_array`.
    """
    if not feeds:
        return {}
    declaring = [graph for graph in graphs if not find_format(graph).knows_operators]
    declared: dict[str, str] = {}
    for graph in reversed(declaring):
        declared.update(_list_texts(graph))
    other = "" if declaring else None
    return {
        name: _as_value(name, value, declared.get(name, other)) for name, value in feeds.items()
    }


def _list_texts(graph: Graph) -> dict[str, str]:
    """Return the declared types of inputs; empty if the dtype is unknown."""
    nodes = list(graph.variables())
    types = find_format(graph).types.find_types(graph, [Entry(node) for node in nodes])
    texts: dict[str, str] = {}
    for node in nodes:
        dtype = types[node, 0].parts[0] if (node, 0) in types else None
        texts[node.name] = dtype or ""
    return texts


def _as_value(name: str, value: Any, declared: str | None) -> Any:
    """Return a fed value by its declared type; None means a graph with kernels."""
    if isinstance(value, ValueFile):
        value = value.read(declared or "")
    if declared is None:
        return _as_numbers(name, value)
    if declared.startswith(_OPTIONAL):
        return None if value is None else _as_value(name, value, declared.removeprefix(_OPTIONAL))
    if declared.startswith(_SEQUENCE) and isinstance(value, list | tuple):
        return [_as_value(name, each, declared.removeprefix(_SEQUENCE)) for each in value]
    if declared == "string":
        return _as_texts(value)
    if isinstance(value, np.ndarray) and has_bytes_of(value, declared):
        return value.view(find_numpy_dtype(declared))
    own = getattr(value, "dtype", None)
    if isinstance(own, np.dtype) and is_narrow(own):
        return value
    return _as_numbers(name, value)


def _as_numbers(name: str, value: Any) -> Any:
    if not isinstance(value, np.ndarray) or is_narrow(value.dtype):
        return as_array(value)
    what = {"O": "texts", "V": "bytes without a dtype"}.get(value.dtype.kind)
    if what is not None:
        message = f"{name!r} is an array of {what}, and is to be one of numbers"
        hint = "save it as a numeric dtype, such as float32"
        raise RefusedError(Fault(message, node=name, hint=hint))
    return as_array(value)


def _as_texts(value: Any) -> Any:
    """Return an array of text objects for onnxruntime. Raises RefusedError."""
    array = np.asarray(value)
    may_be_texts = array.dtype.kind in _TEXTS
    if may_be_texts and all(isinstance(text, str) for text in array.ravel().tolist()):
        return array.astype(object)
    message = f"a {type(value).__name__} of {array.dtype} is not an array of texts"
    raise RefusedError(Fault(message, hint='give texts, as in ["a", "b"]'))


def split_type(text: str) -> tuple[list[str], str]:
    """Return the containers of an onnxruntime type, outermost first, and its tensors' dtype."""
    kinds = []
    while start := next((start for start in _PARTS if text.startswith(start)), ""):
        kinds.append(_PARTS[start])
        text = text.removeprefix(start).removesuffix(")")
    if text.startswith("tensor("):
        text = text.removeprefix("tensor(").removesuffix(")")
    return kinds, text


def convert_value(name: str, value: Any, dtype: str) -> Any:
    """Return a value in a numpy dtype, if given. Raises RefusedError as :func:`convert_feed`."""
    if isinstance(value, list):
        return [convert_value(name, each, dtype) for each in value]
    if value is None or value.dtype.kind == "O":
        return value
    return convert_feed(name, value, dtype or None)


def list_arrays(value: Any) -> Iterator[Any]:
    """Yield the arrays in a value."""
    if isinstance(value, list):
        for each in value:
            yield from list_arrays(each)
    elif value is not None:
        yield value


def find_dtypes(value: Any) -> set[Any]:
    """Return the dtypes of the arrays in a value."""
    return {array.dtype for array in list_arrays(value)}


def describe_size(value: Any) -> str:
    """Return the shape of a fed value in words."""
    if value is None:
        return "None"
    return format_count(len(value), "value") if isinstance(value, list) else str(tuple(value.shape))


def describe_fed(value: Any) -> str:
    """Return the shape and the dtype of a fed value in words."""
    size = describe_size(value)
    return f"{size} {name_dtype(value.dtype)}" if hasattr(value, "dtype") else size
