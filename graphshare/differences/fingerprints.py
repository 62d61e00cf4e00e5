"""What a node is by its surroundings, names left out: by what it computes, and by what becomes of it.

Nodes of two graphs with one number are alike as far as that side of them goes. Numbers stand for whole keys, so unequal nodes
never meet in one by chance.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import topological
from graphshare.progress import batched_progress


class Numbers:
    """Gives every distinct key a number of its own, in both graphs the same."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """The number of ``key``."""
        return self._known.setdefault(key, len(self._known))


class Fingerprints:
    """``above`` numbers what a node computes from, itself included; ``below`` what is made of it, itself left out.

    Variables are alike above. ``coarse`` leaves attributes out, so that two spellings of one operator meet.
    """

    def __init__(self, graph: Graph, numbers: Numbers, *, coarse: bool = False) -> None:
        order = topological(graph)
        kinds = _kinds(order, numbers, coarse)
        self.above: dict[Node, int] = {}
        for node in batched_progress(order, "comparing", "nodes"):
            inputs = tuple((self.above[entry.node], entry.index) for entry in node.inputs)
            controls = tuple(self.above[dep] for dep in node.control_deps)
            self.above[node] = numbers.of(("above", kinds[node], inputs, controls))
        self.below = _below(graph, order, kinds, numbers)


def _kinds(order: Sequence[Node], numbers: Numbers, coarse: bool) -> dict[Node, int]:
    """What each node is by itself. A variable's attributes (learning rates, initialisers) do not tell what it is."""
    kinds: dict[Node, int] = {}
    by_map: dict[tuple[str, int, int], int] = {}  # equal attribute maps of a file are one object
    for node in order:
        key = (node.op, id(node.attrs), len(node.subgraphs))
        number = by_map.get(key)
        if number is None:
            attrs = () if coarse or node.op == VARIABLE else tuple(sorted(node.attrs.items()))
            number = by_map[key] = numbers.of(("kind", node.op, attrs, len(node.subgraphs)))
        kinds[node] = number
    return kinds


def _below(graph: Graph, order: Sequence[Node], kinds: Mapping[Node, int], numbers: Numbers) -> dict[Node, int]:
    uses: dict[Node, list[tuple[int, int, int]]] = {}
    for position, head in enumerate(graph.heads):
        uses.setdefault(head.node, []).append((-1, position, head.index))
    below: dict[Node, int] = {}
    for node in batched_progress(order[::-1], "comparing", "nodes"):
        below[node] = number = numbers.of(("below", tuple(sorted(uses.pop(node, ())))))
        context = numbers.of(("use", kinds[node], number))
        for position, entry in enumerate(node.inputs):
            uses.setdefault(entry.node, []).append((context, position, entry.index))
        for dep in node.control_deps:
            uses.setdefault(dep, []).append((context, -1, 0))
    return below
