"""Signatures of oneDNN's fused layers; inputs follow from the subgraph.

An outer input stands for the variable at the same place in the subgraph's topological order.
Control flow differs: it passes auxiliary states as plain arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.batch_axis import At, Rule, require_axes
from graphshare.ops.quantization.signature import apply_calibrated_rule
from graphshare.ops.registry import lookup
from graphshare.ops.signature import define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, Signature


def convolution_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return ``_sg_mkldnn_conv``'s inputs: the inner Convolution decides the bias, flags others."""
    attrs = signature.current_attributes(attrs)
    quantized, with_sum = signature.value(attrs, "quantized"), signature.value(attrs, "with_sum")
    names = ["data", "weight"]
    if not _lacks_bias(subgraphs, "Convolution"):
        names.append("bias")
    if signature.value(attrs, "with_bn"):
        names += ["gamma", "beta", "mean", "var"]
    if with_sum:
        names.append("sum")
    if quantized:
        names += ["data_min", "data_max"]
        if with_sum:
            names += ["sum_min", "sum_max"]
    return tuple(names)


def _lacks_bias(subgraphs: Sequence[Any], op: str) -> bool:
    nodes = subgraphs[0].nodes if subgraphs else ()
    for node in nodes:
        if node.op == op:
            return str(node.attrs.get("no_bias", "False")).lower() in ("true", "1")
    return False


def dense_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return variables, ranges of data, weight, bias."""
    names = tuple(node.name for node in _walk(subgraphs) if node.is_variable)
    attrs = signature.current_attributes(attrs)
    if signature.value(attrs, "quantized"):
        names += ("min_data", "max_data")
        # With `channel_wise_quantize` the operator quantizes weight and bias itself.
        if signature.value(attrs, "channel_wise_quantize") is None:
            names += ("min_weight", "max_weight")
            if not _lacks_bias(subgraphs, "FullyConnected"):
                names += ("min_bias", "max_bias")
    return names


def inner_slots(
    signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]
) -> tuple[int, ...]:
    """Return the positions of the subgraph's auxiliary variables."""
    nodes = _walk(subgraphs)
    auxiliary: set[int] = set()
    for node in nodes:
        inner = lookup(node.op)
        if inner is None:
            continue
        slots = inner.auxiliary_slots(
            node.attrs, len(node.inputs), subgraphs=getattr(node, "subgraphs", ())
        )
        auxiliary.update(id(node.inputs[slot].node) for slot in slots)
    variables = [node for node in nodes if node.is_variable]
    return tuple(i for i, variable in enumerate(variables) if id(variable) in auxiliary)


def _walk(subgraphs: Sequence[Any]) -> list[Any]:
    """Return the first subgraph's nodes below its heads (if any), inputs first."""
    if not subgraphs:
        return []
    graph = subgraphs[0]
    heads = [entry.node for entry in getattr(graph, "heads", ())] or list(graph.nodes)
    order: dict[int, Any] = {}
    stack = [(node, False) for node in reversed(heads)]
    while stack:
        node, done = stack.pop()
        if id(node) in order:
            continue
        if done:
            order[id(node)] = node
            continue
        stack.append((node, True))
        for entry in reversed(node.inputs):
            if id(entry.node) not in order:
                stack.append((entry.node, False))
    return list(order.values())


_RANGED = (
    "output min_output[quantized&!enable_float_output] max_output[quantized&!enable_float_output]"
)
_ATTENTION = (
    "heads:int=!; quantized:bool=False; enable_float_output:bool=False; min_calib_range:float?=None; "
    "max_calib_range:float?=None"
)

OPERATORS = (
    *define(
        "_sg_mkldnn_conv",
        convolution_inputs,
        "with_bn:bool=False; with_act:bool=False; with_sum:bool=False; "
        "with_postsum_act:bool=False; quantized:bool=False; "
        "min_calib_range:float?=None; max_calib_range:float?=None",
        results="output output_min[quantized] output_max[quantized]",
        mutable=inner_slots,
        renamed_attributes={"with_relu": "with_act", "with_postsum_relu": "with_postsum_act"},
    ),
    *define(
        "_sg_mkldnn_fully_connected",
        dense_inputs,
        "quantized:bool=False; enable_float_output:bool=False; with_eltwise:bool=False; min_calib_range:float?=None; "
        "max_calib_range:float?=None; channel_wise_quantize:bool?=None",
        results=_RANGED,
        mutable=inner_slots,
        renamed_attributes={"with_relu": "with_eltwise"},
    ),
    *define(
        "_sg_mkldnn_selfatt_qk",
        "queries_keys_values min_qkv[quantized] max_qkv[quantized]",
        _ATTENTION,
        results=_RANGED,
    ),
    *define(
        "_sg_mkldnn_selfatt_valatt",
        "queries_keys_values attention min_qkv[quantized] max_qkv[quantized] "
        "min_attention[quantized] max_attention[quantized]",
        _ATTENTION,
        results=_RANGED,
    ),
)

RULES: dict[str, Rule] = {
    "_sg_mkldnn_selfatt_qk": require_axes(1, out=At(0, 3)),
    "_sg_mkldnn_selfatt_valatt": require_axes(1, 0, out=At(1, 3)),
    "_sg_mkldnn_conv": apply_calibrated_rule,
    "_sg_mkldnn_fully_connected": apply_calibrated_rule,
}
