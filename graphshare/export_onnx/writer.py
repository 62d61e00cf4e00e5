"""The ONNX graph under construction: nodes by MXNet's names, and each constant once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b

import msgspec
import numpy as np

from graphshare.export_onnx.names import UniqueNames
from graphshare.ir.onnx import AttributeValue, Bytes, OnnxGraph, OnnxNode, Tensor, ValueInfo
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Value

_PROVISIONAL = "\0"


class _Level:
    """The node that is being translated: its ``pending`` ONNX nodes go to ``nodes`` at its end."""

    def __init__(self, nodes: list[OnnxNode], name: str = "") -> None:
        self.nodes = nodes
        self.name = name
        self.pending: list[OnnxNode] = []


class GraphWriter:
    """Nodes and constants of an ONNX graph. Names are unique in the whole model, bodies of loops included.

    Constants belong to the outermost graph, from where bodies read them.
    """

    def __init__(self, opset: int, names: UniqueNames) -> None:
        self.opset = opset
        self.names = names
        self.node_names = UniqueNames()
        self.nodes: list[OnnxNode] = []
        self.constants: dict[str, Tensor] = {}
        self._by_content: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._levels = [_Level(self.nodes)]
        self._count = 0

    @property
    def _level(self) -> _Level:
        return self._levels[-1]

    def begin(self, name: str) -> None:
        """Begin with the MXNet node ``name``."""
        self._level.name, self._level.pending = name, []

    def add_node(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Mapping[str, AttributeValue], domain: str
    ) -> list[str]:
        """Add an ONNX node and return provisional names of its outputs."""
        names = [f"{_PROVISIONAL}{self._count + i}" for i in range(outputs)]
        self._count += outputs
        self._level.pending.append(OnnxNode(op_type, tuple(inputs), tuple(names), dict(attributes), domain=domain))
        return names

    def add_constant(self, array: Array, dtype: str) -> str:
        """Add a constant, unless an equal one is there, and return its name."""
        data = encode_array(array, dtype)
        key = (blake2b(data, digest_size=16).digest(), dtype, array.shape)
        if key not in self._by_content:
            name = self.names.claim(f"{self._level.name}/constant")
            self._by_content[key] = name
            self.constants[name] = Tensor(name, dtype, array.shape, Bytes(data))
        return self._by_content[key]

    @contextmanager
    def inner_nodes(self) -> Iterator[None]:
        """Let nodes of a subgraph begin and end among the nodes of the one that is being translated."""
        self._levels.append(_Level(self._level.pending))
        try:
            yield
        finally:
            self._levels.pop()

    def add_body(self, inputs: Sequence[Value], build: Callable[[Sequence[Value]], Sequence[Value]]) -> OnnxGraph:
        """Return the body that ``build`` emits, given its inputs with their names; it returns the outputs."""
        name = self._level.name
        nodes: list[OnnxNode] = []
        self._levels.append(_Level(nodes, name))
        try:
            values = [msgspec.structs.replace(x, name=self.names.claim(f"{name}/{x.name or 'input'}")) for x in inputs]
            results = self._own_results(build(values))
            ends = self.end([x.name for x in results], [])
        finally:
            self._levels.pop()
        outputs = tuple(ValueInfo(end, x.dtype, x.shape) for end, x in zip(ends, results, strict=True))
        declared = tuple(ValueInfo(x.name, x.dtype, x.shape) for x in values)
        return OnnxGraph(f"{name}/body", tuple(select_nodes(nodes, set(ends))), declared, outputs)

    def _own_results(self, results: Sequence[Value]) -> list[Value]:
        """Return the outputs of a body, each made by a node of it and once: others get a node of their own."""
        made = {output for node in self._level.pending for output in node.outputs}
        own: list[Value] = []
        for x in results:
            if x.name not in made:
                x = msgspec.structs.replace(x, name=self.add_node("Identity", [x.name], 1, {}, "")[0])
            made.discard(x.name)
            own.append(x)
        return own

    def end(self, results: Sequence[str], wanted: Sequence[str]) -> list[str]:
        """End the node whose outputs are the values ``results``, and return these by their final names.

        An output that one of the new nodes makes gets its name in ``wanted``; the last new node gets the node's name.
        """
        level = self._level
        final: dict[str, str] = {}
        made = {output for node in level.pending for output in node.outputs if output.startswith(_PROVISIONAL)}
        for result, name in zip(results, wanted, strict=False):
            if result in made and result not in final:
                final[result] = self.names.claim(name)
        for number, node in enumerate(level.pending):
            name = level.name if number == len(level.pending) - 1 else f"{level.name}/{node.op_type}"
            for output in node.outputs:
                if output in made and output not in final:
                    final[output] = self.names.claim(f"{level.name}/{node.op_type}")
            outputs = tuple(final.get(x, x) for x in node.outputs)
            name = node.name or self.node_names.claim(name)
            level.nodes.append(msgspec.structs.replace(node.with_names(final), outputs=outputs, name=name))
        level.pending = []
        return [final.get(result, result) for result in results]


def select_nodes(nodes: Sequence[OnnxNode], wanted: set[str]) -> list[OnnxNode]:
    """Return the nodes that ``wanted`` values need, in their order."""
    needed, kept = set(wanted), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.reads())
            kept.append(node)
    return kept[::-1]


def encode_array(array: Array, dtype: str) -> bytes:
    """Return an array's bytes in ``dtype``, little endian and in C order. bfloat16 keeps the upper half, rounded to even."""
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        return bytes(rounded.astype("<u2").data)
    little: Array = np.asarray(array).astype(np.dtype(dtype).newbyteorder("<"), order="C")
    return little.tobytes()
