"""Densities of random distributions at samples ``(..., n)``; parameters ``(...)`` apply to the samples of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Shapes
from graphshare.ops.special_functions import gammaln
from graphshare.ops.unification import same_dtypes, unify
from graphshare.text.format import format_count, format_shape

Density = Callable[..., Any]


def _uniform(x: Array, low: Array, high: Array) -> Any:
    return -np.log(high - low) + 0 * x


def _normal(x: Array, mu: Array, sigma: Array) -> Any:
    return -0.5 * np.square((x - mu) / sigma) - np.log(sigma * np.sqrt(2 * np.pi))


def _gamma(x: Array, alpha: Array, beta: Array) -> Any:
    return alpha * np.log(beta) + (alpha - 1) * np.log(x) - beta * x - gammaln(alpha)


def _exponential(x: Array, rate: Array) -> Any:
    return np.log(rate) - rate * x


def _poisson(x: Array, rate: Array) -> Any:
    return x * np.log(rate) - gammaln(x + 1) - rate


def _negative_binomial(x: Array, limit: Array, chance: Array) -> Any:
    combinations = gammaln(x + limit) - gammaln(x + 1) - gammaln(np.broadcast_to(limit, x.shape))
    return combinations + limit * np.log(chance) + x * np.log(1 - chance)


def _generalized_negative_binomial(x: Array, mu: Array, alpha: Array) -> Any:
    return _negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1))


def _forward(density: Density) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array, *parameters: Array) -> Array:
        wide = [p.astype(np.float64).reshape(p.shape + (1,) * (x.ndim - p.ndim)) for p in parameters]
        with np.errstate(all="ignore"):
            logarithm = np.asarray(density(x.astype(np.float64), *wide))
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


_DENSITIES: dict[str, Density] = {
    "uniform": _uniform,
    "normal": _normal,
    "gamma": _gamma,
    "exponential": _exponential,
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "generalized_negative_binomial": _generalized_negative_binomial,
}


KERNELS = (
    *(Kernel(f"_random_pdf_{name}", _forward(density), _shapes, same_dtypes) for name, density in _DENSITIES.items()),
    Kernel("_random_pdf_dirichlet", dirichlet, _dirichlet_shapes, same_dtypes),
)
