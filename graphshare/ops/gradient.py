"""Gradients of operators: vector-Jacobian products (vjp), or why there is none.

Like kernels, they do not know graphs. They follow MXNet even where it does not compute the
derivative: losses ignore the gradient of their output, and some operators have a gradient of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.ops.kernel import Array, Attrs

Gradients = Sequence["Array | None"]
"""One gradient for each array; None stands for zeros."""


class GradientError(Exception):
    """The gradient cannot be computed for these attributes or values; the message says why."""


class TapeEntry(msgspec.Struct, eq=False):
    """One node's data that a forward pass keeps for the backward pass.

    ``requested[i]``: the gradient of input ``i`` is needed. ``subruns`` are backward passes of
    subgraphs in execution order, from gradients of heads to gradients of variables. ``stream``
    restarts the forward pass's random numbers. Inputs and outputs that the gradient does not read
    are dropped.
    """

    attrs: Attrs
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    residuals: Any = None
    training: bool = True
    requested: tuple[bool, ...] = ()
    subruns: Sequence[tuple[int, Callable[[Gradients], Gradients]]] = ()
    stream: Callable[[], np.random.Generator] | None = None


Vjp = Callable[..., "Array | Gradients | None"]


class Gradient(msgspec.Struct, frozen=True):
    """The gradient of one operator.

    ``vjp(entry, *output gradients)`` returns the inputs' gradients: one array for the first, or a
    sequence in which missing ones are zero. The first output's gradient is always an array; another
    one is None if that output is unused. ``reads_inputs`` and ``reads_outputs`` state which arrays
    are kept. ``is_loss`` operators start a backward pass and ignore the output's gradient; those
    with ``adds_penalty`` start one and add to that gradient. ``overwrites`` returns new values of
    inputs that MXNet's forward pass writes to.
    """

    operator: str
    vjp: Vjp
    reads_inputs: bool = True
    reads_outputs: bool = True
    is_loss: bool = False
    adds_penalty: bool = False
    overwrites: Callable[[Attrs, Sequence[Array]], Mapping[int, Array]] | None = None


class NoGradient(msgspec.Struct, frozen=True):
    """An operator without a gradient.

    With ``is_zero`` it is zero, as in MXNet, and a backward pass ends here; else it is refused.
    """

    operator: str
    reason: str
    is_zero: bool = True


def no_gradient(reason: str, *operators: str, is_zero: bool = True) -> tuple[NoGradient, ...]:
    """Return entries of operators that lack a gradient for one reason."""
    return tuple(NoGradient(operator, reason, is_zero) for operator in operators)


def sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum ``gradient`` over the axes along which an array of ``shape`` was broadcast."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        axis + extra
        for axis, size in enumerate(shape)
        if size == 1 and gradient.shape[axis + extra] != 1
    )
    total: Array = gradient.sum(axis=axes, keepdims=True) if axes else gradient
    return np.reshape(total, shape)
