"""``+ - * /`` of :class:`Var`, and constants."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.builder.operators import apply
from graphshare.builder.var import Number, Var
from graphshare.kernels.inference import is_known

# As MXNet's Symbol calls them, for its automatic names go by that (`_plus0`, `_mulscalar0`).
_ELEMENTWISE = {"add": "_Plus", "sub": "_Minus", "mul": "_Mul", "div": "_Div"}
_SCALAR = {
    "add": "_PlusScalar",
    "sub": "_MinusScalar",
    "rsub": "_RMinusScalar",
    "mul": "_MulScalar",
    "div": "_DivScalar",
    "rdiv": "_RDivScalar",
}


def applied(what: str, left: Var, right: Var | Number) -> Var:
    """``left`` and ``right`` under one of ``add, sub, mul, div`` (``rsub``, ``rdiv``: a number first).

    Two values go elementwise where their shapes are known to be equal, else broadcasting.
    """
    if not isinstance(right, Var):
        return apply(_SCALAR[what], left, scalar=right)[0]
    same = is_known(left.shape) and left.shape == right.shape
    return apply(_ELEMENTWISE[what] if same else f"broadcast_{what}", left, right)[0]


def constant(value: float, shape: Sequence[int] = (1,), *, dtype: str = "float32", name: str | None = None) -> Var:
    """An array of ``shape`` full of ``value``."""
    return apply("_full", name=name, shape=tuple(shape), value=value, dtype=dtype)[0]
