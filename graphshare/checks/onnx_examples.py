"""Short notation for the examples of rules on ONNX models: messages of protobuf, field by field."""

from __future__ import annotations


def field(number: int, content: int | str | bytes) -> bytes:
    """Return a field; an integer, or a content of at most 16,383 bytes."""
    if isinstance(content, int):
        return _number(number << 3) + _number(content)
    data = content.encode() if isinstance(content, str) else content
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def apply(op: str, inputs: str, outputs: str, *attributes: bytes, name: str = "", domain: str = "") -> bytes:
    """Return a node of a graph; its values are separated by blanks."""
    values = [field(number, text) for number, texts in ((1, inputs), (2, outputs)) for text in texts.split()]
    more = [field(number, text) for number, text in ((3, name), (4, op), (7, domain)) if text]
    return field(1, b"".join([*values, *more, *attributes]))


def branch(name: str, *parts: bytes) -> bytes:
    """Return an attribute that is a body, of one value ``name`` that the body gives."""
    return field(5, field(1, name) + field(6, b"".join([*parts, field(2, name), field(12, field(1, name))])) + field(20, 5))


def function(name: str) -> bytes:
    """Return a function in the domain ``own``, which gives its input ``a``."""
    return field(25, field(1, name) + field(4, "a") + field(5, "a") + field(10, "own"))


def value(number: int, name: str, *shape: int, dtype: int = 1) -> bytes:
    """Return a graph input (11), a graph output (12) or a value_info (13)."""
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(number, field(1, name) + field(2, field(1, field(1, dtype) + field(2, sizes))))


def initializer(name: str, *, location: str = "", size: int = 2) -> bytes:
    """Return an initializer of ``size`` float32 numbers, in the file ``location`` if one is given."""
    data = field(13, field(1, "location") + field(2, location)) + field(14, 1) if location else b""
    return field(5, field(1, size) + field(2, 1) + field(8, name) + (data or field(9, bytes(4 * size - 1) + b"?")))


def model(*parts: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    """Return a model of IR version 8 from the fields of its graph, and ``more`` of its own; without an operator set if 0."""
    graph = field(7, b"".join([*parts, field(2, "graph")]))
    return field(1, 8) + graph + (field(8, field(2, opset)) if opset else b"") + more


def relu(*parts: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    """Return a model of one Relu from ``x`` to ``y``, with more fields of its graph, and ``more`` of the model."""
    return model(apply("Relu", "x", "y"), *parts, value(11, "x", 2), value(12, "y", 2), opset=opset, more=more)
