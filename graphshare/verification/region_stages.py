"""Stages of a proof from regions: counts, departures, and differences hidden by equal values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from graphshare.text.format import format_count
from graphshare.verification.comparison import TITLES
from graphshare.verification.region import (
    Region,
    RegionReport,
    group_regions,
    merge_rounds,
    name_end,
    rank_region,
)
from graphshare.verification.report import SHOWS_MORE, Stage, Verdict, describe_difference

_SHOWN = 8
"""The most operators of a region, or notes, to list."""


def region_stage(rounds: Sequence[RegionReport]) -> Stage:
    """Return the stage of all runs' regions, naming the first departure."""
    (unjudged, near, departed), last = merge_rounds(rounds), rounds[-1]
    parts = [f"{last.exact:,} of {format_count(last.operators, 'operator')} exact"]
    if last.defined:
        parts.append(f"{format_count(last.defined, 'fused operator')} by definition")
    parts += _count_near(near)
    verdict: Verdict = "holds"
    if unjudged:
        verdict = "unknown"
    if departed:
        verdict = "fails"
        parts.append(f"{format_count(len(departed), 'region')} DIFFER{'S' * (len(departed) == 1)}")
    if unjudged:
        parts.append(f"{format_count(len(unjudged), 'region')} not judged")
    wrong = [*departed, *unjudged]
    details: list[str] = []
    if wrong:
        details += _describe_region(wrong[0])
    if len(wrong) > 1:
        details.append(f"and {len(wrong) - 1} more (--format json lists all)")
    details += _list_notes(rounds)
    return Stage("regions", verdict, ", ".join(parts), tuple(details))


def _list_notes(rounds: Sequence[RegionReport]) -> Iterator[str]:
    noted: dict[str, Region] = {}
    for region in chain(*group_regions(rounds)):
        if region.note:
            noted[name_end(region)] = region
    # Hidden differences have a separate stage.
    notes = [f"{name}: {region.note}" for name, region in noted.items() if not region.hidden]
    yield from notes[:_SHOWN]
    if len(notes) > _SHOWN:
        yield f"and {len(notes) - _SHOWN} more such notes (--format json lists all)"


def _count_near(near: Sequence[Region]) -> Iterator[str]:
    weighed: list[float] = []
    sampled: list[tuple[int, float, bool]] = []
    stepped = 0
    for region in near:
        stepped += region.one_step
        if region.is_weighed:
            weighed.append(region.steps or 0.0)
        elif not region.one_step:
            sampled.append(rank_region(region))
    if weighed:
        yield f"{format_count(len(weighed), 'region')} by weights (at most {max(weighed):.1f} steps)"
    if stepped:
        yield f"{format_count(stepped, 'region')} at most one step apart"
    if sampled:
        _, distances, differ = zip(*sampled, strict=True)
        how = "bit for bit"
        if any(differ):
            how = f"within {max(distances):.1g} of the largest number"
        yield f"{format_count(len(sampled), 'region')} {how}"


def add_regions(stages: Sequence[Stage], rounds: Sequence[RegionReport]) -> tuple[Stage, ...]:
    """Insert the stages of regions before the values, and hidden differences at the end."""
    if not any(each.regions or each.defined for each in rounds):
        return tuple(stages)
    place = [stage.name for stage in stages].index("values")
    result = (*stages[:place], region_stage(rounds), *_list_unlike(rounds), *stages[place:])
    failed = {stage.name for stage in result if stage.verdict == "fails"}
    if not failed <= set(SHOWS_MORE):
        return result
    return (*result, *_list_hidden(rounds))


def _list_unlike(rounds: Sequence[RegionReport]) -> Iterator[Stage]:
    """If nothing but weights differs, some input shows it."""
    departed = merge_rounds(rounds)[2]
    # A second difference may cancel the first.
    if len(departed) != 1:
        return
    (region,) = departed
    # No input may reach a body.
    if region.unlike and not region.place:
        detail = f"{name_end(region)}: {region.unlike}"
        yield Stage("weights", "fails", "1 region with other weights", (detail,))


def _list_hidden(rounds: Sequence[RegionReport]) -> Iterator[Stage]:
    hidden: list[str] = []
    switches: dict[str, None] = {}
    for group in group_regions(rounds):
        judged = [region for region in group if region.comparison is not None]
        # One round that could show the change is enough.
        if judged and all(region.hidden for region in judged):
            hidden.append(_describe_hidden(judged[0]))
        for region in judged:
            switches.update(dict.fromkeys(region.switches))
    unreached: list[str] = []
    for name in switches:
        # An If may not take a body without a counterpart in each round.
        taken = {each.taken.get(name) for each in rounds}
        if not {True, False} <= taken:
            unreached.append(f"{name!r}: one of its bodies was compared with nothing")
    if hidden:
        count = format_count(len(hidden), "place")
        summary = f"differences in {count} changed no value that was computed; `feeds` gives inputs that may show them"
        yield Stage("changes", "fails", summary, (*hidden, *unreached))
    elif unreached:
        summary = f"{format_count(len(unreached), 'If')} with a body that was not reached; `feeds` gives other inputs"
        yield Stage("changes", "unknown", summary, tuple(unreached))


def _describe_hidden(region: Region) -> str:
    text = f"{name_end(region)}: {region.hidden}"
    if region.note:
        text += f"; {region.note}"
    return text


def _describe_region(region: Region) -> Iterator[str]:
    if region.comparison is None:
        how = f"not judged: {region.reason}"
    elif region.comparison:
        how = region.unlike
    else:
        how = describe_difference(region.comparison)
    yield f"first at {name_end(region)}: {how}"
    for title, nodes in zip(TITLES, (region.nodes, region.other_nodes), strict=True):
        operators = ", ".join(map(str, nodes[-_SHOWN:])) or "nothing"
        if len(nodes) > _SHOWN:
            operators += f" and {len(nodes) - _SHOWN} more"
        yield f"{title} computes it by {operators}"
