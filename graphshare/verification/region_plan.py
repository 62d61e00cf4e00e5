"""Where two models differ: both graphs as terms of one table, cut into regions at values that have one name on both sides.

A value that has one name and another term on both sides ends a region, and counts as the same value for what follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import GraphshareError, RefusedError
from graphshare.execute.engines.session_model import SessionPart
from graphshare.execute.prepare.declared_inputs import convert_inputs, unify_sizes
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.prepare import unique_names
from graphshare.formats.model_format import find_format, has_kernels
from graphshare.formats.params.records import PRECISIONS
from graphshare.ir.graph import Entry, Node, Rewrite
from graphshare.ir.terms import Facts, GraphTerms, Place, TermTable
from graphshare.ir.walk import consumers, post_order
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.rewrite.extract import extract_entries
from graphshare.verification.forms import compute_graph, make_form

_COMPUTED_BYTES = 1 << 28  # of a constant that is computed for a comparison
FLOATS = frozenset(PRECISIONS)
"""Dtypes that one value may have in two models."""
_TITLES = ("the original", "the other model")
_CANDIDATES = 16  # values that may be the one that has a name on the other side

Pair = tuple[Entry, Entry]
"""A value of the left model, and that of the right one which is compared with it."""


def place_of(entry: Entry) -> Place:
    """Return the place of an entry, which is equal for entries of one value."""
    return entry.node, entry.index


def compute_part(model: Checkpoint, targets: Sequence[Entry], values: Mapping[Place, Array]) -> list[Any]:
    """Return the values of ``targets``, computed from ``values`` of outputs and inputs without optimizations.

    Raises:
        InputError: onnxruntime refuses the part.
        RefusedError: it fails, or a kernel does.
    """
    places = [place for place in values if place[0].op]
    names = dict(zip(places, unique_names([output_name(Entry(*place)) for place in places]), strict=True))
    rewrite, inputs = cut_part(model, targets, values, names)
    part = rewrite.graph
    if has_kernels(part):
        fed = {inputs.get(place, place[0]): value for place, value in values.items()}
        return compute_graph(part, {node: fed[node] for node in part.variables() if node in fed}, model.parameter_file)
    session = SessionPart(part, part.heads, model.parameter_file, model.where, optimize=False)
    named = {inputs.get(place, place[0]).name: value for place, value in values.items()}
    taken = {name: value for name, value in named.items() if name in session.session.dtypes}
    return session.run(convert_inputs(session.session, taken))


def cut_part(
    model: Checkpoint,
    targets: Sequence[Entry],
    values: Mapping[Place, Array],
    names: Mapping[Place, str],
    constants: Collection[str] = (),
) -> tuple[Rewrite, Mapping[Place, Node]]:
    """Cut out what ``targets`` need beyond the places of ``names``, and return the variables that take their values.

    Places with one name have one input, or parameter if it is one of ``constants``.
    """
    format_, inputs = find_format(model.graph), dict[str, Node]()
    for place, name in names.items():
        dtype, shape = "string" if values[place].dtype.kind == "O" else str(values[place].dtype), values[place].shape
        is_constant = name in constants
        node = (
            format_.make_parameter(model.graph, name, dtype, shape) if is_constant else format_.make_input(name, dtype, shape)
        )
        inputs.setdefault(name, node)
    variables = {place: inputs[name] for place, name in names.items()}
    return extract_entries(model.graph, targets, cuts=names, inputs=variables), variables


class Side:
    """One of the models: its operators in order, and what follows of its values from its inputs alone, once that is read."""

    def __init__(self, model: Checkpoint, heads: Sequence[Entry]) -> None:
        self.model = model
        self.nodes = post_order(entry.node for entry in heads)
        self.order = {node: number for number, node in enumerate(self.nodes)}
        outputs = [e for node in self.nodes if node.op for e in visible_outputs(node)]
        counts = Counter(map(output_name, outputs))
        self.names = {name: e for e in outputs if counts[name := output_name(e)] == 1}
        inputs = [Entry(node, 0) for node in self.nodes if not node.op and not node.details.holds_value]
        kinds = find_format(model.graph).find_types(model.graph, inputs)
        self.dtypes = {node: kind.parts[0] for (node, _), kind in kinds.items()}
        self.facts = Facts()
        self._heads = tuple(heads)

    def read_facts(self, shapes: Mapping[str, GivenShape]) -> None:
        """Infer types from inputs of these shapes, and compute constants; none where onnxruntime refuses it."""
        graph, format_ = self.model.graph, find_format(self.model.graph)
        entries = [entry for node in self.nodes for entry in visible_outputs(node)]
        types = format_.find_types(graph, entries, shapes=shapes, independent=True)
        self.facts = Facts(types)
        part = msgspec.structs.replace(graph, nodes=tuple(self.nodes), heads=self._heads)
        found, sizes = format_.find_computable(part, types)
        fed = {place: np.array(value[0] if place[0].op == "Size" else value, np.int64) for place, value in sizes.items()}
        wanted = [entry for entry in found if self._count_bytes(entry) <= _COMPUTED_BYTES]
        try:
            values = compute_part(self.model, wanted, fed) if wanted else []
        except GraphshareError:
            values, wanted = [], []
        known = {**fed, **dict(zip(map(place_of, wanted), values, strict=True))}
        arrays = {
            place: value for place, value in known.items() if isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
        }
        computed = {place: (str(x.dtype), x.shape, np.ascontiguousarray(x).tobytes()) for place, x in arrays.items()}
        self.facts = Facts(types, computed)

    def find_parts(self, entry: Entry) -> tuple[Any, Any]:
        """Return the dtype and the shape of a value, each None where it is not known."""
        kind = self.facts.types.get(place_of(entry))
        return (None, None) if kind is None else kind.parts

    def _count_bytes(self, entry: Entry) -> int:
        sizes = [size if isinstance(size, int) else _COMPUTED_BYTES for size in self.find_parts(entry)[1] or ()]
        return 8 * int(np.prod(sizes, dtype=np.float64))


class Cone(msgspec.Struct, eq=False):
    """The ends of a region, and the operators of both sides between them and what is the same on both."""

    ends: list[Pair]
    left: tuple[Node, ...]
    right: tuple[Node, ...]


class PlanChanges(msgspec.Struct, eq=False):
    """What makes another plan: left values that end no region, or do not pass between sessions, and facts of right ones.

    ``dtypes`` are those on the right where they differ; ``moved`` has the right value that a left one is, under another name.
    """

    banned: set[Place] = msgspec.field(default_factory=set)
    closed: set[Place] = msgspec.field(default_factory=set)
    dtypes: dict[Place, str] = msgspec.field(default_factory=dict)
    moved: dict[Place, Entry] = msgspec.field(default_factory=dict)

    def add(self, other: PlanChanges) -> bool:
        """Add those of another one; return whether there were new ones."""
        before = [len(each) for each in (self.banned, self.closed, self.dtypes, self.moved)]
        self.banned |= other.banned
        self.closed |= other.closed
        self.dtypes |= other.dtypes
        self.moved |= other.moved
        return before != [len(each) for each in (self.banned, self.closed, self.dtypes, self.moved)]


class RegionPlan(msgspec.Struct, eq=False):
    """The regions in an order in which each can be computed, and the terms of both sides.

    ``sources`` has the left value of each term that both sides have.
    """

    cones: list[Cone]
    left: GraphTerms
    right: GraphTerms
    sources: dict[int, Entry]

    def list_sources(self, cone: Cone) -> dict[Place, tuple[Entry, Entry]]:
        """Return what the right side of a region starts from, by place: the value there, and that of the left which it is.

        Constants are not among them: either side has its own.
        """
        starts = (e for node in cone.right for e in node.inputs if e.node.op and self.right.key(e)[0] != "constant")
        return {place_of(e): (e, self.sources[self.right.of(e)]) for e in starts if self.right.of(e) in self.sources}

    def find_dtype(self, entry: Entry) -> str | None:
        """Return the dtype of a right value that is one of the left in another dtype; None for others."""
        key = self.right.key(entry)
        return key[2] if key[0] == "as" else None


class Planner:
    """Plans the comparison of two models whose heads and inputs are paired."""

    def __init__(self, left: Checkpoint, right: Checkpoint, heads: Sequence[Pair], inputs: Mapping[str, str]) -> None:
        """``inputs`` has the name on the right of each input of the left model."""
        self.heads = heads
        self.sides = Side(left, [a for a, _ in heads]), Side(right, [b for _, b in heads])
        self._is_mixed = find_format(left.graph) is not find_format(right.graph)
        if self._is_mixed:  # inputs are the same, though one format has no types
            self.sides[0].dtypes = self.sides[1].dtypes = {}
        self._inputs = {other: name for name, other in inputs.items()}
        self._changes = PlanChanges()
        self._consumers = consumers(self.sides[0].nodes)

    def name_input(self, node: Node) -> str:
        """Return the name on the left of an input of the right model."""
        return self._inputs.get(node.name, node.name)

    def is_head(self, end: Pair) -> bool:
        """Whether two values are outputs of the models that belong together."""
        return tuple(map(place_of, end)) in {tuple(map(place_of, head)) for head in self.heads}

    def list_after(self, end: Entry, steps: int) -> list[Entry]:
        """Return the left values that need ``end`` by few steps, nearest first."""
        after: dict[Place, Entry] = {}
        pending = [end.node]
        for _ in range(steps):
            pending = list(dict.fromkeys(node for each in pending for node, _ in self._consumers.get(each, ())))
            after.update({place_of(e): e for node in pending for e in islice(visible_outputs(node), 1)})
        return list(after.values())[:_CANDIDATES]

    def read_facts(self) -> None:
        """Read the facts of both models at the sizes that either fixes of an input."""
        left, right = (side.model.graph for side in self.sides)
        names = {name: other for other, name in self._inputs.items()}
        try:
            sizes = [unify_sizes((left, right), names, {}, _TITLES), unify_sizes((right, left), self._inputs, {}, _TITLES)]
        except RefusedError:  # nothing will be computed
            sizes = [{}, {}]
        for side, own in zip(self.sides, sizes, strict=True):
            side.read_facts(own)

    def learn(self, changes: PlanChanges) -> bool:
        """Keep changes for the next plan; return whether there were new ones."""
        return self._changes.add(changes)

    def make_plan(self) -> RegionPlan | None:
        """Return the terms of both sides, and the regions where they differ; None where the format has no normal form."""
        table = TermTable()
        forms = [make_form(side.model, table, side.facts) for side in self.sides]
        if forms[0] is None or forms[1] is None:
            return None
        left = GraphTerms(forms[0], lambda node: (node.name, self.sides[0].dtypes.get(node)))
        right = GraphTerms(forms[1], lambda node: (self.name_input(node), self.sides[1].dtypes.get(node)))
        ends: dict[tuple[Place, Place], Pair] = {}
        for members, pairs in self._order(self._pair_names()):
            for node in members:  # one that both models share, as a rewrite in memory does, is of both
                for terms, side in zip((left, right), self.sides, strict=True):
                    if node in side.order:
                        terms.add(node)
            for a, b in pairs:
                if left.of(a) != right.of(b):
                    ends[place_of(a), place_of(b)] = a, b
                    cut = left.terms[place_of(a)] = table.number("cut", len(ends))
                    dtype = self._find_other_dtype(a, b)
                    right.terms[place_of(b)] = cut if dtype is None else table.number("as", cut, dtype)
        for a, b in self.heads:
            if left.of(a) != right.of(b):
                ends.setdefault((place_of(a), place_of(b)), (a, b))
        return self._divide(left, right, ends.values())

    def _divide(self, left: GraphTerms, right: GraphTerms, ends: Iterable[Pair]) -> RegionPlan:
        """Return the plan with the region of each end; ends of the same operators are in one."""
        closed = {left.terms[place] for place in self._changes.closed}
        known: dict[int, Entry] = {}
        for entry in (entry for node in self.sides[0].nodes for entry in visible_outputs(node)):
            known.setdefault(left.of(entry), entry)
        sources = {term: known[term] for term in right.terms.values() if term in known}
        for term in set(right.terms.values()):
            key = right.form.table.keys[term]
            if key[0] == "as":  # a value in another dtype, which either side starts from
                sources[term] = sources[key[1]] = known[key[1]]
        plan = RegionPlan([], left, right, {term: entry for term, entry in sources.items() if term not in closed})
        cones: dict[tuple[tuple[Node, ...], ...], Cone] = {}
        for end in ends:
            parts = [
                self._find_cone(plan, terms, entry, side)
                for terms, entry, side in zip((left, right), end, self.sides, strict=True)
            ]
            cone = cones.get(tuple(parts))
            if cone is None:
                cone = cones[tuple(parts)] = Cone([], *parts)
                plan.cones.append(cone)
            cone.ends.append(end)
        return plan

    def _find_cone(self, plan: RegionPlan, terms: GraphTerms, end: Entry, side: Side) -> tuple[Node, ...]:
        """Return the operators that an end needs beyond what both sides have."""
        cone: set[Node] = set()
        pending = [end.node] if end.node.op else []
        while pending:
            node = pending.pop()
            if node not in cone:
                cone.add(node)
                pending += [e.node for e in node.inputs if e.node.op and terms.of(e) not in plan.sources]
        return tuple(sorted(cone, key=side.order.__getitem__))

    def _find_other_dtype(self, a: Entry, b: Entry) -> str | None:
        """Return the dtype of a value on the right where it is another one than on the left."""
        dtypes = [side.find_parts(e)[0] for side, e in zip(self.sides, (a, b), strict=True)]
        is_known = None not in dtypes or (self._is_mixed and dtypes[1] in FLOATS)
        known = dtypes[1] if is_known and dtypes[0] != dtypes[1] else None
        return self._changes.dtypes.get(place_of(a), known)

    def _pair_names(self) -> list[Pair]:
        """Return the values that both sides have under one name, and whose shapes do not contradict each other."""
        left, right = self.sides
        moved = {place_of(entry) for entry in self._changes.moved.values()}
        pairs = []
        for name, a in left.names.items():
            own = self._changes.moved.get(place_of(a))
            b = own or right.names.get(name)
            is_free = own is not None or (
                place_of(a) not in self._changes.banned and b is not None and place_of(b) not in moved
            )
            if b is None or not is_free or place_of(a) in self._changes.closed:
                continue
            (dtype, shape), (other, sizes) = left.find_parts(a), right.find_parts(b)
            is_number = dtype == other or None in (dtype, other) or {dtype, other} <= FLOATS
            if is_number and not _have_other_shapes(shape, sizes):
                pairs.append((a, b))
        return pairs

    def _order(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[Node], list[Pair]]]:
        """Yield the nodes of both sides, those of a pair together, after all that they need.

        Pairs that would have to come before each other are none, and are banned.
        """
        while True:
            groups = _Groups(self.sides[0].nodes, self.sides[1].nodes, pairs)
            order = groups.sort()
            if order is not None:
                yield from order
                return
            stuck = groups.find_stuck()
            self._changes.banned |= {place_of(a) for a, _ in pairs if a.node in stuck}
            pairs = [(a, b) for a, b in pairs if a.node not in stuck]


def _have_other_shapes(first: Sequence[object] | None, second: Sequence[object] | None) -> bool:
    if first is None or second is None:
        return False
    sizes = zip(first, second, strict=False)
    return len(first) != len(second) or any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in sizes)


class _Groups:
    """Nodes of both sides, of which those of a pair are one group."""

    def __init__(self, left: Sequence[Node], right: Sequence[Node], pairs: Sequence[Pair]) -> None:
        self._parents: dict[Node, Node] = {}
        for a, b in pairs:
            self._parents[self._find(b.node)] = self._find(a.node)
        self._members: dict[Node, list[Node]] = {}
        for node in dict.fromkeys((*left, *right)):
            self._members.setdefault(self._find(node), []).append(node)
        self._pairs: dict[Node, list[Pair]] = {}
        for pair in pairs:
            self._pairs.setdefault(self._find(pair[0].node), []).append(pair)
        self._waiting: dict[Node, int] = {}

    def _find(self, node: Node) -> Node:
        while node in self._parents and self._parents[node] is not node:
            node = self._parents[node]
        return node

    def sort(self) -> list[tuple[list[Node], list[Pair]]] | None:
        """Return the groups in topological order, each with its pairs; None where there is a cycle."""
        followers: dict[Node, list[Node]] = {}
        for root, members in self._members.items():
            needs = {self._find(each) for node in members for each in _list_needed(node)} - {root}
            self._waiting[root] = len(needs)
            for need in needs:
                followers.setdefault(need, []).append(root)
        numbers = {root: number for number, root in enumerate(self._members)}
        roots = {number: root for root, number in numbers.items()}
        ready = [numbers[root] for root, count in self._waiting.items() if not count]
        ready.sort()
        order = []
        while ready:
            root = roots[heappop(ready)]
            del self._waiting[root]
            order.append((self._members[root], self._pairs.get(root, [])))
            for follower in followers.get(root, ()):
                self._waiting[follower] -= 1
                if not self._waiting[follower]:
                    heappush(ready, numbers[follower])
        return None if self._waiting or any(self._needs_itself(members) for members, _ in order) else order

    def _needs_itself(self, members: Sequence[Node]) -> bool:
        own = set(members)
        return len(members) > 1 and any(each in own for node in members for each in _list_needed(node))

    def find_stuck(self) -> set[Node]:
        """Return the nodes of the first groups that wait for each other, or that need themselves."""
        roots = [root for root in self._waiting if len(self._members[root]) > 1] or [
            root for root, members in self._members.items() if self._needs_itself(members)
        ]
        return {node for root in roots[:1] for node in self._members[root]}


def _list_needed(node: Node) -> Iterator[Node]:
    yield from (entry.node for entry in node.inputs)
    yield from node.control_deps
