"""Signatures and batch-axis rules of the operators of family ``transpose``."""

from __future__ import annotations

from graphshare.ops.batch_axis import UNKNOWN, At, Outcome, Rule, Use, along_axis_rule
from graphshare.ops.signature import define

OPERATORS = (
    *define("_np_transpose", "a", "axes:shape=None"),
    *define("depth_to_space space_to_depth", "data", "block_size:int=!", couples_batch="never"),
    *define("reverse(flip)", "data", "axis:tuple32=!", couples_batch="axis"),
    *define(
        "SwapAxis(_npi_swapaxes,swapaxes)", "data", "dim1:int=0; dim2:int=0", couples_batch="axis", is_operator_property=True
    ),
    *define("transpose", "data", "axes:shape=[]", registers_inputs=False, couples_batch="shape"),
)


def _swap_axes(use: Use) -> Outcome:
    a, b, at = use.value("dim1"), use.value("dim2"), use.first
    if a < 0 or b < 0:
        return "swaps axes whose places are not known"
    return at.with_axis(b if at.axis == a else a if at.axis == b else at.axis)


def _transpose(use: Use) -> Outcome:
    axes, at = tuple(use.value("axes") or ()), use.first
    if axes:
        places = [axis % len(axes) for axis in axes]
        return At(places.index(at.axis), len(axes)) if at.axis in places else UNKNOWN
    return "turns all axes round, and their number is not known" if at.rank is None else At(at.rank - 1 - at.axis, at.rank)


RULES: dict[str, Rule] = {
    "reverse": along_axis_rule,
    "SwapAxis": _swap_axes,
    "transpose": _transpose,
}
