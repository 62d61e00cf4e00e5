"""Gradients of the operators of family ``random``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient
from graphshare.ops.random.kernel import DISTRIBUTIONS

GRADIENTS = (
    *no_gradient(
        "it has no floating-point inputs", "_random_randint", *(f"_random_{distribution}" for distribution in DISTRIBUTIONS)
    ),
    *no_gradient("it reads only the shape of its input", *(f"_random_{distribution}_like" for distribution in DISTRIBUTIONS)),
    *no_gradient(
        "a random sample has no derivative by its parameters",
        *(f"_sample_{distribution}" for distribution in DISTRIBUTIONS),
        "_sample_multinomial",
        "_shuffle",
    ),
)
