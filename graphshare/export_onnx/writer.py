"""The ONNX graph under construction: nodes by MXNet's names, and each constant once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import msgspec
import numpy as np

from graphshare.export_onnx.names import UniqueNames
from graphshare.ir.onnx import AttributeValue, Bytes, OnnxNode, Tensor
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Body, Value

TranslateBody = Callable[[int, Sequence[Value]], Body]


class GraphWriter:
    """Nodes and constants of an ONNX graph. Names of constants are unique in the whole model, bodies of loops included."""

    def __init__(self, opset: int, names: UniqueNames) -> None:
        self.opset = opset
        self.names = names
        self.node_names = UniqueNames()
        self.nodes: list[OnnxNode] = []
        self.constants: dict[str, Tensor] = {}
        self._by_content: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._pending: list[OnnxNode] = []
        self._count = 0
        self._translate_body: TranslateBody | None = None
        self._node_name = ""

    def begin(self, name: str, translate_body: TranslateBody | None = None) -> None:
        """Begin with the MXNet node ``name``."""
        self._pending, self._node_name, self._translate_body = [], name, translate_body

    def add_node(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Mapping[str, AttributeValue], domain: str
    ) -> list[str]:
        """Add an ONNX node and return provisional names of its outputs."""
        names = [f"\0{self._count + i}" for i in range(outputs)]
        self._count += outputs
        self._pending.append(OnnxNode(op_type, tuple(inputs), tuple(names), dict(attributes), domain=domain))
        return names

    def add_constant(self, array: Array, dtype: str) -> str:
        """Add a constant, unless an equal one is there, and return its name."""
        data = encode_array(array, dtype)
        key = (blake2b(data, digest_size=16).digest(), dtype, array.shape)
        if key not in self._by_content:
            name = self.names.claim(f"{self._node_name}/constant")
            self._by_content[key] = name
            self.constants[name] = Tensor(name, dtype, array.shape, Bytes(data))
        return self._by_content[key]

    def translate_body(self, number: int, inputs: Sequence[Value]) -> Body:
        """Translate a subgraph of the node that is translated now."""
        assert self._translate_body is not None
        pending, name, translate = self._pending, self._node_name, self._translate_body
        body = translate(number, inputs)
        self._pending, self._node_name, self._translate_body = pending, name, translate
        return body

    def end(self, results: Sequence[str], wanted: Sequence[str]) -> list[str]:
        """End the node whose outputs are the values ``results``, and return these by their final names.

        An output that one of the new nodes makes gets its name in ``wanted``; the last new node gets the node's name.
        """
        made = {output for node in self._pending for output in node.outputs}
        final: dict[str, str] = {}
        for result, name in zip(results, wanted, strict=False):
            if result in made and result not in final:
                final[result] = self.names.claim(name)
        for number, node in enumerate(self._pending):
            is_last = number == len(self._pending) - 1
            name = self.node_names.claim(self._node_name if is_last else f"{self._node_name}/{node.op_type}")
            for output in node.outputs:
                if output not in final:
                    final[output] = self.names.claim(f"{self._node_name}/{node.op_type}")
            inputs = tuple(final.get(x, x) for x in node.inputs)
            outputs = tuple(final[x] for x in node.outputs)
            self.nodes.append(msgspec.structs.replace(node, inputs=inputs, outputs=outputs, name=name))
        return [final.get(result, result) for result in results]


def encode_array(array: Array, dtype: str) -> bytes:
    """Return an array's bytes in ``dtype``, little endian and in C order. bfloat16 keeps the upper half, rounded to even."""
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        return bytes(rounded.astype("<u2").data)
    little: Array = np.asarray(array).astype(np.dtype(dtype).newbyteorder("<"), order="C")
    return little.tobytes()
