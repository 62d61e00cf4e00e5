"""The engine ``onnxruntime``: parts as ONNX models in memory, with weights that are not copied."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from graphshare.errors import InputError, RefusedError
from graphshare.execute.backends.confined_session import open_session
from graphshare.execute.backends.onnx_session import require_runtime
from graphshare.execute.backends.session import BackendSession, SessionSettings
from graphshare.execute.engines.engine import Compiled, GraphPart, NodesRefusedError
from graphshare.export_onnx.opsets import DEFAULT
from graphshare.export_onnx.translate import OnnxTarget, UntranslatedError, translate_graph
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.tensor_messages import encode_tensor
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Tensor
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Value
from graphshare.resources import describe_excess
from graphshare.text.format import format_bytes

# bytes; smaller constants, such as shapes and axes, are in the model: compilation reads them
_LEAST = 1024
_NOWHERE = "memory"

_NODE = re.compile(
    "|".join((r"node with name '([^']*)'", r"in node \((.*?)\) is", r'In Node, \("([^"]*)"'))
)
_LONGEST = 160  # quoted characters of a message


class OnnxRuntime:
    """Computes parts with onnxruntime on the CPU, with as many threads as numpy's BLAS."""

    name = "onnxruntime"

    def __init__(self) -> None:
        """Create the engine. Raises UsageError if onnxruntime is not installed."""
        require_runtime()

    def compile(self, part: GraphPart) -> Compiled:
        """Return the part in its own session.

        Raises NodesRefusedError for nodes without a translation or a kernel in onnxruntime, and for
        all nodes if copied weights exceed the memory limit.
        """
        weights = sum(
            part.constants[node].nbytes for node in part.inference.nodes if node in part.constants
        )
        # The arrays of this process stay beside the copies.
        if excess := describe_excess(weights, held=weights):
            reason = (
                f"onnxruntime copies the weights, which takes {format_bytes(weights)}, {excess}"
            )
            raise NodesRefusedError(
                {node: reason for node in part.inference.nodes if not node.is_variable}
            )
        translated = translate_part(part)
        try:
            settings = SessionSettings(optimize=part.repeated, awake=part.alone and part.repeated)
            session = open_session(translated.data, arrays=translated.arrays, settings=settings)
        except InputError as error:
            raise NodesRefusedError(_blame(part, str(error))) from error
        return _CompiledSession(session, translated, part)


class _CompiledSession:
    def __init__(self, session: BackendSession, translated: OnnxPart, part: GraphPart) -> None:
        self._session, self._names = session, translated.inputs
        self._types = {
            node: part.inference.types[node][0] or "float32" for node in translated.inputs
        }

    def __call__(self, feeds: Mapping[Node, Array]) -> Sequence[Array]:
        arrays = {
            name: np.ascontiguousarray(feeds[node], self._types[node])
            for node, name in self._names.items()
        }
        try:
            return [np.asarray(output) for output in self._session.run(arrays)]
        except InputError as error:
            raise RefusedError(error.faults, hint="compute it with `engine='numpy'`") from error


def _blame(part: GraphPart, message: str) -> dict[Node, str]:
    """Return the nodes that a message of onnxruntime names, or all operators, with the reason."""
    reason = f"it is refused: {' '.join(message.split())[:_LONGEST]}"
    operators = [node for node in part.inference.nodes if not node.is_variable]
    for match in _NODE.finditer(message):
        stored = next(filter(None, match.groups()), "")
        owners = [node for node in operators if _belongs(stored, node.name)]
        if owners:
            # The longest name fits best: ONNX nodes of `a/b` also begin with `a/`.
            return {max(owners, key=lambda node: len(node.name)): reason}
    return dict.fromkeys(operators, reason)


def _belongs(stored: str, name: str) -> bool:
    return bool(name) and (stored == name or stored.startswith((f"{name}/", f"{name}#")))


class OnnxPart(msgspec.Struct, frozen=True, eq=False):
    """A model of one part. ``arrays`` are initializers outside its ``data``, by name.

    ``inputs`` maps variables to the model's inputs; its outputs are the heads in order.
    """

    data: bytes
    arrays: Mapping[str, Array]
    inputs: Mapping[Node, str]


def translate_part(part: GraphPart) -> OnnxPart:
    """Translate a part for its shapes. Raises NodesRefusedError."""
    values: dict[Node, Value] = {}
    tensors: dict[Node, Tensor] = {}
    arrays: dict[Node, Array] = {}
    for node, array in part.constants.items():
        if node not in part.inference.shapes:
            continue
        dtype = str(array.dtype)
        values[node] = Value("", array.shape, dtype, lambda array=array: array)  # type: ignore[misc]
        content = np.ascontiguousarray(array).tobytes() if array.nbytes < _LEAST else None
        tensors[node] = Tensor(dtype, array.shape, content)
        if content is None:
            arrays[node] = array
    try:
        translated = translate_graph(
            part.graph, part.inference, values, tensors, OnnxTarget(opset=DEFAULT, name="part")
        )
    except UntranslatedError as error:
        raise NodesRefusedError(error.reasons) from error
    stored = {node.name for node in translated.graph.variables()}
    outside = {
        # onnxruntime reads this memory directly.
        translated.variables[node]: np.require(x, requirements=("C", "A"))
        for node, x in arrays.items()
        if translated.variables[node] in stored
    }

    def encode(node: Node, name: str) -> Message | None:
        array = outside.get(node.name)
        if array is None:
            return None
        return encode_tensor(name, str(array.dtype), array.shape, (_NOWHERE, 0, array.nbytes))

    inputs = {
        node: translated.variables[node]
        for node in part.graph.variables()
        if node not in tensors and translated.variables.get(node) in stored
    }
    return OnnxPart(b"".join(encode_model(translated.graph, encode).pieces()), outside, inputs)
