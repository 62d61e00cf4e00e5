"""What a graph costs to compute, read off its shapes: multiply-adds by operator, and parameters, each node once.

Counted are the operators that multiply matrices or windows. A multiply-add is one product added to a sum; a bias, an
activation, a mean count nothing, as is usual in tables of models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import msgspec

from graphshare.analysis.bodies import inner_variables
from graphshare.analysis.roles import Role
from graphshare.analysis.shapes import Inference, infer
from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ops.kernel import Shape
from graphshare.ops.registry import canonical, lookup
from graphshare.ops.unification import size_of

Rule = Callable[[Mapping[str, Any], "list[tuple[int, ...]]", "list[tuple[int, ...]]"], int]


class OperatorTotals(msgspec.Struct):
    """All nodes of one operator. ``parameters`` counts numbers; a tied parameter counts for the operator that uses it first.

    ``multiply_adds`` is None where a shape that it needs is not known.
    """

    nodes: int = 0
    parameters: int = 0
    multiply_adds: int | None = 0


class Totals(msgspec.Struct, frozen=True):
    """The whole graph. ``parameters`` and ``auxiliary`` count numbers, each node once; None where a shape is not known."""

    parameters: int | None
    auxiliary: int | None
    multiply_adds: int | None
    operators: dict[str, OperatorTotals]


def _convolution(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    """For each output the taps of its filter: the weight without its axis of filters, in every layout the first."""
    return prod(outputs[0]) * prod(inputs[1][1:])


def _deconvolution(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    """For each input the taps that it is spread over."""
    return prod(inputs[0]) * prod(inputs[1][1:])


def _deformable(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    """As a convolution; the weight comes after data and offset, and after the mask where there is one."""
    return prod(outputs[0]) * prod(inputs[2][1:])


def _modulated(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    return prod(outputs[0]) * prod(inputs[3][1:])


def _fully_connected(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    return prod(outputs[0]) * inputs[1][-1]


def _dot(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    left = inputs[0]
    return prod(outputs[0]) * ((left[0] if attrs.get("transpose_a") else left[-1]) if left else 1)


def _batch_dot(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    return prod(outputs[0]) * (inputs[0][-2] if attrs.get("transpose_a") else inputs[0][-1])


def _rnn(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    """Each weight of the flat vector once for each step and sample; its biases are two rows a gate."""
    steps, batch = inputs[0][0], inputs[0][1]
    gates = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}[str(attrs["mode"])]
    directions = 2 if attrs.get("bidirectional") else 1
    biases = int(attrs["num_layers"]) * directions * 2 * gates * int(attrs["state_size"])
    return steps * batch * (prod(inputs[1]) - biases)


def _attention_scores(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    """Each score is a product over the width of a head; of the width of the queries (and keys, values) a head has its share."""
    kinds = {"selfatt": 3, "encdec": 1}[str(attrs["kind"])]
    return prod(outputs[0]) * (inputs[0][2] // kinds // int(attrs["heads"]))


def _attended(attrs: Mapping[str, Any], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> int:
    """For each number of the output as many as there are values to weigh: the last axis of the attention."""
    return prod(outputs[0]) * inputs[1][-1]


def _of_kind(rule: Rule, kind: str) -> Rule:
    return lambda attrs, inputs, outputs: rule({**attrs, "kind": kind}, inputs, outputs)


RULES: dict[str, Rule] = {
    "Convolution": _convolution,
    "Convolution_v1": _convolution,
    "Deconvolution": _deconvolution,
    "_contrib_DeformableConvolution": _deformable,
    "_contrib_ModulatedDeformableConvolution": _modulated,
    "FullyConnected": _fully_connected,
    "dot": _dot,
    "batch_dot": _batch_dot,
    "_linalg_gemm": _batch_dot,
    "_linalg_gemm2": _batch_dot,
    "RNN": _rnn,
    "_contrib_quantized_rnn": _rnn,
    "_contrib_interleaved_matmul_selfatt_qk": _of_kind(_attention_scores, "selfatt"),
    "_contrib_interleaved_matmul_encdec_qk": _of_kind(_attention_scores, "encdec"),
    "_contrib_interleaved_matmul_selfatt_valatt": _attended,
    "_contrib_interleaved_matmul_encdec_valatt": _attended,
    "_sg_mkldnn_selfatt_qk": _of_kind(_attention_scores, "selfatt"),
    "_sg_mkldnn_selfatt_valatt": _attended,
    "_sg_mkldnn_conv": _convolution,
    "_sg_mkldnn_fully_connected": _fully_connected,
    "_contrib_quantized_conv": _convolution,
    "_contrib_quantized_fully_connected": _fully_connected,
}


def multiply_adds(node: Node, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """The multiply-adds of one node; 0 for an operator without a rule, None where a shape is not known."""
    rule, signature = RULES.get(canonical(node.op)), lookup(node.op)
    if node.op in _BODIES and node.subgraphs and signature is not None:
        return _of_bodies(node, signature.parse(node.attrs)[0], inputs)
    if rule is None or signature is None:
        return 0
    if any(shape is None or None in shape for shape in (*inputs, *outputs[:1])):
        return None
    known: list[list[tuple[int, ...]]] = [
        [tuple(d for d in shape or () if d is not None) for shape in of] for of in (inputs, outputs)
    ]
    return rule(signature.parse(node.attrs)[0], *known)


_BODIES = ("_foreach", "_while_loop", "_cond")


def _of_bodies(node: Node, attrs: Mapping[str, Any], inputs: Sequence[Shape]) -> int | None:
    """A loop's body as often as it runs (``_while_loop``: may run), of two branches the dearer one."""
    if node.op == "_foreach":
        data, places = len(attrs["in_data_locs"]), (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
        length = inputs[0][0] if inputs and inputs[0] else None
        seen = [x if i >= data or not x else x[1:] or (1,) for i, x in enumerate(inputs)]
        body = _of_graph(node.subgraphs[0], [x for _, x in sorted(zip(places, seen, strict=True), key=lambda pair: pair[0])])
        return None if length is None or body is None else length * body
    keys = ("cond_input_locs", "func_input_locs") if node.op == "_while_loop" else _BRANCHES
    costs = [_of_graph(g, [inputs[i] for i in attrs[key]]) for g, key in zip(node.subgraphs, keys, strict=False)]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    return int(attrs["max_iterations"]) * sum(known) if node.op == "_while_loop" else known[0] + max(known[1:])


_BRANCHES = ("cond_input_locs", "then_input_locs", "else_input_locs")


def _of_graph(graph: Graph, variables: Sequence[Shape]) -> int | None:
    """The multiply-adds of a sub-graph whose variables have these shapes."""
    shapes = {node: shape for node, shape in zip(inner_variables(graph), variables, strict=True) if shape is not None}
    found = infer(graph, shapes, {})
    return _sum([multiply_adds(node, _inputs_of(node, found), found.shapes[node]) for node in found.nodes])


def _inputs_of(node: Node, found: Inference) -> list[Shape]:
    return [row[e.index] if e.index < len(row) else None for e in node.inputs for row in (found.shapes[e.node],)]


def totals(found: Inference, roles: Mapping[Node, Role]) -> Totals:
    """The costs of all that ``found`` covers."""
    operators: dict[str, OperatorTotals] = {}
    counted: set[Node] = set()
    for node in found.nodes:
        if node.op == VARIABLE:
            continue
        of = operators.setdefault(node.op, OperatorTotals())
        of.nodes += 1
        cost = multiply_adds(node, _inputs_of(node, found), found.shapes[node])
        of.multiply_adds = None if cost is None or of.multiply_adds is None else of.multiply_adds + cost
        for entry in node.inputs:
            variable = entry.node
            if variable.op == VARIABLE and variable not in counted and roles[variable].is_parameter:
                counted.add(variable)
                of.parameters += size_of(found.shapes[variable][0]) or 0
    trained = [n for n in found.nodes if n in roles and roles[n].kind.value == "parameter"]
    auxiliary = [n for n in found.nodes if n in roles and roles[n].kind.value == "auxiliary"]
    return Totals(
        parameters=_sum([size_of(found.shapes[node][0]) for node in trained]),
        auxiliary=_sum([size_of(found.shapes[node][0]) for node in auxiliary]),
        multiply_adds=_sum([of.multiply_adds for of in operators.values()]),
        operators=operators,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
