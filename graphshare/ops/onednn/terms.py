"""Steps, weights and activations of the layers that oneDNN fuses, as values of an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.activation.to_onnx import activate, translate_leaky_relu
from graphshare.ops.kernel import Attrs
from graphshare.ops.onednn.filters import LEVELS
from graphshare.ops.onednn.filters import per_unit as kernel_per_unit
from graphshare.ops.onnx_terms import Term
from graphshare.ops.quantization.onnx_ranges import constant_end, largest, round_to
from graphshare.ops.translation import Translation, Value

_LARGEST = 2147483647.0
_ROOM = float(1 << 30)

_FUNCTIONS = {"sqrt": "Sqrt", "exp": "Exp", "abs": "Abs"}


def translate_subgraph(t: Translation) -> str:
    """Emit the subgraph of a fused layer in floats."""
    return t.inline(0, t.inputs)[0].name


def calibration_ends(t: Translation) -> list[str]:
    """Return the ends of the calibrated range."""
    return [constant_end(t, t.attrs[key]) for key in ("min_calib_range", "max_calib_range")]


def calibration_unit(t: Translation, dtype: str) -> float:
    """Return how many integer steps represent 1.0 in the calibrated range."""
    return float(kernel_per_unit(dtype, *(np.float32(t.attrs[key]) for key in ("min_calib_range", "max_calib_range"))))


def per_unit(dtype: str, low: Term, high: Term) -> Term:
    """Return how many integer steps represent 1.0, in a range from ``low`` to ``high``."""
    return units_of_reach(float(LEVELS[dtype]), largest(low, high))


def units_of_reach(levels: float, reach: Term) -> Term:
    """Return how many of ``levels`` steps represent 1.0 where ``reach`` is the largest absolute value."""
    return reach.equals(0).choose(reach.number(_LARGEST), reach.number(levels) / reach)


def weight_units(weight: Term, rank: int, bias: Term | None, data_unit: Term, *, by_filter: bool) -> Term:
    """Return the steps per 1.0 of each filter's weights, fewer where its bias would overflow; or one for all."""
    absolute = weight.apply("Abs")
    if not by_filter:
        return units_of_reach(float(LEVELS["int8"]), absolute.reduce("ReduceMax", list(range(rank))).reshape((1,)))
    units = units_of_reach(float(LEVELS["int8"]), absolute.reduce("ReduceMax", list(range(1, rank))))
    if bias is None:
        return units
    room = bias.number(_ROOM) / bias.apply("Abs") / data_unit
    return bias.equals(0).choose(units, units.apply("Min", room))


def quantize_weight(weight: Term, units: Term, shape: Sequence[int]) -> Term:
    """Return the weights as int8; ``shape`` is that of the units along the weights' axes."""
    return round_to(weight * units.reshape(shape), "int8")


def quantize_bias(bias: Term, units: Term, data_unit: Term) -> Term:
    """Return the bias in steps of the products, in float32."""
    return (bias * (units * data_unit)).apply("Round")


def apply_activations(t: Translation, operators: Sequence[tuple[str, Attrs]], x: Term) -> Term:
    """Apply the activations in order."""
    for name, attrs in operators:
        if name == "Activation":
            x = activate(x, attrs["act_type"])
        elif name == "clip":
            x = x.apply("Clip", 0, attrs["a_max"])
        elif name == "square":
            x = x * x
        elif name in _FUNCTIONS:
            x = x.apply(_FUNCTIONS[name])
        elif attrs["act_type"] == "prelu":
            t.refuse("its subgraph has a PReLU, which cannot be computed in integers")
        else:
            made = translate_leaky_relu(t.derive(attrs, [Value(x.name, (), x.dtype)], []))
            x = Term(t, made if isinstance(made, str) else made[0], x.dtype)
    return x


def round_half_away(x: Term) -> Term:
    """Return ``x`` rounded to the nearest integer, half away from 0."""
    return x.apply("Sign") * (x.apply("Abs") + 0.5).apply("Floor")


def require_ranges(t: Translation, ends: Sequence[Value]) -> None:
    """Refuse a node whose ranges are not float32, as MXNet demands of them."""
    for end in ends:
        if end.dtype != "float32":
            t.refuse(f"it has a range of {end.dtype}, expected float32")
