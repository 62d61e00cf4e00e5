"""Signatures of ``indexing``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use
from graphshare.ops.signature import define

NO_KERNEL = "MXNet runs it only imperatively, in place on its arguments"

EMBEDDING = (
    "input_dim:int[1:]=!; output_dim:int[1:]=!; "
    "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32; "
    "sparse_grad:bool=False"
)

OPERATORS = (
    *define("_contrib_boolean_mask(_npi_boolean_mask)", "data index", "axis:int=0"),
    *define("_contrib_index_array", "data", "axes:tuple32?=None"),
    *define("_contrib_index_copy", "old_tensor index_vector new_tensor"),
    *define(
        "_contrib_SparseEmbedding",
        "data weight",
        "input_dim:int[1:]=!; output_dim:int[1:]=!; dtype:{float16/float32/float64/int32/uint8}=float32; "
        "deterministic:bool=False",
    ),
    *define("_onehot_encode", "lhs rhs", registers_inputs=False, no_kernel=NO_KERNEL),
    *define(
        "_ravel_multi_index(ravel_multi_index) _unravel_index(unravel_index)",
        "data",
        "shape:shape=None",
    ),
    *define(
        "_scatter_set_nd(_npi_scatter_set_nd)",
        "lhs rhs indices",
        "shape:shape=!",
        no_kernel=NO_KERNEL,
    ),
    *define("batch_take", "a indices", couples_batch="never"),
    *define(
        "Embedding(_npx_embedding,_sparse_Embedding)",
        "data weight",
        EMBEDDING,
        couples_batch="never",
        index_bounds={0: "input_dim"},
        size_attributes=(("weight", "input_dim"), ("weight", "output_dim")),
    ),
    *define("fill_element_0index", "lhs mhs rhs", registers_inputs=False, no_kernel=NO_KERNEL),
    *define("gather_nd(_npi_gather_nd,_npx_gather_nd)", "data indices"),
    *define(
        "one_hot(_npx_one_hot)",
        "indices",
        "depth:int=!; on_value:double=1; off_value:double=0; "
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
        couples_batch="never",
    ),
    *define(
        "pick(_npx_pick,choose_element_0index)",
        "data index",
        "axis:int?=-1; keepdims:bool=False; mode:{clip/wrap}=clip",
        couples_batch="never",
    ),
    *define("scatter_nd", "data indices", "shape:shape=!"),
    *define(
        "take(_npi_take)",
        "a indices",
        "axis:int=0; mode:{clip/raise/wrap}=clip",
        couples_batch="axis",
    ),
    *define("where(_sparse_where)", "condition x y", couples_batch="elementwise"),
    *define("_npi_boolean_mask_assign_scalar", "data mask", no_kernel=NO_KERNEL),
    *define("_npi_boolean_mask_assign_tensor", "data mask value", no_kernel=NO_KERNEL),
)


def one_hot_rule(use: Use) -> Outcome:
    """Append an axis."""
    return use.first.with_axis(use.first.axis, 1)


def _take(use: Use) -> Outcome:
    data, indices, axis = use.input(0), use.input(1), use.value("axis")
    # Indices with samples select from constants; their axes replace ``axis``.
    if data is None and indices is not None:
        if axis < 0:
            return "takes along an axis whose position is not known"
        return At(indices.axis + axis)
    if data is None or indices is not None:
        return "selects elements along the batch axis"
    if data.is_axis(axis) or data.count_before((axis,)):
        return "selects elements along the batch axis"
    return At(data.axis)


def _pick(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if axis is None or at.is_axis(axis) or use.axes_differ:
        return "selects elements along the batch axis"
    return at if use.value("keepdims") else at.with_axis(at.axis - at.count_before((axis,)), -1)


RULES: dict[str, Rule] = {
    "Embedding": lambda use: (
        "has a weight that depends on the batch" if use.input(1) is not None else one_hot_rule(use)
    ),
    "take": _take,
    "pick": _pick,
    "one_hot": one_hot_rule,
}
