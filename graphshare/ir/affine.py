"""Operators that multiply one operand by constants and add constants, as the operators of each format are read for a proof."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class Constant(Struct, frozen=True, eq=False):
    """A constant by its term, with its dtype, shape and name.

    ``read`` returns its elements; with a slice those of some rows, which are the elements along the first axis.
    """

    term: int
    dtype: str
    shape: tuple[int, ...]
    name: str
    read: Callable[..., Any]

    def split_rows(self, size: int = 1 << 17) -> Iterator[slice]:
        """Yield slices of its rows that have at most ``size`` elements, or one row that has more."""
        count = self.shape[0]
        rows = max(size // max(prod(self.shape[1:]), 1), 1)
        return (slice(start, min(start + rows, count)) for start in range(0, count, rows))

    def put_outputs_first(self, groups: int) -> Constant | None:
        """Return the weight of a transposed convolution (inputs, outputs / groups, ...) as (outputs, inputs / groups, ...).

        None where it has no such shape.
        """
        if len(self.shape) < 2 or groups < 1 or self.shape[0] % groups:
            return None
        rows, columns, *window = self.shape[0] // groups, *self.shape[1:]
        shape = groups * columns, rows, *window

        def read(taken: Any = ...) -> Any:
            return self.read().reshape(groups, rows, columns, *window).swapaxes(1, 2).reshape(shape)[taken]

        return replace(self, shape=shape, read=read)


FindConstant = Callable[[int], Constant | None]
"""Returns an operand of floats that is a constant, by its position; None for any other."""


class AffineStep(Struct, frozen=True, eq=False):
    """The effect of an operator on the operand at position ``source``: a product with constants, plus constants.

    A linear operator has a ``core``: all that it does except the numbers of its ``kernel``. Its output channels are
    along ``out_axis`` of the kernel, and along ``axis`` of the output, counted from the last. One without a kernel
    has the number of its result as its core. Any other one multiplies each
    element by ``scale``, or divides by it, and ``shift`` is added, each in a shape that broadcasts; or it is a normalization
    (gamma, beta, mean and variance) by the channels along ``norm_axis``. ``factor`` and ``shift_factor`` are additional
    numbers, and ``rank`` is the rank of the result where the operator fixes it. With ``is_reshape`` it changes only the shape,
    and keeps the elements and their order.
    """

    source: int
    core: Hashable = None
    kernel: Constant | None = None
    out_axis: int = 0
    axis: int = 0
    rank: int | None = None
    factor: float = 1.0
    scale: Constant | None = None
    divides: bool = False
    shift: Constant | None = None
    shift_factor: float = 1.0
    norm: tuple[Constant, Constant, Constant, Constant] | None = None
    norm_axis: int = 1
    epsilon: float = 0.0
    is_reshape: bool = False


def read_arithmetic(op: str, first: Constant | None, second: Constant | None) -> AffineStep | None:
    """Return the step of Add, Sub, Mul or Div with one constant; None without one, with two, or where it is divided."""
    if (first is None) == (second is None) or (op == "Div" and second is None):
        return None
    source = 0 if first is None else 1
    if op in ("Add", "Sub"):
        # From a constant, each number is taken with the other sign.
        signs = {("Sub", 0): (1.0, -1.0), ("Sub", 1): (-1.0, 1.0)}.get((op, source), (1.0, 1.0))
        return AffineStep(source, factor=signs[0], shift=first or second, shift_factor=signs[1])
    return AffineStep(source, scale=first or second, divides=op == "Div")
