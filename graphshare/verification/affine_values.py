"""Affine values (constant factor times a value plus constant bias), and their distance in steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import prod

import msgspec
import numpy as np
from msgspec import Struct

from graphshare.ir.affine import AffineStep, Constant
from graphshare.ops.kernel import Array

LIMIT = 8.0
"""The most steps of a dtype between two numbers that folds can compute from the same weights.

A fold takes a sum, a root (which halves the sum's error), a quotient and a product, each rounded by at
most half a step: together 1.75 times the precision, so 3.5 steps, because a step is half to one
precision of a number. Two folds may follow each other.
"""
WEIGHT_DTYPES = ("float16", "float32", "float64")
"""Dtypes of weights, the coarsest first."""
_TILE = 1 << 24
"""Elements of a matrix that are kept while those of the other side, which stores it transposed, are read."""
LARGEST = 1 << 22
"""Elements of the scales and shifts of one value."""


class AffineValue(Struct, frozen=True, eq=False):
    """A ``factor`` times a linear operator, or times the value ``core`` itself, plus a ``bias``.

    ``axis`` is the channel axis, counted from the last; ``factor`` and ``bias`` then have one
    number per channel, otherwise they broadcast. ``bulk`` sums magnitudes in the bias, ``dtype`` is
    the constants' coarsest, ``name`` the last constant added. With ``is_itself`` the value equals
    its core. ``rank`` is None if unknown.
    """

    core: Hashable
    factor: Array
    bias: Array
    bulk: Array
    dtype: str
    kernel: Constant | None = None
    out_axis: int = 0
    axis: int | None = None
    name: str = ""
    is_itself: bool = False
    rank: int | None = None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the numbers and of the kernel's channels."""
        channels = [] if self.kernel is None else [(self.kernel.shape[self.out_axis],)]
        return [*channels, self.factor.shape, self.bias.shape]

    @property
    def is_finite(self) -> bool:
        return all(np.isfinite(each).all() for each in (self.factor, self.bias, self.bulk))

    @property
    def identity(self) -> Hashable:
        """A key shared by values that are equal bit for bit."""
        kernel = None if self.kernel is None else (self.kernel.term, self.out_axis)
        arrays = [(each.shape, each.tobytes()) for each in (self.factor, self.bias)]
        return self.core, kernel, self.axis, *arrays

    def change(self, core: Hashable, arrays: Sequence[Array], dtype: str, name: str) -> AffineValue:
        """Scale and shift this value. ``arrays``: scale, shift, and the shift's bulk."""
        scale, shift, bulk = arrays
        return msgspec.structs.replace(
            self,
            core=core,
            factor=self.factor * scale,
            bias=self.bias * scale + shift,
            bulk=self.bulk * abs(scale) + bulk,
            dtype=min(self.dtype, dtype, key=WEIGHT_DTYPES.index),
            name=name,
            is_itself=False,
        )


class ScaleShift(Struct, frozen=True, eq=False):
    """An elementwise scale and shift, and the sum of added magnitudes, from ``constants``."""

    arrays: tuple[Array, Array, Array]
    constants: tuple[Constant, ...]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [each.shape for each in self.arrays]

    @property
    def name(self) -> str:
        return self.constants[-1].name if self.constants else ""


def read_linear(step: AffineStep, kernel: Constant, rank: int | None) -> AffineValue | None:
    """Read a linear operator with a kernel; None if its bias is not by channel."""
    shift = _read_shift(step)
    if shift.ndim == 1:
        # A convolution's bias by channel does not broadcast.
        shift = shift.reshape(-1, *[1] * (-step.axis - 1))
    bias = _split_channels(shift, step.axis, rank)
    constants = [kernel] if step.shift is None else [kernel, step.shift]
    if bias is None or not fits((kernel.shape[step.out_axis],), bias.shape):
        return None
    factor, name = np.full((), step.factor), constants[-1].name
    coarsest = _find_coarsest(constants)
    return AffineValue(
        step.core,
        factor,
        bias,
        abs(bias),
        coarsest,
        kernel,
        step.out_axis,
        step.axis,
        name,
        rank=rank,
    )


def read_change(step: AffineStep) -> ScaleShift:
    """Return the scale and shift that an operator applies to each number."""
    scale = np.full((), step.factor) if step.scale is None else _read(step.scale) * step.factor
    if step.divides:
        scale = 1 / scale
    shift = _read_shift(step)
    return ScaleShift((scale, shift, abs(shift)), tuple(step.constants))


def _read_shift(step: AffineStep) -> Array:
    return np.zeros(()) if step.shift is None else _read(step.shift) * step.shift_factor


def read_norm(
    constants: tuple[Constant, Constant, Constant, Constant], step: AffineStep, rank: int | None
) -> ScaleShift | None:
    """Read a normalization by channel; None if its axis is unknown."""
    axis = step.norm_axis if step.norm_axis < 0 or rank is None else step.norm_axis - rank
    if axis >= 0 or len({each.shape for each in constants}) > 1:
        return None
    gamma, beta, mean, variance = (
        _read(each).reshape(-1, *[1] * (-axis - 1)) for each in constants
    )
    scale = gamma / np.sqrt(variance + step.epsilon)
    return ScaleShift((scale, beta - mean * scale, abs(beta) + abs(mean * scale)), constants)


def join_change(
    before: AffineValue | None, source: int, change: ScaleShift, rank: int | None
) -> AffineValue:
    """Apply a change to ``before``, or to the value with number ``source``."""
    dtype, name = _find_coarsest(change.constants), change.name
    if before is not None and before.axis is not None:
        channels = _split_change(before, before.axis, change)
        if channels:
            return before.change(before.core, channels, dtype, name)
        before = None
    # A further leading axis changes the rank, part of a value's identity.
    core: Hashable = ("each", source if before is None else before.core[1], rank)  # type: ignore[index]
    scale, shift, bulk = change.arrays if rank is None else map(_trim, change.arrays)
    if before is not None and fits(*before.shapes, scale.shape, shift.shape):
        return before.change(core, (scale, shift, bulk), dtype, name)
    core = ("each", source, rank)
    # A constant of as many axes as the result may have added one to the value.
    axes = max((len(each.shape) for each in change.constants), default=0)
    is_neutral = scale.ndim == shift.ndim == 0 and bool(scale == 1 and shift == 0)
    is_itself = is_neutral and axes < max(rank or 0, 1)
    return AffineValue(core, scale, shift, bulk, dtype, name=name, is_itself=is_itself, rank=rank)


def fits(*shapes: tuple[int, ...]) -> bool:
    """Whether shapes broadcast to a limited size. Bodies that no run reaches may have any shapes."""
    try:
        return prod(np.broadcast_shapes(*shapes)) <= LARGEST
    except ValueError:
        return False


def _split_change(before: AffineValue, axis: int, change: ScaleShift) -> list[Array]:
    """Return nothing if the change is not by channel."""
    split = [_split_channels(each, axis, before.rank) for each in change.arrays]
    known = [each for each in split if each is not None]
    shapes = *before.shapes, *(each.shape for each in known)
    if len(known) < len(split) or not fits(*shapes):
        return []
    # A kernel has one number per channel.
    return known if np.broadcast_shapes(*shapes) == np.broadcast_shapes(*before.shapes) else []


def _find_coarsest(constants: Sequence[Constant]) -> str:
    return min(
        (each.dtype for each in constants), key=WEIGHT_DTYPES.index, default=WEIGHT_DTYPES[-1]
    )


def _read(constant: Constant) -> Array:
    return np.asarray(constant.read(), np.float64)


def _trim(array: Array) -> Array:
    axes = next((axis for axis, size in enumerate(array.shape) if size != 1), array.ndim)
    return array.reshape(array.shape[axes:])


def _split_channels(array: Array, axis: int, rank: int | None) -> Array | None:
    """Return one number per channel, or a single one; None if the array varies elsewhere."""
    # A matrix product has two axes or more. An array of higher rank changes the value's rank.
    if array.ndim > (max(1 - axis, 2) if rank is None else rank):
        return None
    trimmed = _trim(array)
    if not trimmed.ndim:
        return trimmed
    return trimmed.reshape(-1) if trimmed.ndim == -axis and trimmed.size == len(trimmed) else None


class _Numbers(Struct, frozen=True, eq=False):
    """Numbers, or a block from ``start`` on, to compare in steps at ``size``."""

    name: str
    first: Array
    second: Array
    size: Array
    start: tuple[int, ...] = ()

    def describe_place(self, index: Sequence[int]) -> str:
        """Describe a block element's place in all numbers; empty for a single one."""
        if not index:
            return ""
        start = self.start or [0] * len(index)
        return f" at {[first + own for first, own in zip(start, index, strict=True)]}"


def measure(one: AffineValue, other: AffineValue, most: float = float("inf")) -> tuple[float, str]:
    """Measure two values of one core in steps of the coarser dtype, and name the place.

    The search ends at numbers more than ``most`` steps apart.
    """
    dtype = min(one.dtype, other.dtype, key=WEIGHT_DTYPES.index)
    shapes = [np.broadcast_shapes(*each.shapes) for each in (one, other)]
    # One number for all channels and one for each may be shapes of one element that differ.
    if shapes[0] != shapes[1]:
        return float("inf"), "the shape of what is added or multiplied is another one"
    worst, text = 0.0, ""
    for numbers in _list_numbers(one, other):
        steps, index = _count_steps(numbers.first, numbers.second, numbers.size, dtype)
        if not steps <= worst:
            place = numbers.describe_place(index)
            worst = steps
            text = (
                f"{numbers.name} is {steps:.3g} steps of {dtype} from that of the original{place}"
            )
        if worst > most:
            break
    return worst, text


def _list_numbers(one: AffineValue, other: AffineValue) -> Iterator[_Numbers]:
    bulk = np.maximum(one.bulk, other.bulk)
    bias = f"bias {other.name!r}" if other.name else "the bias"
    yield _Numbers(bias, one.bias, other.bias, bulk)
    if one.kernel is None or other.kernel is None:
        size = np.maximum(abs(one.factor), abs(other.factor))
        scale = f"scale {other.name!r}" if other.name else "the scale"
        yield _Numbers(scale, one.factor, other.factor, size)
        return
    is_same = (one.kernel.term, one.out_axis) == (other.kernel.term, other.out_axis)
    if is_same and np.array_equal(one.factor, other.factor):
        return
    yield from _list_weights(
        one.kernel, other.kernel, [(each.factor, each.out_axis) for each in (one, other)]
    )


def _list_weights(
    one: Constant, other: Constant, scales: Sequence[tuple[Array, int]]
) -> Iterator[_Numbers]:
    """Yield blocks of two kernels, laid out as the second. ``scales``: factors, channel axis."""
    is_transposed, axis = scales[0][1] != scales[1][1], scales[1][1]
    shape = one.shape[::-1] if is_transposed else one.shape
    if shape != other.shape or (is_transposed and len(shape) != 2):
        yield _Numbers("the shape of the weight", np.zeros(1), np.zeros(2), np.zeros(1))
        return
    factors = [np.broadcast_to(factor, shape[axis]) for factor, _ in scales]
    blocks = _read_transposed(one, other) if is_transposed else _read_alike(one, other)
    for first, second, start in blocks:
        channels = slice(start[axis], start[axis] + second.shape[axis])
        tail = [1] * (len(shape) - axis - 1)
        numbers = zip((first, second), factors, strict=True)
        scaled, other_scaled = (
            x.astype(np.float64) * factor[channels].reshape(-1, *tail) for x, factor in numbers
        )
        size = np.maximum(abs(scaled), abs(other_scaled))
        yield _Numbers(f"weight {other.name!r}", scaled, other_scaled, size, start)


def _read_alike(one: Constant, other: Constant) -> Iterator[tuple[Array, Array, tuple[int, ...]]]:
    rest = [0] * (len(other.shape) - 1)
    for rows in other.split_rows():
        yield one.read(rows), other.read(rows), (rows.start, *rest)


def _read_transposed(
    one: Constant, other: Constant
) -> Iterator[tuple[Array, Array, tuple[int, ...]]]:
    """Yield blocks and their starts; the first is read again for each block of the second."""
    for rows in other.split_rows(_TILE):
        second = other.read(rows)
        for columns in one.split_rows():
            yield one.read(columns).T[rows], second[:, columns], (rows.start, columns.start)


def _count_steps(
    first: Array, second: Array, bulk: Array, dtype: str
) -> tuple[float, Sequence[int]]:
    """Return the largest distance, in steps of numbers as large as ``bulk``, and its place.

    Subnormal numbers count as the dtype's smallest normal one.
    """
    if first.shape != second.shape and first.ndim and second.ndim:
        return float("inf"), ()
    apart = np.abs(first - second)
    size = np.maximum(bulk, float(np.finfo(dtype).tiny))
    relative = apart / size
    most = relative.max(initial=0.0)
    if not most:
        return 0.0, ()
    if not np.isfinite(most):
        return float("inf"), ()
    # Only these can be farthest: a step is half to one precision of a number.
    places = np.flatnonzero(relative >= most / 2)
    sizes = np.broadcast_to(size, apart.shape).reshape(-1)[places]
    steps = apart.reshape(-1)[places] / np.spacing(sizes.astype(dtype)).astype(np.float64)
    worst = int(np.argmax(steps))
    return float(steps[worst]), [
        int(index) for index in np.unravel_index(places[worst], apart.shape)
    ]
