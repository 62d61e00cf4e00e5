"""Stages of a proof from regions: counts, departures, and differences hidden by equal values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    if departed:
        parts.append(f"{format_count(len(departed), 'region')} DIFFER{'S' * (len(departed) == 1)}")
    if unjudged:
        parts.append(f"{format_count(len(unjudged), 'region')} not judged")
    wrong = [*departed, *unjudged]
    details = [text for region in wrong[:1] for text in _describe_region(region)]
    if len(wrong) > 1:
        details.append(f"and {len(wrong) - 1} more (--format json lists all)")
    details += _list_notes(rounds)
    verdict: Verdict = "fails" if departed else "unknown" if unjudged else "holds"
    return Stage("regions", verdict, ", ".join(parts), tuple(details))


def _list_notes(rounds: Sequence[RegionReport]) -> Iterator[str]:
    named = {
        name_end(region): region
        for group in group_regions(rounds)
        for region in group
        if region.note
    }
    # Hidden differences have a separate stage.
    notes = [f"{name}: {region.note}" for name, region in named.items() if not region.hidden]
    yield from notes[:_SHOWN]
    if len(notes) > _SHOWN:
        yield f"and {len(notes) - _SHOWN} more such notes (--format json lists all)"


def _count_near(near: Sequence[Region]) -> Iterator[str]:
    weighed = [region.steps or 0.0 for region in near if region.is_weighed]
    if weighed:
        yield f"{format_count(len(weighed), 'region')} by weights (at most {max(weighed):.1f} steps)"
    stepped = [region for region in near if region.one_step]
    if stepped:
        yield f"{format_count(len(stepped), 'region')} at most one step apart"
    sampled = [
        rank_region(region) for region in near if not region.is_weighed and not region.one_step
    ]
    if sampled:
        _, distances, differ = zip(*sampled, strict=True)
        how = f"within {max(distances):.1g} of the largest number" if any(differ) else "bit for bit"
        yield f"{format_count(len(sampled), 'region')} {how}"


def add_regions(stages: Sequence[Stage], rounds: Sequence[RegionReport]) -> tuple[Stage, ...]:
    """Insert the stages of regions before the values, and hidden differences at the end."""
    if not any(each.regions or each.defined for each in rounds):
        return tuple(stages)
    place = [stage.name for stage in stages].index("values")
    result = (*stages[:place], region_stage(rounds), *_list_unlike(rounds), *stages[place:])
    if any(stage.verdict == "fails" and stage.name not in SHOWS_MORE for stage in result):
        return result
    return (*result, *_list_hidden(rounds))


def _list_unlike(rounds: Sequence[RegionReport]) -> Iterator[Stage]:
    """Yield the stage of changed weights if nothing else differs: some input shows it."""
    departed = merge_rounds(rounds)[2]
    # A second difference may cancel the first, and no input may reach a body.
    if len(departed) == 1 and departed[0].unlike and not departed[0].place:
        yield Stage(
            "weights",
            "fails",
            "1 region with other weights",
            (f"{name_end(departed[0])}: {departed[0].unlike}",),
        )


def _list_hidden(rounds: Sequence[RegionReport]) -> Iterator[Stage]:
    hidden, switches = [], dict[str, None]()
    for group in group_regions(rounds):
        judged = [region for region in group if region.comparison is not None]
        # One round that could show the change is enough.
        if judged and all(region.hidden for region in judged):
            hidden.append(
                f"{name_end(judged[0])}: {'; '.join(filter(None, (judged[0].hidden, judged[0].note)))}"
            )
        switches.update(dict.fromkeys(name for region in judged for name in region.switches))
    unreached = [
        f"{name!r}: one of its bodies was compared with nothing"
        for name in switches
        # Over all rounds: an If may not take a body without a counterpart in each.
        if len({each.taken.get(name) for each in rounds} - {None}) < 2
    ]
    if hidden:
        count = format_count(len(hidden), "place")
        summary = f"differences in {count} changed no value that was computed; `feeds` gives inputs that may show them"
        yield Stage("changes", "fails", summary, (*hidden, *unreached))
    elif unreached:
        summary = f"{format_count(len(unreached), 'If')} with a body that was not reached; `feeds` gives other inputs"
        yield Stage("changes", "unknown", summary, tuple(unreached))


def _describe_region(region: Region) -> Iterator[str]:
    if region.comparison is None:
        yield f"first at {name_end(region)}: not judged: {region.reason}"
    else:
        how = region.unlike if region.comparison else describe_difference(region.comparison)
        yield f"first at {name_end(region)}: {how}"
    for title, nodes in zip(TITLES, (region.nodes, region.other_nodes), strict=True):
        more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        yield f"{title} computes it by {', '.join(map(str, nodes[-_SHOWN:])) or 'nothing'}{more}"
