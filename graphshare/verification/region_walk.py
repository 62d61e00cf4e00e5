"""Walk over the regions of two models, computing both sides of each from either model's values.

Departures do not depend on the models' order. A plan is a guess from names and types, and a run
may contradict it: a name stands for a different value, a value is not an array, or a dtype or rank
becomes known. The walk records this and follows new plans until one reveals nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any

import msgspec
import numpy as np

from graphshare.errors import InputError, MemoryLimitError, RefusedError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.verification.bodies import (
    BodyJudges,
    Owners,
    chooses_bodies,
    open_bodies,
    pair_owners,
)
from graphshare.verification.comparison import EXACT, Tolerance, Tolerate
from graphshare.verification.far_values import describe_departure
from graphshare.verification.inner_pairs import FLOATS
from graphshare.verification.inputs import read_bits
from graphshare.verification.moved_names import find_equal, find_moved
from graphshare.verification.noise import allow_share
from graphshare.verification.other_inputs import (
    HIDDEN,
    Trial,
    has_other_meanings,
    has_other_values,
    is_alike,
    is_on_grid,
    only_moves,
)
from graphshare.verification.parts import (
    ModelValues,
    Part,
    are_unlike_sizes,
    compute_part,
    feed_inputs,
    is_array,
)
from graphshare.verification.quantized import reads_same_integers, rounds_apart, weigh_integers
from graphshare.verification.region import (
    BodyJudge,
    Feeds,
    Judgement,
    Region,
    RegionReport,
    Start,
    judge_region,
    make_region,
)
from graphshare.verification.region_plan import (
    Cone,
    Pair,
    PlanChanges,
    Planner,
    RegionPlan,
    find_term,
    get_place,
    get_places,
)
from graphshare.verification.weights import SHIFTING, Weigher, Weighing

_LARGE = 5
"""A region with so many operators on both sides together may be due to meaningless names."""
_UNKNOWN = "no plan of regions holds for its values"


class _Contradiction(Exception):
    """A run contradicts the plan; the next one needs ``changes``."""

    def __init__(self, changes: PlanChanges) -> None:
        super().__init__()
        self.changes = changes


class _Step(msgspec.Struct, eq=False):
    """A region to compute. ``terms`` belong to both parts' targets: its ends, then kept starts.

    A region judged earlier is computed only for later ones; no later step needs the terms ``last``.
    """

    cone: Cone
    parts: tuple[Part, Part]
    terms: list[int]
    is_judged: bool
    last: set[int] = msgspec.field(default_factory=set)

    def close(self) -> None:
        """Both parts close before the next ones open."""
        for part in self.parts:
            part.opened.clear()

    def list_touched(self) -> set[int]:
        return {*self.parts[0].touched.values(), *self.parts[1].touched.values()}


class RegionWalk:
    """A walk along ``plan`` on sets of inputs; ``draws`` have both models' values for each."""

    plan: RegionPlan
    _weigher: Weigher

    def __init__(
        self,
        planner: Planner,
        draws: Sequence[Feeds],
        tolerate: Tolerate,
        bodies: dict[Owners, list[BodyJudge]],
        open_judge: Callable[..., BodyJudge],
        earlier: RegionWalk | None = None,
    ) -> None:
        """``open_judge`` makes judges of two bodies; ``bodies`` keeps them.

        Judgements and values of an ``earlier`` walk on the same inputs stay for regions that start
        from the same values.
        """
        self._planner, self._tolerate = planner, tolerate
        self._bodies = BodyJudges(bodies, open_judge)
        self.draws: list[list[ModelValues]]
        self._judged: dict[tuple[Place, Place], Judgement]
        if earlier is None:
            self.draws = [
                [
                    feed_inputs(side.nodes, own)
                    for side, own in zip(planner.sides, draw, strict=True)
                ]
                for draw in draws
            ]
            self._judged = {}
        else:
            self.draws = earlier.draws
            self._judged = earlier.list_without_bodies()
        self._weighed: dict[tuple[Place, Place], Weighing] = {}

    def run(self) -> None:
        known = self._planner.changes
        while True:
            plan = self._planner.make_plan()
            assert plan is not None
            self.plan, self._judged = plan, dict(self._list_kept(plan))
            with np.errstate(all="ignore"):  # values are tried that a dtype does not hold
                changes = self._follow()
            if not known.lacks(changes):
                return
            pairs = PlanChanges(
                changes.banned, changes.refuted, changes.closed, moved=changes.moved
            )
            has_other_pairs = known.lacks(pairs)
            known.add(changes)
            if has_other_pairs:
                self._judged = self.list_without_bodies()
                known.proved.clear()
                self._bodies.clear()

    def list_without_bodies(self) -> dict[tuple[Place, Place], Judgement]:
        """Return judgements without bodies: pairs behind these may be refuted later."""
        owners = {owner for owner, *_ in self._bodies.reports}
        return {key: each for key, each in self._judged.items() if owners.isdisjoint(each.start[0])}

    def list_regions(self) -> tuple[list[Region], list[RegionReport]]:
        """Return the plan's regions, and the reports of their bodies."""
        regions: list[Region] = []
        inner: list[RegionReport] = []
        unreported = dict(self._bodies.reports)
        for cone in self.plan.cones:
            owners = [each for each in unreported if each[0] in cone.left]
            reports = list(chain(*map(unreported.pop, owners)))
            inner += reports
            # Regions in a body name it.
            regions += chain(*(report.regions for report in reports))
            judged = self._find_judged(cone)
            regions.append(make_region(cone, reason=_UNKNOWN) if judged is None else judged.region)
        return regions, inner

    def list_departed(self) -> list[tuple[Cone, int]]:
        """List departing regions, each with the number of its worst inputs."""
        return [(cone, each.draw) for cone, each in self._list_judged() if each.departs]

    def list_unexplained(self, *, at_heads: bool = False) -> list[Cone]:
        """List inner regions that depart, or would on other inputs.

        With ``at_heads`` list those at heads that would on other inputs.
        """
        unexplained: list[Cone] = []
        for cone, judged in self._list_judged():
            departs = judged.departs and not at_heads
            is_at_head = any(map(self._planner.is_head, cone.ends))
            if is_at_head == at_heads and (departs or judged.region.hidden == HIDDEN):
                unexplained.append(cone)
        return unexplained

    def find_equal(self) -> dict[Place, Entry]:
        """Pair equal values in undecided regions that are large or have uncompared bodies."""
        cones: list[Cone] = []
        for cone, judged in self._list_judged():
            if judged.region.is_weighed:
                continue
            is_large = len(cone.left) + len(cone.right) >= _LARGE
            if is_large or judged.region.switches:
                cones.append(cone)
        return find_equal(self._planner, self.draws[0], cones, self._tolerate) if cones else {}

    def _list_judged(self) -> Iterator[tuple[Cone, Judgement]]:
        for cone in self.plan.cones:
            judged = self._find_judged(cone)
            if judged is not None:
                yield cone, judged

    def explains(self, part: Cone, earlier: RegionWalk) -> bool:
        """Whether the region joined from ``part`` agrees, even on other signs and magnitudes.

        Only weights can explain a fault in weights of an ``earlier`` walk, unless ``part`` only
        scales and shifts.
        """
        nodes = {*part.left, *part.right}
        before = earlier._find_judged(part)
        is_fault = before is not None and before.region.is_fault
        needs_weights = is_fault and not {node.op for node in part.left} <= SHIFTING
        # Operators that have left all regions are exact.
        for cone in self.plan.cones:
            if nodes.isdisjoint(chain(*cone.sides)):
                continue
            judged = self._find_judged(cone)
            if judged is None or not judged.agrees:
                return False
            if needs_weights and not judged.region.is_weighed:
                return False
        return bool(nodes)

    def _find_judged(self, cone: Cone) -> Judgement | None:
        return self._judged.get(get_places(cone.ends[0]))

    def _list_kept(self, plan: RegionPlan) -> Iterator[tuple[tuple[Place, Place], Judgement]]:
        for cone in plan.cones:
            start = _describe_start(plan, cone)
            for key in map(get_places, cone.ends):
                # The old plan may have merged starts, or lacked a value.
                judged = self._judged.get(key)
                if judged and judged.start == start and not judged.region.reason:
                    yield key, judged

    def _follow(self) -> PlanChanges:
        """Judge the remaining regions; return contradictions."""
        changes = PlanChanges()
        self._weigh()
        for values in chain(*self.draws):
            values.by_term.clear()  # term numbers differ between plans
        for step in self._schedule():
            try:
                self._judge(step)
            except MemoryLimitError:
                raise
            except _Contradiction as contradiction:
                changes.add(contradiction.changes)
            except (InputError, RefusedError) as error:
                self._add_judgement(
                    step.cone, make_region(step.cone, reason=error.faults[0].message), 0
                )
            for values in chain(*self.draws):
                for term in step.last:
                    values.by_term.pop(term, None)
        return changes

    def _weigh(self) -> None:
        """Judge regions whose weights decide for every input."""
        fed = set(chain(*(values.inputs for draw in self.draws for values in draw)))
        weigher = Weigher(self._planner.sides, self.plan, self._planner.changes.ranks, fed)
        self._weighed, self._weigher = {}, weigher
        for cone in self.plan.cones:
            if self._is_judged(cone):
                continue
            weighed = weigher.weigh(cone) or weigh_integers(weigher, cone)
            if weighed is None:
                continue
            have_one_dtype = all(map(self._have_one_dtype, cone.ends))
            is_equal = have_one_dtype and not weighed.needs_shapes
            if is_equal and not weighed.unlike:
                self._add_judgement(cone, make_region(cone, steps=weighed.steps), 0)
            else:
                # Wrongly paired values may have different weights: a run shows more.
                self._weighed[get_places(cone.ends[0])] = weighed

    def _is_judged(self, cone: Cone) -> bool:
        return all(get_places(end) in self._judged for end in cone.ends)

    def _have_one_dtype(self, end: Pair) -> bool:
        left, right = (
            side.find_parts(entry)[0] for side, entry in zip(self._planner.sides, end, strict=True)
        )
        return left is not None and left == right

    def _schedule(self) -> list[_Step]:
        """Plan unjudged regions, and earlier ones whose values these need."""
        steps: list[_Step] = []
        makers: dict[int, int] = {}
        for number, cone in enumerate(self.plan.cones):
            steps.append(self._make_step(cone, makers))
            for term in steps[-1].terms:
                makers.setdefault(term, number)
        wanted: set[int] = set()
        read_later: set[int] = set()
        for number, step in reversed(list(enumerate(steps))):
            if number in wanted and step.is_judged and self._recall(step):
                wanted.remove(number)
            elif number in wanted or not step.is_judged:
                touched = step.list_touched()
                step.last = touched - read_later
                read_later |= touched
                wanted |= {number, *(makers[term] for term in touched)}
        return [steps[number] for number in sorted(wanted)]

    def _recall(self, step: _Step) -> bool:
        """Restore a step's values from an earlier plan; return whether all were kept."""
        places = [[get_place(entry) for entry in part.targets] for part in step.parts]
        pairs = list(zip(chain(*self.draws), places * len(self.draws), strict=True))
        if not all(values.kept.keys() >= set(own) for values, own in pairs):
            return False
        for values, own in pairs:
            kept = map(values.kept.__getitem__, own)
            values.by_term.update(zip(step.terms, kept, strict=True))
        return True

    def _make_step(self, cone: Cone, makers: Mapping[int, int]) -> _Step:
        """``makers`` has terms of earlier steps.

        Common starts are kept for later regions, so that few operators are computed twice.
        """
        starts = [
            {t: e for t, e in self.plan.list_starts(cone, side).values() if e.node.op}
            for side in (0, 1)
        ]
        kept = [term for term in starts[0] if term in starts[1] and term not in makers]
        parts = []
        for side, (model, own) in enumerate(zip(self._planner.sides, starts, strict=True)):
            targets = [*(end[side] for end in cone.ends), *(own[term] for term in kept)]
            parts.append(Part(model.model, targets, *self.plan.trace(side, targets, makers)))
        terms = [*(find_term(self.plan.left, a) for a, _ in cone.ends), *kept]
        return _Step(cone, (parts[0], parts[1]), terms, self._is_judged(cone))

    def _judge(self, step: _Step) -> None:
        """Compute both sides of a region, and judge it unless already judged.

        Raises InputError if the backend rejects a side, RefusedError if its computation fails.
        """
        compared: list[tuple[Region, int]] = []
        is_same = True
        try:
            for number, draw in enumerate(self.draws):
                cases = self._compute(step, draw)
                if step.is_judged:
                    continue
                for source, values in enumerate(cases):
                    for end, left, right in zip(step.cone.ends, *values, strict=False):
                        region = self._compare_end(step.cone, end, (left, right), source, number)
                        compared.append((region, number))
                        is_same &= region.is_identical
            if compared:
                region, number = max(compared, key=lambda each: (not each[0], each[0].error))
                region = self._look_deeper(step, region, is_same=is_same)
                self._add_judgement(step.cone, region, number)
        finally:
            step.close()

    def _add_judgement(self, cone: Cone, region: Region, number: int) -> None:
        judged = Judgement(region, number, _describe_start(self.plan, cone))
        self._judged.update(dict.fromkeys(map(get_places, cone.ends), judged))

    def _compute(self, step: _Step, draw: Sequence[ModelValues]) -> list[list[list[Any]]]:
        """Compute both sides from the left model's values and, if these differ, from the right's.

        Values from a side's own model are kept.
        """
        left, right = draw
        cases = [[own.compute(part, left) for part, own in zip(step.parts, draw, strict=True)]]
        targets = zip(step.parts[0].targets, cases[0][0], strict=True)
        closed = {get_place(entry) for entry, value in targets if not is_array(value)}
        heads = filter(self._planner.is_head, step.cone.ends)
        # Sequences and optional values cannot be fed: regions start before them.
        if not closed <= {get_place(left) for left, _ in heads}:
            raise _Contradiction(PlanChanges(closed=closed))
        if any(right.by_term[term] is not left.by_term[term] for term in step.list_touched()):
            cases.append(
                [own.compute(part, right) for part, own in zip(step.parts, draw, strict=True)]
            )
        for term, value, other in zip(step.terms, cases[0][0], cases[-1][1], strict=True):
            left.by_term[term] = value
            # One array for equal bits
            right.by_term[term] = value if read_bits(value) == read_bits(other) else other
        for own, part in zip(draw, step.parts, strict=True):
            for term, entry in zip(step.terms, part.targets, strict=True):
                own.keep(get_place(entry), own.by_term[term])
        return cases

    def _compare_end(
        self, cone: Cone, end: Pair, values: tuple[Any, Any], source: int, number: int
    ) -> Region:
        """Both sides computed the end from values of side ``source``."""
        left, right = values
        are_arrays = is_array(left) and is_array(right)
        if are_arrays:
            self._check_dtypes(end, str(left.dtype), str(right.dtype))
        wanted, value = values[source], values[1 - source]
        tolerance = allow_share(self._tolerate(wanted, value), end)
        region = judge_region(cone, value, wanted, tolerance)
        if region:
            return region
        if rounds_apart(value, wanted, end) and reads_same_integers(self._weigher, cone):
            region = judge_region(cone, value, wanted, msgspec.structs.replace(tolerance, atol=1.0))
            region = msgspec.structs.replace(region, one_step=True)
        # Outputs must not move: callers get them by name. An inner name may mean another value.
        may_move = source == 0 and not self._planner.is_head(end)
        if may_move and are_arrays and not region:
            moved = find_moved(
                self._planner, self.plan, self.draws[number], cone, end, values, self._tolerate
            )
            if moved or are_unlike_sizes(left, right):
                raise _Contradiction(
                    PlanChanges(banned={get_place(end[0])}, refuted={get_places(end)}, moved=moved)
                )
        return region

    def _check_dtypes(self, end: Pair, dtype: str, other: str) -> None:
        """Raise a contradiction if the plan does not know yet that floats have different dtypes.

        Right consumers get the value in the dtype that the run shows.
        """
        are_floats = {dtype, other} <= FLOATS
        if dtype == other or not are_floats:
            return
        if self.plan.right.key(end[1])[0] == "cut":
            raise _Contradiction(PlanChanges(dtypes={get_place(end[0]): other}))

    def _look_deeper(self, step: _Step, region: Region, *, is_same: bool) -> Region:
        same = self._decide(step, region, is_same=is_same)
        return self._find_hidden(step, region, is_same=is_same) if same is None else same

    def _decide(self, step: _Step, region: Region, *, is_same: bool) -> Region | None:
        """Use weights or moved labels; return None if neither decides."""
        weighed = self._weighed.get(get_places(step.cone.ends[0]))
        if weighed is not None:
            if weighed.unlike:
                return msgspec.structs.replace(region, unlike=weighed.unlike)
            if region:  # departing values count more than near weights
                return msgspec.structs.replace(region, steps=weighed.steps)
        if not is_same or not only_moves(step.cone):
            return None
        for number in range(len(self.draws)):
            trial = self._make_trial(step, number, EXACT)
            if not trial.moves_alike():
                return None
        return msgspec.structs.replace(region, steps=0.0)

    def _find_hidden(self, step: _Step, region: Region, *, is_same: bool) -> Region:
        """Add what equal values hide to a region."""
        cone = step.cone
        if any(node.subgraphs for node in chain(*cone.sides)):
            step.close()
        # Terms differ but bits agree: either the change does not show, or there is none.
        entered, learned = self._enter_bodies(cone)
        # Bodies judged by themselves hide nothing.
        rest = cone.leave_out(entered)
        self._learn(
            step, learned, needs_ranks=is_same and is_alike(rest, apart=("Identity", "_copy"))
        )
        unentered = [node for node in chain(*rest.sides) if node.subgraphs]
        # A run compares at most one body of such an If: the report counts over all rounds.
        switches = tuple(dict.fromkeys(node.name for node in unentered if node.op == "If"))
        hidden = self._name_hidden(
            step, rest, unentered, is_same=is_same, can_try=bool(region) and not entered
        )
        note = ""
        if region and not unentered:
            trials = [self._make_trial(step, number) for number in range(len(self.draws))]
            note = describe_departure(trials, self._weigher.list_constants(cone))
        return msgspec.structs.replace(region, hidden=hidden, switches=switches, note=note)

    def _name_hidden(
        self, step: _Step, rest: Cone, unentered: Sequence[Node], *, is_same: bool, can_try: bool
    ) -> str:
        """Describe what equal values hide; try other inputs with ``can_try``.

        Operators in ``rest`` were not judged by themselves. Raises a contradiction where a name may
        pair wrongly.
        """
        is_like = is_same and is_alike(rest) and not has_other_meanings(self.plan, rest)
        # A body that always runs would have shown a difference.
        is_chosen = any(map(chooses_bodies, unentered))
        if is_like and (is_chosen or has_other_values(self.plan, rest)):
            return "attributes, constants, functions or bodies differ"
        if not can_try or is_chosen or is_on_grid(rest):
            return ""
        hidden = self._make_trial(step).find_hidden(is_same=is_same, is_like=is_like)
        if hidden == HIDDEN:
            self._contradict(self.plan.find_leaks(step.cone))
        return hidden

    def _contradict(self, changes: PlanChanges) -> None:
        """Raise a contradiction if the plan was made without these changes."""
        if self._planner.changes.lacks(changes):
            raise _Contradiction(changes)

    def _learn(self, step: _Step, learned: PlanChanges, *, needs_ranks: bool) -> None:
        if needs_ranks:
            # Identities of reshapes and transposes need ranks; only a run may know these.
            step.close()
            learned.ranks.update(self.find_ranks(self.plan, [step.cone]))
        self._contradict(learned)

    def _make_trial(
        self, step: _Step, number: int = -1, tolerance: Tolerance | None = None
    ) -> Trial:
        """The default set is the last: it has more samples."""

        def read(term: int) -> Any:
            value = self.draws[number][0].by_term.get(term)
            if value is None:
                value = self._find_value(self.plan.entries[0][term], number)
            return value

        inputs = [values.inputs for values in self.draws[number]]
        tolerate = self._tolerate if tolerance is None else lambda wanted, value: tolerance
        return Trial(self._planner.sides, self.plan, step.cone, step.parts, inputs, read, tolerate)

    def find_ranks(self, plan: RegionPlan, cones: Iterable[Cone]) -> dict[Place, int]:
        """Measure ranks of regions' starts that do not follow from the model's inputs.

        Raises as :func:`compute_part`.
        """
        known, unknown = self._planner.changes.ranks, dict[Place, Entry]()
        for cone, (number, side) in product(cones, enumerate(self._planner.sides)):
            for place, (term, entry) in plan.list_starts(cone, number).items():
                if place in known or term not in plan.sources:
                    continue
                shape = side.find_parts(entry)[1]
                if shape is None:
                    unknown[place] = plan.sources[term]
        values = self._find_values(list(unknown.values()))
        return dict(zip(unknown, map(np.ndim, values), strict=True))

    def _enter_bodies(self, cone: Cone) -> tuple[set[Node], PlanChanges]:
        """Judge bodies of operators; return these operators, and proofs for their values."""
        entered: set[Node] = set()
        learned = PlanChanges()
        for owners in pair_owners(self.plan, cone):
            try:
                pairs = open_bodies(self._planner.sides, self.plan, owners, self._find_value)
            except MemoryLimitError:
                raise
            except (InputError, RefusedError):
                continue
            a, b, outputs = owners
            entered |= {a, b}
            self._bodies.judge(owners, pairs, self._tolerate)
            # Exact bodies prove the outputs: the next plan needs no region for them.
            if self._bodies.are_exact(owners):
                learned.proved.update({(a, i): Entry(b, j) for i, j in outputs})
        return entered, learned

    def _find_value(self, entry: Entry, number: int = -1) -> Any:
        return self._find_values([entry], number)[0]

    def _find_values(self, entries: Sequence[Entry], number: int = -1) -> list[Any]:
        inputs = self.draws[number][0].inputs
        computed = [entry for entry in entries if get_place(entry) not in inputs]
        values = compute_part(self._planner.sides[0].model, computed, inputs) if computed else []
        known = {**inputs, **dict(zip(map(get_place, computed), values, strict=True))}
        return [known[get_place(entry)] for entry in entries]


def _describe_start(plan: RegionPlan, cone: Cone) -> Start:
    """Return both sides' operators, and left values of right starts."""
    sources = plan.list_sources(cone)
    starts = {
        place: (get_place(source), plan.find_dtype(entry))
        for place, (entry, source) in sources.items()
    }
    return cone.left, cone.right, starts
