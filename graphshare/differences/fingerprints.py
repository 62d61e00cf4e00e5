"""Fingerprints of nodes without names: numbers for what a node is computed from and for how it is used.

Nodes of two graphs with equal numbers are equal on that side. Each distinct key gets its own number, so none collide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from graphshare.ir.bodies import Body, count_inputs, list_bodies, own_inputs
from graphshare.ir.compare import make_content_key
from graphshare.ir.graph import EMPTY, NO_DETAILS, Graph, Node
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

    All variables have one number above, those of subgraphs aside. ``coarse`` ignores attributes, so that differently
    written operators are equal. ``around`` numbers the values that a subgraph captures.
    """

    def __init__(self, graph: Graph, numbers: KeyNumbers, *, coarse: bool = False, around: Mapping[Node, int] = EMPTY) -> None:
        order = topological(graph)
        kinds = _number_operators(order, numbers, coarse)
        above = self.above = dict(around)
        self._numbers, self._coarse = numbers, coarse
        self._bodies: dict[Node, dict[str, tuple[Body, Fingerprints]]] = {}
        for node in batched_progress(order, "comparing", "nodes"):
            if around and node in around:
                continue
            inputs = tuple([(above[entry.node], entry.index) for entry in own_inputs(node)])
            controls = tuple([above[dep] for dep in node.control_deps])
            bodies = self._number_bodies(node) if node.subgraphs else ()
            above[node] = numbers.of(("above", kinds[node], inputs, controls, bodies))
        self.below = self._number_uses(graph, order, kinds)

    def _number_bodies(self, node: Node) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        """Return the numbers of the heads of each subgraph, sorted by its name."""
        keys = []
        self._bodies[node] = {}
        for name, body in sorted(list_bodies(node).items(), key=lambda item: item[0]):
            around = {
                capture: self._numbers.of(("capture", self.above[entry.node], entry.index))
                for capture, entry in body.captured.items()
            }
            inner = Fingerprints(body.graph, self._numbers, coarse=self._coarse, around=around)
            self._bodies[node][name] = body, inner
            keys.append((name, tuple((inner.above[head.node], head.index) for head in body.graph.heads)))
        return tuple(keys)

    def _number_uses(self, graph: Graph, order: Sequence[Node], kinds: Mapping[Node, int]) -> dict[Node, int]:
        numbers = self._numbers
        uses: dict[Node, list[tuple[int, int, int]]] = {}
        for position, head in enumerate(graph.heads):
            uses.setdefault(head.node, []).append((-1, position, head.index))
        below: dict[Node, int] = {}
        for node in batched_progress(order[::-1], "comparing", "nodes"):
            below[node] = number = numbers.of(("below", tuple(sorted(uses.pop(node, ())))))
            context = numbers.of(("use", kinds[node], number))
            for position, entry in enumerate(own_inputs(node)):
                uses.setdefault(entry.node, []).append((context, position, entry.index))
            for dep in node.control_deps:
                uses.setdefault(dep, []).append((context, -1, 0))
            if not node.subgraphs:
                continue
            for name, (body, inner) in self._bodies[node].items():
                for capture, entry in body.captured.items():
                    place = numbers.of(("captured", context, name, inner.below[capture]))
                    uses.setdefault(entry.node, []).append((place, -2, entry.index))
        return below


def list_places(node: Node, numbers: KeyNumbers) -> Sequence[Hashable]:
    """Return the place of each input of a node: its position; of one that a subgraph captures, a number for its use there."""
    if not node.subgraphs:
        return range(len(node.inputs))
    places: list[Hashable] = list(range(count_inputs(node)))
    for name, body in list_bodies(node).items():
        below = Fingerprints(body.graph, numbers, around=dict.fromkeys(body.captured, -1)).below
        places += [(name, below[capture]) for capture in body.captured]
    return places


def _number_operators(order: Sequence[Node], numbers: KeyNumbers, coarse: bool) -> dict[Node, int]:
    """Return a number for the content of each node, or with ``coarse`` for its operator and the number of its subgraphs."""
    kinds: dict[Node, int] = {}
    by_map: dict[Hashable, int] = {}  # equal attribute maps of a file are one object
    for node in order:
        details = node.details
        if details is NO_DETAILS or coarse:
            key: Hashable = (node.op, id(node.attrs), len(node.subgraphs))
        else:
            facts = (details.domain, details.absent, len(details.outputs), len(node.inputs))
            key = (node.op, id(node.attrs), id(details.values), len(node.subgraphs), facts)
        number = by_map.get(key)
        if number is None:
            content = (node.op,) if coarse else make_content_key(node)
            number = by_map[key] = numbers.of(("kind", content, len(node.subgraphs)))
        kinds[node] = number
    return kinds
