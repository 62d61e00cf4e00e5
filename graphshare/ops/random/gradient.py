"""Gradients of the operators of family ``random``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient

GRADIENTS = (
    *no_gradient(
        "it has no inputs of floating point",
        "_random_uniform",
        "_random_normal",
        "_random_exponential",
        "_random_gamma",
        "_random_poisson",
        "_random_negative_binomial",
        "_random_generalized_negative_binomial",
        "_random_randint",
    ),
    *no_gradient(
        "it reads no values, the shape alone",
        "_random_uniform_like",
        "_random_normal_like",
        "_random_exponential_like",
        "_random_gamma_like",
        "_random_poisson_like",
        "_random_negative_binomial_like",
        "_random_generalized_negative_binomial_like",
    ),
    *no_gradient(
        "a draw has no derivative by what it is drawn from",
        "_sample_uniform",
        "_sample_normal",
        "_sample_exponential",
        "_sample_gamma",
        "_sample_poisson",
        "_sample_negative_binomial",
        "_sample_generalized_negative_binomial",
        "_sample_multinomial",
        "_shuffle",
    ),
)
