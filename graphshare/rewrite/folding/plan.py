"""Find the BatchNorms that can be folded, and into which weights, from the graph only.

BatchNorm must be the only user of a linear layer's output (Convolution, FullyConnected,
Deconvolution; in ONNX Conv, Gemm, ConvTranspose). Layers that share a weight are folded together or
not at all.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.analysis.name_lists import implies_variables, list_implied_inputs
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import consumers, list_value_places
from graphshare.ops.registry import auxiliary_slots, find_kernel, find_node_kernel, find_signature
from graphshare.text.format import format_count

if TYPE_CHECKING:
    from graphshare.ops.folding import ChannelScaling, LinearLayer
    from graphshare.ops.kernel import Attrs

_STATISTICS = 4  # scale, shift, mean and variance
IMPLIED = "has an input that the file only implies; `gs.upgrade` writes it as a node"


class Pair(msgspec.Struct, frozen=True, eq=False):
    """A layer and the BatchNorm after it. ``statistics`` names BatchNorm's inputs after the first."""

    layer: Node
    norm: Node
    statistics: tuple[str, ...]
    linear: Foldable
    scaling: Foldable

    @property
    def weight(self) -> Node:
        return self.layer.inputs[1].node

    @property
    def bias(self) -> Node | None:
        return self.layer.inputs[2].node if len(self.layer.inputs) > 2 else None


class FoldPlan(msgspec.Struct, frozen=True, eq=False):
    """``groups`` of pairs on one weight each, in file order, and the remaining BatchNorms with
    reasons.
    """

    groups: tuple[tuple[Pair, ...], ...]
    left: Mapping[Node, str]


def plan_folding(graph: Graph) -> FoldPlan:
    """Plan the folds that the graph allows; the parameters may forbid some."""
    surroundings = _Surroundings(graph)
    pairs: dict[Node, Pair] = {}
    left: dict[Node, str] = {}
    for node in graph.nodes:
        part = find_foldable(node, surroundings.operator_set)
        if part is not None and part.scaling is not None:
            pair_or_reason = _pair_up(node, part, surroundings)
            if isinstance(pair_or_reason, Pair):
                pairs[pair_or_reason.layer] = pair_or_reason
            else:
                left[node] = pair_or_reason
        left.update(
            (norm, f"is in a body of {node.name!r}")
            for norm in _list_inner_norms(node, surroundings.operator_set)
        )
    groups: dict[Node, list[Pair]] = {}
    for pair in pairs.values():
        groups.setdefault(pair.weight, []).append(pair)
    kept = []
    for group in groups.values():
        reason = _other_use(group, pairs, surroundings)
        if reason:
            left.update((pair.norm, reason) for pair in group)
        else:
            kept.append(tuple(group))
    return FoldPlan(tuple(kept), left)


def _list_inner_norms(node: Node, operator_set: int | None) -> Iterator[Node]:
    if not node.details.bodies:
        return
    for each in (inner for graph in node.subgraphs for inner in graph.nodes):
        part = find_foldable(each, operator_set)
        if part is not None and part.scaling is not None:
            yield each
        yield from _list_inner_norms(each, operator_set)


class _Surroundings:
    def __init__(self, graph: Graph) -> None:
        self.uses = consumers(graph.nodes)
        self.heads = Counter(list_value_places(graph.heads))
        self.head_nodes = {entry.node for entry in graph.heads}
        self.awaited = {dep for node in graph.nodes for dep in node.control_deps}
        self.names = Counter(node.name for node in graph.variables())
        self.implies = implies_variables(graph)
        format_ = find_format(graph)
        self.operator_set = format_.operator_set(graph)
        self.replaceable = set(format_.types.list_replaceable(graph))

    def list_consumers(self, node: Node) -> list[tuple[Node, int]]:
        return self.uses.get(node, [])

    def is_read_from_outside(self, node: Node) -> bool:
        """Whether a node is a head, or something depends on it without reading it."""
        return node in self.head_nodes or node in self.awaited


def _pair_up(norm: Node, scaling: Foldable, around: _Surroundings) -> Pair | str:
    """Return the reason, not a pair, if BatchNorm has to stay."""
    if scaling.fault or scaling.scaling is None or not norm.inputs:
        return scaling.fault or "has attributes or inputs that cannot be read"
    layer = norm.inputs[0].node
    linear = find_foldable(layer, around.operator_set)
    if linear is None or linear.linear is None:
        return f"is after {layer.op}" if layer.op else "is after a variable"
    if linear.fault:
        return f"is after {layer.name!r}, whose attributes cannot be read"
    axis = scaling.scaling.axis(scaling.attrs)
    if axis not in linear.linear.channel_axes(linear.attrs):
        return (
            f"works on axis {axis}, which is not the axis of the output channels of {layer.name!r}"
        )
    pair = Pair(layer, norm, _list_statistics(norm, around), linear, scaling)
    return next(_list_obstacles(pair, around), pair)


def _list_obstacles(pair: Pair, around: _Surroundings) -> Iterator[str]:
    layer, norm = pair.layer, pair.norm
    # Any other reader of the layer would get the values after the BatchNorm.
    is_only_reader = around.list_consumers(layer) == [(norm, 0)]
    if not is_only_reader or around.is_read_from_outside(layer):
        yield f"is not the only use of the output of {layer.name!r}"
    if _uses_other_outputs(norm, around):
        yield "has a mean or variance that is used"
    parameters = layer.inputs[1:]
    if len(parameters) != (1 if pair.linear.attrs["no_bias"] else 2):
        yield f"is after {layer.name!r}, which {IMPLIED}"
    signature = find_signature(norm)
    expected = (
        len(signature.formal_inputs(norm.attrs)) - 1 if signature is not None else _STATISTICS
    )
    if len(pair.statistics) != expected:
        yield f"has {format_count(len(pair.statistics) + 1, 'input')}, not {expected + 1}"
    for entry in (*parameters, *norm.inputs[1:]):
        yield from _list_variable_obstacles(entry.node, around)


def _uses_other_outputs(norm: Node, around: _Surroundings) -> bool:
    if any(node is norm and index > 0 for node, index in around.heads):
        return True
    return any(
        consumer.inputs[position].index > 0 for consumer, position in around.list_consumers(norm)
    )


def _list_statistics(norm: Node, around: _Surroundings) -> tuple[str, ...]:
    implied = [variable.name for variable in list_implied_inputs(norm)] if around.implies else []
    return (*(entry.node.name for entry in norm.inputs[1:]), *implied)


def _list_variable_obstacles(node: Node, around: _Surroundings) -> Iterator[str]:
    if node.op:
        what = (
            "a constant that is too small for a weight"
            if node.op == "Constant"
            else "which is computed"
        )
        yield f"depends on {node.name!r}, {what}"
    if node in around.replaceable:
        yield f"depends on {node.name!r}, an input, to which the caller of the model gives a value"
    # Records are found by name: variables of one name would get one folded array.
    if around.names[node.name] > 1:
        yield f"depends on {node.name!r}, a name that {around.names[node.name]} variables have"
    for user, position in around.list_consumers(node):
        kernel = find_node_kernel(user)
        # Another BatchNorm may have the same statistics: inference only reads them.
        if position in auxiliary_slots(user) and (kernel is None or kernel.scaling is None):
            yield f"depends on {node.name!r}, which {user.name!r} changes"


def _other_use(group: list[Pair], pairs: Mapping[Node, Pair], around: _Surroundings) -> str:
    layers = {pair.layer for pair in group}
    biases = {pair.bias for pair in group}
    if len(biases) > 1:
        return f"shares the weight {group[0].weight.name!r} with a layer that has another bias"
    for kind, place, node in (("weight", 1, group[0].weight), ("bias", 2, group[0].bias)):
        if node is None:
            continue
        if around.is_read_from_outside(node):
            return f"is after a layer whose {kind} {node.name!r} is an output of the graph"
        for user, position in around.list_consumers(node):
            if user not in layers or position != place:
                return f"is after a layer whose {kind} {node.name!r} {_describe_use(user, pairs)}"
    return ""


def _describe_use(user: Node, pairs: Mapping[Node, Pair]) -> str:
    if user in pairs:
        return f"is also that of {user.name!r}"
    return f"is also used by {user.name!r}, which cannot be folded"


_WITH_BIAS = 3  # inputs of a layer
_FIRST_INFERENCE = 7
"""The operator set from which on a BatchNormalization is for inference by default."""


class Foldable(msgspec.Struct, frozen=True, eq=False):
    """A node that is linear in a weight, or scales channels, with the attributes that ``linear`` or
    ``scaling`` reads.

    ``fault`` is the reason not to fold it, as the end of a sentence about it; empty if none is
    known.
    """

    attrs: Attrs
    linear: LinearLayer | None = None
    scaling: ChannelScaling | None = None
    fault: str = ""


def find_foldable(node: Node, operator_set: int | None = None) -> Foldable | None:
    """Return the facts that folding a node needs, None if it has no part in one.

    ``operator_set`` is ONNX's version.
    """
    if not node.details.domain and node.op in _ONNX_OPERATORS:
        try:
            return _ONNX_OPERATORS[node.op](node, operator_set or 0)
        except ValueError:
            return None
    kernel = find_node_kernel(node) if node.op else None
    if kernel is None or (kernel.linear is None and kernel.scaling is None):
        return None
    attrs = _parse_attributes(node)
    fault = "" if attrs else "has attributes that cannot be read"
    return Foldable(attrs, kernel.linear, kernel.scaling, fault)


def _parse_attributes(node: Node) -> dict[str, Any]:
    """Return nothing if an attribute cannot be read, as in old files."""
    signature = find_signature(node)
    values, faults = signature.parse(node.attrs) if signature is not None else ({}, [])
    return {} if any(fault.kind != "unknown" for fault in faults) else values


def _read_float(node: Node, name: str, default: str) -> float:
    """Return an ONNX attribute, rounded to float32."""
    number: float = struct.unpack("f", struct.pack("f", float(node.attrs.get(name, default))))[0]
    return number


def _read_convolution(node: Node, operator_set: int) -> Foldable:
    """Read Conv or ConvTranspose as MXNet's Convolution or Deconvolution."""
    kernel = find_kernel("Convolution" if node.op == "Conv" else "Deconvolution")
    groups = int(node.attrs.get("group", "1"))
    attrs = {
        "kernel": (),
        "layout": None,
        "num_group": groups,
        "no_bias": len(node.inputs) < _WITH_BIAS,
    }
    return Foldable(attrs, kernel.linear if kernel is not None else None)


def _read_gemm(node: Node, operator_set: int) -> Foldable:
    from graphshare.ops.folding import GEMM  # start-up: --help must not import numpy

    attrs = {"transB": int(node.attrs.get("transB", "0")), "beta": _read_float(node, "beta", "1")}
    return Foldable({**attrs, "no_bias": len(node.inputs) < _WITH_BIAS}, GEMM)


def _read_batch_normalization(node: Node, operator_set: int) -> Foldable:
    """The attributes that state its mode changed three times."""
    is_old = operator_set < _FIRST_INFERENCE and int(node.attrs.get("is_test", "0")) != 1
    fault = ""
    if is_old or int(node.attrs.get("training_mode", "0")) or any(node.details.outputs[1:]):
        fault = "is in training mode: it normalizes by the mean and variance of the batch"
    elif not int(node.attrs.get("spatial", "1")):
        fault = "has spatial 0: a mean and a variance of each position"
    kernel = find_kernel("BatchNorm")
    attrs = {"axis": 1, "eps": _read_float(node, "epsilon", "1e-5"), "fix_gamma": False}
    return Foldable(attrs, scaling=kernel.scaling if kernel is not None else None, fault=fault)


_ONNX_OPERATORS: Mapping[str, Callable[[Node, int], Foldable]] = {
    "Conv": _read_convolution,
    "ConvTranspose": _read_convolution,
    "Gemm": _read_gemm,
    "BatchNormalization": _read_batch_normalization,
}
