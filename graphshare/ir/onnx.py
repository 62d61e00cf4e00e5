"""The records of an ONNX model, as its file holds them: values are names, and a name stands for one value.

``graphshare.formats.onnx`` writes them, translations of operators make them. dtypes are called as everywhere (``float32``,
``bfloat16``, ``bool``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, Union

import msgspec

DTYPE_CODES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}
"""ONNX's numbers for dtypes (TensorProto.DataType)."""


class Data(Protocol):
    """The bytes of a tensor, little endian and in C order: ``size`` of them, read in pieces when they are wanted."""

    @property
    def size(self) -> int: ...
    def pieces(self) -> Iterable[bytes | memoryview]: ...


class Bytes(msgspec.Struct, frozen=True):
    """Data in memory."""

    content: bytes | memoryview

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.content)

    def pieces(self) -> Iterable[bytes | memoryview]:
        """Return all bytes as one piece."""
        return (self.content,)


class ExternalData(msgspec.Struct, frozen=True):
    """Data in the file ``location`` (a path relative to the model's directory): ``length`` bytes from ``offset`` on."""

    location: str
    offset: int
    length: int


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """An array: an initializer, or the value of an attribute (then without a name)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Data | ExternalData


class Float(msgspec.Struct, frozen=True):
    """A list of numbers that an operator takes as floats, also where it is empty or holds integers alone."""

    values: tuple[float, ...]


AttributeValue = Union[int, float, str, Tensor, "OnnxGraph", Sequence[int], Sequence[str], Float]
Attributes = Mapping[str, AttributeValue]


class OnnxNode(msgspec.Struct, frozen=True, eq=False):
    """An operator applied to values. An empty name stands for an input that is left out, or an output that nothing reads."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes = {}
    name: str = ""
    domain: str = ""

    def reads(self) -> Iterable[str]:
        """Return the names of all values that the node needs, those that its bodies take from outside included."""
        yield from self.inputs
        for body in self.bodies():
            for node in body.nodes:
                yield from node.reads()
            yield from (output.name for output in body.outputs)

    def bodies(self) -> Iterable[OnnxGraph]:
        """Return the graphs among the attributes."""
        return (value for value in self.attributes.values() if isinstance(value, OnnxGraph))

    def with_names(self, names: Mapping[str, str]) -> OnnxNode:
        """Return the node with the values that it reads, in its bodies too, under their new names."""
        attributes = {
            key: msgspec.structs.replace(value, nodes=tuple(node.with_names(names) for node in value.nodes))
            if isinstance(value, OnnxGraph)
            else value
            for key, value in self.attributes.items()
        }
        return msgspec.structs.replace(self, inputs=tuple(names.get(x, x) for x in self.inputs), attributes=attributes)


class ValueInfo(msgspec.Struct, frozen=True):
    """A value's dtype and shape; a text is a dimension that the caller chooses, by its name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class OnnxGraph(msgspec.Struct, frozen=True, eq=False):
    """Nodes in topological order. ``initializers`` are constants, of the parameters too."""

    name: str
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    initializers: tuple[Tensor, ...] = ()


class OnnxModel(msgspec.Struct, frozen=True, eq=False):
    """A whole file. ``opsets`` are the versions of the operator sets by domain; the empty domain is ONNX's own.

    ``producer`` and ``producer_version`` say what wrote it.
    """

    graph: OnnxGraph
    opsets: Mapping[str, int]
    ir_version: int
    producer: str = "graphshare"
    producer_version: str = ""
    doc_string: str = ""
    metadata: Mapping[str, str] = {}
