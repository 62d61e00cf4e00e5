"""Percentiles in ONNX: the elements are sorted by ``TopK``, and neighbours interpolated in float64."""

from __future__ import annotations

from math import nan, prod

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.reduction.kernel import np_axes_of
from graphshare.ops.translation import Translation


def translate_percentile(t: Translation) -> str:
    """Emit the value that ``q`` percent of the elements do not exceed, for each member of ``q``; NaN where an element is."""
    x, out = t.inputs[0], t.outputs[0]
    axes = np_axes_of(t.attrs, x.rank)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    count = prod(x.shape[axis] for axis in axes)
    rows = t.reshape(t.transpose(x, (*rest, *axes)), (prod(x.shape[axis] for axis in rest), count))
    wide = Term(t, rows, x.dtype).cast("float64")
    ordered, _ = t.emit_several("TopK", 2, wide.name, t.integers([count]), axis=1, largest=0)
    percent = term(t, 1).cast("float64") if len(t.inputs) > 1 else wide.number(t.attrs["q_scalar"])
    places = percent.reshape((-1 if len(t.inputs) > 1 else 1,)) * float(count - 1) / 100
    places = places.cast("float32").cast("float64")  # as in MXNet: 10.5 behind the point decides between two elements
    result = _interpolate(Term(t, ordered, "float64"), places, t.attrs["interpolation"])
    if x.dtype.startswith("float"):
        has_nan = wide.is_nan().cast("int32").reduce("ReduceMax", [1], keepdims=True).cast("bool")
        result = has_nan.choose(nan, result)
    turned = Term(t, t.transpose(result.name, (1, 0)), "float64")
    return turned.cast(out.dtype).reshape(out.shape).name


def _interpolate(ordered: Term, places: Term, method: str) -> Term:
    """Return what lies at ``places`` of each row: an element, or between two."""
    low, high = places.apply("Floor"), places.apply("Ceil")
    if method == "lower":
        return _at(ordered, low)
    if method == "higher":
        return _at(ordered, high)
    if method == "nearest":
        return _at(ordered, (places + 0.5).apply("Floor"))
    first, second = _at(ordered, low), _at(ordered, high)
    weight = places - low if method == "linear" else (~low.equals(high)).cast("float64") * 0.5
    return weight.equals(0).choose(first, first + (second - first) * weight)


def _at(ordered: Term, places: Term) -> Term:
    return ordered.apply("Gather", places.cast("int64"), axis=1)
