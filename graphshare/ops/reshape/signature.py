"""Signatures of ``reshape``."""

from __future__ import annotations

from graphshare.ops.batch_axis import UNKNOWN, At, Outcome, Rule, Use, along_axis_rule, mixing_rule
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import outputs_by_attribute

OPERATORS = (
    *define(
        "expand_dims(_npi_expand_dims)",
        "data",
        "axis:int=!",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define(
        "Flatten(_npx_batch_flatten,flatten)", "data", registers_inputs=False, couples_batch="never"
    ),
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
    *define("_np_transpose", "a", "axes:shape=None"),
    *define("depth_to_space space_to_depth", "data", "block_size:int=!", couples_batch="never"),
    *define("reverse(flip)", "data", "axis:tuple32=!", couples_batch="axis"),
    *define(
        "SwapAxis(_npi_swapaxes,swapaxes)",
        "data",
        "dim1:int=0; dim2:int=0",
        couples_batch="axis",
        is_operator_property=True,
    ),
    *define("transpose", "data", "axes:shape=[]", registers_inputs=False, couples_batch="shape"),
    *define(
        "_np_atleast_1d _np_atleast_2d _np_atleast_3d",
        "ary*num_args",
        "num_args:int[1:]=!",
        results=outputs_by_attribute("num_args"),
    ),
    *define("_np_copy", "a"),
    *define("_np_diag _np_diagflat _npi_tril", "data", "k:int=0"),
    *define("_np_diagonal _np_trace", "data", "offset:int=0; axis1:int=0; axis2:int=1"),
    *define("_np_moveaxis", "a", "source:shape=!; destination:shape=!"),
    *define("_np_reshape", "a", "newshape:shape=!; order:string=C"),
    *define("_np_roll", "data", "shift:shape?=None; axis:shape?=None"),
    *define("_np_squeeze", "a", "axis:tuple32?=None"),
    *define("_npi_broadcast_to", "array", "shape:shape=[]"),
    *define("_npi_flip", "data", "axis:tuple32=!"),
    *define("_npi_rot90", "data", "k:int=1; axes:shape?=None"),
    *define(
        "_npx_reshape(_npi_reshape)", "a", "newshape:shape=!; reverse:bool=False; order:string=C"
    ),
    *define("diag", "data", "k:int=0; axis1:int=0; axis2:int=1", couples_batch="shape"),
)


def expand_dims_rule(use: Use) -> Outcome:
    """Insert an axis before or after the batch axis."""
    axis, at = use.value("axis"), use.first
    if axis < 0 and at.rank is not None:
        axis += at.rank + 1
    if axis < -1:
        return "adds an axis whose position is not known"
    return at.with_axis(at.axis + (0 <= axis <= at.axis), 1)


def _squeeze(use: Use) -> Outcome:
    axes, at = use.value("axis"), use.first
    if axes is None:
        return "drops the batch axis where there is one sample"
    if any(map(at.is_axis, axes)):
        return "drops the batch axis"
    return at.with_axis(at.axis - at.count_before(axes), -len(axes))


def _reshape(use: Use) -> Outcome:
    shape, at = tuple(use.value("shape") or ()), use.first
    if not shape:
        return _reshape_to_target(use)
    rank = len(shape) if min(shape) >= -1 else None
    if use.value("reverse") and shape[0] != -1 and rank != at.rank:
        return "applies its shape from the last axis, so that the position of the batch axis is not known"
    if at.axis:
        keeps_axes = shape[: at.axis + 1] == (0,) * (at.axis + 1)
        return At(at.axis, rank) if keeps_axes else "folds the samples into another axis"
    splits_into_number = shape[0] == -4 and shape[1:2] != (-1,)
    if shape[0] > 0 or splits_into_number:
        return f"sets axis 0 to {max(shape[:2])}, whatever the batch size is"
    return At(0, rank)


def _reshape_to_target(use: Use) -> Outcome:
    """``target_shape`` is the predecessor of ``shape``."""
    target = tuple(use.value("target_shape") or ())
    if use.first.axis:
        return "moves the samples"
    if use.value("keep_highest") or target[:1] == (0,):
        return At(0, len(target))
    if not target:
        return "moves the samples"
    return f"sets axis 0 to {target[0]}, whatever the batch size is"


def _reshape_like(use: Use) -> Outcome:
    for key in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end"):
        if use.value(key) is not None:
            return "moves the samples"
    for at in (use.input(0), use.input(1)):
        if at is None or at.axis:
            return "moves the samples"
    return At(0)


def _swap_axes(use: Use) -> Outcome:
    a, b, at = use.value("dim1"), use.value("dim2"), use.first
    if a < 0 or b < 0:
        return "swaps axes whose positions are not known"
    return at.with_axis({a: b, b: a}.get(at.axis, at.axis))


def _transpose(use: Use) -> Outcome:
    axes, at = tuple(use.value("axes") or ()), use.first
    if axes:
        places = [axis % len(axes) for axis in axes]
        return At(places.index(at.axis), len(axes)) if at.axis in places else UNKNOWN
    if at.rank is None:
        return "reverses all axes, and their number is not known"
    return At(at.rank - 1 - at.axis, at.rank)


RULES: dict[str, Rule] = {
    "expand_dims": expand_dims_rule,
    "squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": lambda use: (
        At(0, 2) if not use.first.axis else "folds the samples into another axis"
    ),
    "reshape_like": _reshape_like,
    "reverse": along_axis_rule,
    "SwapAxis": _swap_axes,
    "transpose": _transpose,
    "diag": mixing_rule("moves the samples"),
}
