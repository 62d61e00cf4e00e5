"""Parameter differences as lines of text, for ``diff`` and ``params diff``."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.cli.console import Line
from graphshare.formats.params.diff import ParameterChange, ParameterDiff
from graphshare.formats.params.records import STEPS
from graphshare.text.format import format_count, format_dims
from graphshare.text.names import split_key

_STYLES = {"added": "added", "removed": "removed"}


def format_parameter_diff(found: ParameterDiff) -> Iterator[Line]:
    """Yield a line for each parameter that differs, and a count."""
    for change in found.changes:
        yield _STYLES.get(change.how, "changed"), f"{change.how:8} {_names(change)}  {_what(change)}"
    yield "", f"parameters: {found.equal} equal, {len(found.changes)} different"
    for dtype, count in found.across.items():
        yield (
            "",
            f"{format_count(count, 'array')} of unlike types compared up to the rounding of {dtype}, {STEPS[dtype][1]:.3g}",
        )


def _names(change: ParameterChange) -> str:
    old, new = change.old, change.new
    if old is None or new is None or old == new:
        return old or new or "(no name)"
    return f"{old} -> {new if split_key(old)[0] != split_key(new)[0] else split_key(new)[1]}"


def _what(change: ParameterChange) -> str:
    shape = format_dims(change.shape, unknown="never filled")
    parts = [change.detail] if change.detail else [f"{shape} {change.dtype or ''}".rstrip()]
    if change.distance is not None and not change.distance:
        apart = change.distance
        most = "NaN or infinities differ" if apart.max_abs is None else f"max abs {apart.max_abs:.4g}"
        parts.append(f"{apart.differing:,} of {apart.count:,} differ, {most}")
    if change.distance is not None and change.distance.densified:
        parts.append("compared in dense form")
    return "; ".join(parts)
