"""Draw different values for the starts of a region: shuffled, scaled, of other sizes, or labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from graphshare.formats.params.narrow_dtypes import is_floating, widen
from graphshare.ops.kernel import Array

Key = int | str
"""A term, or the name of an input."""
Values = Mapping[Key, Array]
Sizes = Mapping[Key, Sequence[object]]
DrawValues = Callable[[Values, Sizes], Iterator[dict[Key, Array]]]
"""Yields different values by the same keys; the second argument has the sizes that must stay, if the rank is known."""
_DIGITS = {
    "bool": (0, 2),
    "float16": (1 << 10, 1 << 10),
    "float32": (1 << 20, 15 << 20),
    "float64": (1 << 20, 15 << 20),
}
"""By dtype the first integer used as a digit of labels, beyond most constants, and the number of digits."""
_LABELLED = 1 << 24
"""The most elements in all runs with labels."""
_SCALES = (1.0, 8.0, 0.125, 1000.0)
_FEW, _MORE = 4096, 32
"""Fewer numbers get more sets, ``_MORE`` at most, ``_FEW`` numbers in all: only some near a threshold show a
difference.
"""
_LARGE = 1000
# Within float32, powers of ten on either side of 1; outside float16 they become 0 or infinite.
_DECADES = 30.0
_LENGTHENED = 4
"""The most free sizes that are lengthened."""
_LONGER = (131, 521, 2053, 4099)
"""Sizes of longer arrays, the last one beyond most constants."""
_FEW_LABELLED = 1 << 20
"""The most elements of the longer arrays."""
_MAGNITUDES = (-1, 5)
"""Powers of ten of numbers tried after a mask: its threshold may be far from the drawn numbers."""
_SAMPLES, _NUMBERS = 1024, 1 << 14
"""The most samples tried at once, and the most numbers in them."""


def can_label(values: Values) -> bool:
    """Whether each element can have its own label, within the limit of all runs."""
    if not values or not all(array.dtype.name in _DIGITS for array in values.values()):
        return False
    count = sum(array.size for array in values.values())
    return count * _count_runs(values) <= _LABELLED


def _count_runs(values: Values) -> int:
    # 0 and the last label are unused: their digits look like constants.
    count = sum(array.size for array in values.values()) + 2
    bases = [_DIGITS[array.dtype.name][1] for array in values.values()]
    return max((math.ceil(math.log(count, base) + 1e-9) for base in bases), default=0)


def draw_labels(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield labels instead of elements, one digit of each label per run."""
    labels, at = dict[Key, Array](), 1
    for key, array in values.items():
        if array.dtype.name in _DIGITS:
            labels[key] = np.arange(at, at + array.size).reshape(array.shape)
            at += array.size
    for run in range(_count_runs({key: values[key] for key in labels})):
        digits = dict(values)
        for key, label in labels.items():
            first, base = _DIGITS[values[key].dtype.name]
            digits[key] = (first + label // base**run % base).astype(values[key].dtype)
        yield digits


def draw_longer(values: Values, known: Sizes) -> Iterator[Iterator[dict[Key, Array]]]:
    """For each free size yield labels in longer and longer arrays: a Slice may end at a constant.

    Labels of few digits repeat; one of ``values`` at least must have a dtype with labels.
    """
    for size in _list_free_sizes(values, known):
        yield _label_longer(values, known, size)


def _label_longer(values: Values, known: Sizes, size: int) -> Iterator[dict[Key, Array]]:
    for other in _LONGER:
        shapes = _list_resized(values, known, size, other).values()
        if other > size and sum(map(math.prod, shapes)) <= _FEW_LABELLED:
            yield next(draw_labels(_resize(values, known, size, other), known))


def draw_scaled(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield the floats shuffled, with other signs, and scaled; integers stay."""
    floats = {key: array for key, array in values.items() if is_floating(array.dtype)}
    # Opposite signs pass a Relu.
    yield {**values, **{key: -array for key, array in floats.items()}}
    rng = np.random.default_rng(0)
    count = sum(array.size for array in values.values())
    more = 10.0 ** rng.uniform(-1, 2, min(_MORE, _FEW // max(count, 1)))
    for scale in (*_SCALES, *more):
        yield {**values, **{key: _scale(rng, array, scale) for key, array in floats.items()}}


def _scale(rng: np.random.Generator, array: Array, scale: float | Array) -> Array:
    wide = widen(array)
    moved: Array = _move(rng, wide) * _draw_signs(rng, wide) * scale
    return np.asarray(moved, wide.dtype).astype(array.dtype, copy=False)


def _move(rng: np.random.Generator, array: Array) -> Array:
    """Long arrays are rolled: a permutation would take longer than most regions."""
    flat = array.reshape(-1)
    if flat.size > _FEW:
        return np.roll(flat, int(rng.integers(1, flat.size))).reshape(array.shape)
    # numpy shuffles an empty array in place, and the array may be read-only.
    moved: Array = rng.permutation(np.array(flat))
    return moved.reshape(array.shape)


def _draw_signs(rng: np.random.Generator, array: Array) -> Array:
    return np.resize(rng.choice((-1, 1), min(array.size, _FEW)).astype(np.int8), array.shape)


def draw_magnitudes(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield the floats for many samples, each with its own signs and magnitude; keep integers.

    A free size counts samples; without one nothing is yielded, nor for floats of at most 16 bits:
    their rounding shows at every threshold.
    """
    floats = [key for key, array in values.items() if is_floating(array.dtype)]
    if any(values[key].dtype.itemsize < 4 for key in floats):
        return
    rng = np.random.default_rng(0)
    numbers = sum(array.size for array in values.values())
    count = min(_SAMPLES, _NUMBERS // max(numbers, 1))
    if count < 2:
        return
    for size in _list_free_sizes(values, known):
        longer = _resize(values, known, size, size * count)
        for key in floats:
            shapes = zip(longer[key].shape, values[key].shape, strict=True)
            samples = [n if n != old else 1 for n, old in shapes]
            longer[key] = _scale(rng, longer[key], 10.0 ** rng.uniform(*_MAGNITUDES, samples))
        yield longer


def _list_free_sizes(values: Values, known: Sizes) -> list[int]:
    sizes: set[int] = set()
    for key, array in values.items():
        fixed = known.get(key, ())
        sizes.update(n for axis, n in enumerate(array.shape) if _is_free(fixed, axis))
    return sorted(sizes - {0})[:_LENGTHENED]


def _is_free(sizes: Sequence[object], axis: int) -> bool:
    return axis >= len(sizes) or not isinstance(sizes[axis], int)


def _resize(values: Values, known: Sizes, size: int, other: int) -> dict[Key, Array]:
    shapes = _list_resized(values, known, size, other)
    return {key: np.resize(values[key], shape) for key, shape in shapes.items()}


def _list_resized(values: Values, known: Sizes, size: int, other: int) -> dict[Key, list[int]]:
    """Return the shapes with ``other`` for each free ``size``: several axes of an array may have it."""
    shapes: dict[Key, list[int]] = {}
    for key, array in values.items():
        fixed = known.get(key, ())
        axes = enumerate(array.shape)
        shapes[key] = [other if n == size and _is_free(fixed, axis) else n for axis, n in axes]
    return shapes


def draw_other_inputs(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield different values for the same keys; equal sizes change together so that values fit.

    These are shuffled numbers with other signs, larger numbers, any magnitudes, and arrays with a
    free size increased by one. ``known`` has the fixed sizes, if the rank is known.
    """
    # Both sides call this separately and must get the same inputs.
    rng = np.random.default_rng(0)
    for number in range(3):
        yield {key: _change(rng, array, number) for key, array in values.items()}
    for size in _list_free_sizes(values, known):
        yield _resize(values, known, size, size + 1)


def _change(rng: np.random.Generator, array: Array, number: int) -> Array:
    wide = widen(array)
    result = _move(rng, wide)
    if wide.dtype.kind == "b":
        result = (result, ~result, result & False)[number]
    elif wide.dtype.kind in "iu":
        # Integers stay small: most are indices or sizes.
        result = (result, result + 1, result * 0)[number]
    elif wide.dtype.kind == "f":
        if number == 2:
            result = 10.0 ** rng.uniform(-_DECADES, _DECADES, wide.shape)
        result = result * _draw_signs(rng, wide) * (1, _LARGE, 1)[number]
    return np.asarray(result).astype(wide.dtype, copy=False).astype(array.dtype, copy=False)
