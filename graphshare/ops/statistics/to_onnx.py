"""The numpy interface's statistics in ONNX; sums are float64.

Percentiles sort by ``TopK`` and interpolate neighbours in float64.
"""

from __future__ import annotations

from functools import partial
from math import inf, isinf, nan, prod

import numpy as np

from graphshare.ops.onnx_terms import Term, term, terms
from graphshare.ops.reduction.kernel import read_np_axes
from graphshare.ops.statistics.kernel import is_frobenius, matrix_order, norm_axes
from graphshare.ops.translation import FAR, NoTranslation, Translation, Translator
from graphshare.ops.unification import normalize_axis


def _axes(t: Translation) -> tuple[int, ...]:
    return read_np_axes(t.attrs, t.inputs[0].rank)


def translate_truth(t: Translation, op_type: str) -> str:
    """Emit the extremum of truth values."""
    truth = term(t).is_true().cast("uint8")
    return truth.reduce(op_type, _axes(t), keepdims=t.attrs["keepdims"]).cast("bool").name


def translate_deviation(t: Translation, root: bool) -> list[str]:
    """Emit the kernel's deviation (or variance), and mean."""
    x, out = term(t), t.outputs[0]
    axes, keep = _axes(t), t.attrs["keepdims"]
    wide = x.cast("float64")
    mean = wide.reduce("ReduceMean", axes, keepdims=True)
    if not x.is_float:
        mean = mean.cast("int64").cast("float64")
    difference = wide - mean
    count = prod(t.inputs[0].shape[axis] for axis in axes)
    variance = (difference * difference).reduce("ReduceSum", axes, keepdims=keep) / float(
        count - t.attrs["ddof"]
    )
    result = variance.apply("Sqrt") if root else variance
    results = [result.convert(out.dtype).name]
    if 1 in t.used:
        results.append(mean.convert(out.dtype).reshape(out.shape).name)
    return results


def translate_average(t: Translation) -> str | list[str]:
    """Emit the kernel's weighted mean and, if ``returned``, the weights' sum."""
    x, axes = t.inputs[0], _axes(t)
    wide = term(t).cast("float64")
    if len(t.inputs) == 1:
        total = wide.number(float(prod(x.shape[axis] for axis in axes)))
        mean = wide.reduce("ReduceSum", axes) / total
    else:
        weights = term(t, 1).cast("float64")
        if t.inputs[1].rank != x.rank:
            weights = weights.reshape([x.shape[i] if i in axes else 1 for i in range(x.rank)])
        each = weights.expand(x.shape)
        total = each.reduce("ReduceSum", axes)
        mean = (wide * each).reduce("ReduceSum", axes) / total
        if t.inputs[1].rank != x.rank:
            total = weights.reduce("ReduceSum", range(x.rank))
    result = mean.convert(x.dtype).name
    return [result, total.convert(x.dtype).name] if t.attrs["returned"] else result


def _difference(x: Term, axis: int) -> Term:
    ends = [
        Term(x.t, x.t.slice(x.name, [axis], [first], [last]), x.dtype)
        for first, last in ((1, FAR), (0, -1))
    ]
    return ends[0].apply("Xor", ends[1]) if x.dtype == "bool" else ends[0] - ends[1]


def translate_diff(t: Translation) -> str:
    """Emit differences of neighbours, ``n`` times."""
    x, axis = term(t), normalize_axis(t.attrs["axis"], t.inputs[0].rank)
    for _ in range(min(t.attrs["n"], t.inputs[0].shape[axis])):
        x = _difference(x, axis)
    return x.name


def translate_ediff1d(t: Translation) -> str:
    """Emit the kernel's differences."""
    x, *arrays = t.inputs
    inner = _difference(Term(t, t.reshape(x, (prod(x.shape),)), x.dtype), 0)
    parts: list[str] = []
    for key in ("to_begin", "to_end"):
        scalar = t.attrs[f"{key}_scalar"]
        if t.attrs[f"{key}_arr_given"]:
            end = arrays.pop(0)
            parts.append(t.cast(t.reshape(end, (prod(end.shape),)), x.dtype, end.dtype))
        elif scalar is not None:
            parts.append(t.constant(np.array([scalar]), x.dtype))
        if key == "to_begin":
            parts.append(inner.name)
    return t.emit("Concat", *parts, axis=0) if len(parts) > 1 else inner.name


def translate_histogram(t: Translation) -> list[str]:
    """Emit the kernel's counts and edges."""
    x = t.inputs[0]
    t.refuse_booleans()
    if len(t.inputs) > 1:
        edges, count = term(t, 1), t.inputs[1].shape[0] - 1
    else:
        if t.attrs["bin_cnt"] is None or t.attrs["range"] is None:
            t.refuse("it has neither bins nor bin_cnt and range")
        count = t.attrs["bin_cnt"]
        first, last_edge = t.attrs["range"]
        edges = Term(t, t.constant(np.linspace(first, last_edge, count + 1), x.dtype), x.dtype)
    column = Term(t, t.reshape(x, (prod(x.shape), 1)), x.dtype)
    low, high = (Term(t, t.slice(edges.name, [0], [i], [count + i]), x.dtype) for i in (0, 1))
    last = t.constant(np.arange(count) == count - 1, "bool")
    inside = (column >= low) & ((column < high) | (column.equals(high) & Term(t, last, "bool")))
    return [inside.cast("int64").reduce("ReduceSum", [0]).name, edges.name]


def translate_allclose(t: Translation) -> str:
    """Emit the kernel's comparison."""
    a, b = terms(t)
    shape = t.inputs[0].shape
    if 0 in shape:
        return t.constant(1, "uint8")
    close = _are_close(a.cast("float64"), b.cast("float64"), t.attrs["rtol"], t.attrs["atol"])
    if t.attrs["equal_nan"] and a.is_float:
        close = close | (a.is_nan() & b.is_nan())
    return close.cast("uint8").reduce("ReduceMin", range(len(shape))).name


def _are_close(a: Term, b: Term, rtol: float, atol: float) -> Term:
    near = (a - b).apply("Abs") <= b.apply("Abs") * rtol + atol
    return a.equals(b) | (near & (b.apply("Abs") < inf))


def translate_norm(t: Translation) -> list[str]:
    """Emit the kernel's norm; further outputs are empty."""
    x, out = term(t), t.outputs[0]
    axes, keep = norm_axes(t.attrs, t.inputs[0].rank), t.attrs["keepdims"]
    if 0 in t.inputs[0].shape:
        t.refuse("its data has no elements")
    wide = x.cast("float64")
    if is_frobenius(t.attrs, axes):
        result = (wide * wide).reduce("ReduceSum", axes, keepdims=True).apply("Sqrt")
    elif len(axes) == 2:
        result = _matrix_norm(wide, axes)
    else:
        result = _vector_norm(wide, axes)
    named = result if keep else result.reshape(out.shape)
    empty = [t.constant([], x.dtype)] * 3 if t.used - {0} else []
    return [named.convert(x.dtype).name, *empty]


def _matrix_norm(x: Term, axes: tuple[int, ...]) -> Term:
    order = matrix_order(x.t.attrs["ord"])
    if order in (2, -2):
        x.t.refuse("it needs singular values, which ONNX does not compute")
    along, across = axes if order in (1, -1) else axes[::-1]
    sums = x.apply("Abs").reduce("ReduceSum", [along], keepdims=True)
    return sums.reduce("ReduceMax" if order > 0 else "ReduceMin", [across], keepdims=True)


def _vector_norm(x: Term, axes: tuple[int, ...]) -> Term:
    order, size = x.t.attrs["ord"], x.apply("Abs")
    if isinf(order):
        return size.reduce("ReduceMax" if order == inf else "ReduceMin", axes, keepdims=True)
    if order == 0:
        return (~x.equals(0)).cast("float64").reduce("ReduceSum", axes, keepdims=True)
    powers = _power_but_of_zero(size, order).reduce("ReduceSum", axes, keepdims=True)
    return _power_but_of_zero(powers, 1 / order)


def _power_but_of_zero(x: Term, exponent: float) -> Term:
    is_zero = x.equals(0)
    return is_zero.choose(0.0, is_zero.choose(1.0, x).apply("Pow", exponent))


def translate_percentile(t: Translation) -> str:
    """Emit the kernel's percentiles; NaN where an element is."""
    x, out = t.inputs[0], t.outputs[0]
    axes = read_np_axes(t.attrs, x.rank)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    count = prod(x.shape[axis] for axis in axes)
    rows = t.reshape(t.transpose(x, (*rest, *axes)), (prod(x.shape[axis] for axis in rest), count))
    wide = Term(t, rows, x.dtype).cast("float64")
    ordered, _ = t.emit_several("TopK", 2, wide.name, t.integers([count]), axis=1, largest=0)
    percent = term(t, 1) if len(t.inputs) > 1 else wide.number(t.attrs["q_scalar"])
    if not percent.dtype.startswith("float"):
        percent = percent.cast("float64")
    places = percent.reshape((-1 if len(t.inputs) > 1 else 1,)) * float(count - 1) / 100
    # MXNet rounds to float32: this decides the nearest element at an exact half.
    places = places.cast("float32").cast("float64")
    result = _interpolate(Term(t, ordered, "float64"), places, t.attrs["interpolation"])
    if x.dtype.startswith("float"):
        # ONNX leaves the order of NaN in TopK open.
        has_nan = wide.is_nan().cast("int32").reduce("ReduceMax", [1], keepdims=True).cast("bool")
        result = has_nan.choose(nan, result)
    turned = Term(t, t.transpose(result.name, (1, 0)), "float64")
    return turned.cast(out.dtype).reshape(out.shape).name


def _interpolate(ordered: Term, places: Term, method: str) -> Term:
    low, high = places.apply("Floor"), places.apply("Ceil")
    if method == "lower":
        return _at(ordered, low)
    if method == "higher":
        return _at(ordered, high)
    if method == "nearest":
        return _at(ordered, (places + 0.5).apply("Floor"))
    first, second = _at(ordered, low), _at(ordered, high)
    weight = places - low if method == "linear" else (~low.equals(high)).cast("float64") * 0.5
    # The difference of two infinities is NaN, also times 0.
    return weight.equals(0).choose(first, first + (second - first) * weight)


def _at(ordered: Term, places: Term) -> Term:
    return ordered.apply("Gather", places.cast("int64"), axis=1)


TRANSLATIONS = (
    Translator("_np_all", partial(translate_truth, op_type="ReduceMin")),
    Translator("_np_any", partial(translate_truth, op_type="ReduceMax")),
    Translator("_npi_std", partial(translate_deviation, root=True)),
    Translator("_npi_var", partial(translate_deviation, root=False)),
    Translator("_npi_average", translate_average),
    Translator(
        "_npi_norm",
        translate_norm,
        "with singular values (ord 2 or -2 of matrices, or nuc), which ONNX does not compute",
    ),
    Translator("_npi_percentile", translate_percentile),
    Translator("_npi_diff", translate_diff),
    Translator("_npi_ediff1d", translate_ediff1d),
    Translator(
        "_histogram",
        translate_histogram,
        "its data is not bool, and it has bins, or bin_cnt and range",
    ),
    Translator("_contrib_allclose", translate_allclose),
    Translator("_npi_share_memory", lambda t: t.number(False, "bool")),
    NoTranslation("_npi_bincount", "the shape of its output depends on values"),
    NoTranslation(
        "_npx_constraint_check", "ONNX has no operator that stops where a value is false"
    ),
)
