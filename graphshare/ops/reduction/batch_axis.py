"""Batch-axis rules of the operators of family ``reduction``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use

_REDUCES = "takes one value of all samples"


def _reduce(use: Use) -> Outcome:
    axes = use.value("axes") if use.signature.name == "moments" else use.value("axis")
    axes = () if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    at = use.first
    hit = any(map(at.is_axis, axes))
    if use.value("exclude") is True:
        if not axes or not hit:
            return _REDUCES
        return At(at.axis) if use.value("keepdims") else At(sum(0 <= axis < at.axis for axis in axes))
    if not axes or hit:
        return _REDUCES
    if use.value("keepdims"):
        return at
    return at.with_axis(at.axis - sum(0 <= axis < at.axis for axis in axes), -len(axes))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("sum", "mean", "prod", "nansum", "nanprod", "max", "min", "norm", "argmax", "argmin", "moments"), _reduce),
}
