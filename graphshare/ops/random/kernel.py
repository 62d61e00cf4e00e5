"""Random numbers from ``context.rng``.

The distributions are MXNet's, the stream is not: no run gives the numbers that MXNet would draw. Without a generator in the
context each run has a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphshare.ops.conversion import draw_in_blocks
from graphshare.ops.creation.kernel import attribute_shape, complete_shape
from graphshare.ops.gradient import no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.random.density import GRADIENTS as DENSITY_GRADIENTS
from graphshare.ops.random.density import KERNELS as DENSITY_KERNELS
from graphshare.ops.unification import attribute_rule, same_dtypes, same_shapes, unify

Draw = Callable[..., Array]


def _generator(context: Context) -> np.random.Generator:
    return context.rng or np.random.default_rng()


def _generalized_negative_binomial(rng: np.random.Generator, size: Any, mu: Any, alpha: Any) -> Array:
    """Draw Poisson numbers whose mean is random: their mean is ``mu`` and their variance ``mu + alpha * mu**2``."""
    alpha = np.maximum(alpha, 1e-12)
    return np.asarray(rng.poisson(rng.gamma(1 / alpha, alpha * mu, size), size))


# By distribution: the function (rng, size, *parameters), and the parameters as attributes of _random_*.
DISTRIBUTIONS: dict[str, tuple[Draw, tuple[str, ...]]] = {
    "uniform": (lambda rng, size, low, high: low + rng.random(size) * (high - low), ("low", "high")),
    "normal": (lambda rng, size, loc, scale: loc + rng.standard_normal(size) * scale, ("loc", "scale")),
    "exponential": (lambda rng, size, lam: rng.standard_exponential(size) / lam, ("lam",)),
    "gamma": (lambda rng, size, alpha, beta: rng.gamma(alpha, beta, size), ("alpha", "beta")),
    "poisson": (lambda rng, size, lam: np.asarray(rng.poisson(lam, size)), ("lam",)),
    "negative_binomial": (lambda rng, size, k, p: np.asarray(rng.negative_binomial(k, p, size)), ("k", "p")),
    "generalized_negative_binomial": (_generalized_negative_binomial, ("mu", "alpha")),
}


def _dtype_of(attrs: Attrs, otherwise: str) -> str:
    dtype: str = attrs["dtype"]
    return otherwise if dtype == "None" else dtype


def _draw_array(draw: Draw, context: Context, shape: Sequence[int], parameters: Sequence[Any], dtype: Any) -> Array:
    """Return numbers of one distribution. Where each takes two draws, all of the first come before those of the second."""
    rng = _generator(context)
    if draw is _generalized_negative_binomial:
        return draw(rng, tuple(shape), *parameters).astype(dtype)
    return draw_in_blocks(lambda count: draw(rng, count, *parameters), shape, dtype)


def _random_kernel(operator: str, draw: Draw, keys: tuple[str, ...], otherwise: str = "float32") -> Kernel:
    """Return the kernel for numbers of a given shape, with the parameters as attributes."""

    def forward(context: Context, attrs: Attrs) -> Array:
        size = complete_shape(context, attrs, attribute_shape)
        return _draw_array(draw, context, size, [attrs[key] for key in keys], _dtype_of(attrs, otherwise))

    def types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        return inputs, same_dtypes(attrs, [_dtype_of(attrs, otherwise)], outputs)[1]

    return Kernel(operator, forward, attribute_rule(attribute_shape), types)


def _random_like_kernel(operator: str, draw: Draw, keys: tuple[str, ...]) -> Kernel:
    """Return the kernel for numbers in the shape and dtype of an array."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return _draw_array(draw, context, x.shape, [attrs[key] for key in keys], x.dtype)

    return Kernel(operator, forward, same_shapes, same_dtypes)


def _sample_kernel(operator: str, draw: Draw) -> Kernel:
    """Return the kernel for numbers of shape ``shape`` for each element of the arrays of parameters."""

    def forward(context: Context, attrs: Attrs, *parameters: Array) -> Array:
        inner = tuple(attrs["shape"] or ())
        expanded = [x.reshape(x.shape + (1,) * len(inner)) for x in parameters]
        return draw(_generator(context), parameters[0].shape + inner, *expanded).astype(_dtype_of(attrs, "float32"))

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        inner = tuple(attrs["shape"] or ())
        shape: Shape = None
        for other in inputs:
            shape = unify(shape, other)
        output = outputs[0] if shape is None else unify((*shape, *inner), outputs[0])
        if output is not None:
            shape = unify(shape, output[: len(output) - len(inner)])
        return [shape] * len(inputs), [output]

    def types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        return same_dtypes(attrs, inputs, [])[0], same_dtypes(attrs, [_dtype_of(attrs, "float32")], outputs)[1]

    return Kernel(operator, forward, shapes, types)


def sample_multinomial(context: Context, attrs: Attrs, x: Array) -> Array | tuple[Array, ...]:
    """Draw ``shape`` classes by the probabilities of each row (last axis); with ``get_prob`` return their logarithms too."""
    inner = tuple(attrs["shape"] or ())
    rows = x.reshape(-1, x.shape[-1])
    count = int(np.prod(inner))
    sums = np.cumsum(rows.astype(np.float64), axis=1)
    if not (sums[:, -1] > 0).all():
        raise KernelError("the probabilities of a row sum up to 0")
    drawn = _generator(context).random((len(rows), count)) * sums[:, -1:]
    chosen = np.stack([np.searchsorted(row, numbers, side="right") for row, numbers in zip(sums, drawn, strict=True)])
    chosen = chosen.clip(0, x.shape[-1] - 1)
    shape = (*x.shape[:-1], *inner) or (1,)
    result: Array = chosen.reshape(shape).astype(attrs["dtype"])
    if not attrs["get_prob"]:
        return result
    with np.errstate(divide="ignore"):
        return result, np.log(np.take_along_axis(rows, chosen, axis=1)).reshape(shape)


def _multinomial_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    shape: Shape = None if x is None else (*x[:-1], *(attrs["shape"] or ())) or (1,)
    return inputs, [unify(shape, output) for output in outputs]


def _multinomial_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [attrs["dtype"], *inputs][: len(outputs)]


def shuffle(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the rows along axis 0 in random order."""
    return np.asarray(_generator(context).permutation(x, axis=0)) if x.ndim else x.copy()


KERNELS = (
    *DENSITY_KERNELS,
    *(_random_kernel(f"_random_{name}", *how) for name, how in DISTRIBUTIONS.items()),
    *(_random_like_kernel(f"_random_{name}_like", *how) for name, how in DISTRIBUTIONS.items()),
    *(_sample_kernel(f"_sample_{name}", draw) for name, (draw, _) in DISTRIBUTIONS.items()),
    _random_kernel(
        "_random_randint", lambda rng, size, low, high: np.asarray(rng.integers(low, high, size)), ("low", "high"), "int32"
    ),
    Kernel("_sample_multinomial", sample_multinomial, _multinomial_shapes, _multinomial_types),
    Kernel("_shuffle", shuffle, same_shapes, same_dtypes),
)

GRADIENTS = (
    *DENSITY_GRADIENTS,
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
