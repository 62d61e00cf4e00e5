"""Gradients of densities, of the samples and of their parameters. In MXNet samples of discrete distributions have none.

Each slope is the derivative of the density's logarithm by one input; the density is a factor unless ``is_log`` is set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp
from graphshare.ops.kernel import Array
from graphshare.ops.unary.gradient import digamma

Slopes = Callable[..., "tuple[Array | None, ...]"]


def _uniform(x: Array, low: Array, high: Array) -> tuple[Array | None, ...]:
    return None, 1 / (high - low), 1 / (low - high)


def _normal(x: Array, mu: Array, sigma: Array) -> tuple[Array | None, ...]:
    difference, variance = x - mu, sigma * sigma
    return -difference / variance, difference / variance, (difference * difference - variance) / (variance * sigma)


def _gamma(x: Array, alpha: Array, beta: Array) -> tuple[Array | None, ...]:
    return (alpha - 1) / x - beta, np.log(beta) + np.log(x) - digamma(alpha), alpha / beta - x


def _exponential(x: Array, rate: Array) -> tuple[Array | None, ...]:
    return -rate, 1 / rate - x


def _poisson(x: Array, rate: Array) -> tuple[Array | None, ...]:
    return None, x / rate - 1


def _negative_binomial(x: Array, limit: Array, chance: Array) -> tuple[Array | None, ...]:
    return None, digamma(x + limit) - digamma(limit) + np.log(chance), limit / chance - x / (1 - chance)


def _generalized_negative_binomial(x: Array, mu: Array, alpha: Array) -> tuple[Array | None, ...]:
    whole = mu * alpha + 1
    _, limit_slope, chance_slope = _negative_binomial(x, 1 / alpha, 1 / whole)
    assert limit_slope is not None
    assert chance_slope is not None
    scaled = chance_slope / (whole * whole)
    return None, -scaled * alpha, -limit_slope / (alpha * alpha) - scaled * mu


def _dirichlet(x: Array, alpha: Array) -> tuple[Array | None, ...]:
    return (alpha - 1) / x, np.log(x) + digamma(alpha.sum(axis=-1, keepdims=True)) - digamma(alpha)


def _vjp(slopes: Slopes, width: int) -> Vjp:
    """Return the gradients of a density whose sample has ``width`` axes; a parameter applies to all samples of a row."""

    def vjp(entry: TapeEntry, dy: Array) -> Gradients:
        x, *parameters = entry.inputs
        first = parameters[0].ndim - width  # parameters apply to all samples along the axes from here on
        axes = tuple(range(first, x.ndim - width))
        wide = [np.expand_dims(p.astype(np.float64), axes) for p in parameters]
        weight = dy.astype(np.float64)
        if not entry.attrs["is_log"]:
            weight = weight * entry.outputs[0]
        weight = weight.reshape(*weight.shape, *(1,) * width)
        with np.errstate(all="ignore"):
            sample_slope, *parameter_slopes = slopes(x.astype(np.float64), *wide)
            gradients: list[Array | None] = [None if sample_slope is None else (weight * sample_slope).astype(x.dtype)]
            for slope, parameter in zip(parameter_slopes, parameters, strict=True):
                assert slope is not None
                gradients.append((weight * slope).sum(axis=axes).astype(parameter.dtype))
        return gradients

    return vjp


_SLOPES: dict[str, Slopes] = {
    "uniform": _uniform,
    "normal": _normal,
    "gamma": _gamma,
    "exponential": _exponential,
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "generalized_negative_binomial": _generalized_negative_binomial,
}


GRADIENTS = (
    *(Gradient(f"_random_pdf_{name}", _vjp(slopes, 0)) for name, slopes in _SLOPES.items()),
    Gradient("_random_pdf_dirichlet", _vjp(_dirichlet, 1)),
)
