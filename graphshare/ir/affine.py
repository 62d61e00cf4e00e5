"""Operators that multiply by constants and add constants, in one form for all formats."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class Constant(Struct, frozen=True, eq=False):
    """A constant by its term, with its dtype, shape and name.

    ``read()`` returns its elements; ``read(rows)`` only a slice of the first axis.
    """

    term: int
    dtype: str
    shape: tuple[int, ...]
    name: str
    read: Callable[..., Any]

    def split_rows(self, size: int = 1 << 17) -> Iterator[slice]:
        """Yield slices of at most ``size`` elements, or one longer row."""
        count = self.shape[0]
        rows = max(size // max(prod(self.shape[1:]), 1), 1)
        return (slice(start, min(start + rows, count)) for start in range(0, count, rows))

    def put_outputs_first(self, groups: int) -> Constant | None:
        """Reorder a transposed convolution's weight: (inputs, outputs / groups, ...) to (outputs,
        inputs / groups, ...).

        None if the shape does not fit the number of groups.
        """
        if len(self.shape) < 2 or groups < 1 or self.shape[0] % groups:
            return None
        rows, columns, *window = self.shape[0] // groups, *self.shape[1:]
        shape = groups * columns, rows, *window

        def read(taken: Any = ...) -> Any:
            return (
                self.read()
                .reshape(groups, rows, columns, *window)
                .swapaxes(1, 2)
                .reshape(shape)[taken]
            )

        return replace(self, shape=shape, read=read)


FindConstant = Callable[[int], Constant | None]
"""Returns the operand at a position if it is a constant of floats, else None."""


class AffineStep(Struct, frozen=True, eq=False):
    """An operator's effect on operand ``source``: a product with constants, plus constants.

    A linear operator has a ``core``: all that it does except the numbers of its ``kernel``, or
    without a kernel the number of its result. Output channels are along ``out_axis`` of the kernel,
    and along ``axis`` of the output, counted from the last. An elementwise operator multiplies or
    divides by ``scale``, and adds ``shift``; both broadcast. A normalization has ``norm`` (gamma,
    beta, mean and variance) along ``norm_axis``. ``factor`` and ``shift_factor`` are additional
    numbers, ``rank`` is the result's, if fixed. With ``is_reshape`` elements keep their order.
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

    @property
    def constants(self) -> list[Constant]:
        """All constants but the kernel."""
        constants = (self.scale, self.shift, *(self.norm or ()))
        return [each for each in constants if each is not None]


def read_arithmetic(op: str, first: Constant | None, second: Constant | None) -> AffineStep | None:
    """Return the step of Add, Sub, Mul or Div with exactly one constant, not the dividend, else
    None.
    """
    if (first is None) == (second is None) or (op == "Div" and second is None):
        return None
    source = 0 if first is None else 1
    if op in ("Add", "Sub"):
        # A constant minus the operand: the factor is -1.
        signs = {("Sub", 0): (1.0, -1.0), ("Sub", 1): (-1.0, 1.0)}.get((op, source), (1.0, 1.0))
        return AffineStep(source, factor=signs[0], shift=first or second, shift_factor=signs[1])
    return AffineStep(source, scale=first or second, divides=op == "Div")
