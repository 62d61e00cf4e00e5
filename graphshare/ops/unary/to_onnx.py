"""Functions of one array in ONNX, element by element.

As in the kernels, integers are computed in float64 and truncated, formulas of float16 in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.ir.onnx import Tensor
from graphshare.ops import conversion
from graphshare.ops.onnx_terms import Term, term, translate_terms
from graphshare.ops.translation import Translation, Translator, copy_input, keep_input
from graphshare.ops.unary import onnx_special as special

Function = Callable[[Term], Term]


def _real(function: Function) -> Function:
    def compute(x: Term) -> Term:
        wide = x.widen() if x.is_float else x.cast("float64")
        return function(wide).convert(x.dtype)

    return compute


def _real_node(op_type: str) -> Function:
    """Floats keep their dtype."""

    def compute(x: Term) -> Term:
        return x.apply(op_type) if x.is_float else x.cast("float64").apply(op_type).convert(x.dtype)

    return compute


def _without_double(op_type: str, formula: Function) -> Function:
    """Return one node for float16 and float32, a formula for float64."""

    def compute(x: Term) -> Term:
        if x.is_float and x.dtype != "float64":
            return x.apply(op_type)
        return formula(x.cast("float64")).convert(x.dtype)

    return compute


def _rounding(function: Function) -> Function:
    return lambda x: function(x) if x.is_float else x


def _truncate(x: Term) -> Term:
    # ONNX has no operator that truncates.
    return (x < 0).choose(x.apply("Ceil"), x.apply("Floor"))


def _round_half_away(x: Term) -> Term:
    whole = _truncate(x)
    return ((x - whole).apply("Abs") >= 0.5).choose(whole + x.apply("Sign"), whole)


def _round_half_down(x: Term) -> Term:
    low, high = x.apply("Floor"), x.apply("Ceil")
    return (x - low <= high - x).choose(low, high)


def sign(x: Term) -> Term:
    """Return the kernel's sign."""
    return x.is_nan().choose(0.0, x.apply("Sign")) if x.is_float else x.apply("Sign")


def absolute(x: Term) -> Term:
    """Return ``|x|``."""
    return x if x.dtype == "bool" else x.apply("Abs")


def _parts_of_cube_root(x: Term) -> tuple[Term, Term]:
    """Return absolute value and sign of the cube root; for a zero, 1 and an infinity of its sign.

    ``Where`` need not keep a zero's sign, so neither part is ever zero.
    """
    is_zero = x.equals(0)
    return is_zero.choose(1.0, x.apply("Abs").apply("Pow", 1 / 3)), is_zero.choose(
        1 / x, x.apply("Sign")
    )


def _cube_root(x: Term) -> Term:
    size, sign = _parts_of_cube_root(x)
    return size / sign


def _reciprocal_cube_root(x: Term) -> Term:
    size, sign = _parts_of_cube_root(x)
    return sign / size


def _logarithm(base: float) -> Function:
    return lambda x: x.apply("Log") * (1 / math.log(base))


def _whole_part(function: Function, inverse: Callable[[Term], Term]) -> Function:
    """Truncate an increasing function of integers; ``inverse`` tests the nearest one."""

    def compute(x: Term) -> Term:
        if x.is_float:
            return _real(function)(x)
        wide = x.cast("float64")
        exact = function(wide)
        nearest = exact.apply("Round")
        # log10(1000) is 2.9999999999999996, not to be truncated to 2.
        off = (exact - nearest).apply("Abs") < 1e-9
        reached = (inverse(nearest) <= wide).choose(nearest, nearest - 1)
        return off.choose(reached, exact).convert(x.dtype)

    return compute


def _make_power(base: float) -> Function:
    return lambda x: x.number(base).apply("Pow", x)


def _cube_root_of_any(x: Term) -> Term:
    if x.is_float:
        return _real(_cube_root)(x)
    size = x.cast("float64").apply("Abs")
    # An int64 in between: _whole_part corrects only integers.
    whole = _whole_part(_cube_root, lambda y: y * y * y)(
        Term(x.t, size.cast("int64").name, "int64")
    ).cast("float64")
    return (whole * x.cast("float64").apply("Sign")).convert(x.dtype)


def _scale_by(factor: np.float32) -> Function:
    def scale(x: Term) -> Term:
        return (
            x * float(factor)
            if x.is_float
            else (x.cast("float64") * float(factor)).convert(x.dtype)
        )

    return scale


_EVERYWHERE = {
    "cos": "Cos",
    "exp": "Exp",
    "log": "Log",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "sqrt": "Sqrt",
}


_WITHOUT_DOUBLE = {
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "cosh": "Cosh",
    "sinh": "Sinh",
    "tan": "Tan",
}
"""Operators that onnxruntime lacks in float64, by formulas of ``onnx_special.py``."""


FUNCTIONS: dict[str, Function] = {
    **{name: _real_node(op_type) for name, op_type in _EVERYWHERE.items()},
    **{
        name: _without_double(op_type, getattr(special, name))
        for name, op_type in _WITHOUT_DOUBLE.items()
    },
    "cbrt": _cube_root_of_any,
    "degrees": _scale_by(np.float32(180) / np.float32(np.pi)),
    "expm1": _real(special.expm1),
    "log10": _whole_part(_logarithm(10), _make_power(10)),
    "log1p": _real(special.log1p),
    "log2": _whole_part(_logarithm(2), _make_power(2)),
    "radians": _scale_by(np.float32(np.pi) / np.float32(180)),
    "rcbrt": _real(_reciprocal_cube_root),
    "rsqrt": _real(lambda x: 1 / x.apply("Sqrt")),
    "erf": special.erf,
    "erfinv": special.erfinv,
    "gamma": special.gamma,
    "gammaln": special.gammaln,
    "abs": absolute,
    "negative": lambda x: -x,
    "square": lambda x: x * x,
    "ceil": _rounding(lambda x: x.apply("Ceil")),
    "floor": _rounding(lambda x: x.apply("Floor")),
    "fix": _rounding(_truncate),
    "trunc": _rounding(_truncate),
    "rint": _rounding(_round_half_down),
    "round": _rounding(_round_half_away),
    "_contrib_round_ste": _rounding(_round_half_away),
    "sign": sign,
    "_contrib_sign_ste": sign,
    "logical_not": lambda x: x.equals(0).cast(x.dtype) if x.dtype != "bool" else ~x,
}
"""Functions by the words in operators' names."""


def fill_like(t: Translation, value: float, dtype: str) -> str:
    """Return an array of the first input's shape, filled with a value."""
    number = np.asarray(value).astype(dtype)
    filler = Tensor(dtype, (1,), number.tobytes())
    return t.emit("ConstantOfShape", t.emit("Shape", t.inputs[0]), value=filler)


def translate_clip(t: Translation) -> str:
    """Emit ``Clip``; comparisons for bounds in the wrong order or outside an integer's range."""
    x = term(t)
    low, high = np.float32(t.attrs["a_min"]), np.float32(t.attrs["a_max"])
    first, last = (float(conversion.convert(np.asarray(bound), x.dtype)) for bound in (low, high))
    if x.is_float:
        if low <= high:
            return x.apply("Clip", first, last).name
    elif low <= high and _fits(low, x.dtype) and _fits(high, x.dtype):
        return x.apply("Clip", int(first), int(last)).name
    wide = x if x.is_float else x.cast("float64")
    return (
        (wide > float(high))
        .choose(last, (wide < float(low)).choose(first, wide))
        .convert(x.dtype)
        .name
    )


def _fits(number: np.float32, dtype: str) -> bool:
    return bool(np.iinfo(dtype).min <= float(number) <= np.iinfo(dtype).max)


def translate_hard_sigmoid(t: Translation) -> str:
    """Emit ``HardSigmoid``; float64 as a formula, because more engines run it."""
    x = term(t)
    alpha, beta = float(np.float32(t.attrs["alpha"])), float(np.float32(t.attrs["beta"]))
    if x.dtype == "float64":
        return (x * alpha + beta).apply("Clip", 0.0, 1.0).name
    return x.apply("HardSigmoid", alpha=alpha, beta=beta).name


def translate_quadratic(t: Translation) -> str:
    """Emit ``(a x + b) x + c``."""
    t.refuse_booleans()
    x = term(t)
    a, b, c = (float(conversion.convert(np.asarray(t.attrs[key]), x.dtype)) for key in "abc")
    return ((x * a + b) * x + c).name


def translate_smooth_l1(t: Translation) -> str:
    """Emit the kernel's loss in float32 or float64."""
    x = term(t)
    wide = x.widen()
    number = np.dtype(wide.dtype).type
    sigma = number(conversion.convert(np.asarray(t.attrs["scalar"]), x.dtype))
    with np.errstate(all="ignore"):
        square = sigma * sigma
        border, offset, scale = number(1) / square, number(0.5) / square, square * number(0.5)
    size = wide.apply("Abs")
    return (
        (size > float(border))
        .choose(size - float(offset), size * size * float(scale))
        .convert(x.dtype)
        .name
    )


_IDENTITIES = ("_copy", "_copyto", "BlockGrad", "make_loss", "_contrib_gradientmultiplier")

TRANSLATIONS = (
    *(Translator(name, translate_terms(function)) for name, function in FUNCTIONS.items()),
    *(Translator(name, keep_input) for name in _IDENTITIES),
    Translator("_CrossDeviceCopy", copy_input),
    Translator("zeros_like", lambda t: fill_like(t, 0, t.inputs[0].dtype)),
    Translator("ones_like", lambda t: fill_like(t, 1, t.inputs[0].dtype)),
    Translator("clip", translate_clip),
    Translator("hard_sigmoid", translate_hard_sigmoid),
    Translator("_contrib_quadratic", translate_quadratic, "its data is not bool"),
    Translator("smooth_l1", translate_smooth_l1),
    Translator("shape_array", lambda t: t.emit("Shape", t.inputs[0])),
    Translator("size_array", lambda t: t.reshape(t.emit("Size", t.inputs[0]), (1,))),
)
