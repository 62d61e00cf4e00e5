"""GS311: an operator that lacks an attribute, or has another value of one, unlike all others of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from graphshare.checks.examples import operator, symbol, variable
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical
from graphshare.reports.model import Level

_LEAST = 5  # how many others there must be
# Attributes that networks set once for all operators of a kind.
_UNIFORM = frozenset(("eps", "momentum", "use_global_stats"))


def find(subject: Subject) -> Iterator[Found]:
    """Each such operator of the outermost graph."""
    if not subject.sound:
        return
    kinds: dict[str, list[Node]] = {}
    for node in subject.reachable:
        if not node.is_variable:
            kinds.setdefault(canonical(node.op), []).append(node)
    for op, nodes in kinds.items():
        if len(nodes) > _LEAST:
            counts = Counter(key for node in nodes for key in node.attrs)
            for key in [key for key, count in counts.items() if count >= len(nodes) - 1 and not key.startswith("__")]:
                yield from _found(subject, op, key, nodes)


def _found(subject: Subject, op: str, key: str, nodes: list[Node]) -> Iterator[Found]:
    values = Counter(node.attrs.get(key) for node in nodes)
    for node in nodes:
        value = node.attrs.get(key)
        others = f"the {len(nodes) - 1} other {op}"
        if value is None:
            hint = "if the default is meant, write it"
            yield Found(f"{node.name!r} does not say {key}, and {others} do", subject.steps_of(node), node, hint=hint)
        elif key in _UNIFORM and len(values) == 2 and values[value] == 1:
            message = f"{node.name!r} has {key} {value!r}, and {others} have {next(v for v in values if v != value)!r}"
            yield Found(message, subject.steps_of(node), node, hint="is it meant?")


def _chain(last: dict[str, str]) -> str:
    nodes = [variable("data")]
    for i in range(7):
        attrs = {"alpha": "0.2", "beta": "0.5"} if i < 6 else last
        nodes.append(operator("hard_sigmoid", f"a{i}", i, **attrs))
    return symbol(*nodes)


RULE = Rule(
    code="GS311",
    name="odd-one-out",
    level=Level.NOTE,
    summary="One operator alone lacks an attribute that all others of its kind have, or has another value of it",
    why="Whoever wrote the file set it everywhere else: it may have been lost, and the default is another value.",
    find=find,
    fails=Example(_chain({"alpha": "0.2"})),
    passes=Example(_chain({"alpha": "0.2", "beta": "0.5"})),
)
