"""A region (a part that differs between two models), its judgement, and the report of all regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.formats.params.comparison import Comparison
from graphshare.ir.graph import Node
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerance, Tolerate, compare_values, find_share

if TYPE_CHECKING:
    from graphshare.verification.region_plan import Cone

Feeds = tuple[Mapping[str, Array], Mapping[str, Array]]
"""The values of inputs of both models, by their names there."""
Start = tuple[tuple[Node, ...], tuple[Node, ...], Mapping[Place, tuple[Place, str | None]]]
"""Both sides' operators in a region, and by right start its left value and its own dtype."""


_NEARLY_EQUAL = 1e-2  # of the largest number


class BodyJudge(Protocol):
    """Judges two bodies as separate models."""

    def find_exact(self) -> RegionReport | None:
        """Report two bodies if every operator is exact, else return None."""
        ...

    def judge(self, draws: Sequence[Feeds], tolerate: Tolerate) -> RegionReport | None:
        """Report all regions on sets of inputs."""
        ...


class Operator(msgspec.Struct, frozen=True):
    """An operator of a region."""

    op: str
    name: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"


class Region(msgspec.Struct, frozen=True):
    """A part that differs between the sides: its ends (computed values) and both sides' nodes.

    ``comparison`` is of the worst end, and ``of_largest`` its difference relative to the largest
    number; both are None if weights decide. ``tolerance`` is the allowed ``of_largest``. ``reason``
    says why nothing was compared, ``place`` names the body around the region. ``hidden`` describes
    differences that equal values do not show; ``switches`` are Ifs with at most one compared body.
    ``steps`` is the distance of deciding weights, for every input; ``unlike`` describes those too
    far apart. ``note`` says where sides diverge far from the values on which they agree. With
    ``one_step`` a few quantized numbers are one step apart.
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
    steps: float | None = None
    unlike: str = ""
    note: str = ""
    one_step: bool = False

    def __bool__(self) -> bool:
        if self.unlike:
            return False
        return self.steps is not None if self.comparison is None else bool(self.comparison)

    @property
    def error(self) -> float:
        """The difference relative to the largest number; infinity if unknown."""
        return float("inf") if self.of_largest is None else self.of_largest

    @property
    def is_fault(self) -> bool:
        """Whether different weights give nearly equal values: a fault, not unrelated namesakes."""
        return bool(self.unlike) and self.error <= _NEARLY_EQUAL

    @property
    def is_identical(self) -> bool:
        """Whether both sides' values are equal bit for bit."""
        return self.comparison is not None and self.comparison.identical

    @property
    def is_weighed(self) -> bool:
        """Whether weights show equality for every input."""
        return bool(self) and self.steps is not None


class Judgement(msgspec.Struct, frozen=True):
    """A judged region, the inputs that show it best, and the starts behind it."""

    region: Region
    draw: int
    start: Start

    @property
    def departs(self) -> bool:
        return not self.region and not self.region.reason

    @property
    def agrees(self) -> bool:
        """Whether the sides agree, even on other signs and magnitudes."""
        return bool(self.region) and not self.region.hidden


class RegionReport(msgspec.Struct, frozen=True):
    """The judged regions, the identities used, and how many of the original's operators are exact.

    ``taken`` has the condition of each If of the original. ``defined`` counts fused operators
    compared by definition: they round differently.
    """

    exact: int
    operators: int
    identities: Mapping[str, int]
    regions: tuple[Region, ...] = ()
    taken: Mapping[str, bool] = msgspec.field(default_factory=dict)
    defined: int = 0

    def __bool__(self) -> bool:
        return all(self.regions)


def make_region(
    cone: Cone, reason: str = "", steps: float | None = None, unlike: str = ""
) -> Region:
    """Return a region without values: not judged for a ``reason``, or judged by weights.

    Weights are ``steps`` apart; ``unlike`` describes any too far apart.
    """
    ends = tuple((output_name(a), output_name(b)) for a, b in cone.ends)
    nodes, others = (
        tuple(Operator(node.op, node.shown_name) for node in side) for side in cone.sides
    )
    return Region(ends, nodes, others, reason=reason, steps=steps, unlike=unlike)


def judge_region(cone: Cone, value: Any, wanted: Any, tolerance: Tolerance) -> Region:
    """Judge a region by the values of one end."""
    comparison = compare_values(value, wanted, tolerance)
    share = find_share(comparison, wanted)
    return msgspec.structs.replace(
        make_region(cone), comparison=comparison, of_largest=share, tolerance=tolerance.of_largest
    )


def group_regions(rounds: Sequence[RegionReport]) -> list[list[Region]]:
    """Group all runs' judgements by region."""
    groups: dict[object, list[Region]] = {}
    for region in chain(*(each.regions for each in rounds)):
        groups.setdefault((region.place, region.ends), []).append(region)
    return list(groups.values())


def rank_region(region: Region) -> tuple[int, float, bool]:
    """Return a sort key: 0 if not judged, 1 if equal, 2 if departing; then the distance."""
    if region.comparison is None:
        return int(bool(region)), 0.0, False
    if not region:
        return 2, 0.0, False
    return 1, region.of_largest or 0.0, not region.comparison.identical


def merge_rounds(rounds: Sequence[RegionReport]) -> tuple[list[Region], list[Region], list[Region]]:
    """Return unjudged, equal and departing regions, each from its most significant run."""
    by_rank: tuple[list[Region], list[Region], list[Region]] = [], [], []
    for group in group_regions(rounds):
        region = max(group, key=rank_region)
        by_rank[rank_region(region)[0]].append(region)
    return by_rank


def name_end(region: Region) -> str:
    """Name a region's first value on both sides, and the body around it."""
    name = " and ".join(dict.fromkeys(region.ends[0]))
    return f"{name} in {region.place}" if region.place else name
