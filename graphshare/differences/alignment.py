"""Alignment of two graphs: the counterpart of each node, by structure first and by name second.

Every step is linear in the graphs and pairs only nodes that no earlier step paired. Operators come
first, paired by:

1. equal inputs and equal uses; several such operators by equal names, the rest in order; 2. equal names, and either
equal inputs or equal uses, so that the edit is on one side only; 3. equal inputs, then equal uses, where these identify
a node; 4. equal names and operators; 5. steps 1 to 4 again without attributes, for files that write the same attributes
differently; 6. the same position beside a paired node; 7. equal names alone, then the same position alone: the operator
was replaced.

Variables follow, paired by their uses in paired operators, by names, and by any use.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from graphshare.ir.compare import make_content_key
from graphshare.ir.graph import EMPTY, NO_DETAILS, Entry, Graph, Node
from graphshare.ir.walk import Body, consumers, count_inputs, list_bodies, own_inputs, topological
from graphshare.progress import track_batches
from graphshare.text.names import index_unique

Key = Callable[[Node], Hashable]


class Alignment:
    """Pairs of nodes: ``images`` maps nodes of the left graph to counterparts in the right one,
    ``origins`` back.
    """

    def __init__(
        self,
        left: Graph,
        right: Graph,
        *,
        taken: Iterable[Node] = (),
        known: Mapping[Node, Node] | None = None,
    ):
        self.images: dict[Node, Node] = dict(known or {})
        self.origins: dict[Node, Node] = {b: a for a, b in self.images.items()}
        self._lefts, self._rights = left, right
        self._taken = set(taken)

    def pair(self, a: Node, b: Node) -> bool:
        """Pair two nodes unless one has a counterpart; return whether they were paired."""
        if not self.is_free_left(a) or not self.is_free_right(b):
            return False
        self.images[a], self.origins[b] = b, a
        return True

    def is_free_left(self, node: Node) -> bool:
        return node not in self.images and node not in self._taken

    def is_free_right(self, node: Node) -> bool:
        return node not in self.origins and node not in self._taken

    def free_nodes(self, *, variables: bool) -> tuple[list[Node], list[Node]]:
        lefts = [node for node in self._lefts.nodes if node.is_variable == variables]
        rights = [node for node in self._rights.nodes if node.is_variable == variables]
        return list(filter(self.is_free_left, lefts)), list(filter(self.is_free_right, rights))

    def pair_by_key(self, key: tuple[Key, Key], *, variables: bool, in_order: bool = True) -> None:
        """Pair nodes with equal keys, first by equal names, then in order if the counts are equal."""
        lefts, rights = self.free_nodes(variables=variables)
        classes: dict[Hashable, tuple[list[Node], list[Node]]] = {}
        for node in lefts:
            classes.setdefault(key[0](node), ([], []))[0].append(node)
        for node in rights:
            members = classes.get(key[1](node))
            if members is not None:
                members[1].append(node)
        for left_nodes, right_nodes in classes.values():
            self._pair_class(left_nodes, right_nodes, in_order)

    def _pair_class(self, lefts: Sequence[Node], rights: Sequence[Node], in_order: bool) -> None:
        if not rights:
            return
        # In reverse, so that pop() hands out nodes with the same name in file order.
        by_name = index_by_name(reversed(rights))
        for node in lefts:
            twins = by_name.get(node.name)
            if twins:
                self.pair(node, twins.pop())
        lefts, rights = [*filter(self.is_free_left, lefts)], [*filter(self.is_free_right, rights)]
        is_unambiguous = in_order or len(lefts) == 1
        if is_unambiguous and len(lefts) == len(rights):
            for a, b in zip(lefts, rights, strict=True):
                self.pair(a, b)

    def pair_by_name(self, same: Callable[[Node, Node], bool], *, variables: bool) -> None:
        """Pair free nodes whose name is equal and unique on both sides, where ``same`` returns
        true.
        """
        lefts, rights = (
            index_unique((node.name, node) for node in nodes)
            for nodes in self.free_nodes(variables=variables)
        )
        for name, node in lefts.items():
            twin = rights.get(name)
            if twin is not None and same(node, twin):
                self.pair(node, twin)


def index_by_name(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Return the nodes with each name, in order."""
    index: dict[str, list[Node]] = {}
    for node in nodes:
        index.setdefault(node.name, []).append(node)
    return index


def align(
    left: Graph,
    right: Graph,
    *,
    known: Mapping[Node, Node] | None = None,
    taken: Iterable[Node] = (),
    renames: bool = True,
) -> Alignment:
    """Pair the nodes of ``left`` with their counterparts in ``right``.

    ``known`` pairs are kept; ``taken`` nodes are not paired. Without ``renames`` only equal names
    are paired.
    """
    alignment = Alignment(left, right, taken=taken, known=known)
    if not renames:
        alignment.pair_by_name(lambda a, b: True, variables=False)
        alignment.pair_by_name(lambda a, b: True, variables=True)
        return alignment
    for coarse in (False, True):
        _pair_operators(alignment, left, right, coarse)
    _pair_neighbours(alignment, left, right, lambda a, b: a.op == b.op)
    alignment.pair_by_name(lambda a, b: True, variables=False)
    _pair_neighbours(alignment, left, right, lambda a, b: True)
    _pair_variables(alignment, left, right)
    return alignment


def _pair_operators(alignment: Alignment, left: Graph, right: Graph, coarse: bool) -> None:
    if not any(alignment.free_nodes(variables=False)):
        return
    numbers = KeyNumbers()
    a, b = (Fingerprints(graph, numbers, coarse=coarse) for graph in (left, right))

    def key_by_both(side: Fingerprints) -> Key:
        return lambda node: (side.above[node], side.below[node])

    def key_by_inputs(side: Fingerprints) -> Key:
        return lambda node: side.above[node]

    def key_by_uses(side: Fingerprints) -> Key:
        return lambda node: (side.below[node], node.op)

    def is_same_on_one_side(x: Node, y: Node) -> bool:
        return x.op == y.op and (a.above[x] == b.above[y] or a.below[x] == b.below[y])

    alignment.pair_by_key((key_by_both(a), key_by_both(b)), variables=False)
    alignment.pair_by_name(is_same_on_one_side, variables=False)
    alignment.pair_by_key((key_by_inputs(a), key_by_inputs(b)), variables=False)
    # Uses alone say little about a computation, so nodes with equal uses are not paired by order.
    alignment.pair_by_key((key_by_uses(a), key_by_uses(b)), variables=False, in_order=False)
    alignment.pair_by_name(lambda x, y: x.op == y.op, variables=False)


def _pair_neighbours(
    alignment: Alignment, left: Graph, right: Graph, same: Callable[[Node, Node], bool]
) -> None:
    """Pair inputs at the same position, and consumers if each side has one free."""
    uses = consumers(left.nodes), consumers(right.nodes)
    pending = list(alignment.images.items())

    def pair(nodes: Iterable[tuple[Node, Node]]) -> None:
        for a, b in nodes:
            if _may_pair(alignment, a, b) and same(a, b):
                alignment.pair(a, b)
                pending.append((a, b))

    pair((a.node, b.node) for a, b in zip(left.heads, right.heads, strict=False))
    while pending:
        a, b = pending.pop()
        near = [(x.node, y.node) for x, y in zip(own_inputs(a), own_inputs(b), strict=False)]
        left_users = [(n, place) for n, place in uses[0].get(a, ()) if alignment.is_free_left(n)]
        right_users = [(n, place) for n, place in uses[1].get(b, ()) if alignment.is_free_right(n)]
        if len(left_users) == len(right_users) == 1:
            (x, place), (y, other_place) = left_users[0], right_users[0]
            if place == other_place:
                near.append((x, y))
        pair(near)


def _may_pair(alignment: Alignment, a: Node, b: Node) -> bool:
    return (
        not (a.is_variable or b.is_variable)
        and alignment.is_free_left(a)
        and alignment.is_free_right(b)
    )


def _pair_variables(alignment: Alignment, left: Graph, right: Graph) -> None:
    numbers = KeyNumbers()
    lefts = _find_uses(left, lambda node: node if node in alignment.images else None, numbers)
    rights = _find_uses(right, alignment.origins.get, numbers)

    def key_by_uses(uses: Mapping[Node, list[Hashable]]) -> Key:
        return lambda node: frozenset(uses.get(node, ()))

    alignment.pair_by_key((key_by_uses(lefts), key_by_uses(rights)), variables=True, in_order=False)
    alignment.pair_by_name(lambda a, b: True, variables=True)
    # The remaining variables were tied or untied: any use in common makes a pair.
    owners: dict[Hashable, Node] = {use: node for node, uses in rights.items() for use in uses}
    for node in left.variables():
        twins = [owners[use] for use in lefts.get(node, ()) if use in owners]
        if twins:
            alignment.pair(node, twins[0])
    alignment.pair_by_key((lambda n: n.name, lambda n: n.name), variables=True, in_order=False)


def _find_uses(
    graph: Graph, left_operator: Callable[[Node], Node | None], numbers: KeyNumbers
) -> dict[Node, list[Hashable]]:
    """Return the uses of each variable: (left operator, place), and positions of heads."""
    uses: dict[Node, list[Hashable]] = {}
    for node in graph.nodes:
        if node.is_variable:
            continue
        operator = left_operator(node)
        if operator is None:
            continue
        for place, entry in zip(list_places(node, numbers), node.inputs, strict=True):
            if entry.node.is_variable:
                uses.setdefault(entry.node, []).append((operator, place))
    for position, head in enumerate(graph.heads):
        if head.node.is_variable:
            uses.setdefault(head.node, []).append((None, position))
    return uses


def align_bodies(
    a: Node, b: Node, images: Mapping[Node, Node]
) -> Iterator[tuple[str, Body, Body, Mapping[Node, Node]]]:
    """Yield the subgraphs that two nodes have under the same name, with the pairs of their nodes.

    ``images`` are pairs in the enclosing graphs: two captures of such a pair are a pair, too.
    """
    rights = list_bodies(b)
    for key, x in list_bodies(a).items():
        if key not in rights:
            continue
        y = rights[key]
        # One body on both sides: align() would pair each node with itself, so only captures matter.
        if x.graph is y.graph:
            yield key, x, y, dict(zip(x.captured, y.captured, strict=True))
            continue
        captures: dict[tuple[Node | None, int], Node] = {
            (entry.node, entry.index): capture for capture, entry in y.captured.items()
        }
        known: dict[Node, Node] = {}
        for capture, entry in x.captured.items():
            twin = captures.get((images.get(entry.node), entry.index))
            if twin is not None:
                known[capture] = twin
        yield key, x, y, align(x.graph, y.graph, known=known).images


def list_counterparts(a: Node, b: Node, images: Mapping[Node, Node]) -> Sequence[Entry | None]:
    """Return the input of ``b`` for each input of ``a``, by position or by its use in the subgraphs
    that capture it.
    """
    inputs: list[Entry | None] = [
        y for x, y in zip_longest(own_inputs(a), own_inputs(b)) if x is not None
    ]
    aligned = {key: (right, inner) for key, _, right, inner in align_bodies(a, b, images)}
    for key, left in list_bodies(a).items():
        right, inner = aligned.get(key, (left, EMPTY))
        inputs += [
            right.captured.get(inner[capture]) if capture in inner else None
            for capture in left.captured
        ]
    return inputs


class KeyNumbers:
    """Numbers for distinct keys, the same in both graphs."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


class Fingerprints:
    """``above`` numbers each node by everything that it is computed from, ``below`` by all uses of
    its outputs.

    All variables have one number above, except in subgraphs. ``coarse`` ignores attributes,
    for operators written differently. ``around`` numbers the values that a subgraph captures.
    """

    def __init__(
        self,
        graph: Graph,
        numbers: KeyNumbers,
        *,
        coarse: bool = False,
        around: Mapping[Node, int] = EMPTY,
    ) -> None:
        order = topological(graph)
        kinds = _number_operators(order, numbers, coarse)
        above = self.above = dict(around)
        self._numbers, self._coarse = numbers, coarse
        self._bodies: dict[Node, dict[str, tuple[Body, Fingerprints]]] = {}
        for node in track_batches(order, "comparing", "nodes"):
            if around and node in around:
                continue
            inputs = tuple([(above[entry.node], entry.index) for entry in own_inputs(node)])
            controls = tuple([above[dep] for dep in node.control_deps])
            bodies = self._number_bodies(node) if node.subgraphs else ()
            above[node] = numbers.of(("above", kinds[node], inputs, controls, bodies))
        self.below = self._number_uses(graph, order, kinds)

    def _number_bodies(self, node: Node) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        keys = []
        self._bodies[node] = {}
        for name, body in sorted(list_bodies(node).items(), key=lambda item: item[0]):
            around = {
                capture: self._numbers.of(("capture", self.above[entry.node], entry.index))
                for capture, entry in body.captured.items()
            }
            inner = Fingerprints(body.graph, self._numbers, coarse=self._coarse, around=around)
            self._bodies[node][name] = body, inner
            keys.append(
                (name, tuple((inner.above[head.node], head.index) for head in body.graph.heads))
            )
        return tuple(keys)

    def _number_uses(
        self, graph: Graph, order: Sequence[Node], kinds: Mapping[Node, int]
    ) -> dict[Node, int]:
        numbers = self._numbers
        uses: dict[Node, list[tuple[int, int, int]]] = {}
        for position, head in enumerate(graph.heads):
            # Contexts and input positions are never negative: heads, control and captures use these
            # numbers.
            uses.setdefault(head.node, []).append((-1, position, head.index))
        below: dict[Node, int] = {}
        for node in track_batches(order[::-1], "comparing", "nodes"):
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
    """Return the place of each input: its position, or a number for the use of a captured value."""
    if not node.subgraphs:
        return range(len(node.inputs))
    places: list[Hashable] = list(range(count_inputs(node)))
    for name, body in list_bodies(node).items():
        below = Fingerprints(body.graph, numbers, around=dict.fromkeys(body.captured, -1)).below
        places += [(name, below[capture]) for capture in body.captured]
    return places


def _number_operators(order: Sequence[Node], numbers: KeyNumbers, coarse: bool) -> dict[Node, int]:
    """With ``coarse`` only the operator and its number of subgraphs count."""
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
