"""Random numbers from ``context.rng``.

The distributions are MXNet's, the stream is not: no run gives the numbers that MXNet would draw. Without a generator each run
draws afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.creation.kernel import attribute_shape, complete_shape
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.unification import same_dtypes, same_shapes, unify

Draw = Callable[..., Array]


def _generator(context: Context) -> np.random.Generator:
    return context.rng or np.random.default_rng()


def _uniform(rng: np.random.Generator, size: Any, low: Any, high: Any) -> Array:
    result: Array = low + rng.random(size) * (high - low)
    return result


def _normal(rng: np.random.Generator, size: Any, loc: Any, scale: Any) -> Array:
    result: Array = loc + rng.standard_normal(size) * scale
    return result


def _exponential(rng: np.random.Generator, size: Any, lam: Any) -> Array:
    result: Array = rng.standard_exponential(size) / lam
    return result


def _gamma(rng: np.random.Generator, size: Any, alpha: Any, beta: Any) -> Array:
    result: Array = rng.gamma(alpha, beta, size)
    return result


def _poisson(rng: np.random.Generator, size: Any, lam: Any) -> Array:
    result: Array = np.asarray(rng.poisson(lam, size))
    return result


def _negative_binomial(rng: np.random.Generator, size: Any, k: Any, p: Any) -> Array:
    result: Array = np.asarray(rng.negative_binomial(k, p, size))
    return result


def _generalized_negative_binomial(rng: np.random.Generator, size: Any, mu: Any, alpha: Any) -> Array:
    """Poisson numbers whose mean is drawn too: of mean ``mu`` and variance ``mu + alpha * mu**2``."""
    alpha = np.maximum(alpha, 1e-12)
    return _poisson(rng, size, rng.gamma(1 / alpha, alpha * mu, size))


def _randint(rng: np.random.Generator, size: Any, low: Any, high: Any) -> Array:
    result: Array = np.asarray(rng.integers(low, high, size))
    return result


# The distribution, its parameters as attributes of _random_*.
_DISTRIBUTIONS: dict[str, tuple[Draw, tuple[str, ...]]] = {
    "uniform": (_uniform, ("low", "high")),
    "normal": (_normal, ("loc", "scale")),
    "exponential": (_exponential, ("lam",)),
    "gamma": (_gamma, ("alpha", "beta")),
    "poisson": (_poisson, ("lam",)),
    "negative_binomial": (_negative_binomial, ("k", "p")),
    "generalized_negative_binomial": (_generalized_negative_binomial, ("mu", "alpha")),
}


def _type(attrs: Attrs, otherwise: str) -> str:
    named: str = attrs["dtype"]
    return otherwise if named == "None" else named


def _plain(operator: str, draw: Draw, keys: tuple[str, ...], otherwise: str = "float32") -> Kernel:
    """Numbers of a given shape, the distribution's parameters being attributes."""

    def forward(context: Context, attrs: Attrs) -> Array:
        size = complete_shape(context, attribute_shape(attrs))
        return draw(_generator(context), size, *(attrs[key] for key in keys)).astype(_type(attrs, otherwise))

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        return inputs, [unify(attribute_shape(attrs), outputs[0])]

    def types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        return inputs, same_dtypes(attrs, [_type(attrs, otherwise)], outputs)[1]

    return Kernel(operator, forward, shapes, types)


def _like(operator: str, draw: Draw, keys: tuple[str, ...]) -> Kernel:
    """Numbers in the shape and type of an array."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return draw(_generator(context), x.shape, *(attrs[key] for key in keys)).astype(x.dtype)

    return Kernel(operator, forward, same_shapes, same_dtypes)


def _each(operator: str, draw: Draw) -> Kernel:
    """Numbers of shape ``shape`` for each element of the arrays of parameters."""

    def forward(context: Context, attrs: Attrs, *parameters: Array) -> Array:
        inner = tuple(attrs["shape"] or ())
        spread = [x.reshape(x.shape + (1,) * len(inner)) for x in parameters]
        return draw(_generator(context), parameters[0].shape + inner, *spread).astype(_type(attrs, "float32"))

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
        return same_dtypes(attrs, inputs, [])[0], same_dtypes(attrs, [_type(attrs, "float32")], outputs)[1]

    return Kernel(operator, forward, shapes, types)


def sample_multinomial(context: Context, attrs: Attrs, x: Array) -> Array | tuple[Array, ...]:
    """Classes by the probabilities on the last axis, ``shape`` for each row; with ``get_prob`` also the logarithms of these."""
    inner = tuple(attrs["shape"] or ())
    rows = x.reshape(-1, x.shape[-1])
    count = int(np.prod(inner))
    sums = np.cumsum(rows.astype(np.float64), axis=1)
    if not (sums[:, -1] > 0).all():
        raise KernelError("probabilities that sum up to 0")
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
    """The rows along axis 0 in any order."""
    result: Array = _generator(context).permutation(x, axis=0)
    return result


KERNELS = (
    *(_plain(f"_random_{name}", *how) for name, how in _DISTRIBUTIONS.items()),
    *(_like(f"_random_{name}_like", *how) for name, how in _DISTRIBUTIONS.items()),
    *(_each(f"_sample_{name}", draw) for name, (draw, _) in _DISTRIBUTIONS.items()),
    _plain("_random_randint", _randint, ("low", "high"), "int32"),
    Kernel("_sample_multinomial", sample_multinomial, _multinomial_shapes, _multinomial_types),
    Kernel("_shuffle", shuffle, same_shapes, same_dtypes),
)
