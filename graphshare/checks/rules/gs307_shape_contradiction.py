"""GS307: contradictory shapes."""

from collections.abc import Mapping
from functools import partial

import msgspec

from graphshare.checks.rule import (
    CheckContext,
    Example,
    ExampleRecord,
    Violation,
    Violations,
    check_rule,
    dense,
    operator,
    symbol,
    variable,
)
from graphshare.checks.shapes import Shapes, find_shapes
from graphshare.errors import Fault
from graphshare.ir.graph import Node
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ops.registry import canonical, find_signature
from graphshare.text.format import format_names

_TRIED = 10  # each trial infers all shapes again
_KEY = "pooling_convention"
_OTHER_ROUNDING = {"valid": "full", "full": "valid"}
_CHAIN = symbol(
    variable("data"),
    variable("a_weight"),
    operator("FullyConnected", "a", 0, 1, num_hidden="4", no_bias="True"),
    variable("b_weight", __shape__="(2, 5)"),
    operator("FullyConnected", "b", 2, 3, num_hidden="2", no_bias="True"),
)


@check_rule(
    level="error",
    summary="The shapes of the graph contradict each other",
    why=(
        "MXNet refuses to bind it. The known shapes are those that variables declare (__shape__), "
        "those of the parameter "
        "file, and those of --shape."
    ),
    fails=_CHAIN,
    passes=Example(
        dense(), (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (2,)))
    ),
)
def find(context: CheckContext) -> Violations:
    """Yield the first operator whose shapes contradict each other."""
    shapes = context.once(find_shapes)
    if shapes is None:
        return
    result = shapes.alone
    if not isinstance(result, Fault) and context.params is not None:
        result = shapes.with_shapes
    if isinstance(result, Fault):
        node = shapes.find_operator(result.node)
        hint = _suggest_convention(shapes) or result.hint
        yield Violation(result.message, node=node, hint=hint, name=result.node)


def _suggest_convention(shapes: Shapes) -> str:
    """Name the Poolings that would fit if they rounded the other way: MXNet of 2015 rounded up."""
    graph = shapes.graph
    if graph is None:
        return ""
    pools: dict[Node, Node] = {}
    for node in graph.nodes:
        other = _round_otherwise(node) if canonical(node.op) == "Pooling" else None
        if other is not None:
            pools[node] = other
    single = [{node: other} for node, other in pools.items()]
    for others in (pools, *single[:_TRIED]):
        if others and shapes.fit(rebuild_graph(graph, partial(_replace, others))[0]):
            texts = [
                f"pooling_convention={other.attrs[_KEY]} of {other.name!r}"
                for other in others.values()
            ]
            return f"{format_names(texts, 4)} fits; files of 2015 round up (full) and do not say so"
    return ""


def _round_otherwise(node: Node) -> Node | None:
    """Return a Pooling that rounds the other way, or None if sizes are not rounded."""
    signature = find_signature(node)
    if signature is None or signature.value(node.attrs, "global_pool"):
        return None
    other = _OTHER_ROUNDING.get(signature.value(node.attrs, _KEY))
    if other is None:
        return None
    return msgspec.structs.replace(node, attrs={**node.attrs, _KEY: other})


def _replace(others: Mapping[Node, Node], node: Node) -> Node:
    return others.get(node, node)
