"""Gradients by operator: the families of this package, and what others add.

A package adds gradients of its own through the entry point group ``graphshare.gradients``: an object that is a tuple of
:class:`~graphshare.gradients.gradient.Gradient`. In Python, :func:`register` does the same.
"""

from __future__ import annotations

from graphshare.gradients.gradient import Gradient, NoGradient
from graphshare.operators.contributed import Contributed

_FAMILIES = """
    activation attention batch_normalization binary boxes casts columns control convolution ctc deconvolution
    deformable_regions densities hawkes image indexing leaky linear linear_algebra loss normalization numpy_linear
    numpy_scalars numpy_statistics ordering pooling reduction regions resizing rnn sampling sequence shape softmax unary
    without
""".split()

GRADIENTS: Contributed[Gradient | NoGradient] = Contributed("graphshare.gradients", "GRADIENTS", _FAMILIES)


def find_gradient(operator: str) -> Gradient | NoGradient | None:
    """The gradient of an operator, by any of its names; None when there is none."""
    return GRADIENTS.find(operator)


def register(gradient: Gradient | NoGradient) -> None:
    """Adds a gradient, or puts it in the place of the one for the same operator."""
    GRADIENTS.register(gradient)


def known_gradients() -> dict[str, Gradient | NoGradient]:
    """All gradients of this package and of installed ones, by canonical name."""
    return GRADIENTS.known()
