"""Reductions in ONNX.

float16 is added in float32, narrow integers in int32, keeping low bits. A sum of booleans is
whether one holds, a product whether all hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import msgspec
import numpy as np

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.reduction.kernel import read_axes, read_np_axes
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unification import normalize_axis


class Over(msgspec.Struct, frozen=True):
    """The reduced axes (kept as 1 or dropped), and the elements per result."""

    axes: Sequence[int]
    elements: int
    keepdims: bool


Reduce = Callable[[Term, Over], Term]

_ACCUMULATORS = {"float16": "float32", "int8": "int32", "uint8": "int32"}


def _accumulate(op_type: str) -> Reduce:
    def compute(x: Term, over: Over) -> Term:
        if x.dtype == "bool":
            return _extremum("ReduceMin" if op_type == "ReduceProd" else "ReduceMax")(x, over)
        return (
            x.cast(_ACCUMULATORS.get(x.dtype, x.dtype))
            .reduce(op_type, over.axes, keepdims=over.keepdims)
            .cast(x.dtype)
        )

    return compute


reduce_sum = _accumulate("ReduceSum")
reduce_product = _accumulate("ReduceProd")


def reduce_mean(x: Term, over: Over) -> Term:
    """Return the mean, NaN of nothing; of integers truncated."""
    if x.is_float and not over.elements:
        return reduce_sum(x, over) / 0.0
    if x.dtype == "bool" and not over.elements:
        # NaN as a boolean is True, and the sum of nothing 0
        return reduce_sum(x.cast("int32"), over).equals(0)
    if x.is_float or x.dtype == "bool":
        return _accumulate("ReduceMean")(x, over)
    total = reduce_sum(x, over)
    # The sum of nothing is 0 for any divisor.
    return (total.cast(_ACCUMULATORS.get(x.dtype, x.dtype)) / max(1, over.elements)).cast(x.dtype)


def _extremum(op_type: str) -> Reduce:
    def compute(x: Term, over: Over) -> Term:
        if x.dtype == "bool":
            # ONNX reduces booleans only from opset 20.
            return x.cast("uint8").reduce(op_type, over.axes, keepdims=over.keepdims).cast("bool")
        return x.reduce(op_type, over.axes, keepdims=over.keepdims)

    return compute


def _ignore_nan(reduce: Reduce, neutral: float) -> Reduce:
    return lambda x, over: reduce(x.is_nan().choose(neutral, x) if x.is_float else x, over)


def _over(t: Translation, axes: Sequence[int]) -> Over:
    x, out = t.inputs[0], t.outputs[0]
    return Over(axes, prod(x.shape[axis] for axis in axes), out.rank == x.rank)


def _reshape_result(t: Translation, result: Term, over: Over) -> Term:
    return (
        result
        if over.keepdims or t.outputs[0].rank == t.inputs[0].rank - len(over.axes)
        else result.reshape(t.outputs[0].shape)
    )


def _translate_reduction(t: Translation, reduce: Reduce) -> str:
    over = _over(t, read_axes(t.attrs, t.inputs[0].rank))
    return _reshape_result(t, reduce(term(t), over), over).name


def _translate_np_reduction(t: Translation, reduce: Reduce) -> str:
    """Compute in the output's dtype; over nothing the result is 0."""
    if t.attrs.get("initial") is not None:
        t.refuse("it has an initial value, which MXNet does not support")
    x, out = t.inputs[0], t.outputs[0]
    if 0 in x.shape:
        return t.constant(np.zeros(out.shape), out.dtype)
    over = _over(t, read_np_axes(t.attrs, x.rank))
    return _reshape_result(t, reduce(term(t).convert(out.dtype), over), over).name


def translate_norm(t: Translation) -> str:
    """Emit the kernel's norm."""
    x = term(t)
    over = _over(t, read_axes(t.attrs, t.inputs[0].rank))
    if x.dtype == "bool":
        result = reduce_sum(x, over)
    elif t.attrs["ord"] == 1:
        result = reduce_sum(x.apply("Abs"), over)
    elif x.is_float:
        result = _accumulate("ReduceL2")(x, over)
    else:
        result = _norm_of_integers(x.apply("Abs"), over)
    return _reshape_result(t, result.convert(t.outputs[0].dtype), over).name


def _norm_of_integers(size: Term, over: Over) -> Term:
    """As in MXNet, only integers as large as the largest count."""
    largest = size.reduce("ReduceMax", over.axes, keepdims=True)
    count = (
        size.equals(largest).cast("float64").reduce("ReduceSum", over.axes, keepdims=over.keepdims)
    )
    if not over.keepdims:
        largest = size.reduce("ReduceMax", over.axes)
    return (largest.cast("float64") * count.apply("Sqrt")).convert(size.dtype)


def translate_moments(t: Translation) -> list[str]:
    """Emit the mean, and the mean squared difference from it."""
    x = term(t)
    over = _over(t, read_axes(t.attrs, t.inputs[0].rank, "axes"))
    wide = x.widen() if x.is_float else x
    difference = wide - reduce_mean(wide, msgspec.structs.replace(over, keepdims=True))
    moments = reduce_mean(wide, over), reduce_mean(difference * difference, over)
    return [_reshape_result(t, value.convert(x.dtype), over).name for value in moments]


def translate_arg_extremum(t: Translation, op_type: str) -> str:
    """Emit ``ArgMax`` or ``ArgMin`` in the output's dtype."""
    x, out = t.inputs[0], t.outputs[0]
    axis = 1 if t.op == "argmax_channel" else t.attrs["axis"]
    # ArgMax and ArgMin take no booleans.
    data = term(t).cast("int32") if x.dtype == "bool" else term(t)
    if axis is None or not x.rank:
        data, at = data.reshape((prod(x.shape),)), 0
    else:
        at = normalize_axis(axis, x.rank)
    index = data.apply(op_type, dtype="int64", axis=at, keepdims=int(out.rank == x.rank))
    return (
        (index if axis is not None and x.rank > 1 else index.reshape(out.shape))
        .cast(out.dtype)
        .name
    )


def translate_cumulative_sum(t: Translation) -> str:
    """Emit ``CumSum`` along an axis, or of the flattened array."""
    x, out, axis = t.inputs[0], t.outputs[0], t.attrs["axis"]
    data = term(t).convert(out.dtype)
    if axis is None:
        data = data.reshape((prod(x.shape),))
    place = t.number(0 if axis is None else normalize_axis(axis, x.rank), "int64")
    wide = data.cast(_ACCUMULATORS.get(out.dtype, out.dtype))
    return Term(t, t.emit("CumSum", wide.name, place), wide.dtype).cast(out.dtype).name


_REDUCTIONS: dict[str, Reduce] = {
    "sum": reduce_sum,
    "mean": reduce_mean,
    "max": _extremum("ReduceMax"),
    "min": _extremum("ReduceMin"),
    "prod": reduce_product,
    "nansum": _ignore_nan(reduce_sum, 0.0),
    "nanprod": _ignore_nan(reduce_product, 1.0),
}
_INITIAL = "with an initial value, which MXNet does not support"

TRANSLATIONS = (
    *(
        Translator(name, partial(_translate_reduction, reduce=reduce))
        for name, reduce in _REDUCTIONS.items()
    ),
    *(
        Translator(
            f"_np_{name}", partial(_translate_np_reduction, reduce=_REDUCTIONS[name]), _INITIAL
        )
        for name in ("sum", "prod", "max", "min")
    ),
    Translator("_npi_mean", partial(_translate_np_reduction, reduce=reduce_mean), _INITIAL),
    Translator("norm", translate_norm),
    Translator("moments", translate_moments),
    *(
        Translator(name, partial(translate_arg_extremum, op_type="ArgMax"))
        for name in ("argmax", "argmax_channel", "_npi_argmax")
    ),
    *(
        Translator(name, partial(translate_arg_extremum, op_type="ArgMin"))
        for name in ("argmin", "_npi_argmin")
    ),
    Translator("_np_cumsum", translate_cumulative_sum),
)
