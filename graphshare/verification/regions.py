"""Two models judged region by region: both sides of each compute on the same inputs, which are values of the original.

What both models have exactly is not compared, and what lies between is cut into regions (:mod:`.region_plan`).

A plan is a guess from names and types, and a run may contradict it: a name stands for another value on the right, a value is no
array, a dtype or a rank shows. The walk notes such a change and follows a new plan, until a plan teaches nothing new. What was
judged before is kept where it starts from the same values in the new plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, GraphshareError, InputError, MemoryLimitError, RefusedError
from graphshare.formats.params.comparison import Comparison
from graphshare.formats.params.records import find_coarsest
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.verification.bodies import choose_bodies, find_decided, open_bodies, pair_owners
from graphshare.verification.compare import (
    Tolerance,
    Tolerate,
    compare_values,
    find_largest,
    tolerate_dtype,
    tolerate_other_program,
)
from graphshare.verification.other_inputs import has_other_values, is_alike, try_other_inputs
from graphshare.verification.region_plan import (
    FLOATS,
    Cone,
    Pair,
    PlanChanges,
    Planner,
    RegionPlan,
    cast_value,
    compute_part,
    get_place,
)

_Key = tuple[Place, Place]
_Start = tuple[tuple[Node, ...], tuple[Node, ...], Mapping[Place, tuple[Place, str | None]]]
_STEPS = 6  # operators after a value whose result may have its name on the other side, Identities among them


class Operator(msgspec.Struct, frozen=True):
    """An operator of a region: what it is, and its name."""

    op: str
    name: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"


class Region(msgspec.Struct, frozen=True):
    """A part that is not the same on both sides: its ends, the values that it computes, and its nodes on either side.

    ``comparison`` is that of the end that is furthest apart, ``of_largest`` how far relative to the largest number there.
    ``tolerance`` is what was allowed of that number; ``reason`` is why nothing was compared, ``place`` the body that it is in.
    ``hidden`` is what equal values do not show, in words, and ``switches`` are the names of Ifs of which at most one body was
    compared.
    """

    ends: tuple[tuple[str, str], ...]
    nodes: tuple[Operator, ...]
    other_nodes: tuple[Operator, ...]
    comparison: Comparison | None = None
    of_largest: float | None = None
    tolerance: float = 0.0
    reason: str = ""
    place: str = ""
    hidden: str = ""
    switches: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.comparison)


class RegionReport(msgspec.Struct, frozen=True):
    """How many operators of the original are exact in the other model, by which identities, and the regions that are not.

    ``taken`` has for each If of the original whether its condition was true.
    """

    exact: int
    operators: int
    identities: Mapping[str, int]
    regions: tuple[Region, ...] = ()
    taken: Mapping[str, bool] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return all(self.regions)


class Departure(msgspec.Struct, frozen=True, eq=False):
    """A region that departs on ``feeds``, which are values of inputs by their names on the left."""

    planner: Planner
    plan: RegionPlan
    cone: Cone
    feeds: Mapping[str, Array]


class Judge:
    """Compares two models whose heads and inputs are paired: by terms, and on inputs region by region.

    ``departures`` are the regions of the last inputs whose sides depart.
    """

    def __init__(self, left: Checkpoint, right: Checkpoint, heads: Sequence[Pair], inputs: Mapping[str, str]) -> None:
        """Take both models; ``inputs`` has the name on the right of each input of the left one."""
        self._planner, self._inputs = Planner(left, right, heads, inputs), inputs
        self._plan: RegionPlan | None = None
        self._bodies: dict[tuple[Node, Node, str], Judge] = {}
        self.departures: Sequence[Departure] = ()

    def find_exact(self) -> RegionReport | None:
        """Return the report of two models of which every operator is exact; None where some are not."""
        if self._plan is None:
            self._plan = self._planner.make_plan()
            # Terms alone may do: facts take inference of types and a run of the constants, so they come second.
            while self._plan is not None and self._plan.cones:
                self._planner.read_facts()
                plan = self._plan = self._planner.make_plan()
                assert plan is not None
                decided = [
                    find_decided(side, terms) for side, terms in zip(self._planner.sides, (plan.left, plan.right), strict=True)
                ]
                if len(decided[0]) == len(decided[1]):  # those that both models have are compared as they are written
                    break
                chosen = [
                    choose_bodies(side, own) or (side.model, side.heads)
                    for side, own in zip(self._planner.sides, decided, strict=True)
                ]
                if all(model is side.model for side, (model, _) in zip(self._planner.sides, chosen, strict=True)):
                    break
                (left, lefts), (right, rights) = chosen
                # A body that takes the place of its If brings names to pair, and may hold further Ifs of constants.
                self._planner = Planner(left, right, list(zip(lefts, rights, strict=True)), self._inputs)
        return self._report(self._plan, []) if self._plan is not None and not self._plan.cones else None

    def judge(self, feeds: Mapping[str, Array], tolerate: Tolerate) -> RegionReport | None:
        """Return the report of all regions, computed from ``feeds`` by their names on the left; None without a normal form."""
        exact = self.find_exact()
        if exact is not None or self._plan is None:
            return exact
        self._planner.changes.ranks.clear()  # other inputs may have others
        walk = _Walk(self._planner, feeds, tolerate, self._bodies)
        plan, regions, inner = walk.run(self._planner.make_plan() or self._plan)
        self.departures = [Departure(self._planner, plan, cone, feeds) for cone in walk.list_departed(plan)]
        return self._report(plan, regions, inner)

    def _report(self, plan: RegionPlan, regions: Sequence[Region], inner: Sequence[RegionReport] = ()) -> RegionReport:
        nodes = [node for node in self._planner.sides[0].nodes if node.op]
        inside = {node for cone in plan.cones for node in cone.left}
        used: Counter[str] = plan.left.form.used + plan.right.form.used
        exact, operators = sum(node not in inside for node in nodes), len(nodes)
        for each in inner:
            exact, operators = exact + each.exact, operators + each.operators
            used.update(each.identities)
        return RegionReport(exact, operators, dict(used), tuple(regions))


class _Walk:
    """A walk over the regions of two models on one set of inputs; a left value is kept until its last use."""

    def __init__(
        self,
        planner: Planner,
        feeds: Mapping[str, Array],
        tolerate: Tolerate,
        bodies: dict[tuple[Node, Node, str], Judge],
    ) -> None:
        self._planner, self._tolerate, self._bodies = planner, tolerate, bodies
        self._models = [side.model for side in planner.sides]
        variables = [[node for node in side.nodes if not node.op] for side in planner.sides]
        self._inputs: dict[Place, Array] = {(node, 0): feeds[node.name] for node in variables[0] if node.name in feeds}
        names = {node: planner.name_input(node) for node in variables[1]}
        self._other_inputs: dict[Place, Array] = {(node, 0): feeds[name] for node, name in names.items() if name in feeds}
        self._values: dict[Place, Any] = {}
        self._judged: dict[_Key, Region] = {}
        self._starts: dict[_Key, _Start] = {}
        self._inner: dict[tuple[Node, Node, str], RegionReport] = {}

    def run(self, plan: RegionPlan) -> tuple[RegionPlan, list[Region], list[RegionReport]]:
        """Return the plan that was followed to its end, what became of its regions, and the reports of bodies in them."""
        known = self._planner.changes
        while known.lacks(changes := self._follow(plan)):
            has_other_pairs = known.lacks(PlanChanges(banned=changes.banned, closed=changes.closed, moved=changes.moved))
            known.add(changes)
            if has_other_pairs:
                # Bodies were compared, and values proved, on the word of pairs that may be none in the next plan.
                known.proved.clear()
                self._inner.clear()
                self._bodies.clear()
            changed = self._planner.make_plan()
            assert changed is not None
            plan = changed
            self._judged = dict(self._list_kept(plan))
        unknown = "no plan of regions holds for its values"
        regions: list[Region] = []
        inner: dict[tuple[Node, Node, str], RegionReport] = {}
        for cone in plan.cones:
            bodies = {key: report for key, report in self._inner.items() if key[0] in cone.left and key not in inner}
            inner |= bodies
            regions += [region for report in bodies.values() for region in report.regions]  # they say where in it
            judged = self._judged.get(_key(cone.ends[0]))
            regions.append(_make_region(cone, reason=unknown) if judged is None else judged)
        return plan, regions, list(inner.values())

    def _list_kept(self, plan: RegionPlan) -> Iterator[tuple[_Key, Region]]:
        """Yield the judgements that hold in a new plan: both sides are equal, and start from the same values as before."""
        for cone in plan.cones:
            start = _describe_start(plan, cone)
            for key in map(_key, cone.ends):
                # A start that the plan before took for one value may be two: then the region begins earlier.
                if (region := self._judged.get(key)) and self._starts[key] == start:
                    yield key, region

    def list_departed(self, plan: RegionPlan) -> list[Cone]:
        """Return the regions of the plan that was followed whose sides compute unlike values."""
        judged = [(cone, self._judged.get(_key(cone.ends[0]))) for cone in plan.cones]
        return [cone for cone, region in judged if region is not None and not region and not region.reason]

    def _follow(self, plan: RegionPlan) -> PlanChanges:
        """Judge the regions that are not judged yet; return what of the plan does not hold."""
        changes = PlanChanges()
        cones = [cone for cone in plan.cones if any(_key(end) not in self._judged for end in cone.ends)]
        targets, last_uses = self._schedule(plan, cones)
        for number, cone in enumerate(cones):
            try:
                region = self._judge(plan, cone, targets[number])
            except MemoryLimitError:
                raise
            except (InputError, RefusedError) as error:
                region = _make_region(cone, reason=error.faults[0].message)
            if isinstance(region, PlanChanges):
                changes.add(region)
            else:
                self._judged.update({_key(end): region for end in cone.ends})
                self._starts.update({_key(end): _describe_start(plan, cone) for end in cone.ends})
            for place in [place for place, last in last_uses.items() if last == number]:
                self._values.pop(place, None)
        return changes

    def _schedule(self, plan: RegionPlan, cones: Sequence[Cone]) -> tuple[list[dict[Place, Entry]], dict[Place, int]]:
        """Return which left values each region computes, for itself and for later ones, and which region uses a value last.

        No operator is computed for two regions, unless a later one needs another of its values.
        """
        targets: list[dict[Place, Entry]] = []
        uses: dict[Place, int] = {}
        makers: dict[Node, int] = {}
        for number, cone in enumerate(cones):
            pending = [e for e in (*(a for a, _ in cone.ends), *(e for _, e in plan.list_sources(cone).values())) if e.node.op]
            targets.append({get_place(entry): entry for entry in pending})
            while pending:
                entry = pending.pop()
                place, maker = get_place(entry), makers.get(entry.node, number)
                uses[place] = number
                if place in self._values or maker < number:
                    targets[number].pop(place, None)
                    if place not in self._values:
                        targets[maker][place] = entry
                elif entry.node not in makers:
                    makers[entry.node] = number
                    pending += [e for e in entry.node.inputs if e.node.op]
        return targets, uses

    def _judge(self, plan: RegionPlan, cone: Cone, targets: Mapping[Place, Entry]) -> Region | PlanChanges:
        """Return a region with its judgement, or the changes that the plan needs first.

        Raises:
            InputError: onnxruntime refuses one of its sides.
            RefusedError: it fails.
        """
        sources = plan.list_sources(cone)
        # Sequences and optional values cannot be fed to a session, so regions start before them.
        closed = self._compute_left(targets) & {get_place(source) for _, source in sources.values()}
        if closed:
            return PlanChanges(closed=closed)
        starts = (*(source for _, source in sources.values()), *(a for a, _ in cone.ends))
        missing = [entry for entry in starts if self._read(entry) is None]
        if missing:  # they are computed for an earlier region, which failed
            raise RefusedError(Fault(f"the original's value {output_name(missing[0])!r} was not computed"))
        # The right side reads the inputs of the models as they are, and all else from the left.
        feeds = dict(self._other_inputs)
        for place, (entry, source) in sources.items():
            dtype = plan.find_dtype(entry)
            feeds[place] = cast_value(self._read(source), dtype)
        values = compute_part(self._models[1], [b for _, b in cone.ends], feeds)
        regions = []
        for end, value in zip(cone.ends, values, strict=True):
            compared = self._compare_end(plan, cone, end, value)
            if isinstance(compared, PlanChanges):
                return compared
            regions.append(compared)
        region = max(regions, key=lambda each: (not each, float("inf") if each.of_largest is None else each.of_largest))
        # Unlike terms and equal bits: the change did not show, or is none. Like operators need another look for that.
        is_same = all(each.comparison is not None and each.comparison.identical for each in regions)
        entered, learned = self._enter_bodies(plan, cone)
        # Operators whose bodies were judged by themselves hide nothing any more.
        rest = Cone(cone.ends, *(tuple(n for n in side if n not in entered) for side in (cone.left, cone.right)))
        if is_same and is_alike(rest):
            # Identities of reshapes and transposes need ranks; a run shows those that do not follow from the inputs.
            learned.ranks.update(self._find_ranks(plan, cone))
        if self._planner.changes.lacks(learned):
            return learned
        # Of an If that could not be entered, a run compares one body at most: the report counts over all rounds.
        unentered = [node for side in (rest.left, rest.right) for node in side if node.subgraphs]
        switches = tuple(dict.fromkeys(node.name for node in unentered if node.op == "If"))
        hidden = ""
        if is_same and is_alike(rest) and (unentered or has_other_values(plan, rest)):
            hidden = "attributes, constants, functions or bodies differ"
        elif is_same and is_alike(rest) and not entered:
            hidden = try_other_inputs(self._planner.sides, plan, cone, self._find_value, self._tolerate)
        return msgspec.structs.replace(region, hidden=hidden, switches=switches)

    def _compare_end(self, plan: RegionPlan, cone: Cone, end: Pair, value: Any) -> Region | PlanChanges:
        """Return a region judged by one of its ends, or the changes that the plan needs first; ``value`` is the right one."""
        a, b = end
        wanted = self._read(a)
        is_array = isinstance(wanted, np.ndarray) and isinstance(value, np.ndarray)
        dtypes = {str(wanted.dtype), str(value.dtype)} if is_array else set()
        # Only the run shows the dtype where no type was inferred: consumers on the right get the value in theirs.
        if len(dtypes) == 2 and dtypes <= FLOATS and plan.right.key(b)[0] == "cut":
            return PlanChanges(dtypes={get_place(a): str(value.dtype)})
        tolerance = self._tolerate(wanted, value)
        comparison = compare_values(value, wanted, tolerance)
        # Callers get outputs by name, so these must not move; an inner name may stand for another value.
        if is_array and not comparison and not self._planner.is_head(end):
            moved = self._find_moved(a, cone, value)
            if moved is not None or _are_unlike_sizes(wanted, value):
                return PlanChanges(banned={get_place(a)}, moved={} if moved is None else {moved: b})
        of_largest = None
        if isinstance(wanted, np.ndarray) and comparison.max_abs < float("inf"):
            of_largest = comparison.max_abs / (find_largest(wanted) or 1.0) if comparison.max_abs else 0.0
        return _make_region(cone, comparison, of_largest, tolerance.of_largest)

    def _find_ranks(self, plan: RegionPlan, cone: Cone) -> Iterator[tuple[Place, int]]:
        """Yield the ranks of what either side starts from, where they do not follow from its inputs."""
        for side, starts in zip(self._planner.sides, plan.list_starts(cone), strict=True):
            for place, (term, entry) in starts.items():
                if side.find_parts(entry)[1] is None:
                    yield place, np.ndim(self._find_value(plan.sources.get(term, entry)))

    def _enter_bodies(self, plan: RegionPlan, cone: Cone) -> tuple[set[Node], PlanChanges]:
        """Judge the bodies of operators in a region by themselves.

        Returns the operators of either side for which that was done, and which of their values are proved to be the same.
        """
        entered: set[Node] = set()
        learned = PlanChanges()
        for a, b, outputs in pair_owners(plan, cone) if any(node.subgraphs for node in cone.left) else ():
            try:
                pairs = open_bodies(self._planner.sides, plan, (a, b), outputs, self._find_value)
            except MemoryLimitError:
                raise
            except (InputError, RefusedError):
                continue
            # Once in a walk: several regions may lead through one operator.
            for pair in pairs if (a, b) not in {key[:2] for key in self._inner} else ():
                names = {name: name for name in pair.feeds}
                judge = self._bodies.setdefault((a, b, pair.place), Judge(*pair.models, pair.heads, names))
                report = judge.judge(pair.feeds, self._tolerate)
                assert report is not None
                places = [f"{region.place} in {pair.place}" if region.place else pair.place for region in report.regions]
                named = zip(report.regions, places, strict=True)
                regions = [msgspec.structs.replace(region, place=place) for region, place in named]
                self._inner[a, b, pair.place] = msgspec.structs.replace(report, regions=tuple(regions))
            if pairs:
                entered |= {a, b}
                # Exact bodies prove the outputs for every input, so the next plan needs no region for them.
                if all(self._bodies[a, b, pair.place].find_exact() for pair in pairs):
                    learned.proved.update({(a, i): Entry(b, j) for i, j in outputs.items()})
        return entered, learned

    def _find_value(self, entry: Entry) -> Any:
        """Return a value of the left side, which is computed anew where it is not kept."""
        value = self._read(entry)
        return compute_part(self._models[0], [entry], {**self._values, **self._inputs})[0] if value is None else value

    def _compute_left(self, targets: Mapping[Place, Entry]) -> set[Place]:
        """Compute values of the left side; return those that cannot pass between sessions."""
        wanted = {place: entry for place, entry in targets.items() if place not in self._values}
        values = compute_part(self._models[0], list(wanted.values()), {**self._values, **self._inputs}) if wanted else []
        self._values.update(zip(wanted, values, strict=True))
        return {place for place, value in zip(wanted, values, strict=True) if not isinstance(value, np.ndarray)}

    def _read(self, entry: Entry) -> Any:
        return (self._values if entry.node.op else self._inputs).get(get_place(entry))

    def _find_moved(self, end: Entry, cone: Cone, value: Any) -> Place | None:
        """Return the left value near ``end`` that is equal to the right value of that name; None where none is.

        Optimizers give the result of several operators the name of the first, and converters number their values.
        """
        near = self._planner.list_near(end, cone, _STEPS)
        known = {place: array for place, array in self._values.items() if place[0] not in {e.node for e in near}}
        try:
            values = compute_part(self._models[0], near, {**known, **self._inputs})
        except GraphshareError:
            return None
        for entry, wanted in zip(near, values, strict=True):
            is_like = isinstance(wanted, np.ndarray) and wanted.shape == value.shape and wanted.dtype == value.dtype
            # An array of zeros equals too many others to show where a name has moved.
            if is_like and np.any(wanted) and compare_values(value, wanted, self._tolerate(wanted, value)):
                return get_place(entry)
        return None


def _are_unlike_sizes(wanted: Array, value: Array) -> bool:
    """Whether two arrays are lists of sizes or places of different lengths, which no fault makes of each other."""
    return wanted.dtype.kind == value.dtype.kind == "i" and wanted.ndim == value.ndim == 1 and wanted.shape != value.shape


def _describe_start(plan: RegionPlan, cone: Cone) -> _Start:
    """Return what a judgement rests on: the operators of both sides, and which left value each start on the right is."""
    sources = plan.list_sources(cone)
    starts = {place: (get_place(source), plan.find_dtype(entry)) for place, (entry, source) in sources.items()}
    return cone.left, cone.right, starts


def _key(end: Pair) -> _Key:
    return get_place(end[0]), get_place(end[1])


def _make_region(
    cone: Cone,
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
    """Return the function of the tolerance of an end: by ``dtype`` if it is chosen, else by the coarser one of its values."""

    def tolerate(wanted: Any, value: Any) -> Tolerance:
        coarsest = dtype or find_coarsest(str(each.dtype) for each in (wanted, value) if isinstance(each, np.ndarray))
        if dtype or coarsest in ("float16", "bfloat16"):
            return tolerate_dtype(coarsest, atol, rtol)
        return tolerate_other_program(atol, rtol)

    return tolerate
