"""What two models compute alike, node by node: exactly, by identities, or region by region on the same inputs.

Both graphs become terms of one table. Where they differ they are cut at values that have one name on both sides, and what lies
between such values is a region: both sides of it compute from the values of the original, and are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name, visible_outputs
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import GraphshareError, InputError
from graphshare.execute.engines.session_model import SessionPart
from graphshare.formats.model_format import StaticType, find_format
from graphshare.formats.params.comparison import Comparison
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.terms import GraphTerms, Place, TermTable
from graphshare.ir.walk import consumers, post_order
from graphshare.ops.kernel import Array
from graphshare.rewrite.extract import extract_entries
from graphshare.verification.compare import Tolerance, compare_values, find_largest, tolerate_dtype, tolerate_other_program

_EXTENSIONS = 3
"""How often a region that departs is joined with what follows before it is said to depart: a name may have moved."""
_COMPUTED_BYTES = 1 << 28  # constants that are computed for a comparison
_EXTENDED = 8  # regions that are joined with what follows
_CANDIDATES = 16  # values that may be the one that has a name on the other side
_FLOATS = ("float64", "float32", "float16", "bfloat16")

Tolerate = Callable[[Any, Any], Tolerance]
"""Returns the tolerance of a value and what is wanted of it."""


class Operator(msgspec.Struct, frozen=True):
    """An operator of a region: what it is, and its name."""

    op: str
    name: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"


class Region(msgspec.Struct, frozen=True):
    """A part that is not the same on both sides: its ends, the values that it computes, and its nodes on either side.

    ``comparison`` is that of the end that is furthest apart, ``of_largest`` how far relative to the largest number there.
    ``tolerance`` is what was allowed of that number; ``reason`` says why nothing was compared.
    """

    ends: tuple[tuple[str, str], ...]
    nodes: tuple[Operator, ...]
    other_nodes: tuple[Operator, ...]
    comparison: Comparison | None = None
    of_largest: float | None = None
    tolerance: float = 0.0
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.comparison)

    @property
    def is_alike(self) -> bool:
        """Whether both sides have the same operators, which differ in attributes, weights or inputs."""
        return sorted(node.op for node in self.nodes) == sorted(node.op for node in self.other_nodes)


class RegionReport(msgspec.Struct, frozen=True):
    """How many operators of the original are exact in the other model, by which identities, and the regions that are not."""

    exact: int
    operators: int
    identities: Mapping[str, int]
    regions: tuple[Region, ...] = ()

    def __bool__(self) -> bool:
        return all(self.regions)

    def list_alike(self) -> frozenset[str]:
        """Return the names of operators of the original that are in a region with the same operators on both sides."""
        return frozenset(node.name for region in self.regions if region.is_alike for node in region.nodes)


class _Side:
    """One of the models: its nodes in order, and what is known of their values."""

    def __init__(self, model: Checkpoint, heads: Sequence[Entry], *, is_thorough: bool) -> None:
        self.model, self.heads = model, heads
        self.nodes = post_order(entry.node for entry in heads)
        self.order = {node: number for number, node in enumerate(self.nodes)}
        self.names = {output_name(e): e for node in self.nodes if node.op for e in visible_outputs(node)}
        inputs = [Entry(node, 0) for node in self.nodes if not node.op and not node.details.holds_value]
        kinds = find_format(model.graph).find_types(model.graph, inputs)
        self.dtypes = {node: kind.parts[0] for (node, _), kind in kinds.items()}
        self.types: Mapping[Place, StaticType] = EMPTY
        self.computed: dict[Place, tuple[str, tuple[int, ...], bytes]] = {}
        if is_thorough:
            entries = [entry for node in self.nodes for entry in visible_outputs(node)]
            self.types = find_format(model.graph).find_types(model.graph, entries, independent=True)
            self._compute_constants()

    def _compute_constants(self) -> None:
        """Compute what follows from constants alone, without optimizations; nothing where onnxruntime refuses it."""
        entries, sizes = find_format(self.model.graph).find_computable(self._part, self.types)
        fed = {(node, index): np.array(values, np.int64) for (node, index), values in sizes.items()}
        fed = {key: value[0] if key[0].op == "Size" else value for key, value in fed.items()}
        self.computed = {key: _pack(value) for key, value in fed.items()}
        small = [entry for entry in entries if self._count_bytes(entry) <= _COMPUTED_BYTES]
        try:
            values = compute_part(self.model, small, fed) if small else []
        except GraphshareError:
            return
        for entry, value in zip(small, values, strict=True):
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                self.computed[entry.node, entry.index] = _pack(value)

    @property
    def _part(self) -> Graph:
        return msgspec.structs.replace(self.model.graph, nodes=tuple(self.nodes), heads=tuple(self.heads))

    def _count_bytes(self, entry: Entry) -> int:
        kind = self.types.get((entry.node, entry.index))
        shape = None if kind is None else kind.parts[1]
        sizes = [size if isinstance(size, int) else _COMPUTED_BYTES for size in shape or ()]
        return 8 * int(np.prod(sizes, dtype=np.float64))


def _pack(value: Array) -> tuple[str, tuple[int, ...], bytes]:
    return str(value.dtype), tuple(value.shape), np.ascontiguousarray(value).tobytes()


def compute_part(model: Checkpoint, targets: Sequence[Entry], values: Mapping[Place, Array]) -> list[Any]:
    """Return the values of ``targets``, computed from ``values`` of outputs and inputs without optimizations.

    Raises:
        InputError: onnxruntime refuses the part, or fails.
    """
    format_ = find_format(model.graph)
    cuts = {key: output_name(Entry(*key)) for key in values if key[0].op}
    inputs = {key: format_.make_input(name, str(values[key].dtype), values[key].shape) for key, name in cuts.items()}
    part = extract_entries(model.graph, targets, cuts=cuts, inputs=inputs).graph
    session = SessionPart(part, part.heads, model.parameter_file, model.where, optimize=False)
    named = {cuts.get(key, key[0].name): value for key, value in values.items()}
    return session.run({name: value for name, value in named.items() if name in session.session.dtypes})


class _Plan(msgspec.Struct, eq=False):
    """The regions in an order in which each can be computed, and what is the same on both sides."""

    regions: list[_Cone]
    left: GraphTerms
    right: GraphTerms
    shared: set[int]
    places: dict[int, Entry]
    cuts: dict[int, Entry]

    def is_shared(self, terms: GraphTerms, entry: Entry) -> bool:
        """Whether the other side has a value, too."""
        return terms.of(entry) in self.shared


class _Cone(msgspec.Struct, eq=False):
    """The ends of a region, and the nodes of both sides between them and what is shared."""

    ends: list[tuple[Entry, Entry]]
    left: tuple[Node, ...]
    right: tuple[Node, ...]


class Judge:
    """Compares two models whose heads and inputs are paired, on values of the inputs by their names on the left."""

    def __init__(
        self, left: Checkpoint, right: Checkpoint, heads: Sequence[tuple[Entry, Entry]], inputs: Mapping[str, str]
    ) -> None:
        self._models = left, right
        self._heads = heads
        self._inputs = {other: name for name, other in inputs.items()}
        self._banned: set[Place] = set()  # of the left, whose names are no reason to cut
        self._closed: set[Place] = set()  # whose values cannot pass between sessions
        self._dtypes: dict[Place, str] = {}  # of the right, where they differ from the left's
        self._moved: dict[Place, Entry] = {}  # right values by those of the left that they are, under other names
        self._sides = self._read_sides(is_thorough=False)
        self._consumers = consumers(self._sides[0].nodes)

    def _read_sides(self, *, is_thorough: bool) -> tuple[_Side, _Side]:
        columns = [a for a, _ in self._heads], [b for _, b in self._heads]
        left, right = (_Side(*each, is_thorough=is_thorough) for each in zip(self._models, columns, strict=True))
        return left, right

    def find_exact(self) -> RegionReport | None:
        """Return the report of two models of which all nodes are exact; None where some are not."""
        for is_thorough in (False, True):
            if is_thorough:
                self._sides = self._read_sides(is_thorough=True)
            plan = self._make_plan()
            if plan is None:
                return None
            if not plan.regions:
                return self._report(plan, [])
        return None

    def judge(self, feeds: Mapping[str, Array], tolerate: Tolerate) -> RegionReport:
        """Return the report of all regions, computed from ``feeds``; ``tolerate`` returns the tolerance for two dtypes."""
        exact = self.find_exact()
        if exact is not None:
            return exact
        plan = self._make_plan()
        assert plan is not None
        walk = _Walk(self, feeds, tolerate)
        return self._report(*walk.run(plan))

    def _report(self, plan: _Plan, regions: Sequence[Region]) -> RegionReport:
        nodes = [node for node in self._sides[0].nodes if node.op]
        inside = {node for cone in plan.regions for node in cone.left}
        used: Counter[str] = plan.left.form.used + plan.right.form.used
        return RegionReport(sum(node not in inside for node in nodes), len(nodes), dict(used), tuple(regions))

    def _make_plan(self) -> _Plan | None:
        """Return the terms of both sides, and the regions where they differ; None where the format has no normal form."""
        table = TermTable()
        sides = []
        for side in self._sides:
            form = find_format(side.model.graph).make_normal_form(side.model.graph, table, side.types, side.computed)
            if form is None:
                return None
            sides.append(GraphTerms(form, partial(self._identify_input, side)))
        left, right = sides
        cuts: dict[int, Entry] = {}
        ends: list[tuple[Entry, Entry]] = []
        for members, pairs in self._order(self._pair_names()):
            for node in members:
                (left if node in self._sides[0].order else right).add(node)
            for a, b in pairs:
                if left.of(a) == right.of(b):
                    continue
                ends.append((a, b))
                cut = table.number("cut", len(ends))
                cuts[cut] = a
                left.terms[a.node, a.index] = cut
                dtype = self._find_other_dtype(a, b)
                other = cut if dtype is None else table.number("as", cut, dtype)
                cuts[other] = a
                right.terms[b.node, b.index] = other
        known = {(a.node, a.index, b.node, b.index) for a, b in ends}
        for a, b in self._heads:
            place = (a.node, a.index, b.node, b.index)
            if left.of(a) != right.of(b) and place not in known and right.key(b)[0] != "as":
                known.add(place)
                ends.append((a, b))
        closed = {left.terms[place] for place in self._closed if place in left.terms}
        shared = (set(left.terms.values()) & set(right.terms.values()) | cuts.keys()) - closed
        places: dict[int, Entry] = {}
        for node in self._sides[0].nodes:
            for entry in visible_outputs(node):
                places.setdefault(left.of(entry), entry)
        plan = _Plan([], left, right, shared, places, cuts)
        self._add_regions(plan, ends)
        return plan

    def _identify_input(self, side: _Side, node: Node) -> tuple[str, str | None]:
        return self._name_input(node) if side is self._sides[1] else node.name, side.dtypes.get(node)

    def _name_input(self, node: Node) -> str:
        return self._inputs.get(node.name, node.name)

    def _find_other_dtype(self, a: Entry, b: Entry) -> str | None:
        """Return the dtype of a value on the right where it is another one than on the left."""
        if (a.node, a.index) in self._dtypes:
            return self._dtypes[a.node, a.index]
        kinds = [side.types.get((e.node, e.index)) for side, e in zip(self._sides, (a, b), strict=True)]
        dtypes = [None if kind is None else kind.parts[0] for kind in kinds]
        return dtypes[1] if None not in dtypes and dtypes[0] != dtypes[1] else None

    def _pair_names(self) -> list[tuple[Entry, Entry]]:
        """Return the values that both sides have under one name, and whose types do not contradict each other."""
        left, right = self._sides
        moved = {_place(b) for b in self._moved.values()}
        pairs = []
        for name, a in left.names.items():
            b = self._moved.get(_place(a)) or right.names.get(name)
            if (
                b is None
                or (_place(b) in moved and _place(a) not in self._moved)
                or (a.node, a.index) in self._banned
                or (a.node, a.index) in self._closed
            ):
                continue
            kinds = left.types.get((a.node, a.index)), right.types.get((b.node, b.index))
            if None not in kinds and _have_other_shapes(*kinds):
                continue
            pairs.append((a, b))
        return pairs

    def _order(self, pairs: Sequence[tuple[Entry, Entry]]) -> Iterator[tuple[list[Node], list[tuple[Entry, Entry]]]]:
        """Yield the nodes of both sides, those of a pair together, after all that they need.

        Pairs that would have to come before each other are none, and are banned.
        """
        while True:
            groups = _Groups(self._sides[0].nodes, self._sides[1].nodes, pairs)
            order = groups.sort()
            if order is not None:
                yield from order
                return
            stuck = groups.find_stuck()
            self._banned |= {(a.node, a.index) for a, b in pairs if a.node in stuck}
            pairs = [(a, b) for a, b in pairs if a.node not in stuck]

    def _add_regions(self, plan: _Plan, ends: Sequence[tuple[Entry, Entry]]) -> None:
        """Add the region of each end to a plan; ends of the same nodes are in one region."""
        known: dict[tuple[tuple[Node, ...], tuple[Node, ...]], _Cone] = {}
        for a, b in ends:
            cones = self._find_cone(plan, plan.left, a, self._sides[0]), self._find_cone(plan, plan.right, b, self._sides[1])
            region = known.get(cones)
            if region is None:
                region = known[cones] = _Cone([], *cones)
                plan.regions.append(region)
            region.ends.append((a, b))

    def _find_cone(self, plan: _Plan, terms: GraphTerms, end: Entry, side: _Side) -> tuple[Node, ...]:
        """Return the operators that an end needs beyond what both sides have."""
        cone: set[Node] = set()
        pending = [end.node] if end.node.op else []
        while pending:
            node = pending.pop()
            if node not in cone:
                cone.add(node)
                pending += [e.node for e in node.inputs if e.node.op and not plan.is_shared(terms, e)]
        return tuple(sorted(cone, key=side.order.__getitem__))

    def replan(self, changes: _Changes) -> _Plan:
        """Return a plan with changes."""
        self._banned |= changes.banned
        self._closed |= changes.closed
        self._dtypes |= changes.dtypes
        self._moved |= changes.moved
        plan = self._make_plan()
        assert plan is not None
        return plan

    def allow(self, places: Iterable[Place]) -> None:
        """Let values be ends again."""
        self._banned -= set(places)

    def list_after(self, end: Entry, steps: int) -> list[Entry]:
        """Return the left values that need ``end`` by few steps, nearest first."""
        after: dict[Place, Entry] = {}
        pending = [end.node]
        for _ in range(steps):
            following = {node: None for each in pending for node, _ in self._consumers.get(each, ())}
            after.update({_place(e): e for node in following for e in islice(visible_outputs(node), 1)})
            pending = list(following)
        return list(after.values())[:_CANDIDATES]

    def list_left_inputs(self, feeds: Mapping[str, Array]) -> dict[Place, Array]:
        """Return ``feeds`` by the inputs of the left model."""
        return {(node, 0): feeds[node.name] for node in self._sides[0].nodes if not node.op and node.name in feeds}

    def list_right_inputs(self, feeds: Mapping[str, Array]) -> dict[Place, Array]:
        """Return ``feeds`` by the inputs of the right model."""
        right = self._sides[1]
        named = {node: self._name_input(node) for node in right.nodes if not node.op}
        return {(node, 0): _convert(feeds[name], right.dtypes.get(node)) for node, name in named.items() if name in feeds}

    @property
    def models(self) -> tuple[Checkpoint, Checkpoint]:
        """The models that are compared."""
        return self._models

    def is_head(self, a: Entry, b: Entry) -> bool:
        """Whether two values are outputs of the models that belong together."""
        return any((a.node, a.index, b.node, b.index) == (x.node, x.index, y.node, y.index) for x, y in self._heads)


def _have_other_shapes(a: Any, b: Any) -> bool:
    first, second = a.parts[1], b.parts[1]
    if first is None or second is None:
        return False
    unequal = any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(first, second, strict=False))
    return len(first) != len(second) or unequal


class _Groups:
    """Nodes of both sides, of which those of a pair are one group."""

    def __init__(self, left: Sequence[Node], right: Sequence[Node], pairs: Sequence[tuple[Entry, Entry]]) -> None:
        self._parents: dict[Node, Node] = {}
        for a, b in pairs:
            self._parents[self._find(b.node)] = self._find(a.node)
        self._members: dict[Node, list[Node]] = {}
        for node in (*left, *right):
            self._members.setdefault(self._find(node), []).append(node)
        self._pairs: dict[Node, list[tuple[Entry, Entry]]] = {}
        for pair in pairs:
            self._pairs.setdefault(self._find(pair[0].node), []).append(pair)
        self._waiting: dict[Node, int] = {}

    def _find(self, node: Node) -> Node:
        while node in self._parents and self._parents[node] is not node:
            node = self._parents[node]
        return node

    def sort(self) -> list[tuple[list[Node], list[tuple[Entry, Entry]]]] | None:
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


class _Changes(msgspec.Struct, eq=False):
    """What makes another plan: left values that are no ends, or do not pass between sessions, and facts of right ones.

    ``dtypes`` are those on the right where they differ; ``moved`` has the right value that a left one is, under another name.
    """

    banned: set[Place] = msgspec.field(default_factory=set)
    closed: set[Place] = msgspec.field(default_factory=set)
    dtypes: dict[Place, str] = msgspec.field(default_factory=dict)
    moved: dict[Place, Entry] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.banned or self.closed or self.dtypes or self.moved)


class _Schedule(msgspec.Struct, eq=False):
    """Which left values each region computes for itself and for later ones, and the region that uses a value last."""

    targets: list[dict[Place, Entry]]
    last_uses: dict[Place, int]


class _Walk:
    """One walk over the regions of two models, on one set of inputs."""

    def __init__(self, judge: Judge, feeds: Mapping[str, Array], tolerate: Tolerate) -> None:
        self._judge, self._feeds, self._tolerate = judge, feeds, tolerate
        self._values: dict[Place, Any] = {}
        self._judged: dict[tuple[Place, Place], Region] = {}

    def run(self, plan: _Plan) -> tuple[_Plan, list[Region]]:
        """Return the plan that was followed to its end, and what became of its regions."""
        extended = 0
        while True:
            changes = self._follow(plan)
            if changes:
                plan = self._judge.replan(changes)
                self._judged = {key: region for key, region in self._judged.items() if region}  # others may start elsewhere now
                continue
            departed = [cone for cone in plan.regions if self._departs(cone)]
            joined = next(filter(None, (self._extend(plan, cone) for cone in departed[: _EXTENDED - extended])), None)
            extended += len(departed)
            if joined is None:
                break
            plan = joined
        regions = {id(region): region for cone in plan.regions for region in [self._judged[_key(*cone.ends[0])]]}
        return plan, list(regions.values())

    def _departs(self, cone: _Cone) -> bool:
        region = self._judged[_key(*cone.ends[0])]
        return not region and not region.reason and not any(self._judge.is_head(*end) for end in cone.ends)

    def _follow(self, plan: _Plan) -> _Changes:
        """Judge the regions that are not judged yet; return what of the plan does not hold."""
        changes = _Changes()
        cones = [cone for cone in plan.regions if not all(_key(*end) in self._judged for end in cone.ends)]
        schedule = self._schedule(plan, cones)
        for number, cone in enumerate(cones):
            self._judge_cone(plan, cone, schedule.targets[number], changes)
            for place in [place for place, last in schedule.last_uses.items() if last == number]:
                self._values.pop(place, None)
        return changes

    def _extend(self, plan: _Plan, cone: _Cone) -> _Plan | None:
        """Return a plan without the ends of a region that departs, where what follows with it does not: a name has moved.

        None where that departs, too.
        """
        banned: set[Place] = set()
        moved = [_place(a) for a, b in cone.ends]
        for _ in range(_EXTENSIONS):
            banned.update(moved)
            joined = self._judge.replan(_Changes(banned=banned))
            nodes = set(cone.left) | set(cone.right)
            following = [each for each in joined.regions if nodes & {*each.left, *each.right}]
            schedule = self._schedule(joined, following)
            changes = _Changes()
            for number, each in enumerate(following):
                self._judge_cone(joined, each, schedule.targets[number], changes)
            if following and not changes and all(self._judged[_key(*each.ends[0])] for each in following):
                return joined
            moved = [_place(a) for each in following for a, b in each.ends if not self._judge.is_head(a, b)]
            if not moved or changes:
                break
        self._judge.allow(banned)
        return None

    def _schedule(self, plan: _Plan, cones: Sequence[_Cone]) -> _Schedule:
        """Return what each region has to compute of the left side so that no node is computed for two of them."""
        targets: list[dict[Place, Entry]] = []
        uses: dict[Place, int] = {}
        makers: dict[Node, int] = {}
        for number, cone in enumerate(cones):
            own: dict[Place, Entry] = {}
            targets.append(own)
            wanted = [*(a for a, _ in cone.ends), *_list_sources(plan, cone).values()]
            pending = [entry for entry in wanted if entry.node.op]
            own.update({_place(entry): entry for entry in pending if entry.node not in makers})
            while pending:
                entry = pending.pop()
                place, maker = _place(entry), makers.setdefault(entry.node, number)
                uses[place] = number
                if place in self._values:
                    own.pop(place, None)
                elif maker < number:
                    own.pop(place, None)
                    targets[maker][place] = entry
                else:
                    pending += [e for e in entry.node.inputs if e.node.op and (e.node not in makers or makers[e.node] < number)]
        return _Schedule(targets, uses)

    def _judge_cone(self, plan: _Plan, cone: _Cone, targets: Mapping[Place, Entry], changes: _Changes) -> None:
        """Judge a region, or add to ``changes`` why the plan does not hold for it."""
        right = self._judge.models[1]
        shared, sources = _list_shared(plan, cone), _list_sources(plan, cone)
        try:
            closed = self._compute_left(plan, targets)
            if closed & {_place(entry) for entry in sources.values()}:
                changes.closed |= closed
                return
            feeds = {place: _take(plan, shared[place], self._read(source)) for place, source in sources.items()}
            feeds.update(self._judge.list_right_inputs(self._feeds))
            values = compute_part(right, [b for _, b in cone.ends], feeds)
        except InputError as error:
            self._note(cone, _make_region(cone, reason=error.faults[0].message))
            return
        worst: Region | None = None
        for (a, b), value in zip(cone.ends, values, strict=True):
            wanted = self._read(a)
            if _have_other_dtypes(wanted, value) and plan.right.key(b)[0] == "cut":
                changes.dtypes[_place(a)] = str(value.dtype)
                changes.banned.discard(_place(a))
                return
            tolerance = self._tolerate(wanted, value)
            comparison = compare_values(value, wanted, tolerance)
            if not comparison and not self._judge.is_head(a, b):
                place = self._find_moved(plan, a, value)
                if place is not None:
                    changes.moved[place] = b
                    changes.banned.add(_place(a))
                    return
            region = _make_region(cone, comparison, _measure(comparison, wanted), tolerance.of_largest)
            if worst is None or _rank(region) > _rank(worst):
                worst = region
        assert worst is not None
        self._note(cone, worst)

    def _note(self, cone: _Cone, region: Region) -> None:
        for end in cone.ends:
            self._judged[_key(*end)] = region

    def _read(self, entry: Entry) -> Any:
        return self._values[_place(entry)] if entry.node.op else self._feeds.get(entry.node.name)

    def _find_moved(self, plan: _Plan, end: Entry, value: Any) -> Place | None:
        """Return the left value after ``end`` that a right one is which has its name; None where none is.

        Optimizers give the result of several operators the name of the first.
        """
        after = self._judge.list_after(end, _EXTENSIONS)
        if not isinstance(value, np.ndarray) or not after:
            return None
        try:
            known = {place: array for place, array in self._values.items() if place[0] not in {e.node for e in after}}
            values = compute_part(self._judge.models[0], after, {**known, **self._judge.list_left_inputs(self._feeds)})
        except GraphshareError:
            return None
        for entry, wanted in zip(after, values, strict=True):
            is_like = isinstance(wanted, np.ndarray) and wanted.shape == value.shape and wanted.dtype == value.dtype
            if is_like and np.any(wanted) and compare_values(value, wanted, self._tolerate(wanted, value)):
                return _place(entry)
        return None

    def _compute_left(self, plan: _Plan, targets: Mapping[Place, Entry]) -> set[Place]:
        """Compute values of the left side; return those that cannot pass between sessions."""
        wanted = {place: entry for place, entry in targets.items() if place not in self._values}
        if not wanted:
            return set()
        known = {**self._values, **self._judge.list_left_inputs(self._feeds)}
        values = compute_part(self._judge.models[0], list(wanted.values()), known)
        self._values.update(zip(wanted, values, strict=True))
        return {place for place, value in zip(wanted, values, strict=True) if not isinstance(value, np.ndarray)}


def _list_shared(plan: _Plan, cone: _Cone) -> dict[Place, Entry]:
    """Return what the right side of a region starts from."""
    starts = (entry for node in cone.right for entry in node.inputs if entry.node.op)
    shared = {_place(entry): entry for entry in starts if plan.is_shared(plan.right, entry)}
    return {
        place: entry for place, entry in shared.items() if plan.right.key(entry)[0] != "constant"
    }  # computed by either side


def _list_sources(plan: _Plan, cone: _Cone) -> dict[Place, Entry]:
    """Return the left values of what the right side of a region starts from."""
    shared = _list_shared(plan, cone)
    return {place: plan.cuts.get(plan.right.of(e)) or plan.places[plan.right.of(e)] for place, e in shared.items()}


def _place(entry: Entry) -> Place:
    return entry.node, entry.index


def _key(a: Entry, b: Entry) -> tuple[Place, Place]:
    return _place(a), _place(b)


def _rank(region: Region) -> tuple[bool, float]:
    return not region, float("inf") if region.of_largest is None else region.of_largest


def _measure(comparison: Comparison, wanted: Any) -> float | None:
    """Return how far apart values are relative to the largest number; None where that is no number."""
    if not isinstance(wanted, np.ndarray) or comparison.max_abs == float("inf"):
        return None
    return comparison.max_abs / (find_largest(wanted) or 1.0) if comparison.max_abs else 0.0


def _have_other_dtypes(a: Any, b: Any) -> bool:
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype != b.dtype


def _take(plan: _Plan, entry: Entry, value: Any) -> Any:
    """Return a value of the left side in the dtype that it has on the right."""
    key = plan.right.key(entry)
    return _convert(value, key[2]) if key[0] == "as" else value


def _convert(value: Any, dtype: str | None) -> Any:
    is_other = isinstance(value, np.ndarray) and value.dtype.kind != "O" and dtype not in (None, str(value.dtype))
    return value.astype(dtype) if is_other else value


def _make_region(
    cone: _Cone,
    comparison: Comparison | None = None,
    of_largest: float | None = None,
    tolerance: float = 0.0,
    *,
    reason: str = "",
) -> Region:
    ends = tuple((output_name(a), output_name(b)) for a, b in cone.ends)
    nodes, others = (tuple(Operator(node.op, node.name) for node in side) for side in (cone.left, cone.right))
    return Region(ends, nodes, others, comparison, of_largest, tolerance, reason)


def tolerate_region(dtype: str, atol: float, rtol: float) -> Tolerate:
    """Return what returns the tolerance of an end: by ``dtype`` if it is chosen, else by the less precise one of its values."""

    def tolerate(wanted: Any, value: Any) -> Tolerance:
        dtypes = [str(each.dtype) for each in (wanted, value) if isinstance(each, np.ndarray)]
        coarsest = dtype or next((name for name in reversed(_FLOATS) if name in dtypes), "")
        if dtype or coarsest in ("float16", "bfloat16"):
            return tolerate_dtype(coarsest, atol, rtol)
        return tolerate_other_program(atol, rtol)

    return tolerate
