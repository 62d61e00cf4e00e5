"""Judge two models region by region.

Exact parts are not compared. A walk (:mod:`.region_walk`) compares the regions of the rest
(:mod:`.region_plan`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from typing import Any

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import InputError, RefusedError
from graphshare.formats.params.records import find_coarsest
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.verification.bodies import Owners, choose_bodies, find_decided
from graphshare.verification.comparison import (
    Tolerance,
    Tolerate,
    tolerate_dtype,
    tolerate_other_program,
)
from graphshare.verification.region import BodyJudge, Feeds, Region, RegionReport, make_region
from graphshare.verification.region_plan import (
    Cone,
    Pair,
    PlanChanges,
    Planner,
    RegionPlan,
    get_places,
)
from graphshare.verification.region_walk import RegionWalk
from graphshare.verification.weights import Weigher

_JOINS = 4
"""The most times that regions are joined with their readers."""


class Departure(msgspec.Struct, frozen=True, eq=False):
    """A region that departs on ``feeds``, values by input names on the left."""

    planner: Planner
    plan: RegionPlan
    cone: Cone
    feeds: Mapping[str, Array]


class Judge:
    """Compares two models with paired heads and inputs, by terms, then by regions on inputs.

    ``departures`` are of the last inputs.
    """

    def __init__(
        self,
        left: Checkpoint,
        right: Checkpoint,
        heads: Sequence[Pair],
        inputs: Mapping[str, str],
        *,
        compares_outputs: bool = False,
    ) -> None:
        """``inputs`` maps left to right names.

        With ``compares_outputs`` the caller compares outputs on the inputs of :meth:`judge`, so
        their shapes are known to be equal.
        """
        self._planner, self._inputs = Planner(left, right, heads, inputs), inputs
        self._compares_outputs = compares_outputs
        self._plan: RegionPlan | None = None
        self._bodies: dict[Owners, list[BodyJudge]] = {}
        self.departures: Sequence[Departure] = ()

    def find_exact(self) -> RegionReport | None:
        if self._plan is None:
            self._plan = self._planner.make_plan()
            # Facts need type inference and a run of the constants; terms may be enough.
            while self._plan is not None and self._plan.cones:
                self._planner.read_facts()
                self._plan = self._planner.make_plan()
                planner = self._choose_bodies()
                if planner is None:
                    break
                # A body that replaces its If adds names, and may contain further Ifs on constants.
                planner.defined += self._planner.defined
                self._planner = planner
            if self._plan is not None and self._plan.cones:
                plan = self._planner.make_plan(by_name=False)
                if plan is not None and not plan.cones:
                    self._plan = plan
        if self._plan is None or self._plan.cones or self._planner.defined:
            return None
        return self._report(self._plan, [])

    def _choose_bodies(self) -> Planner | None:
        """Replace Ifs on constants if only one model has them; else return None."""
        assert self._plan is not None
        sides = self._planner.sides
        decided = [
            find_decided(side, terms) for side, terms in zip(sides, self._plan.terms, strict=True)
        ]
        if len(decided[0]) == len(decided[1]):  # Ifs of both models are compared as written
            return None
        (left, lefts), (right, rights) = (
            choose_bodies(side, own) for side, own in zip(sides, decided, strict=True)
        )
        if left is sides[0].model and right is sides[1].model:
            return None
        return Planner(left, right, list(zip(lefts, rights, strict=True)), self._inputs)

    def judge(self, draws: Sequence[Feeds], tolerate: Tolerate) -> RegionReport | None:
        """Judge all regions on sets of inputs; None without a normal form.

        A set has both sides' values by their own input names. A region departs if it does on either
        side's values, for any set.
        """
        exact = self.find_exact()
        if exact is not None or self._plan is None:
            return exact
        self._planner.changes.ranks.clear()  # other inputs may have other ranks
        walk = self._walk(draws, tolerate)
        equal = PlanChanges(moved=walk.find_equal())
        if self._planner.changes.lacks(equal):
            self._planner.changes.add(equal)
            walk = self._walk(draws, tolerate, walk)
        pairs = {cone: set(map(get_places, cone.ends)) for cone in walk.list_unexplained()}
        for cone in walk.list_unexplained(at_heads=True):
            starts = walk.plan.list_starts_among(equal.moved, cone)
            if starts:
                pairs[cone] = starts
        if pairs:
            walk = self._join_unexplained(draws, tolerate, walk, pairs)
        regions, inner = walk.list_regions()
        if not all(region.is_weighed for region in regions):
            weighed = self._weigh_without_names(walk, knows_shapes=self._compares_outputs)
            if weighed is not None:
                self.departures = []
                return weighed
        self.departures = [
            Departure(self._planner, walk.plan, cone, draws[number][0])
            for cone, number in walk.list_departed()
        ]
        return self._report(walk.plan, regions, inner)

    def weigh(self) -> RegionReport | None:
        """Judge all regions by weights, without values; None if these do not decide all of them.

        Raises MemoryLimitError.
        """
        plan = self._planner.make_plan()
        if plan is None:
            return None
        report = self._weigh_plan(plan)
        if report is not None:
            return report
        exact = self.find_exact()
        assert self._plan is not None
        return exact or self._weigh_plan(self._plan) or self._weigh_without_names()

    def _weigh_without_names(
        self, walk: RegionWalk | None = None, *, knows_shapes: bool = False
    ) -> RegionReport | None:
        """Judge both models as one expression; None unless weights show equality.

        Ranks may come from the values of a ``walk``.
        """
        plan = self._planner.make_plan(by_name=False)
        assert plan is not None
        if walk is not None:
            with suppress(InputError, RefusedError):  # weights may decide without ranks
                self._planner.changes.ranks.update(walk.find_ranks(plan, plan.cones))
        return self._weigh_plan(plan, knows_shapes=knows_shapes) or None

    def _weigh_plan(self, plan: RegionPlan, *, knows_shapes: bool = False) -> RegionReport | None:
        """Return None if weights do not decide all regions.

        With ``knows_shapes`` the shapes of all ends are known to be equal.
        """
        weigher = Weigher(self._planner.sides, plan, self._planner.changes.ranks)
        regions = []
        for cone in plan.cones:
            weighed = weigher.weigh(cone)
            if weighed is None or (weighed.needs_shapes and not knows_shapes):
                return None
            regions.append(make_region(cone, steps=weighed.steps, unlike=weighed.unlike))
        return self._report(plan, regions)

    def _walk(
        self, draws: Sequence[Feeds], tolerate: Tolerate, earlier: RegionWalk | None = None
    ) -> RegionWalk:
        walk = RegionWalk(self._planner, draws, tolerate, self._bodies, Judge, earlier)
        walk.run()
        return walk

    def _join_unexplained(
        self,
        draws: Sequence[Feeds],
        tolerate: Tolerate,
        walk: RegionWalk,
        cones: Mapping[Cone, set[tuple[Place, Place]]],
    ) -> RegionWalk:
        """Return a walk without wrong pairs; ``cones`` are regions with pairs that may be wrong.

        An inner region that departs, or would on other inputs, is joined with its readers; a region
        at a head, with the operators that compute its equal starts. If the joined sides agree, even
        on other inputs, the values were not meant to be equal. If they agree only on the drawn
        inputs, something such as a Relu hides the difference; if they disagree, it reaches further:
        in both cases the region departs. Values equal by chance, such as an Abs of positive
        numbers, cause further wrong pairs, joined likewise.
        """
        known = self._planner.changes
        pairs = {cone: set(own) for cone, own in cones.items()}
        nodes = {cone: set(chain(*cone.sides)) for cone in cones}
        known.refuse(set(chain(*pairs.values())))
        joined = self._walk(draws, tolerate, walk)
        for _ in range(_JOINS):
            has_more = False
            for cone, each in product(cones, joined.list_unexplained()):
                if not nodes[cone].isdisjoint(chain(*each.sides)):
                    pairs[cone].update(map(get_places, each.ends))
                    has_more = True
            if not has_more:
                break
            known.refuse(set(chain(*pairs.values())))
            joined = self._walk(draws, tolerate, joined)
        kept = [cone for cone in cones if not joined.explains(cone, walk)]
        if not kept:
            return joined
        known.restore(set(chain(*(pairs[cone] for cone in kept))))
        return walk if len(kept) == len(cones) else self._walk(draws, tolerate, walk)

    def _report(
        self, plan: RegionPlan, regions: Sequence[Region], inner: Sequence[RegionReport] = ()
    ) -> RegionReport:
        nodes = [node for node in self._planner.sides[0].nodes if node.op]
        inside = {node for cone in plan.cones for node in cone.left}
        used: Counter[str] = plan.left.form.used + plan.right.form.used
        exact, operators = sum(node not in inside for node in nodes), len(nodes)
        for each in inner:
            exact, operators = exact + each.exact, operators + each.operators
            used.update(each.identities)
        return RegionReport(
            exact, operators, dict(used), tuple(regions), defined=self._planner.defined
        )


def tolerate_region(dtype: str, chosen: Tolerance) -> Tolerate:
    """Return a tolerance for ends, by ``dtype`` or else the values' coarser one."""

    def tolerate(wanted: Any, value: Any) -> Tolerance:
        if dtype:
            return tolerate_dtype(dtype, chosen)
        arrays = [each for each in (wanted, value) if isinstance(each, np.ndarray)]
        coarsest = find_coarsest(str(each.dtype) for each in arrays)
        if coarsest in ("float16", "bfloat16"):
            return tolerate_dtype(coarsest, chosen)
        return tolerate_other_program(chosen)

    return tolerate
