"""One operator as an ONNX model, and what onnxruntime computes with it; onnx's reference evaluator where it has no kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.analysis.shapes import infer
from graphshare.errors import RefusedError
from graphshare.export_onnx.translate import translate_graph
from graphshare.export_onnx.writer import encode_array
from graphshare.formats.onnx.encode import encode_model
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import Bytes, OnnxModel, Tensor
from graphshare.ops.registry import lookup
from graphshare.ops.signature import PARAMETER_FORMALS
from graphshare.ops.translation import Value

OPSET, IR_VERSION = 17, 8


def export_operator(
    op: str, attrs: Mapping[str, str], inputs: Sequence[Any], outputs: int, *, opset: int = OPSET
) -> bytes | RefusedError:
    """Return the ONNX model of one operator on inputs ``in0``, ``in1``...; its parameters are initializers.

    Return the refusal where it has no translation with these attributes, shapes or dtypes.
    """
    signature = lookup(op)
    assert signature is not None
    variables = [Node("", f"in{i}", num_outputs=1) for i in range(len(inputs))]
    node = Node(op, "node", dict(attrs), tuple(Entry(v) for v in variables), num_outputs=max(outputs, 1))
    np_shape = any(not x.size or not x.ndim for x in inputs)
    attributes = {"is_np_shape": ("int", 1)} if np_shape else {}
    graph = Graph((*variables, node), tuple(Entry(node, i) for i in range(outputs)), attributes)
    shapes = {v: x.shape for v, x in zip(variables, inputs, strict=True)}
    types = {v: str(x.dtype) for v, x in zip(variables, inputs, strict=True)}
    inference = infer(graph, shapes, types)
    formals = signature.formal_inputs(node.attrs)
    values, tensors = {}, {}
    for i, (variable, x) in enumerate(zip(variables, inputs, strict=True)):
        if i < len(formals) and formals[i] in PARAMETER_FORMALS:
            values[variable] = Value("", x.shape, str(x.dtype), partial(np.asarray, x))
            tensors[variable] = Tensor("", str(x.dtype), x.shape, Bytes(encode_array(x, str(x.dtype))))
    try:
        translated = translate_graph(graph, inference, values, tensors, opset=opset, name="one operator")
    except RefusedError as refusal:
        return refusal
    return b"".join(encode_model(OnnxModel(translated.graph, {"": opset}, IR_VERSION)).pieces())


def run_onnx(data: bytes, feeds: Mapping[str, Any]) -> tuple[list[Any], str]:
    """Check a model with ONNX's checker and run it; return its outputs and who computed them.

    ``feeds`` that are not among the model's inputs are left out.
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
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        with np.errstate(all="ignore"):
            return [np.asarray(x) for x in ReferenceEvaluator(model).run(None, fed)], "reference"
    return session.run(None, fed), "onnxruntime"
