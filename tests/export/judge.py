"""One operator as an ONNX model, and what onnxruntime computes with it; onnx's reference evaluator
where it has no kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.errors import RefusedError
from graphshare.export_onnx.opsets import refuse_versions
from graphshare.export_onnx.translate import OnnxTarget, translate_graph
from graphshare.export_onnx.writer import encode_array
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import Tensor
from graphshare.ops.inference import infer
from graphshare.ops.registry import lookup
from graphshare.ops.signature import PARAMETER_FORMALS
from graphshare.ops.translation import Value

OPSET = 17


def export_operator(
    op: str, attrs: Mapping[str, str], inputs: Sequence[Any], outputs: int, *, opset: int = OPSET
) -> bytes | RefusedError:
    """Return the ONNX model of one operator on inputs ``in0``, ``in1``...; its parameters are initializers.

    Return the refusal where it has no translation with these attributes, shapes or dtypes.
    """
    graph, arrays, stored = graph_of_operator(op, attrs, inputs, outputs)
    return export_graph(graph, arrays, stored, opset=opset)


def graph_of_operator(
    op: str, attrs: Mapping[str, str], inputs: Sequence[Any], outputs: int
) -> tuple[Graph, dict[Node, Any], set[Node]]:
    """Return the graph of one operator, the arrays of its inputs ``in0``, ``in1``..., and those that are parameters."""
    signature = lookup(op)
    assert signature is not None
    variables = [Node("", f"in{i}", num_outputs=1) for i in range(len(inputs))]
    node = Node(
        op, "node", dict(attrs), tuple(Entry(v) for v in variables), num_outputs=max(outputs, 1)
    )
    np_shape = any(not x.size or not x.ndim for x in inputs)
    attributes = {"is_np_shape": ("int", 1)} if np_shape else {}
    graph = Graph((*variables, node), tuple(Entry(node, i) for i in range(outputs)), attributes)
    formals = signature.formal_inputs(node.attrs)
    stored = {
        v for i, v in enumerate(variables) if i < len(formals) and formals[i] in PARAMETER_FORMALS
    }
    return graph, dict(zip(variables, inputs, strict=True)), stored


def export_graph(
    graph: Graph, arrays: Mapping[Node, Any], stored: Collection[Node], *, opset: int = OPSET
) -> bytes | RefusedError:
    """Return the ONNX model of a graph on arrays for its variables, of which ``stored`` are
    initializers; or the refusal.
    """
    translated = translate(graph, arrays, stored, opset=opset)
    return translated if isinstance(translated, RefusedError) else encode(translated)


def encode(graph: Graph) -> bytes:
    """Return the bytes of an ONNX model."""
    return b"".join(encode_model(graph).pieces())


def translate(
    graph: Graph, arrays: Mapping[Node, Any], stored: Collection[Node], *, opset: int = OPSET
) -> Graph | RefusedError:
    """Return a graph in ONNX's operators; see :func:`export_graph`."""
    values = {
        v: Value("", arrays[v].shape, str(arrays[v].dtype), partial(np.asarray, arrays[v]))
        for v in stored
    }
    tensors = {
        v: Tensor(x.dtype, x.shape, encode_array(arrays[v], x.dtype)) for v, x in values.items()
    }
    try:
        inference = infer(
            graph,
            {v: x.shape for v, x in arrays.items()},
            {v: str(x.dtype) for v, x in arrays.items()},
        )
        translated = translate_graph(
            graph, inference, values, tensors, OnnxTarget(opset=opset, name="test")
        )
    except RefusedError as refusal:
        return refusal
    faults = refuse_versions(translated.graph, opset)
    return RefusedError(faults) if faults else translated.graph


def run_onnx(
    data: bytes, feeds: Mapping[str, Any], *, reference: bool = False, optimize: bool = False
) -> tuple[list[Any], str]:
    """Check a model with ONNX's checker and run it; return its outputs and who computed them.

    ``feeds`` that are not among the model's inputs are left out. With ``reference`` onnxruntime is not asked; with
    ``optimize`` it joins nodes first, as it does by default.
    """
    import onnx
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    fed = {value.name: feeds[value.name] for value in model.graph.input}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = (
            None
            if reference
            else onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        )
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        session = None
    if session is not None:
        return session.run(None, fed), "onnxruntime"
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in ReferenceEvaluator(model).run(None, fed)], "reference"
