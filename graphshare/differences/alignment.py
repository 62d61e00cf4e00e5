"""Which node of one graph is which node of another: structure first, names second.

Every step is linear in the graphs and pairs only nodes that no earlier step paired. Operators come first:

1. what computes the same and is used the same; of several such the ones with one name, else in order;
2. one name, and the same on one side: the edit lies on the other;
3. what is the only one of its kind on one side;
4. one name and operator;
5. the same again with attributes left out, for files whose attributes are spelled in two ways;
6. what stands in one place beside a paired node;
7. one name, or else one place, alone: the operator was replaced.

Then variables, by the places in which paired operators use them, by names, and by any place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from graphshare.differences.fingerprints import Fingerprints, Numbers
from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import consumers

Key = Callable[[Node], Hashable]


class Alignment:
    """``images`` maps nodes of the left graph to their counterparts in the right one, ``origins`` back."""

    def __init__(self, left: Graph, right: Graph, *, taken: Iterable[Node] = (), known: Mapping[Node, Node] | None = None):
        self.images: dict[Node, Node] = dict(known or {})
        self.origins: dict[Node, Node] = {b: a for a, b in self.images.items()}
        self._lefts, self._rights = left, right
        self._taken = set(taken)

    def pair(self, a: Node, b: Node) -> bool:
        """Pairs two nodes, unless one of them has a counterpart already."""
        if not self.free_left(a) or not self.free_right(b):
            return False
        self.images[a], self.origins[b] = b, a
        return True

    def free_left(self, node: Node) -> bool:
        """Whether a node of the left graph still has no counterpart."""
        return node not in self.images and node not in self._taken

    def free_right(self, node: Node) -> bool:
        """Whether a node of the right graph still has no counterpart."""
        return node not in self.origins and node not in self._taken

    def free(self, *, variables: bool) -> tuple[list[Node], list[Node]]:
        """The nodes without a counterpart, variables or operators."""
        return (
            [n for n in self._lefts.nodes if (n.op == VARIABLE) == variables and self.free_left(n)],
            [n for n in self._rights.nodes if (n.op == VARIABLE) == variables and self.free_right(n)],
        )

    def by_class(self, key: tuple[Key, Key], *, variables: bool, in_order: bool = True) -> None:
        """Pairs nodes whose keys are equal: those with one name first, then, where counts are equal, in order."""
        lefts, rights = self.free(variables=variables)
        classes: dict[Hashable, tuple[list[Node], list[Node]]] = {}
        for node in lefts:
            classes.setdefault(key[0](node), ([], []))[0].append(node)
        for node in rights:
            found = classes.get(key[1](node))
            if found is not None:
                found[1].append(node)
        for some, others in classes.values():
            self._pair_class(some, others, in_order)

    def _pair_class(self, some: Sequence[Node], others: Sequence[Node], in_order: bool) -> None:
        if not others:
            return
        named: dict[str, list[Node]] = {}
        for node in reversed(others):
            named.setdefault(node.name, []).append(node)
        for node in some:
            twins = named.get(node.name)
            if twins:
                self.pair(node, twins.pop())
        rest = [n for n in some if self.free_left(n)], [n for n in others if self.free_right(n)]
        if len(rest[0]) == len(rest[1]) and (in_order or len(rest[0]) == 1):
            for a, b in zip(*rest, strict=True):
                self.pair(a, b)

    def by_name(self, same: Callable[[Node, Node], bool], *, variables: bool) -> None:
        """Pairs nodes that alone bear a name among those left, where ``same`` agrees."""
        lefts, rights = (_unique(nodes) for nodes in self.free(variables=variables))
        for name, node in lefts.items():
            twin = rights.get(name)
            if twin is not None and same(node, twin):
                self.pair(node, twin)


def _unique(nodes: Iterable[Node]) -> dict[str, Node]:
    """The nodes by name; a name that several bear tells nothing."""
    found: dict[str, Node | None] = {}
    for node in nodes:
        found[node.name] = None if node.name in found else node
    return {name: node for name, node in found.items() if node is not None}


def align(
    left: Graph,
    right: Graph,
    *,
    known: Mapping[Node, Node] | None = None,
    taken: Iterable[Node] = (),
    renames: bool = True,
) -> Alignment:
    """The counterparts of ``left``'s nodes in ``right``.

    ``known`` pairs are kept; ``taken`` nodes of either graph are left alone. Without ``renames`` names alone pair.
    """
    found = Alignment(left, right, taken=taken, known=known)
    if not renames:
        found.by_name(lambda a, b: True, variables=False)
        found.by_name(lambda a, b: True, variables=True)
        return found
    for coarse in (False, True):
        _pair_operators(found, left, right, coarse)
    _pair_neighbours(found, left, right, lambda a, b: a.op == b.op)
    found.by_name(lambda a, b: True, variables=False)
    _pair_neighbours(found, left, right, lambda a, b: True)
    _pair_variables(found, left, right)
    return found


def _pair_operators(found: Alignment, left: Graph, right: Graph, coarse: bool) -> None:
    if not any(found.free(variables=False)):
        return
    numbers = Numbers()
    a, b = (Fingerprints(graph, numbers, coarse=coarse) for graph in (left, right))

    def whole(of: Fingerprints) -> Key:
        return lambda node: (of.above[node], of.below[node])

    def upper(of: Fingerprints) -> Key:
        return lambda node: of.above[node]

    def lower(of: Fingerprints) -> Key:
        return lambda node: (of.below[node], node.op)

    def same_on_a_side(x: Node, y: Node) -> bool:
        return x.op == y.op and (a.above[x] == b.above[y] or a.below[x] == b.below[y])

    found.by_class((whole(a), whole(b)), variables=False)
    found.by_name(same_on_a_side, variables=False)
    found.by_class((upper(a), upper(b)), variables=False)
    found.by_class((lower(a), lower(b)), variables=False, in_order=False)
    found.by_name(lambda x, y: x.op == y.op, variables=False)


def _pair_neighbours(found: Alignment, left: Graph, right: Graph, same: Callable[[Node, Node], bool]) -> None:
    """From each pair to what stands in the same place beside it: inputs by position, and the only consumer left."""
    uses = consumers(left.nodes), consumers(right.nodes)
    heads = [(a.node, b.node) for a, b in zip(left.heads, right.heads, strict=False)]
    pending = list(found.images.items())
    for a, b in heads:
        if _may_pair(found, a, b) and same(a, b):
            found.pair(a, b)
            pending.append((a, b))
    while pending:
        a, b = pending.pop()
        near = [(x.node, y.node) for x, y in zip(a.inputs, b.inputs, strict=False)]
        some = [(n, place) for n, place in uses[0].get(a, ()) if found.free_left(n)]
        others = [(n, place) for n, place in uses[1].get(b, ()) if found.free_right(n)]
        if len(some) == 1 and len(others) == 1 and some[0][1] == others[0][1]:
            near.append((some[0][0], others[0][0]))
        for x, y in near:
            if _may_pair(found, x, y) and same(x, y):
                found.pair(x, y)
                pending.append((x, y))


def _may_pair(found: Alignment, a: Node, b: Node) -> bool:
    return VARIABLE not in (a.op, b.op) and found.free_left(a) and found.free_right(b)


def _pair_variables(found: Alignment, left: Graph, right: Graph) -> None:
    lefts, rights = _places(left, lambda node: node if node in found.images else None), _places(right, found.origins.get)

    def placed(of: Mapping[Node, list[Hashable]]) -> Key:
        return lambda node: frozenset(of.get(node, ()))

    used = {*lefts, *rights}
    found.by_class((placed(lefts), placed(rights)), variables=True, in_order=False)
    found.by_name(lambda a, b: True, variables=True)
    owners: dict[Hashable, Node] = {place: node for node, places in rights.items() for place in places}
    for node in left.variables():
        if node in used and found.free_left(node):
            twin = next((owners[place] for place in lefts[node] if place in owners), None)
            if twin is not None:
                found.pair(node, twin)
    found.by_class((lambda n: n.name, lambda n: n.name), variables=True, in_order=False)


def _places(graph: Graph, standing_for: Callable[[Node], Node | None]) -> dict[Node, list[Hashable]]:
    """Where paired operators use each variable: the operator in the left graph, and the position; and which head it is."""
    places: dict[Node, list[Hashable]] = {}
    for node in graph.nodes:
        operator = standing_for(node) if node.op != VARIABLE else None
        if operator is None:
            continue
        for position, entry in enumerate(node.inputs):
            if entry.node.op == VARIABLE:
                places.setdefault(entry.node, []).append((operator, position))
    for position, head in enumerate(graph.heads):
        if head.node.op == VARIABLE:
            places.setdefault(head.node, []).append((None, position))
    return places
