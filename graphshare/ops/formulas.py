"""Formulas stated once, for kernels and ONNX graphs.

A formula takes :class:`Functions` and operands that support arithmetic. Kernels call it with
:data:`ARRAYS`, translations with :data:`graphshare.ops.onnx_terms.TERMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Functions(NamedTuple):
    """The functions that formulas need besides arithmetic.

    ``column(x, i)`` and ``columns(x, first, last)`` cut the last axis, ``join(*parts)``
    concatenates along it. ``constant(numbers, like)`` makes an operand of an array. ``at_least_0``
    is never -0, ``round`` rounds half to even, and ``clip(x, low, high)`` has bounds in the dtype
    of ``x``.
    """

    column: Callable[[Any, int], Any]
    columns: Callable[[Any, int, int], Any]
    join: Callable[..., Any]
    constant: Callable[[Any, Any], Any]
    minimum: Callable[[Any, Any], Any]
    maximum: Callable[[Any, Any], Any]
    at_least_0: Callable[[Any], Any]
    clip: Callable[[Any, float, float], Any]
    round: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]


ARRAYS = Functions(
    column=lambda x, index: x[..., index],
    columns=lambda x, first, last: x[..., first:last],
    join=lambda *parts: np.concatenate(parts, axis=-1),
    constant=lambda numbers, like: numbers,
    minimum=np.minimum,
    maximum=np.maximum,
    # -0 + 0 is 0; maximum may return either zero.
    at_least_0=lambda x: np.maximum(x + x.dtype.type(0), 0),
    clip=np.clip,
    round=np.rint,
    exp=np.exp,
    log=np.log,
)
