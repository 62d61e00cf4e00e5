"""Signatures and batch-axis rules of the operators of family ``reshape``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use
from graphshare.ops.signature import define

OPERATORS = (
    *define("expand_dims(_npi_expand_dims)", "data", "axis:int=!", registers_inputs=False, couples_batch="axis"),
    *define("Flatten(_npx_batch_flatten,flatten)", "data", registers_inputs=False, couples_batch="never"),
    *define(
        "Reshape(reshape)",
        "data",
        "shape:tuple32=[]; reverse:bool=False; target_shape:shape=[]; keep_highest:bool=False",
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define(
        "reshape_like(_npx_reshape_like)",
        "lhs rhs",
        "lhs_begin:int?=None; lhs_end:int?=None; rhs_begin:int?=None; rhs_end:int?=None",
        couples_batch="shape",
    ),
    *define("squeeze", "data", "axis:tuple32?=None", couples_batch="axis"),
)


def expand_dims_rule(use: Use) -> Outcome:
    """Insert the new axis before or behind the samples."""
    axis, at = use.value("axis"), use.first
    if axis < 0 and at.rank is not None:
        axis += at.rank + 1
    if axis < -1:
        return "adds an axis whose place is not known"
    return at.with_axis(at.axis + (0 <= axis <= at.axis), 1)


def _squeeze(use: Use) -> Outcome:
    axes, at = use.value("axis"), use.first
    if axes is None:
        return "drops the batch axis where there is one sample"
    if any(map(at.is_axis, axes)):
        return "drops the batch axis"
    return at.with_axis(at.axis - sum(0 <= axis < at.axis for axis in axes), -len(axes))


def _reshape(use: Use) -> Outcome:
    shape, at = tuple(use.value("shape") or ()), use.first
    if not shape:
        target = tuple(use.value("target_shape") or ())
        if not at.axis and (use.value("keep_highest") or target[:1] == (0,)):
            return At(0, len(target))
        return f"makes axis 0 {target[0]}, whatever the batch is" if target and not at.axis else "moves the samples"
    rank = len(shape) if min(shape) >= -1 else None
    if use.value("reverse") and shape[0] != -1 and rank != at.rank:
        return "fits its shape from the last axis, so that the place of the samples is not known"
    if at.axis:
        return At(at.axis, rank) if shape[: at.axis + 1] == (0,) * (at.axis + 1) else "folds the samples into another axis"
    if shape[0] > 0 or (shape[0] == -4 and shape[1:2] != (-1,)):
        return f"makes axis 0 {max(shape[:2])}, whatever the batch is"
    return At(0, rank)


def _flatten(use: Use) -> Outcome:
    return At(0, 2) if not use.first.axis else "folds the samples into another axis"


def _reshape_like(use: Use) -> Outcome:
    partial = any(use.value(key) is not None for key in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end"))
    same = [at is not None and not at.axis for at in (use.input(0), use.input(1))]
    return At(0) if all(same) and not partial else "moves the samples"


RULES: dict[str, Rule] = {
    "expand_dims": expand_dims_rule,
    "squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "reshape_like": _reshape_like,
}
