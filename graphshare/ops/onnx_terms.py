"""Formulas of ONNX values: a sum of terms emits ``Add``, a number becomes a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from graphshare.ops.formulas import Functions
from graphshare.ops.translation import Translate, Translation, Value

if TYPE_CHECKING:
    from graphshare.ir.onnx import AttributeValue

_WIDE = ("float32", "float64")
_NARROW_INTEGERS = ("int8", "uint8")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
"""Operators for narrow integers only from opset 14 on; int32 gives the same low bits."""


class Term:
    """A value with its dtype. Operators emit nodes; both sides have one dtype, numbers take it.

    ``&``, ``|``, ``^`` and ``~`` are for booleans. Division is ONNX's: of integers it truncates,
    and a divisor of 0 is not allowed.
    """

    def __init__(self, t: Translation, name: str, dtype: str) -> None:
        self.t = t
        self.name = name
        self.dtype = dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("float", "bfloat"))

    def number(self, value: float, dtype: str = "") -> Term:
        """Return a constant without axes, by default of this term's dtype."""
        kind = dtype or self.dtype
        return Term(self.t, self.t.number(value, kind), kind)

    def apply(
        self, op_type: str, *others: Operand, dtype: str = "", **attributes: AttributeValue
    ) -> Term:
        """Emit a node on this term and others; ``dtype`` is by default this term's."""
        if op_type in _ARITHMETIC and self.dtype in _NARROW_INTEGERS and self.t.opset < 14:
            wide = [x.cast("int32") if isinstance(x, Term) else x for x in others]
            return self.cast("int32").apply(op_type, *wide).cast(self.dtype)
        names = [x.name if isinstance(x, Term) else self.number(x).name for x in others]
        (out,) = self.t.emit_several(
            op_type, 1, Value(self.name, (), self.dtype), *names, domain="", **attributes
        )
        return Term(self.t, out, dtype or self.dtype)

    def cast(self, dtype: str) -> Term:
        """Emit ``Cast``; the numbers must fit ``dtype``."""
        return Term(self.t, self.t.cast(self.name, dtype, self.dtype), dtype)

    def convert(self, dtype: str) -> Term:
        """Truncate and wrap as :func:`graphshare.ops.conversion.convert`."""
        if self.is_float and dtype in _NARROW_INTEGERS:
            # Cast of floats out of range is undefined; from int32 it keeps low bits.
            return self.cast("int32").cast(dtype)
        return self.cast(dtype)

    def widen(self) -> Term:
        """Return float64 unchanged, all else as float32."""
        return self if self.dtype in _WIDE else self.cast("float32")

    def is_true(self) -> Term:
        """Return where it is not 0."""
        return self.cast("bool")

    def round_half_away(self) -> Term:
        """Round to whole numbers, half away from 0."""
        size = self.apply("Max", -self)  # OpenVINO drops Abs after a Cast of int8 weights
        return self.apply("Sign") * (size + 0.5).apply("Floor")

    def equals(self, other: Operand) -> Term:
        return self.apply("Equal", other, dtype="bool")

    def is_nan(self) -> Term:
        """Return where a float is NaN."""
        return self.apply("IsNaN", dtype="bool")

    def is_infinite(self, *, positive: bool = True, negative: bool = True) -> Term:
        """Return where a float is infinite."""
        # IsInf takes float16 only from opset 20.
        return self.widen().apply(
            "IsInf", dtype="bool", detect_positive=int(positive), detect_negative=int(negative)
        )

    def choose(self, yes: Operand, no: Operand) -> Term:
        """Return ``yes`` where this boolean holds, else ``no``; at least one is a term."""
        example = yes if isinstance(yes, Term) else no
        assert isinstance(example, Term)
        first, second = (x if isinstance(x, Term) else example.number(x) for x in (yes, no))
        if example.dtype == "bool":
            # onnxruntime's Where takes no booleans.
            return self.choose(first.cast("uint8"), second.cast("uint8")).cast("bool")
        return Term(self.t, self.t.emit("Where", self.name, first.name, second.name), example.dtype)

    def reduce(self, op_type: str, axes: Sequence[int], *, keepdims: bool = False) -> Term:
        return Term(
            self.t,
            self.t.reduce(op_type, Value(self.name, (), self.dtype), axes, keepdims=keepdims),
            self.dtype,
        )

    def reshape(self, shape: Sequence[int]) -> Term:
        return Term(self.t, self.t.reshape(self.name, shape), self.dtype)

    def unsqueeze(self, axis: int) -> Term:
        return Term(
            self.t, self.t.emit("Unsqueeze", self.name, self.t.integers([axis])), self.dtype
        )

    def expand(self, shape: Sequence[int]) -> Term:
        return Term(self.t, self.t.emit("Expand", self.name, self.t.integers(shape)), self.dtype)

    def __add__(self, other: Operand) -> Term:
        return self.apply("Add", other)

    def __radd__(self, other: float) -> Term:
        return self.number(other) + self

    def __sub__(self, other: Operand) -> Term:
        return self.apply("Sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.number(other) - self

    def __mul__(self, other: Operand) -> Term:
        return self.apply("Mul", other)

    def __rmul__(self, other: float) -> Term:
        return self.number(other) * self

    def __truediv__(self, other: Operand) -> Term:
        return self.apply("Div", other)

    def __rtruediv__(self, other: float) -> Term:
        return (
            self.apply("Reciprocal") if other == 1 and self.is_float else self.number(other) / self
        )

    def __neg__(self) -> Term:
        # Neg takes no unsigned integers.
        return 0 - self if self.dtype == "uint8" else self.apply("Neg")

    def __lt__(self, other: Operand) -> Term:
        return self.apply("Less", other, dtype="bool")

    def __le__(self, other: Operand) -> Term:
        return self.apply("LessOrEqual", other, dtype="bool")

    def __gt__(self, other: Operand) -> Term:
        return self.apply("Greater", other, dtype="bool")

    def __ge__(self, other: Operand) -> Term:
        return self.apply("GreaterOrEqual", other, dtype="bool")

    def __and__(self, other: Term) -> Term:
        return self.apply("And", other)

    def __or__(self, other: Term) -> Term:
        return self.apply("Or", other)

    def __xor__(self, other: Term) -> Term:
        return self.apply("Xor", other)

    def __invert__(self) -> Term:
        return self.apply("Not")


Operand = Term | float


def term(t: Translation, x: Value | int = 0) -> Term:
    """Return a value, by default an input, as a term."""
    value = t.inputs[x] if isinstance(x, int) else x
    return Term(t, value.name, value.dtype)


def terms(t: Translation) -> list[Term]:
    """Return all inputs as terms."""
    return [term(t, x) for x in t.inputs]


def translate_terms(function: Callable[..., Term]) -> Translate:
    """Return the translation that emits ``function`` of all inputs."""
    return lambda t: function(*terms(t)).name


def _make_term(like: Term, name: str) -> Term:
    return Term(like.t, name, like.dtype)


TERMS = Functions(
    column=lambda x, index: _make_term(
        x, x.t.emit("Gather", x.name, x.t.number(index, "int64"), axis=-1)
    ),
    columns=lambda x, first, last: _make_term(x, x.t.slice(x.name, [-1], [first], [last])),
    join=lambda *parts: _make_term(
        parts[0], parts[0].t.emit("Concat", *(x.name for x in parts), axis=-1)
    ),
    constant=lambda numbers, like: _make_term(like, like.t.constant(numbers, like.dtype)),
    minimum=lambda x, y: x.apply("Min", y),
    maximum=lambda x, y: x.apply("Max", y),
    at_least_0=lambda x: x.apply("Max", 0),
    clip=lambda x, low, high: x.apply("Clip", low, high),
    round=lambda x: x.apply("Round"),
    exp=lambda x: x.apply("Exp"),
    log=lambda x: x.apply("Log"),
)
"""The functions of formulas."""
