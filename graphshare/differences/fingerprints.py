"""Fingerprints of nodes without names: numbers for what a node is computed from and for how it is used.

Nodes of two graphs with equal numbers are equal on that side. Each distinct key gets its own number, so none collide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import topological
from graphshare.progress import batched_progress


class KeyNumbers:
    """Numbers for distinct keys, the same in both graphs."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """Return the number of ``key``."""
        return self._known.setdefault(key, len(self._known))


class Fingerprints:
    """``above`` numbers each node with everything it is computed from; ``below`` numbers all uses of its outputs.

    All variables have one number above. ``coarse`` ignores attributes, so that differently written operators are equal.
    """

    def __init__(self, graph: Graph, numbers: KeyNumbers, *, coarse: bool = False) -> None:
        order = topological(graph)
        kinds = _number_operators(order, numbers, coarse)
        self.above: dict[Node, int] = {}
        for node in batched_progress(order, "comparing", "nodes"):
            inputs = tuple((self.above[entry.node], entry.index) for entry in node.inputs)
            controls = tuple(self.above[dep] for dep in node.control_deps)
            self.above[node] = numbers.of(("above", kinds[node], inputs, controls))
        self.below = _number_uses(graph, order, kinds, numbers)


def _number_operators(order: Sequence[Node], numbers: KeyNumbers, coarse: bool) -> dict[Node, int]:
    """Return a number for the operator and the attributes of each node; a variable's attributes are ignored."""
    kinds: dict[Node, int] = {}
    by_map: dict[tuple[str, int, int], int] = {}  # equal attribute maps of a file are one object
    for node in order:
        key = (node.op, id(node.attrs), len(node.subgraphs))
        number = by_map.get(key)
        if number is None:
            attrs = () if coarse or node.is_variable else tuple(sorted(node.attrs.items()))
            number = by_map[key] = numbers.of(("kind", node.op, attrs, len(node.subgraphs)))
        kinds[node] = number
    return kinds


def _number_uses(graph: Graph, order: Sequence[Node], kinds: Mapping[Node, int], numbers: KeyNumbers) -> dict[Node, int]:
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
