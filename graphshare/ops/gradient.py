"""Gradients of operators: the product of output gradients with the Jacobian (vjp), or the reason why there is none.

Like kernels, gradients are independent of graphs. They follow MXNet even where it does not compute
the derivative: losses ignore the gradient of their output, and some operators have a gradient of
zero.
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
    """An operator's gradient cannot be computed for these attributes or values; the message says why."""


class TapeEntry(msgspec.Struct, eq=False):
    """The data of one node that a forward pass keeps for the backward pass.

    ``requested[i]`` is whether the gradient of input ``i`` is needed. ``subruns`` are the backward
    passes of the subgraphs in execution order: from the gradients of a subgraph's heads to its
    variables' gradients. ``stream`` restarts the random numbers of the forward pass. Inputs and
    outputs that a gradient does not read are not kept.
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

    ``vjp(entry, *output gradients)`` returns the gradients of the inputs: one array for the first
    input, or a sequence. It may be shorter than the inputs; missing ones are zero. The gradient of
    the first output is always an array, the gradient of another output is None if the output is
    unused. ``reads_inputs`` and ``reads_outputs`` state which arrays are kept for the backward
    pass. ``is_loss`` operators start a backward pass: they ignore the gradient of their output. One
    that ``adds_penalty`` starts one too, and adds to the gradient of its output. ``overwrites``
    returns new values of inputs that MXNet's forward pass writes to.
    """

    operator: str
    vjp: Vjp
    reads_inputs: bool = True
    reads_outputs: bool = True
    is_loss: bool = False
    adds_penalty: bool = False
    overwrites: Callable[[Attrs, Sequence[Array]], Mapping[int, Array]] | None = None


class NoGradient(msgspec.Struct, frozen=True):
    """An operator whose gradient is not computed.

    With ``is_zero`` it is zero in MXNet too, so a backward pass ends here; otherwise a request for it is refused.
    """

    operator: str
    reason: str
    is_zero: bool = True


def no_gradient(reason: str, *operators: str, is_zero: bool = True) -> tuple[NoGradient, ...]:
    """Return the entries of operators that have no gradient for one reason."""
    return tuple(NoGradient(operator, reason, is_zero) for operator in operators)


def sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Return ``gradient`` summed over the axes along which an array of ``shape`` was broadcast."""
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
