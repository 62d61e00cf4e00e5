"""A part that is not the same in two models, how it was judged, and the report of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.formats.params.comparison import Comparison
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerance, Tolerate, compare_values, find_share

if TYPE_CHECKING:
    from graphshare.verification.region_plan import Cone

Feeds = tuple[Mapping[str, Array], Mapping[str, Array]]
"""The values of inputs of both models, by their names there."""


_NEARLY_EQUAL = 1e-2  # of the largest number


class BodyJudge(Protocol):
    """What judges two bodies as models of their own."""

    def find_exact(self) -> RegionReport | None:
        """Return the report of two bodies of which every operator is exact; None where some are not."""
        ...

    def judge(self, draws: Sequence[Feeds], tolerate: Tolerate) -> RegionReport | None:
        """Return the report of all regions on sets of inputs."""
        ...


class Operator(msgspec.Struct, frozen=True):
    """An operator of a region: what it is, and its name."""

    op: str
    name: str

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"


class Region(msgspec.Struct, frozen=True):
    """A part that is not the same on both sides: its ends, the values that it computes, and its nodes on either side.

    ``comparison`` is that of the end that is furthest apart, ``of_largest`` how far relative to the largest number there;
    None where weights decide.
    ``tolerance`` is what was allowed of that number; ``reason`` is why nothing was compared, ``place`` the body that it is in.
    ``hidden`` is what equal values do not show, in words, and ``switches`` are the names of Ifs of which at most one body was
    compared. ``steps`` is how far the weights of both sides are apart where these decide, for every input; where they are too
    far apart, ``unlike`` says in words which. ``note`` says where both sides
    part, far from the values that they agree on. With ``one_step`` a few quantized numbers are one step apart.
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
        return (self.steps is not None if self.comparison is None else bool(self.comparison)) and not self.unlike

    @property
    def error(self) -> float:
        """The difference as a part of the largest number; infinity where that is not known."""
        return float("inf") if self.of_largest is None else self.of_largest

    @property
    def is_fault(self) -> bool:
        """Whether unlike weights make nearly equal values, which are one value with a fault, and not two values of one name."""
        return bool(self.unlike) and self.error <= _NEARLY_EQUAL

    @property
    def is_weighed(self) -> bool:
        """Whether it is the same on both sides for every input, by its weights."""
        return bool(self) and self.steps is not None


class RegionReport(msgspec.Struct, frozen=True):
    """How many operators of the original are exact in the other model, by which identities, and the regions that are not.

    ``taken`` has for each If of the original whether its condition was true. ``defined`` is the number of fused operators that
    were compared by their definitions, which round in another way.
    """

    exact: int
    operators: int
    identities: Mapping[str, int]
    regions: tuple[Region, ...] = ()
    taken: Mapping[str, bool] = msgspec.field(default_factory=dict)
    defined: int = 0

    def __bool__(self) -> bool:
        return all(self.regions)


def make_region(cone: Cone, reason: str = "", steps: float | None = None, unlike: str = "") -> Region:
    """Return a region of which no values are compared: it is not judged for a reason, or its weights are ``steps`` apart.

    ``unlike`` says which of them are too far apart.
    """
    ends = tuple((output_name(a), output_name(b)) for a, b in cone.ends)
    nodes, others = (tuple(Operator(node.op, node.shown_name) for node in side) for side in cone.sides)
    return Region(ends, nodes, others, reason=reason, steps=steps, unlike=unlike)


def judge_region(cone: Cone, value: Any, wanted: Any, tolerance: Tolerance) -> Region:
    """Return a region that is judged by the values of one of its ends."""
    comparison = compare_values(value, wanted, tolerance)
    share = find_share(comparison, wanted)
    return msgspec.structs.replace(make_region(cone), comparison=comparison, of_largest=share, tolerance=tolerance.of_largest)


def group_regions(rounds: Sequence[RegionReport]) -> list[list[Region]]:
    """Return the regions of all runs: for each what became of it in every run."""
    groups: dict[object, list[Region]] = {}
    for region in (region for each in rounds for region in each.regions):
        groups.setdefault((region.place, region.ends), []).append(region)
    return list(groups.values())


def rank_region(region: Region) -> tuple[int, float, bool]:
    """Return how much a run says: 0 without a judgement, 1 where both sides are equal, 2 where they depart; then how far."""
    if region.comparison is None:
        return int(bool(region)), 0.0, False
    return (1, region.of_largest or 0.0, not region.comparison.identical) if region else (2, 0.0, False)


def merge_rounds(rounds: Sequence[RegionReport]) -> tuple[list[Region], list[Region], list[Region]]:
    """Return the regions that no run judged, those that are equal and those that depart, each as the run that says most."""
    by_rank: tuple[list[Region], list[Region], list[Region]] = [], [], []
    for group in group_regions(rounds):
        region = max(group, key=rank_region)
        by_rank[rank_region(region)[0]].append(region)
    return by_rank


def name_end(region: Region) -> str:
    """Return the name of the first value that a region computes, on both sides, and the body that it is in."""
    name = " and ".join(dict.fromkeys(region.ends[0]))
    return f"{name} in {region.place}" if region.place else name
