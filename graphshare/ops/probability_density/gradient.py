"""Gradients of densities, of the samples and of the parameters that serve them. MXNet gives samples that are counted none.

Each slope is the derivative of the density's logarithm by one input; where the density itself was asked for, it is a factor.
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
    apart, variance = x - mu, sigma * sigma
    return -apart / variance, apart / variance, (apart * apart - variance) / (variance * sigma)


def _gamma(x: Array, alpha: Array, beta: Array) -> tuple[Array | None, ...]:
    return (alpha - 1) / x - beta, np.log(beta) + np.log(x) - digamma(alpha), alpha / beta - x


def _exponential(x: Array, rate: Array) -> tuple[Array | None, ...]:
    return -rate, 1 / rate - x


def _poisson(x: Array, rate: Array) -> tuple[Array | None, ...]:
    return None, x / rate - 1


def _negative_binomial(x: Array, limit: Array, chance: Array) -> tuple[Array | None, ...]:
    return None, digamma(x + limit) - digamma(limit) + np.log(chance), limit / chance - x / (1 - chance)


def _of_mean_and_dispersion(x: Array, mu: Array, alpha: Array) -> tuple[Array | None, ...]:
    whole = mu * alpha + 1
    _, of_limit, of_chance = _negative_binomial(x, 1 / alpha, 1 / whole)
    assert of_limit is not None
    assert of_chance is not None
    shrunk = of_chance / (whole * whole)
    return None, -shrunk * alpha, -of_limit / (alpha * alpha) - shrunk * mu


def _dirichlet(x: Array, alpha: Array) -> tuple[Array | None, ...]:
    return (alpha - 1) / x, np.log(x) + digamma(alpha.sum(axis=-1, keepdims=True)) - digamma(alpha)


def _vjp(slopes: Slopes, width: int) -> Vjp:
    """Of densities whose sample has ``width`` axes: each parameter stands for all samples of the axis before."""

    def vjp(entry: TapeEntry, dy: Array) -> Gradients:
        x, *parameters = entry.inputs
        along = -1 - width
        wide = [np.expand_dims(p.astype(np.float64), along) for p in parameters]
        weight = dy.astype(np.float64)
        if not entry.attrs["is_log"]:
            weight = weight * entry.outputs[0]
        weight = weight.reshape(*weight.shape, *(1,) * width)
        with np.errstate(all="ignore"):
            of_x, *of_parameters = slopes(x.astype(np.float64), *wide)
            found: list[Array | None] = [None if of_x is None else (weight * of_x).astype(x.dtype)]
            for slope, parameter in zip(of_parameters, parameters, strict=True):
                assert slope is not None
                total = (weight * slope).sum(axis=along)
                found.append(total.astype(parameter.dtype))
        return found

    return vjp


_SLOPES: dict[str, Slopes] = {
    "uniform": _uniform,
    "normal": _normal,
    "gamma": _gamma,
    "exponential": _exponential,
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "generalized_negative_binomial": _of_mean_and_dispersion,
}


GRADIENTS = (
    *(Gradient(f"_random_pdf_{name}", _vjp(slopes, 0)) for name, slopes in _SLOPES.items()),
    Gradient("_random_pdf_dirichlet", _vjp(_dirichlet, 1)),
)
