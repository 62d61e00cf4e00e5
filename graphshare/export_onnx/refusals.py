"""What to do about nodes that have no translation: which part of the graph can be exported without them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.errors import Fault
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order

_NAMED = 6


def add_hint(part: Graph, refused: Collection[Node], faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults; the last one gets the ``extract`` that leaves the larger exportable part as a hint.

    That is what comes before the refused nodes, or what comes behind them, cut at their outputs.
    """
    before, targets = _count_before(part, refused)
    behind, cuts = _count_behind(part, refused)
    if not faults or not (before or behind):
        return list(faults)
    if before >= behind:
        options = " ".join(f"--target {name}" for name in targets[:_NAMED])
    else:
        options = " ".join([f"--cut {name}" for name in cuts[:_NAMED]] + [f"--target {output_name(e)}" for e in part.heads])
    hint = f"{max(before, behind)} operators can be exported: graphshare extract GRAPH {options}"
    return [*faults[:-1], msgspec.structs.replace(faults[-1], hint=hint)]


def _count_before(part: Graph, refused: Collection[Node]) -> tuple[int, list[str]]:
    """Return how many operators need no refused node, and the outputs at which they end."""
    spoiled = set(refused)
    nodes = post_order(entry.node for entry in part.heads)
    for node in nodes:
        if any(entry.node in spoiled for entry in node.inputs):
            spoiled.add(node)
    ends = [entry for node in nodes if node in spoiled for entry in node.inputs] + list(part.heads)
    targets = dict.fromkeys(output_name(entry) for entry in ends if entry.node not in spoiled and not entry.node.is_variable)
    return sum(1 for node in nodes if node not in spoiled and not node.is_variable), list(targets)


def _count_behind(part: Graph, refused: Collection[Node]) -> tuple[int, list[str]]:
    """Return how many operators the heads need besides what is cut off at the refused nodes, and those cuts."""
    if any(entry.node in refused for entry in part.heads):
        return 0, []
    seen: set[Node] = set()
    cuts: dict[str, None] = {}
    stack: list[Entry] = list(part.heads)
    while stack:
        entry = stack.pop()
        if entry.node in refused:
            cuts[output_name(entry)] = None
        elif entry.node not in seen:
            seen.add(entry.node)
            stack += entry.node.inputs
    return sum(1 for node in seen if not node.is_variable), list(cuts)
