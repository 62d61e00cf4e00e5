"""Stage 1: two branches are the same graph modulo names, found by a walk in lock-step from their heads.

Names pair nothing but the heads: from there edges decide. Holds for operators that nobody knows, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order

# A SyncBatchNorm's ``key`` names a barrier of the process; branches must differ in it.
_EXEMPT = {"_contrib_SyncBatchNorm": ("key",)}


class Difference(msgspec.Struct, frozen=True, eq=False):
    """Where two branches part: the nodes, and what differs, in words."""

    left: Node
    right: Node
    what: str


class Pairing(msgspec.Struct, eq=False):
    """``pairs`` of nodes in topological order of the left branch; the same node twice where branches share it."""

    pairs: list[tuple[Node, Node]]
    differences: list[Difference]

    def __bool__(self) -> bool:
        return not self.differences


def compare_structure(left: Sequence[Entry], right: Sequence[Entry]) -> Pairing:
    """Walks the branches behind the paired heads ``left`` and ``right``, operator by operator."""
    partner: dict[Node, Node] = {}
    found = Pairing([], [])
    back: dict[Node, Node] = {}
    pending: list[tuple[Node, Node]] = []
    for head, twin in zip(left, right, strict=True):
        if head.index != twin.index:
            found.differences.append(Difference(head.node, twin.node, f"heads are output {head.index} and output {twin.index}"))
        pending.append((head.node, twin.node))
    while pending:
        a, b = pending.pop()
        if partner.get(a) is b:
            continue
        if a in partner or back.get(b, a) is not a:
            what = "one branch uses a single node where the other uses two"
            found.differences.append(Difference(a, b, what))
            continue
        partner[a], back[b] = b, a
        what = _difference(a, b)
        if what:
            found.differences.append(Difference(a, b, what))
            continue
        pending.extend((x.node, y.node) for x, y in zip(a.inputs, b.inputs, strict=True))
        pending.extend(zip(a.control_deps, b.control_deps, strict=True))
    found.pairs = [(node, partner[node]) for node in post_order(entry.node for entry in left) if node in partner]
    return found


def _difference(a: Node, b: Node) -> str:
    """What differs between two nodes, their names and what feeds them aside; empty when nothing does."""
    if a is b:
        return ""
    if a.op != b.op:
        return f"operators {a.op} and {b.op}"
    if not a.is_variable:
        keys = [key for key in {**a.attrs, **b.attrs} if a.attrs.get(key) != b.attrs.get(key)]
        keys = [key for key in keys if key not in _EXEMPT.get(a.op, ())]
        if keys:
            told = ", ".join(f"{key} {a.attrs.get(key)!r} and {b.attrs.get(key)!r}" for key in keys)
            return f"attributes {told}"
    if len(a.inputs) != len(b.inputs) or len(a.control_deps) != len(b.control_deps):
        return f"{len(a.inputs)} and {len(b.inputs)} inputs"
    for position, (x, y) in enumerate(zip(a.inputs, b.inputs, strict=True)):
        if x.index != y.index:
            return f"input {position} takes output {x.index} and output {y.index}"
    if len(a.subgraphs) != len(b.subgraphs) or not all(map(_same_graph, a.subgraphs, b.subgraphs)):
        return "sub-graphs"
    return ""


def _same_graph(a: Graph, b: Graph) -> bool:
    """Whether two sub-graphs are alike, names included: nothing renames the inside."""
    if a is b:
        return True
    if len(a.heads) != len(b.heads):
        return False
    inner = compare_structure(a.heads, b.heads)
    return bool(inner) and all(x.name == y.name for x, y in inner.pairs)
