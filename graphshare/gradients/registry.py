"""Gradients by operator: the families of this package, and what others add.

A package adds gradients of its own through the entry point group ``graphshare.gradients``: an object that is a tuple of
:class:`~graphshare.gradients.gradient.Gradient`. In Python, :func:`register` does the same.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from graphshare.gradients.gradient import Gradient, NoGradient
from graphshare.operators.registry import canonical

_FAMILIES: tuple[str, ...] = (
    "activation",
    "attention",
    "batch_normalization",
    "binary",
    "boxes",
    "casts",
    "control",
    "convolution",
    "ctc",
    "deconvolution",
    "indexing",
    "leaky",
    "linear",
    "linear_algebra",
    "loss",
    "normalization",
    "ordering",
    "pooling",
    "reduction",
    "regions",
    "resizing",
    "rnn",
    "sampling",
    "sequence",
    "shape",
    "softmax",
    "unary",
    "without",
)

_registered: dict[str, Gradient | NoGradient] = {}


def find_gradient(operator: str) -> Gradient | NoGradient | None:
    """The gradient of an operator, by any of its names; None when nothing is known of it."""
    name = canonical(operator)
    return _registered.get(name) or known_gradients().get(name)


def register(gradient: Gradient | NoGradient) -> None:
    """Adds a gradient, or puts it in the place of the one for the same operator."""
    _registered[canonical(gradient.operator)] = gradient


@cache
def known_gradients() -> dict[str, Gradient | NoGradient]:
    """All gradients of this package and of installed ones, by canonical name."""
    found: dict[str, Gradient | NoGradient] = {}
    for family in _FAMILIES:
        for gradient in import_module(f"graphshare.gradients.{family}").GRADIENTS:
            assert gradient.operator not in found, f"two gradients for {gradient.operator}"
            found[gradient.operator] = gradient
    from importlib.metadata import entry_points

    for point in entry_points(group="graphshare.gradients"):
        found.update((canonical(gradient.operator), gradient) for gradient in point.load())
    return found
