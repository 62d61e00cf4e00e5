"""The ONNX graph under construction: nodes by MXNet's names, and each constant once.

Translations address values by name; names become edges at the end of each MXNet node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

import msgspec
import numpy as np

from graphshare.formats.onnx.compose import (
    ValueScope,
    make_body_source,
    make_initializer,
    make_input,
    make_operator,
)
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import DTYPE_CODES, Attributes, Tensor
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Value
from graphshare.text.names import TakenNames

# A lone surrogate: UniqueNames keeps it out of final names.
_PROVISIONAL = "\udfff"
_INTEGERS = frozenset(code for dtype, code in DTYPE_CODES.items() if "int" in dtype)


class UniqueNames(TakenNames):
    """Names of an ONNX graph: lone surrogates become ``\\udc80``, because UTF-8 has no bytes for them."""

    def take(self, name: str) -> str:
        return super().take(name.encode("utf-8", "backslashreplace").decode())


class _Pending(msgspec.Struct, frozen=True, eq=False):
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes
    domain: str
    label: str = ""


class _Level:
    """The MXNet node being translated: its ``pending`` ONNX nodes go to ``nodes`` at its end.

    Nodes of an inlined subgraph go to ``outer``, the pending nodes of its owner.
    """

    def __init__(
        self,
        scope: ValueScope,
        nodes: list[Node],
        name: str = "",
        outer: list[_Pending] | None = None,
    ) -> None:
        self.scope = scope
        self.nodes = nodes
        self.name = name
        self.outer = outer
        self.pending: list[_Pending] = []


class GraphWriter:
    """Nodes and constants of an ONNX graph. Names are unique in the whole model, loop bodies
    included.

    Constants belong to the outermost graph; bodies read them from there.
    """

    def __init__(self, opset: int, names: UniqueNames, *, is_open: bool = False) -> None:
        self.opset, self.is_open = opset, is_open
        self.names = names
        # onnxruntime requires unique names of nodes, too.
        self.node_names = UniqueNames(separator="#")
        self.owners: dict[str, str] = {}  # the MXNet node of each ONNX node
        self.scope = ValueScope()
        self.nodes: list[Node] = []
        self.initializers: list[Node] = []
        self._by_content: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._levels = [_Level(self.scope, self.nodes)]
        self._final: dict[str, str] = {}
        self._sources: dict[str, tuple[str, str]] = {}
        self._count = 0

    @property
    def _level(self) -> _Level:
        return self._levels[-1]

    def begin(self, name: str) -> None:
        """Begin the MXNet node ``name``."""
        self._level.name, self._level.pending = name, []

    def add_node(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Attributes, domain: str
    ) -> list[str]:
        """Add an ONNX node and return provisional names of its outputs.

        Integer inputs of the model are cast to integers directly: floats cannot represent all of
        them.
        """
        if op_type == "Cast" and inputs[0] in self._sources and attributes["to"] in _INTEGERS:
            source, dtype = self._sources[inputs[0]]
            if attributes["to"] == DTYPE_CODES[dtype]:
                return [source]
            inputs = [source]
        names = [f"{_PROVISIONAL}{self._count + i}" for i in range(outputs)]
        self._count += outputs
        self._level.pending.append(
            _Pending(op_type, tuple(inputs), tuple(names), dict(attributes), domain)
        )
        return names

    def add_initializer(self, name: str, tensor: Tensor) -> None:
        """Add an initializer of the outermost graph."""
        self.initializers.append(
            self.scope.define(make_initializer(name, tensor, len(self.initializers)))
        )

    def convert(self, name: str, dtype: str, to: str, wanted: str = "") -> str:
        """Cast an input or output of the model to another dtype, named ``wanted``."""
        wanted = wanted or f"{name}/{to}"
        self.begin(wanted)
        (converted,) = self.end(
            self.add_node("Cast", [name], 1, {"to": DTYPE_CODES[to]}, ""), [wanted]
        )
        if DTYPE_CODES[dtype] in _INTEGERS:
            self._sources[converted] = name, dtype
        return converted

    def stand_in(self, node: Node) -> None:
        """Let an untranslatable node stand for its value, so that its consumers are checked."""
        self.scope.values.setdefault(node.name, Entry(node))

    def add_constant(self, array: Array, dtype: str) -> str:
        """Add a constant, unless an equal one exists, and return its name."""
        data = encode_array(array, dtype)
        # A digest, so that the table keeps no second copy of each constant.
        key = (blake2b(data, digest_size=16).digest(), dtype, array.shape)
        if key not in self._by_content:
            self._by_content[key] = self.names.take(f"{self._level.name}/constant")
            self.add_initializer(self._by_content[key], Tensor(dtype, array.shape, data))
        return self._by_content[key]

    @contextmanager
    def inner_nodes(self) -> Iterator[None]:
        """Let a subgraph's nodes begin and end inside the current node."""
        level = self._level
        self._levels.append(_Level(level.scope, level.nodes, outer=level.pending))
        try:
            yield
        finally:
            self._levels.pop()

    def add_body(
        self, inputs: Sequence[Value], build: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Graph:
        """Return the body that ``build`` emits: it maps the named inputs to outputs."""
        name = self._level.name
        level = _Level(ValueScope(is_body=True), [], name)
        values = [
            msgspec.structs.replace(x, name=self.names.take(f"{name}/{x.name or 'input'}"))
            for x in inputs
        ]
        level.nodes += [level.scope.define(make_input(x.name, x.dtype, x.shape)) for x in values]
        self._levels.append(level)
        try:
            results = self._own_results(build(values))
            ends = self.end([x.name for x in results], [])
        finally:
            self._levels.pop()
        outputs = [
            (level.scope.find(end), x.dtype, x.shape) for end, x in zip(ends, results, strict=True)
        ]
        return level.scope.make_body(level.nodes, outputs, make_body_source(f"{name}/body"))

    def _own_results(self, results: Sequence[Value]) -> list[Value]:
        produced = {output for node in self._level.pending for output in node.outputs}
        own: list[Value] = []
        for x in results:
            if x.name not in produced:
                x = msgspec.structs.replace(
                    x, name=self.add_node("Identity", [x.name], 1, {}, "")[0]
                )
            # A second output with this value needs its own name.
            produced.discard(x.name)
            own.append(x)
        return own

    def end(self, results: Sequence[str], wanted: Sequence[str]) -> list[str]:
        """End the node whose outputs are ``results``; return their final names.

        An output of a new node gets its name in ``wanted``; the last new node gets the node's name.
        """
        level, final = self._level, self._final
        # Nodes of an inlined subgraph already have final names.
        unnamed = {
            output: f"{level.name}/{node.op_type}"
            for node in level.pending
            for output in node.outputs
            if output.startswith(_PROVISIONAL)
        }
        for value, name in (*zip(results, wanted, strict=False), *unnamed.items()):
            if value in unnamed and value not in final:
                final[value] = self.names.take(name)
        for number, node in enumerate(level.pending):
            name = (
                level.name if number == len(level.pending) - 1 else f"{level.name}/{node.op_type}"
            )
            outputs = tuple([final.get(x, x) for x in node.outputs])
            label = node.label or self.node_names.take(name)
            self.owners.setdefault(label, level.name)
            if level.outer is None:
                operator = make_operator(
                    node.op_type, outputs, node.attributes, label=label, domain=node.domain
                )
                level.nodes.append(level.scope.connect(operator, node.inputs, final))
            else:
                level.outer.append(msgspec.structs.replace(node, outputs=outputs, label=label))
        level.pending = []
        return [final.get(result, result) for result in results]


def encode_array(array: Array, dtype: str) -> bytes:
    """Return an array's bytes in ``dtype``, little endian, C order; bfloat16 is rounded to nearest even."""
    if dtype == "bfloat16":
        values = np.ascontiguousarray(array, np.float32)
        bits = values.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(
            16
        )
        # Rounding up would carry a NaN's digits into its exponent and sign.
        halves = np.where(np.isnan(values), bits >> np.uint32(16) | np.uint32(0x40), rounded)
        return bytes(halves.astype("<u2").data)
    little: Array = np.asarray(array).astype(np.dtype(dtype).newbyteorder("<"), order="C")
    return little.tobytes()
