"""What a gradient is: the product of an operator's output gradients with its Jacobian (vjp), or why there is none.

Gradients know no graph, as kernels do not. What MXNet computes decides, also where it is not the derivative: loss heads ignore
the gradient of their output, and some operators have a gradient of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.ops.kernel import Array, Attrs

Gradients = Sequence["Array | None"]
"""One for each array; None is zero everywhere."""


class GradientError(Exception):
    """An operator's gradient cannot be computed for these attributes or values; the message says why."""


class TapeEntry(msgspec.Struct, eq=False):
    """What a forward pass left for the backward pass.

    ``wanted[i]`` tells whether anybody asks for the gradient of input ``i``. ``subruns`` are the backward passes of the
    subgraphs in the order in which they ran: from the gradients of a subgraph's heads to those of its variables. ``stream``
    begins the random numbers of the forward pass anew. Inputs and outputs that a gradient does not read are not kept.
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
    """How gradients pass one operator.

    ``vjp(entry, *output gradients)`` gives the gradients of the inputs: one array for the first of them, or a sequence, which
    may be shorter than the inputs; what is missing is zero. The first output's gradient is always an array, the others are None
    where they are not read. ``reads_inputs`` and ``reads_outputs`` tell what must be kept until the backward pass.
    ``is_loss`` operators start a backward pass: they ignore the gradient of their output. ``overwrites`` gives new values of
    inputs that MXNet's forward pass writes to.
    """

    operator: str
    vjp: Vjp
    reads_inputs: bool = True
    reads_outputs: bool = True
    is_loss: bool = False
    overwrites: Callable[[Attrs, Sequence[Array]], Mapping[int, Array]] | None = None


class NoGradient(msgspec.Struct, frozen=True):
    """An operator whose gradient is not computed.

    With ``is_zero`` it is zero in MXNet too, so a backward pass ends here. Without, asking for it is refused with the reason.
    """

    operator: str
    reason: str
    is_zero: bool = True


def no_gradient(reason: str, *operators: str, is_zero: bool = True) -> tuple[NoGradient, ...]:
    """The operators without a gradient for one reason."""
    return tuple(NoGradient(operator, reason, is_zero) for operator in operators)


def sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """``gradient`` summed over the axes along which an array of ``shape`` was stretched."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis + extra] != 1
    )
    total: Array = gradient.sum(axis=axes, keepdims=True) if axes else gradient
    return np.reshape(total, shape)
