"""One array and one number.

The number takes the type of the array, so of integers its fraction is cut off. With ``is_int`` False an array of integers
takes the number's side: it becomes float64. Booleans become int64.
"""

from __future__ import annotations

import numpy as np

from graphshare.kernels.binary import ARITHMETIC
from graphshare.kernels.conversion import convert
from graphshare.kernels.inference import same_shapes
from graphshare.kernels.kernel import Array, Attrs, Context, Forward, Kernel, Types


def result_type(attrs: Attrs, dtype: str) -> str:
    """The type of an operator between an array of ``dtype`` and the scalar of ``attrs``."""
    if dtype.startswith("float"):
        return dtype
    if not attrs["is_int"]:
        return "float64"
    return "int64" if dtype == "bool" else dtype


def forward_of(word: str, reverse: bool) -> Forward:
    """The operator that a word of :data:`ARITHMETIC` names, with the number first when reversed."""
    function = ARITHMETIC[word]

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        data = convert(x, result_type(attrs, str(x.dtype)))
        number = convert(np.asarray(attrs["scalar"], np.float64), data.dtype)
        if not reverse:
            return function(context, data, number)
        result = function(_swapped(context), number, data)
        if word == "div" and data.dtype.kind in "iu":  # it is infinity, as an integer
            result = np.where(data == 0, convert(np.asarray(np.inf), data.dtype), result)
        return result

    return forward


def _swapped(context: Context) -> Context:
    """The context of an operator whose array is the second operand."""
    return Context(training=context.training, dead=(False, *context.dead))


def types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """The type of the result from that of the array, or the other way round."""
    if inputs[0] is None:
        known = outputs[0]
        return [known if known is not None and known.startswith("float") and attrs["is_int"] else None], outputs
    return inputs, [result_type(attrs, inputs[0])]


_WORDS = {"add": "plus", "sub": "minus"}

KERNELS = (
    *(Kernel(f"_{_WORDS.get(name, name)}_scalar", forward_of(name, False), same_shapes, types) for name in ARITHMETIC),
    *(
        Kernel(f"_r{_WORDS.get(name, name)}_scalar", forward_of(name, True), same_shapes, types)
        for name in ("sub", "div", "mod", "power")
    ),
)
