"""Signatures of ``slice``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Outcome, Rule, Use, mixing_rule
from graphshare.ops.signature import define

SLICE = "begin:slice=!; end:slice=!; step:slice=[]"

OPERATORS = (
    *define(
        "_slice_assign(_crop_assign,_npi_slice_assign)", "lhs rhs", SLICE, couples_batch="shape"
    ),
    *define(
        "_slice_assign_scalar(_crop_assign_scalar,_npi_slice_assign_scalar)",
        "data",
        f"scalar:double=0; {SLICE}",
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define(
        "slice(_npi_slice,_npx_slice,_sparse_slice,crop)",
        "data",
        SLICE,
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define(
        "slice_axis",
        "data",
        "axis:int=!; begin:int=!; end:int?=!",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define("slice_like", "data shape_like", "axes:tuple32=[]", couples_batch="shape"),
)


def _slice_part(use: Use) -> Outcome:
    for key, whole in (("begin", (None, 0)), ("end", (None,)), ("step", (None, 1))):
        values = tuple(use.value(key) or ())
        if use.first.axis < len(values) and values[use.first.axis] not in whole:
            return "takes a part of the samples"
    return use.first


def _slice_like(use: Use) -> Outcome:
    data, like, axes = use.input(0), use.input(1), tuple(use.value("axes") or ())
    at = data or like
    # Without samples, or along other axes, the size of the batch decides nothing.
    if at is None or (axes and not any(map(at.is_axis, axes))):
        return data
    if data is None:
        return "cuts a constant to the size of the batch"
    if like is None or like.axis != data.axis:
        return "takes a part of the samples"
    return data


RULES: dict[str, Rule] = {
    "_slice_assign": mixing_rule("moves the samples"),
    "_slice_assign_scalar": mixing_rule("moves the samples"),
    "slice_axis": lambda use: (
        "takes a part of the samples" if use.first.is_axis(use.value("axis")) else use.first
    ),
    "slice": _slice_part,
    "slice_like": _slice_like,
}
