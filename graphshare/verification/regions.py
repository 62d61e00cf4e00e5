"""Two models judged region by region: both sides of each compute on the same inputs, which are values of the original.

What both models have exactly is not compared, and what lies between is cut into regions (:mod:`.region_plan`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from graphshare.verification.compare import (
    Tolerance,
    compare_values,
    find_largest,
    tolerate_dtype,
    tolerate_other_program,
)
from graphshare.verification.region_plan import FLOATS, Cone, Pair, PlanChanges, Planner, RegionPlan, compute_part, place_of

_STEPS = 3  # operators after a value whose result may have its name on the other side
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

    def list_hidden(self) -> frozenset[str]:
        """Return the names of operators in regions of the same operators and bits on both sides, which hide what differs."""
        same = [each for each in self.regions if each.is_alike and each.comparison is not None and each.comparison.identical]
        return frozenset(node.name for region in same for node in region.nodes)

    def list_operators(self) -> frozenset[str]:
        """Return the names of all operators of the original that are in regions."""
        return frozenset(node.name for region in self.regions for node in region.nodes)

    def list_alike(self) -> frozenset[str]:
        """Return the names of operators of the original that are in a region with the same operators on both sides."""
        return frozenset(node.name for region in self.regions if region.is_alike for node in region.nodes)


class Departure(msgspec.Struct, frozen=True, eq=False):
    """A region that departs on ``feeds``, which are values of inputs by their names on the left."""

    planner: Planner
    plan: RegionPlan
    cone: Cone
    feeds: Mapping[str, Array]


class Judge:
    """Compares two models whose heads and inputs are paired: by terms, and on inputs region by region."""

    def __init__(self, left: Checkpoint, right: Checkpoint, heads: Sequence[Pair], inputs: Mapping[str, str]) -> None:
        """``inputs`` has the name on the right of each input of the left model."""
        self._planner = Planner(left, right, heads, inputs)
        self._plan: RegionPlan | None = None

    def find_exact(self) -> RegionReport | None:
        """Return the report of two models of which every operator is exact; None where some are not."""
        if self._plan is None:
            self._plan = self._planner.make_plan()
            if self._plan is not None and self._plan.cones:
                self._planner.read_facts()
                self._plan = self._planner.make_plan()
        return self._report([]) if self._plan is not None and not self._plan.cones else None

    def judge(self, feeds: Mapping[str, Array], tolerate: Tolerate) -> RegionReport | None:
        """Return the report of all regions, computed from ``feeds`` by their names on the left; None without a normal form."""
        exact = self.find_exact()
        if exact is not None or self._plan is None:
            return exact
        self._plan, regions = _Walk(self._planner, feeds, tolerate).run(self._plan)
        return self._report(regions)

    def list_departures(self, report: RegionReport, feeds: Mapping[str, Array]) -> list[Departure]:
        """Return the regions that depart in the last report, which was computed from ``feeds``."""
        plan = self._plan
        if plan is None:
            return []
        pairs = zip(plan.cones, report.regions, strict=True)
        return [Departure(self._planner, plan, cone, feeds) for cone, each in pairs if not each and not each.reason]

    def _report(self, regions: Sequence[Region]) -> RegionReport:
        assert self._plan is not None
        nodes = [node for node in self._planner.sides[0].nodes if node.op]
        inside = {node for cone in self._plan.cones for node in cone.left}
        used: Counter[str] = self._plan.left.form.used + self._plan.right.form.used
        return RegionReport(sum(node not in inside for node in nodes), len(nodes), dict(used), tuple(regions))


class _Walk:
    """A walk over the regions of two models on one set of inputs; a left value is kept until its last use."""

    def __init__(self, planner: Planner, feeds: Mapping[str, Array], tolerate: Tolerate) -> None:
        self._planner, self._tolerate = planner, tolerate
        self._models = [side.model for side in planner.sides]
        variables = [[node for node in side.nodes if not node.op] for side in planner.sides]
        self._inputs: dict[Place, Array] = {(node, 0): feeds[node.name] for node in variables[0] if node.name in feeds}
        names = {node: planner.name_input(node) for node in variables[1]}
        self._other_inputs: dict[Place, Array] = {(node, 0): feeds[name] for node, name in names.items() if name in feeds}
        self._values: dict[Place, Any] = {}
        self._judged: dict[tuple[Place, Place], Region] = {}

    def run(self, plan: RegionPlan) -> tuple[RegionPlan, list[Region]]:
        """Return the plan that was followed to its end, and what became of its regions."""
        while self._planner.learn(self._follow(plan)):  # each time of a value of which nothing was known
            changed = self._planner.make_plan()
            assert changed is not None
            plan = changed
            self._judged = {key: region for key, region in self._judged.items() if region}  # others may start elsewhere now
        unknown = "what it computes is another value in each plan"
        keys = [(cone, _key(cone.ends[0])) for cone in plan.cones]
        return plan, [self._judged[key] if key in self._judged else _make_region(cone, reason=unknown) for cone, key in keys]

    def _follow(self, plan: RegionPlan) -> PlanChanges:
        """Judge the regions that are not judged yet; return what of the plan does not hold."""
        changes = PlanChanges()
        cones = [cone for cone in plan.cones if any(_key(end) not in self._judged for end in cone.ends)]
        targets, last_uses = self._schedule(plan, cones)
        for number, cone in enumerate(cones):
            try:
                region = self._judge(plan, cone, targets[number], changes)
            except MemoryLimitError:
                raise
            except (InputError, RefusedError) as error:
                region = _make_region(cone, reason=error.faults[0].message)
            self._judged.update({_key(end): region for end in cone.ends if region is not None})
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
            targets.append({place_of(entry): entry for entry in pending})
            while pending:
                entry = pending.pop()
                place, maker = place_of(entry), makers.get(entry.node, number)
                uses[place] = number
                if place in self._values or maker < number:
                    targets[number].pop(place, None)
                    if place not in self._values:
                        targets[maker][place] = entry
                elif entry.node not in makers:
                    makers[entry.node] = number
                    pending += [e for e in entry.node.inputs if e.node.op]
        return targets, uses

    def _judge(self, plan: RegionPlan, cone: Cone, targets: Mapping[Place, Entry], changes: PlanChanges) -> Region | None:
        """Return what became of a region; None where ``changes`` has why the plan does not hold for it.

        Raises:
            InputError: onnxruntime refuses one of its sides.
            RefusedError: it fails.
        """
        sources = plan.list_sources(cone)
        closed = self._compute_left(targets) & {place_of(source) for _, source in sources.values()}
        if closed:
            changes.closed |= closed
            return None
        missing = [
            e for e in (*(source for _, source in sources.values()), *(a for a, _ in cone.ends)) if self._read(e) is None
        ]
        if missing:  # they are computed for an earlier region, which failed
            raise RefusedError(Fault(f"the original's value {output_name(missing[0])!r} was not computed"))
        feeds = dict(self._other_inputs)
        for place, (entry, source) in sources.items():
            dtype = plan.find_dtype(entry)
            feeds[place] = self._read(source) if dtype is None else self._read(source).astype(dtype)
        values = compute_part(self._models[1], [b for _, b in cone.ends], feeds)
        regions = []
        for (a, b), value in zip(cone.ends, values, strict=True):
            wanted = self._read(a)
            is_array = isinstance(wanted, np.ndarray) and isinstance(value, np.ndarray)
            dtypes = {str(wanted.dtype), str(value.dtype)} if is_array else set()
            if len(dtypes) == 2 and dtypes <= FLOATS and plan.right.key(b)[0] == "cut":
                changes.dtypes[place_of(a)] = str(value.dtype)
                return None
            tolerance = self._tolerate(wanted, value)
            comparison = compare_values(value, wanted, tolerance)
            moved = None if comparison or self._planner.is_head((a, b)) else self._find_moved(a, value)
            if moved is not None:
                changes.moved[moved] = b
                changes.banned.add(place_of(a))
                return None
            of_largest = None
            if isinstance(wanted, np.ndarray) and comparison.max_abs < float("inf"):
                of_largest = comparison.max_abs / (find_largest(wanted) or 1.0) if comparison.max_abs else 0.0
            regions.append(_make_region(cone, comparison, of_largest, tolerance.of_largest))
        return max(regions, key=lambda region: (not region, float("inf") if region.of_largest is None else region.of_largest))

    def _compute_left(self, targets: Mapping[Place, Entry]) -> set[Place]:
        """Compute values of the left side; return those that cannot pass between sessions."""
        wanted = {place: entry for place, entry in targets.items() if place not in self._values}
        values = compute_part(self._models[0], list(wanted.values()), {**self._values, **self._inputs}) if wanted else []
        self._values.update(zip(wanted, values, strict=True))
        return {place for place, value in zip(wanted, values, strict=True) if not isinstance(value, np.ndarray)}

    def _read(self, entry: Entry) -> Any:
        return (self._values if entry.node.op else self._inputs).get(place_of(entry))

    def _find_moved(self, end: Entry, value: Any) -> Place | None:
        """Return the left value after ``end`` that a right one is which has its name; None where none is.

        Optimizers give the result of several operators the name of the first.
        """
        after = self._planner.list_after(end, _STEPS)
        if not isinstance(value, np.ndarray) or not after:
            return None
        known = {place: array for place, array in self._values.items() if place[0] not in {e.node for e in after}}
        try:
            values = compute_part(self._models[0], after, {**known, **self._inputs})
        except GraphshareError:
            return None
        for entry, wanted in zip(after, values, strict=True):
            is_like = isinstance(wanted, np.ndarray) and wanted.shape == value.shape and wanted.dtype == value.dtype
            if is_like and np.any(wanted) and compare_values(value, wanted, self._tolerate(wanted, value)):
                return place_of(entry)
        return None


def _key(end: Pair) -> tuple[Place, Place]:
    return place_of(end[0]), place_of(end[1])


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
    """Return what returns the tolerance of an end: by ``dtype`` if it is chosen, else by the less precise one of its values."""

    def tolerate(wanted: Any, value: Any) -> Tolerance:
        coarsest = dtype or find_coarsest(str(each.dtype) for each in (wanted, value) if isinstance(each, np.ndarray))
        if dtype or coarsest in ("float16", "bfloat16"):
            return tolerate_dtype(coarsest, atol, rtol)
        return tolerate_other_program(atol, rtol)

    return tolerate
