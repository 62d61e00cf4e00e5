"""Densities of random distributions at samples ``(..., n)``; parameters ``(...)`` apply to the samples of a row.

Gradients are those of the samples and of the parameters. In MXNet samples of discrete distributions have none. Each slope is
the derivative of the density's logarithm by one input; the density is a factor unless ``is_log`` is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Shapes
from graphshare.ops.special_functions import gammaln
from graphshare.ops.unary.gradient import digamma
from graphshare.ops.unification import same_dtypes, unify
from graphshare.text.format import format_count, format_shape


class Functions(NamedTuple):
    """The functions of a formula, for what it is computed with: arrays, or terms of an ONNX graph."""

    log: Callable[[Any], Any]
    gammaln: Callable[[Any], Any]


Density = Callable[..., Any]
"""The logarithm of a density, for arrays and for terms alike, from the functions, the samples and the parameters."""


def _uniform(f: Functions, x: Any, low: Any, high: Any) -> Any:
    return -f.log(high - low) + x * 0


def _normal(f: Functions, x: Any, mu: Any, sigma: Any) -> Any:
    distance = (x - mu) / sigma
    return distance * distance * -0.5 - f.log(sigma * math.sqrt(2 * math.pi))


def _gamma(f: Functions, x: Any, alpha: Any, beta: Any) -> Any:
    return alpha * f.log(beta) + (alpha - 1) * f.log(x) - beta * x - f.gammaln(alpha)


def _exponential(f: Functions, x: Any, rate: Any) -> Any:
    return f.log(rate) - rate * x


def _poisson(f: Functions, x: Any, rate: Any) -> Any:
    return x * f.log(rate) - f.gammaln(x + 1) - rate


def _negative_binomial(f: Functions, x: Any, limit: Any, chance: Any) -> Any:
    combinations = f.gammaln(x + limit) - f.gammaln(x + 1) - f.gammaln(limit)
    return combinations + limit * f.log(chance) + x * f.log(1 - chance)


def _generalized_negative_binomial(f: Functions, x: Any, mu: Any, alpha: Any) -> Any:
    return _negative_binomial(f, x, 1 / alpha, 1 / (mu * alpha + 1))


_ARRAYS = Functions(np.log, gammaln)


def _forward(density: Density) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array, *parameters: Array) -> Array:
        wide = [p.astype(np.float64).reshape(p.shape + (1,) * (x.ndim - p.ndim)) for p in parameters]
        with np.errstate(all="ignore"):
            logarithm = np.asarray(density(_ARRAYS, x.astype(np.float64), *wide))
            return convert(logarithm if attrs["is_log"] else np.exp(logarithm), x.dtype)

    return forward


def dirichlet(context: Context, attrs: Attrs, x: Array, alpha: Array) -> Array:
    """Return the density at samples ``(..., n, k)`` of k shares each, with parameters ``(..., k)``."""
    wide, a = x.astype(np.float64), alpha.astype(np.float64)[..., None, :]
    with np.errstate(all="ignore"):
        logarithm = ((a - 1) * np.log(wide)).sum(axis=-1) + gammaln(a.sum(axis=-1)) - gammaln(a).sum(axis=-1)
        return convert(logarithm if attrs["is_log"] else np.exp(logarithm), x.dtype)


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = unify(inputs[0], outputs[0])
    if x is None:
        return inputs, outputs
    if not x:
        raise KernelError("samples without axes, expected at least one")
    rank = next((len(p) for p in inputs[1:] if p is not None), None)
    if rank is None:  # parameters have the shape of the samples, or of their first axes
        return [x, *inputs[1:]], [x]
    if rank > len(x):
        raise KernelError(f"parameters have {format_count(rank, 'axis')}, samples only {len(x)}")
    return [x, *(unify(p, x[:rank]) for p in inputs[1:])], [x]


def _dirichlet_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    if len(x) < 2:
        raise KernelError(f"samples {format_shape(x)}, expected at least two axes")
    return [x, unify(inputs[1], (*x[:-2], x[-1]))], [unify(x[:-1], outputs[0])]


DENSITIES: dict[str, Density] = {
    "uniform": _uniform,
    "normal": _normal,
    "gamma": _gamma,
    "exponential": _exponential,
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "generalized_negative_binomial": _generalized_negative_binomial,
}

KERNELS = (
    *(Kernel(f"_random_pdf_{name}", _forward(density), _shapes, same_dtypes) for name, density in DENSITIES.items()),
    Kernel("_random_pdf_dirichlet", dirichlet, _dirichlet_shapes, same_dtypes),
)

Slopes = Callable[..., "tuple[Array | None, ...]"]


def _uniform_slopes(x: Array, low: Array, high: Array) -> tuple[Array | None, ...]:
    return None, 1 / (high - low), 1 / (low - high)


def _normal_slopes(x: Array, mu: Array, sigma: Array) -> tuple[Array | None, ...]:
    difference, variance = x - mu, sigma * sigma
    return -difference / variance, difference / variance, (difference * difference - variance) / (variance * sigma)


def _gamma_slopes(x: Array, alpha: Array, beta: Array) -> tuple[Array | None, ...]:
    return (alpha - 1) / x - beta, np.log(beta) + np.log(x) - digamma(alpha), alpha / beta - x


def _exponential_slopes(x: Array, rate: Array) -> tuple[Array | None, ...]:
    return -rate, 1 / rate - x


def _poisson_slopes(x: Array, rate: Array) -> tuple[Array | None, ...]:
    return None, x / rate - 1


def _negative_binomial_slopes(x: Array, limit: Array, chance: Array) -> tuple[Array | None, ...]:
    return None, digamma(x + limit) - digamma(limit) + np.log(chance), limit / chance - x / (1 - chance)


def _generalized_negative_binomial_slopes(x: Array, mu: Array, alpha: Array) -> tuple[Array | None, ...]:
    whole = mu * alpha + 1
    _, limit_slope, chance_slope = _negative_binomial_slopes(x, 1 / alpha, 1 / whole)
    assert limit_slope is not None
    assert chance_slope is not None
    scaled = chance_slope / (whole * whole)
    return None, -scaled * alpha, -limit_slope / (alpha * alpha) - scaled * mu


def _dirichlet_slopes(x: Array, alpha: Array) -> tuple[Array | None, ...]:
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
    "uniform": _uniform_slopes,
    "normal": _normal_slopes,
    "gamma": _gamma_slopes,
    "exponential": _exponential_slopes,
    "poisson": _poisson_slopes,
    "negative_binomial": _negative_binomial_slopes,
    "generalized_negative_binomial": _generalized_negative_binomial_slopes,
}

GRADIENTS = (
    *(Gradient(f"_random_pdf_{name}", _vjp(slopes, 0)) for name, slopes in _SLOPES.items()),
    Gradient("_random_pdf_dirichlet", _vjp(_dirichlet_slopes, 1)),
)
