"""Random numbers from ``context.rng``, and densities of distributions.

The distributions are MXNet's; the numbers never are. Without a generator in the context each run
has a new one.

Densities are at samples ``(..., n)``; parameters ``(...)`` apply to a row. Gradients exist for
samples and parameters; in MXNet samples of discrete distributions have none. Each slope is the
derivative of the density's logarithm; the density is a factor unless ``is_log`` is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.conversion import convert, draw_in_blocks
from graphshare.ops.creation.kernel import attribute_shape, complete_shape
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, Shape, Shapes, Types
from graphshare.ops.limits import require
from graphshare.ops.special_functions import gammaln
from graphshare.ops.unary.kernel import digamma
from graphshare.ops.unification import attribute_rule, same_dtypes, same_shapes, unify
from graphshare.text.format import format_count, format_shape


class DensityFunctions(NamedTuple):
    """A formula's functions, for arrays or ONNX terms."""

    log: Callable[[Any], Any]
    gammaln: Callable[[Any], Any]


Density = Callable[..., Any]
"""A density's logarithm, for arrays and ONNX terms, from functions, samples and parameters."""


def _normal(f: DensityFunctions, x: Any, mu: Any, sigma: Any) -> Any:
    distance = (x - mu) / sigma
    return distance * distance * -0.5 - f.log(sigma * math.sqrt(2 * math.pi))


def _negative_binomial(f: DensityFunctions, x: Any, limit: Any, chance: Any) -> Any:
    combinations = f.gammaln(x + limit) - f.gammaln(x + 1) - f.gammaln(limit)
    return combinations + limit * f.log(chance) + x * f.log(1 - chance)


_ARRAYS = DensityFunctions(np.log, gammaln)


def _forward(density: Density) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array, *parameters: Array) -> Array:
        wide = [
            p.astype(np.float64).reshape(p.shape + (1,) * (x.ndim - p.ndim)) for p in parameters
        ]
        with np.errstate(all="ignore"):
            logarithm = np.asarray(density(_ARRAYS, x.astype(np.float64), *wide))
            return convert(logarithm if attrs["is_log"] else np.exp(logarithm), x.dtype)

    return forward


def dirichlet(context: Context, attrs: Attrs, x: Array, alpha: Array) -> Array:
    """Return the density at samples ``(..., n, k)`` of k shares, parameters ``(..., k)``."""
    wide, a = x.astype(np.float64), alpha.astype(np.float64)[..., None, :]
    with np.errstate(all="ignore"):
        logarithm = (
            ((a - 1) * np.log(wide)).sum(axis=-1)
            + gammaln(a.sum(axis=-1))
            - gammaln(a).sum(axis=-1)
        )
        return convert(logarithm if attrs["is_log"] else np.exp(logarithm), x.dtype)


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = unify(inputs[0], outputs[0])
    if x is None:
        return inputs, outputs
    require(x, "samples have no axes, expected at least one")
    rank = next((len(p) for p in inputs[1:] if p is not None), None)
    if rank is None:  # parameters have the shape of the samples, or of their first axes
        return [x, *inputs[1:]], [x]
    require(rank <= len(x), f"parameters have {format_count(rank, 'axis')}, samples only {len(x)}")
    return [x, *(unify(p, x[:rank]) for p in inputs[1:])], [x]


def _dirichlet_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    require(len(x) >= 2, f"samples are {format_shape(x)}, expected at least two axes")
    return [x, unify(inputs[1], (*x[:-2], x[-1]))], [unify(x[:-1], outputs[0])]


Slopes = Callable[..., "tuple[Array | None, ...]"]


def _normal_slopes(x: Array, mu: Array, sigma: Array) -> tuple[Array | None, ...]:
    difference, variance = x - mu, sigma * sigma
    return (
        -difference / variance,
        difference / variance,
        (difference * difference - variance) / (variance * sigma),
    )


def _negative_binomial_slopes(x: Array, limit: Array, chance: Array) -> tuple[Array | None, ...]:
    return (
        None,
        digamma(x + limit) - digamma(limit) + np.log(chance),
        limit / chance - x / (1 - chance),
    )


def _generalized_negative_binomial_slopes(
    x: Array, mu: Array, alpha: Array
) -> tuple[Array | None, ...]:
    whole = mu * alpha + 1
    _, limit_slope, chance_slope = _negative_binomial_slopes(x, 1 / alpha, 1 / whole)
    assert limit_slope is not None
    assert chance_slope is not None
    scaled = chance_slope / (whole * whole)
    return None, -scaled * alpha, -limit_slope / (alpha * alpha) - scaled * mu


def _dirichlet_slopes(x: Array, alpha: Array) -> tuple[Array | None, ...]:
    return (alpha - 1) / x, np.log(x) + digamma(alpha.sum(axis=-1, keepdims=True)) - digamma(alpha)


def _vjp(slopes: Slopes, width: int) -> Vjp:
    """Samples have ``width`` axes."""

    def vjp(entry: TapeEntry, dy: Array) -> Gradients:
        x, *parameters = entry.inputs
        # Parameters apply to all samples along the axes from here on
        first = parameters[0].ndim - width
        axes = tuple(range(first, x.ndim - width))
        wide = [np.expand_dims(p.astype(np.float64), axes) for p in parameters]
        weight = dy.astype(np.float64)
        if not entry.attrs["is_log"]:
            weight = weight * entry.outputs[0]
        weight = weight.reshape(*weight.shape, *(1,) * width)
        with np.errstate(all="ignore"):
            sample_slope, *parameter_slopes = slopes(x.astype(np.float64), *wide)
            gradients: list[Array | None] = [
                None if sample_slope is None else (weight * sample_slope).astype(x.dtype)
            ]
            for slope, parameter in zip(parameter_slopes, parameters, strict=True):
                assert slope is not None
                gradients.append((weight * slope).sum(axis=axes).astype(parameter.dtype))
        return gradients

    return vjp


Draw = Callable[..., Array]


def _generator(context: Context) -> np.random.Generator:
    return context.rng or np.random.default_rng()


def _generalized_negative_binomial(
    rng: np.random.Generator, size: Any, mu: Any, alpha: Any
) -> Array:
    """Draw Poisson numbers: mean ``mu``, variance ``mu + alpha * mu**2``."""
    # For alpha 0, 1 / alpha would be infinite.
    alpha = np.maximum(alpha, 1e-12)
    return np.asarray(rng.poisson(rng.gamma(1 / alpha, alpha * mu, size), size))


class Distribution(NamedTuple):
    """How to draw from a distribution, its parameters as attributes, and its density.

    ``draw(rng, size, *parameters)`` returns numbers, ``density`` the logarithm of the density,
    ``slopes(x, *parameters)`` its derivatives by the samples (None for zeros) and the parameters.
    """

    keys: tuple[str, ...]
    draw: Draw
    density: Density
    slopes: Slopes


DISTRIBUTIONS: dict[str, Distribution] = {
    "uniform": Distribution(
        ("low", "high"),
        lambda rng, size, low, high: low + rng.random(size) * (high - low),
        lambda f, x, low, high: -f.log(high - low) + x * 0,
        lambda x, low, high: (None, 1 / (high - low), 1 / (low - high)),
    ),
    "normal": Distribution(
        ("loc", "scale"),
        lambda rng, size, loc, scale: loc + rng.standard_normal(size) * scale,
        _normal,
        _normal_slopes,
    ),
    "exponential": Distribution(
        ("lam",),
        lambda rng, size, lam: rng.standard_exponential(size) / lam,
        lambda f, x, rate: f.log(rate) - rate * x,
        lambda x, rate: (-rate, 1 / rate - x),
    ),
    "gamma": Distribution(
        ("alpha", "beta"),
        # In MXNet beta is the scale of draws, but the rate of the density.
        lambda rng, size, alpha, beta: rng.gamma(alpha, beta, size),
        lambda f, x, alpha, beta: (
            alpha * f.log(beta) + (alpha - 1) * f.log(x) - beta * x - f.gammaln(alpha)
        ),
        lambda x, alpha, beta: (
            (alpha - 1) / x - beta,
            np.log(beta) + np.log(x) - digamma(alpha),
            alpha / beta - x,
        ),
    ),
    "poisson": Distribution(
        ("lam",),
        lambda rng, size, lam: np.asarray(rng.poisson(lam, size)),
        lambda f, x, rate: x * f.log(rate) - f.gammaln(x + 1) - rate,
        lambda x, rate: (None, x / rate - 1),
    ),
    "negative_binomial": Distribution(
        ("k", "p"),
        lambda rng, size, k, p: np.asarray(rng.negative_binomial(k, p, size)),
        _negative_binomial,
        _negative_binomial_slopes,
    ),
    "generalized_negative_binomial": Distribution(
        ("mu", "alpha"),
        _generalized_negative_binomial,
        lambda f, x, mu, alpha: _negative_binomial(f, x, 1 / alpha, 1 / (mu * alpha + 1)),
        _generalized_negative_binomial_slopes,
    ),
}


def _draw_integers(rng: np.random.Generator, size: Any, low: int, high: int) -> Array:
    require(low < high, f"low is {low}, expected less than high, which is {high}")
    return np.asarray(rng.integers(low, high, size))


def _choose_dtype(attrs: Attrs, otherwise: str) -> str:
    dtype: str = attrs["dtype"]
    return otherwise if dtype == "None" else dtype


def _draw_array(
    draw: Draw, context: Context, shape: Sequence[int], parameters: Sequence[Any], dtype: Any
) -> Array:
    """Where numbers take two draws, all first draws come before the second ones."""
    rng = _generator(context)
    # Blocks would alternate the two draws.
    if draw is _generalized_negative_binomial:
        return draw(rng, tuple(shape), *parameters).astype(dtype)
    return draw_in_blocks(lambda count: draw(rng, count, *parameters), shape, dtype)


def _random_kernel(
    operator: str, draw: Draw, keys: tuple[str, ...], otherwise: str = "float32"
) -> Kernel:
    def forward(context: Context, attrs: Attrs) -> Array:
        size = complete_shape(context, attrs, attribute_shape)
        return _draw_array(
            draw, context, size, [attrs[key] for key in keys], _choose_dtype(attrs, otherwise)
        )

    def types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        return inputs, same_dtypes(attrs, [_choose_dtype(attrs, otherwise)], outputs)[1]

    return Kernel(operator, forward, attribute_rule(attribute_shape), types)


def _random_like_kernel(operator: str, draw: Draw, keys: tuple[str, ...]) -> Kernel:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return _draw_array(draw, context, x.shape, [attrs[key] for key in keys], x.dtype)

    return Kernel(operator, forward, same_shapes, same_dtypes)


def _sample_kernel(operator: str, draw: Draw) -> Kernel:
    def forward(context: Context, attrs: Attrs, *parameters: Array) -> Array:
        inner = tuple(attrs["shape"] or ())
        expanded = [x.reshape(x.shape + (1,) * len(inner)) for x in parameters]
        return draw(_generator(context), parameters[0].shape + inner, *expanded).astype(
            _choose_dtype(attrs, "float32")
        )

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
        require("bool" not in inputs, "its parameters are bool, expected numbers")
        return same_dtypes(attrs, inputs, [])[0], same_dtypes(
            attrs, [_choose_dtype(attrs, "float32")], outputs
        )[1]

    return Kernel(operator, forward, shapes, types)


def sample_multinomial(context: Context, attrs: Attrs, x: Array) -> Array | tuple[Array, ...]:
    """Draw ``shape`` classes by each row's probabilities; ``get_prob`` adds their logarithms."""
    inner = tuple(attrs["shape"] or ())
    require(x.shape[-1], "there are no classes")
    rows = x.reshape(-1, x.shape[-1])
    count = int(np.prod(inner))
    sums = np.cumsum(rows.astype(np.float64), axis=1)
    require((sums[:, -1] > 0).all(), "the probabilities of a row sum to 0")
    drawn = _generator(context).random((len(rows), count)) * sums[:, -1:]
    chosen = np.zeros((len(rows), count), np.intp)
    for places, row, numbers in zip(chosen, sums, drawn, strict=True):
        places[:] = np.searchsorted(row, numbers, side="right")
    # Rounding can bring a number up to the whole sum, beyond the last class.
    chosen = chosen.clip(0, x.shape[-1] - 1)
    shape = (*x.shape[:-1], *inner) or (1,)
    result: Array = chosen.reshape(shape).astype(attrs["dtype"])
    if not attrs["get_prob"]:
        return result
    with np.errstate(divide="ignore"):
        return result, np.log(np.take_along_axis(rows, chosen, axis=1)).reshape(shape)


def _multinomial_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    require(x != (), "probabilities have no axes, expected at least one")
    shape: Shape = None if x is None else (*x[:-1], *(attrs["shape"] or ())) or (1,)
    return inputs, [unify(shape, output) for output in outputs]


def _multinomial_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    x = inputs[0]
    require(
        x is None or x.startswith("float"), f"the probabilities are {x}, expected floating point"
    )
    return inputs, [attrs["dtype"], x][: len(outputs)]


def shuffle(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the rows in random order."""
    return np.asarray(_generator(context).permutation(x, axis=0)) if x.ndim else x.copy()


KERNELS = (
    *(
        Kernel(f"_random_pdf_{name}", _forward(how.density), _shapes, same_dtypes)
        for name, how in DISTRIBUTIONS.items()
    ),
    Kernel("_random_pdf_dirichlet", dirichlet, _dirichlet_shapes, same_dtypes),
    *(_random_kernel(f"_random_{name}", how.draw, how.keys) for name, how in DISTRIBUTIONS.items()),
    *(
        _random_like_kernel(f"_random_{name}_like", how.draw, how.keys)
        for name, how in DISTRIBUTIONS.items()
    ),
    *(_sample_kernel(f"_sample_{name}", how.draw) for name, how in DISTRIBUTIONS.items()),
    _random_kernel("_random_randint", _draw_integers, ("low", "high"), "int32"),
    Kernel(
        "_sample_multinomial",
        sample_multinomial,
        _multinomial_shapes,
        _multinomial_types,
    ),
    Kernel("_shuffle", shuffle, same_shapes, same_dtypes),
)

GRADIENTS = (
    *(Gradient(f"_random_pdf_{name}", _vjp(how.slopes, 0)) for name, how in DISTRIBUTIONS.items()),
    Gradient("_random_pdf_dirichlet", _vjp(_dirichlet_slopes, 1)),
    *no_gradient(
        "it has no floating-point inputs",
        "_random_randint",
        *(f"_random_{distribution}" for distribution in DISTRIBUTIONS),
    ),
    *no_gradient(
        "it reads only the shape of its input",
        *(f"_random_{distribution}_like" for distribution in DISTRIBUTIONS),
    ),
    *no_gradient(
        "a random sample has no derivative by its parameters",
        *(f"_sample_{distribution}" for distribution in DISTRIBUTIONS),
        "_sample_multinomial",
        "_shuffle",
    ),
)
