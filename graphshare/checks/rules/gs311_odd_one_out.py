"""GS311: one operator that differs from all others of its kind in an attribute."""

from collections import Counter

from graphshare.checks.rule import (
    CheckContext,
    Violation,
    Violations,
    check_rule,
    operator,
    symbol,
    variable,
)
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical

_MIN_OTHERS = 5
# Attributes that networks set once for all operators of a kind.
_UNIFORM = frozenset(("eps", "momentum", "use_global_stats"))


def _chain(last: dict[str, str]) -> str:
    nodes = [variable("data")]
    for i in range(7):
        attrs = {"alpha": "0.2", "beta": "0.5"} if i < 6 else last
        nodes.append(operator("hard_sigmoid", f"a{i}", i, **attrs))
    return symbol(*nodes)


@check_rule(
    level="note",
    summary="One operator lacks an attribute that all others of its kind have, or has another value",
    why="Every other operator of the kind has it: it may have been lost, and the default differs.",
    fails=_chain({"alpha": "0.2"}),
    passes=_chain({"alpha": "0.2", "beta": "0.5"}),
)
def find(context: CheckContext) -> Violations:
    """Yield such operators of the outermost graph."""
    kinds: dict[str, list[Node]] = {}
    for node in context.reachable:
        if not node.is_variable:
            kinds.setdefault(canonical(node.op), []).append(node)
    for op, nodes in kinds.items():
        if len(nodes) <= _MIN_OTHERS:
            continue
        counts = Counter(key for node in nodes for key in node.attrs)
        for key, count in counts.items():
            if count >= len(nodes) - 1 and not key.startswith("__"):
                yield from _compare(context, op, key, nodes)


def _compare(context: CheckContext, op: str, key: str, nodes: list[Node]) -> Violations:
    values = Counter(node.attrs.get(key) for node in nodes)
    for node in nodes:
        value = node.attrs.get(key)
        others = f"the {len(nodes) - 1} other {op}"
        if value is None:
            hint = "write the default value if it is intended"
            yield Violation(
                f"{node.name!r} has no {key}, and {others} have one", node=node, hint=hint
            )
        elif key in _UNIFORM and len(values) == 2 and values[value] == 1:
            usual = next(v for v in values if v != value)
            message = f"{node.name!r} has {key} {value!r}, and {others} have {usual!r}"
            yield Violation(message, node=node, hint="check that the difference is intended")
