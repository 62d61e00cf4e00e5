"""A walk over the regions of two models: both sides of each are computed from the values of either model.

A plan is a guess from names and types, and a run may contradict it: a name stands for another value, a value is not an array, a
dtype or a rank shows. The walk notes such a change and follows a new plan, until a plan teaches nothing new. What was judged
before is kept where it starts from the same values in the new plan.

Both models are treated alike. Each side computes its values for itself, from its own values at the ends of earlier regions;
and each region is computed a second time from the values that the other model has there. So a region departs or not whichever
model comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.errors import Fault, GraphshareError, InputError, MemoryLimitError, RefusedError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.verification.bodies import chooses_bodies, open_bodies, pair_owners
from graphshare.verification.comparison import Tolerance, Tolerate, compare_values, find_largest
from graphshare.verification.other_inputs import (
    Draw,
    Start,
    draw_other_inputs,
    draw_scaled,
    find_touched,
    has_other_values,
    is_alike,
    is_on_grid,
    may_hide,
    try_other_inputs,
)
from graphshare.verification.region import BodyJudge, Feeds, Region, RegionReport, make_region
from graphshare.verification.region_plan import (
    FLOATS,
    Cone,
    Pair,
    PlanChanges,
    Planner,
    RegionPlan,
    compute_part,
    get_place,
    open_part,
)

_Key = tuple[Place, Place]
_Start = tuple[tuple[Node, ...], tuple[Node, ...], Mapping[Place, tuple[Place, str | None]]]
_STEPS = 6  # operators after a value whose result may have its name on the other side, Identities among them
_NEARER = 10.0
"""How many times nearer than its namesake a value must be to be the one that a name has moved to."""
_UNKNOWN = "no plan of regions holds for its values"


class _Step(msgspec.Struct, eq=False):
    """A region in its turn. ``targets`` are what each side computes: its ends, then the ``starts`` that are kept, by term.

    ``touched`` has for each side the places that it is computed from, with their terms; ``last`` are terms that no later step
    needs.
    """

    cone: Cone
    starts: list[int]
    targets: tuple[list[Entry], list[Entry]]
    touched: tuple[dict[Place, int], dict[Place, int]]
    last: list[int] = msgspec.field(default_factory=list)


class _Judged(msgspec.Struct, frozen=True):
    """A region with its judgement, the number of the inputs that show it best, and what it rests on."""

    region: Region
    draw: int
    start: _Start


class _Side(msgspec.Struct, eq=False):
    """The values of one model on one set of inputs: of its inputs by place, and of the ends and starts of regions by term."""

    inputs: dict[Place, Array]
    values: dict[int, Any] = msgspec.field(default_factory=dict)


class _Part:
    """One side of a region, opened once for values of the same ranks and dtypes; sizes may differ."""

    def __init__(self, walk: RegionWalk, number: int, step: _Step) -> None:
        self._model, self._targets = walk.planner.sides[number].model, step.targets[number]
        self._touched, self._number, self._has_sizes = step.touched[number], number, len(walk.draws) == 1
        self._opened: dict[Any, Any] = {}

    def compute(self, own: _Side, source: _Side) -> list[Any]:
        """Return the targets from the values that ``source`` has; ``own`` are those of this side, whose dtypes it needs."""
        values: dict[Place, Array] = dict(own.inputs)
        for place, term in self._touched.items():
            value, like = source.values.get(term), own.values.get(term)
            if value is None or like is None:
                raise RefusedError(Fault(f"value {output_name(Entry(*place))!r} was not computed"))
            is_other = _is_array(value) and _is_array(like) and value.dtype != like.dtype
            values[place] = value.astype(like.dtype) if is_other else value
        # Sequences and optional values have no rank.
        key = tuple((value.ndim, value.dtype) if _is_array(value) else type(value) for value in values.values())
        if key not in self._opened:
            self._opened[key] = open_part(self._model, self._targets, values, has_sizes=self._has_sizes)
        outputs: list[Any] = self._opened[key](values)
        return outputs


class RegionWalk:
    """The regions of two models on sets of inputs; values are kept until their last use."""

    def __init__(
        self,
        planner: Planner,
        draws: Sequence[Feeds],
        tolerate: Tolerate,
        bodies: dict[tuple[Node, Node, str], BodyJudge],
        open_judge: Callable[..., BodyJudge],
    ) -> None:
        """Take the plan's two models; ``open_judge`` makes a judge of two bodies, which ``bodies`` keeps for later walks."""
        self.planner, self.draws, self._tolerate = planner, draws, tolerate
        self._bodies, self._open_judge = bodies, open_judge
        variables = [[node for node in side.nodes if not node.op] for side in planner.sides]
        self._sides = [
            tuple(
                _Side({(node, 0): feeds[node.name] for node in own if node.name in feeds})
                for own, feeds in zip(variables, draw, strict=True)
            )
            for draw in draws
        ]
        self._judged: dict[_Key, _Judged] = {}
        self._inner: dict[tuple[Node, Node, str], RegionReport] = {}

    def run(self, plan: RegionPlan) -> RegionPlan:
        """Judge all regions, and return the plan that was followed to its end."""
        known = self.planner.changes
        while known.lacks(changes := self._follow(plan)):
            has_other_pairs = known.lacks(PlanChanges(banned=changes.banned, closed=changes.closed, moved=changes.moved))
            known.add(changes)
            if has_other_pairs:
                # Bodies were compared, and values proved, on the word of pairs that may be none in the next plan.
                known.proved.clear()
                self._inner.clear()
                self._bodies.clear()
            changed = self.planner.make_plan()
            assert changed is not None
            plan = changed
            self._judged = dict(self._list_kept(plan))
        return plan

    def list_regions(self, plan: RegionPlan) -> tuple[list[Region], list[RegionReport]]:
        """Return what became of the regions of the plan that was followed, and the reports of bodies in them."""
        regions: list[Region] = []
        inner: dict[tuple[Node, Node, str], RegionReport] = {}
        for cone in plan.cones:
            bodies = {key: report for key, report in self._inner.items() if key[0] in cone.left and key not in inner}
            inner |= bodies
            regions += [region for report in bodies.values() for region in report.regions]  # they say where in it
            judged = self._find_judged(cone)
            regions.append(make_region(cone, reason=_UNKNOWN) if judged is None else judged.region)
        return regions, list(inner.values())

    def list_departed(self, plan: RegionPlan) -> list[Cone]:
        """Return the regions of the plan that was followed whose sides compute unlike values."""
        judged = [(cone, self._find_judged(cone)) for cone in plan.cones]
        return [cone for cone, each in judged if each is not None and not each.region and not each.region.reason]

    def find_draw(self, cone: Cone) -> int:
        """Return the number of the inputs on which a region departs most."""
        judged = self._find_judged(cone)
        return 0 if judged is None else judged.draw

    def agrees_on_others(self, plan: RegionPlan, part: Cone) -> bool:
        """Return whether the region that ``part`` was joined to agrees, on inputs of other signs and sizes of numbers too."""
        nodes = {*part.left, *part.right}
        cones = [cone for cone in plan.cones if not nodes.isdisjoint((*cone.left, *cone.right))]
        judged = [self._find_judged(cone) for cone in cones]
        return bool(cones) and all(each is not None and each.region and not each.region.hidden for each in judged)

    def _find_judged(self, cone: Cone) -> _Judged | None:
        return self._judged.get(_key(cone.ends[0]))

    def _list_kept(self, plan: RegionPlan) -> Iterator[tuple[_Key, _Judged]]:
        """Yield the judgements that hold in a new plan: both sides are equal, and start from the same values as before."""
        for cone in plan.cones:
            start = _describe_start(plan, cone)
            for key in map(_key, cone.ends):
                # A start that the plan before took for one value may be two, and a value that it lacked may be there.
                judged = self._judged.get(key)
                if judged and judged.start == start and not judged.region.reason:
                    yield key, judged

    def _follow(self, plan: RegionPlan) -> PlanChanges:
        """Judge the regions that are not judged yet; return what of the plan does not hold."""
        changes = PlanChanges()
        for draw in self._sides:
            for side in draw:
                side.values.clear()  # terms have other numbers in each plan
        for step in self._schedule(plan):
            try:
                judged = self._take(plan, step)
            except MemoryLimitError:
                raise
            except (InputError, RefusedError) as error:
                judged = _Judged(make_region(step.cone, reason=error.faults[0].message), 0, _describe_start(plan, step.cone))
            if isinstance(judged, PlanChanges):
                changes.add(judged)
            elif judged is not None:
                self._judged.update({_key(end): judged for end in step.cone.ends})
            for term in step.last:
                for draw in self._sides:
                    for side in draw:
                        side.values.pop(term, None)
        return changes

    def _schedule(self, plan: RegionPlan) -> list[_Step]:
        """Return the regions that are not judged, and those before them whose values they need, each with what it computes.

        A start that both sides have is kept for later regions, so that few operators are computed twice.
        """
        makers: dict[int, int] = {}
        steps = []
        for number, cone in enumerate(plan.cones):
            own = plan.list_starts(cone)
            terms = [{term: entry for term, entry in starts.values() if entry.node.op} for starts in own]
            closed = {plan.left.terms[place] for place in self.planner.changes.closed if place in plan.left.terms}
            starts = [term for term in terms[0] if term in terms[1] and term not in makers and term not in closed]
            targets = tuple([*(end[side] for end in cone.ends), *(terms[side][term] for term in starts)] for side in (0, 1))
            touched = tuple(find_touched(plan, side, targets[side], makers) for side in (0, 1))
            steps.append(_Step(cone, starts, (targets[0], targets[1]), (touched[0], touched[1])))
            for term in (*(plan.find_term(plan.left, a) for a, _ in cone.ends), *starts):
                makers.setdefault(term, number)
        wanted: set[int] = set()
        last: dict[int, int] = {}
        for number in reversed(range(len(steps))):
            step = steps[number]
            if number in wanted or any(_key(end) not in self._judged for end in step.cone.ends):
                wanted.add(number)
                for term in {*step.touched[0].values(), *step.touched[1].values()}:
                    last.setdefault(term, number)
                    wanted.add(makers[term])
        for term, number in last.items():
            steps[number].last.append(term)
        return [steps[number] for number in sorted(wanted)]

    def _take(self, plan: RegionPlan, step: _Step) -> _Judged | PlanChanges | None:
        """Compute both sides of a region; return its judgement, or the changes that the plan needs first.

        A region that was judged in an earlier plan is computed for those behind it alone.

        Raises:
            InputError: the backend refuses one of its sides.
            RefusedError: it fails.
        """
        is_judged = all(_key(end) in self._judged for end in step.cone.ends)
        parts = [_Part(self, side, step) for side in (0, 1)]
        compared: list[tuple[Region, int]] = []
        is_same = True
        for number, (left, right) in enumerate(self._sides):
            values, others = parts[0].compute(left, left), parts[1].compute(right, left)
            closed = {get_place(a) for (a, _), value in zip(step.cone.ends, values, strict=False) if not _is_array(value)}
            closed |= {
                get_place(e) for e, value in zip(step.targets[0], values, strict=True) if not _is_array(value) and e.node.op
            }
            # Sequences and optional values cannot be fed to a session, so regions start before them.
            if closed - {get_place(a) for a, b in step.cone.ends if self.planner.is_head((a, b))}:
                return PlanChanges(closed=closed)
            cases = [(values, others)]
            truth = others
            touched = {*step.touched[0].values(), *step.touched[1].values()}
            if any(right.values[term] is not left.values[term] for term in touched):
                truth = parts[1].compute(right, right)
                cases.append((truth, parts[0].compute(left, right)))
            self._keep(plan, step, (left, values), (right, truth))
            if is_judged:
                continue
            for swapped, (wanted, computed) in enumerate(cases):
                for end, first, second in zip(step.cone.ends, wanted, computed, strict=False):
                    a, b = (second, first) if swapped else (first, second)
                    region = self._compare_end(plan, step, end, (a, b), number, swapped=bool(swapped))
                    if isinstance(region, PlanChanges):
                        return region
                    compared.append((region, number))
                    is_same = is_same and region.comparison is not None and region.comparison.identical
        if is_judged:
            return None
        del parts  # the next ones are opened beside no other
        region, number = max(compared, key=lambda each: (not each[0], each[0].error))
        return self._look_deeper(plan, step, region, number, is_same=is_same)

    def _keep(self, plan: RegionPlan, step: _Step, left: tuple[_Side, list[Any]], right: tuple[_Side, list[Any]]) -> None:
        """Keep the values of ends and starts by their terms; values of equal bits are one array on both sides."""
        terms = [*(plan.find_term(plan.left, a) for a, _ in step.cone.ends), *step.starts]
        for term, value, other in zip(terms, left[1], right[1], strict=True):
            left[0].values[term] = value
            right[0].values[term] = value if _is_array(value) and _is_array(other) and _have_same_bits(value, other) else other

    def _compare_end(
        self, plan: RegionPlan, step: _Step, end: Pair, values: tuple[Any, Any], number: int, *, swapped: bool
    ) -> Region | PlanChanges:
        """Return a region judged by one of its ends, or the changes that the plan needs first.

        ``values`` are those of the left and the right one; ``swapped`` tells that both were computed from values of the right.
        """
        left, right = values
        wanted, value = (right, left) if swapped else (left, right)
        is_array = _is_array(left) and _is_array(right)
        dtypes = {str(left.dtype), str(right.dtype)} if is_array else set()
        # Only the run shows the dtype where no type was inferred: consumers on the right get the value in theirs.
        if len(dtypes) == 2 and dtypes <= FLOATS and plan.right.key(end[1])[0] == "cut":
            return PlanChanges(dtypes={get_place(end[0]): str(right.dtype)})
        tolerance: Tolerance = self._tolerate(wanted, value)
        comparison = compare_values(value, wanted, tolerance)
        # Callers get outputs by name, so these must not move; an inner name may stand for another value.
        if is_array and not comparison and not self.planner.is_head(end) and not swapped:
            moved = self._find_moved(plan, step.cone, end, (left, right), number)
            if moved or _are_unlike_sizes(left, right):
                return PlanChanges(banned={get_place(end[0])}, moved=moved)
        of_largest = None
        if _is_array(wanted) and comparison.max_abs < float("inf"):
            of_largest = comparison.max_abs / (find_largest(wanted) or 1.0) if comparison.max_abs else 0.0
        return make_region(step.cone, comparison, of_largest, tolerance.of_largest)

    def _look_deeper(
        self, plan: RegionPlan, step: _Step, region: Region, number: int, *, is_same: bool
    ) -> _Judged | PlanChanges:
        """Return the judgement of a region with what equal values hide, or the changes that the plan needs first."""
        cone = step.cone
        # Unlike terms and equal bits: the change did not show, or is none. Like operators need another look for that.
        entered, learned = self._enter_bodies(plan, cone)
        # Operators whose bodies were judged by themselves hide nothing any more.
        rest = Cone(cone.ends, *(tuple(n for n in side if n not in entered) for side in (cone.left, cone.right)))
        if is_same and is_alike(rest):
            # Identities of reshapes and transposes need ranks; a run shows those that do not follow from the inputs.
            learned.ranks.update(self._find_ranks(plan, cone))
        if self.planner.changes.lacks(learned):
            return learned
        # Of an If that could not be entered, a run compares one body at most: the report counts over all rounds.
        unentered = [node for side in (rest.left, rest.right) for node in side if node.subgraphs]
        switches = tuple(dict.fromkeys(node.name for node in unentered if node.op == "If"))
        hidden = ""
        # A body that its operator always computes had its chance to show a difference.
        chosen = [node for node in unentered if chooses_bodies(node)]
        if is_same and is_alike(rest) and (chosen or has_other_values(plan, rest)):
            hidden = "attributes, constants, functions or bodies differ"
        elif region and not entered and not chosen and not is_on_grid(rest):
            is_like = is_same and is_alike(rest)
            # What hides a difference of numbers, such as a Relu, lets it pass for other signs; sizes take other sizes.
            draws: tuple[Draw, ...] = (draw_scaled,) if may_hide(rest) and not is_like else ()
            draws += (draw_other_inputs,) if is_same else ()
            texts = (self._try_others(plan, step, draw, is_strict=is_like) for draw in draws)
            hidden = next(filter(None, texts), "")
        region = msgspec.structs.replace(region, hidden=hidden, switches=switches)
        return _Judged(region, number, _describe_start(plan, cone))

    def _try_others(self, plan: RegionPlan, step: _Step, draw: Draw, *, is_strict: bool) -> str:
        """Return how the sides of a region differ on other inputs, see :func:`try_other_inputs`."""
        models = [side.model for side in self.planner.sides]
        inputs = [side.inputs for side in self._sides[-1]]  # of several sets the one with more samples
        # An input has one name on both sides here.
        names = [
            {place: place[0].name for place in inputs[0]},
            {place: self.planner.name_input(place[0]) for place in inputs[1]},
        ]
        values: dict[str, Any] = {}
        for side, own in enumerate(inputs):
            for place, array in own.items():
                # What is an integer on one side is a whole number on the other.
                is_integer = _is_array(array) and array.dtype.kind in "biu"
                name = names[side][place]
                values[name] = array if name not in values or is_integer else values[name]
        start = Start(step.touched, names, values, inputs, lambda term: self._read_term(plan, term))

        def find_sizes(term: int) -> Sequence[object]:
            return self.planner.sides[0].find_parts(plan.entries[0][term])[1] or ()

        return try_other_inputs(models, plan, step.cone, start, find_sizes, self._tolerate, draw, is_strict=is_strict)

    def _read_term(self, plan: RegionPlan, term: int) -> Any:
        """Return the value of a term in the left model on the last inputs."""
        value = self._sides[-1][0].values.get(term)
        return self._find_value(plan.entries[0][term]) if value is None else value

    def _find_ranks(self, plan: RegionPlan, cone: Cone) -> Iterator[tuple[Place, int]]:
        """Yield the ranks of what either side starts from, where they do not follow from its inputs."""
        for side, starts in zip(self.planner.sides, plan.list_starts(cone), strict=True):
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
                pairs = open_bodies(self.planner.sides, plan, (a, b), outputs, self._find_value)
            except MemoryLimitError:
                raise
            except (InputError, RefusedError):
                continue
            # Once in a walk: several regions may lead through one operator.
            for pair in pairs if (a, b) not in {key[:2] for key in self._inner} else ():
                names = {name: name for name in pair.feeds}
                judge = self._bodies.get((a, b, pair.place))
                judge = judge or self._open_judge(*pair.models, pair.heads, names)
                self._bodies[a, b, pair.place] = judge
                report = judge.judge([(pair.feeds, pair.feeds)], self._tolerate)
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
        """Return a value of the left side on the last inputs, which is computed anew."""
        inputs = self._sides[-1][0].inputs
        return inputs[get_place(entry)] if get_place(entry) in inputs else self._compute_near(None, 0, [entry], -1)[0]

    def _compute_near(
        self, plan: RegionPlan | None, side: int, entries: Sequence[Entry], number: int, unknown: Collection[Node] = frozenset()
    ) -> list[Any]:
        """Return values of a side on the values of the left model, from those kept of nodes that are not ``unknown``."""
        left, own = self._sides[number][0], self._sides[number][side]
        known: dict[Place, Any] = dict(own.inputs)
        if plan is not None:
            near = {entry.node for entry in entries}.union(unknown)
            for term, value in left.values.items():
                entry = plan.entries[side].get(term)
                like = own.values.get(term)
                if entry is not None and entry.node not in near and _is_array(value) and _is_array(like):
                    known[get_place(entry)] = value.astype(like.dtype, copy=False)  # type: ignore[union-attr]
        return compute_part(self.planner.sides[side].model, list(entries), known)

    def _find_moved(
        self, plan: RegionPlan, cone: Cone, end: Pair, values: tuple[Array, Array], number: int
    ) -> dict[Place, Entry]:
        """Return the pair of which one value is near a namesake, and equal to the other one; nothing where there is none.

        Optimizers give the result of several operators the name of the first, and converters number their values.
        """
        best: tuple[float, dict[Place, Entry]] = (float("inf"), {})
        namesake = compare_values(values[1], values[0], self._tolerate(*values)).max_abs
        for side, other in ((0, 1), (1, 0)):
            entries = self.planner.list_near(end[side], cone, _STEPS, side)
            try:
                # The value of a name that may have moved is that of the left model, which the right one need not have.
                candidates = self._compute_near(plan, side, entries, number, [each[side].node for each in cone.ends])
            except GraphshareError:
                continue
            wanted = values[other]
            for entry, value in zip(entries, candidates, strict=True):
                is_like = _is_array(value) and value.shape == wanted.shape and value.dtype == wanted.dtype
                # An array of zeros equals too many others to show where a name has moved.
                if not is_like or not np.any(value):
                    continue
                comparison = compare_values(value, wanted, self._tolerate(wanted, value))
                apart = comparison.max_abs if comparison or comparison.max_abs * _NEARER <= namesake else float("inf")
                if apart < best[0]:
                    best = apart, {get_place(entry): end[1]} if side == 0 else {get_place(end[0]): entry}
        return best[1]


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _have_same_bits(a: Array, b: Array) -> bool:
    """Return whether two arrays are equal bit for bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


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
