"""Try numbers far from those that reached an elementwise region.

A Relu equals a Clip to 0 and 6 until a number above 6 reaches it. Elements are independent, so one
run tries many numbers: around those at which operators bend or round, and both signs of each
magnitude. A model may never compute such numbers, so a departure is only a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from typing import Any

import numpy as np
from msgspec import Struct

from graphshare.analysis.name_lists import output_name
from graphshare.errors import InputError, RefusedError
from graphshare.formats.params.narrow_dtypes import is_floating, widen
from graphshare.ir.affine import Constant
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array
from graphshare.verification.draws import Key, Values
from graphshare.verification.noise import allow_share, shake
from graphshare.verification.other_inputs import Side, Trial

_BY_ELEMENT = frozenset(
    """Abs Acos Acosh Add And Asin Asinh Atan Atanh BiasGelu Cast Ceil Celu Clip Constant Cos Cosh
    Div Elu Equal Erf Exp FastGelu Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity
    IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow
    QuickGelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum
    Swish Tan Tanh ThresholdedRelu Where Xor Activation LeakyReLU _copy _div_scalar _maximum_scalar
    _minimum_scalar _minus_scalar _mul_scalar _plus_scalar _power_scalar _rdiv_scalar _rminus_scalar
    abs broadcast_add broadcast_div broadcast_maximum broadcast_minimum broadcast_mul broadcast_sub
    ceil clip elemwise_add elemwise_div elemwise_mul elemwise_sub erf exp fix floor hard_sigmoid log
    negative reciprocal relu rint round rsqrt sigmoid sign softsign sqrt square tanh trunc where""".split()
)
"""Elementwise operators: each element of the result follows from the operands' elements at its place."""
_RANGES = {
    **dict.fromkeys(
        ("HardSigmoid", "Sigmoid", "Softmax", "hard_sigmoid", "sigmoid", "softmax"), (0.0, 1.0)
    ),
    **dict.fromkeys(
        ("Cos", "Erf", "Sin", "Softsign", "Tanh", "cos", "erf", "sin", "softsign", "tanh"),
        (-1.0, 1.0),
    ),
    **dict.fromkeys(
        ("Abs", "Exp", "Relu", "Softplus", "Sqrt", "abs", "exp", "relu", "sqrt"),
        (0.0, float("inf")),
    ),
}
"""The least and the largest result of operators with a bounded range: no number beyond these reaches a region."""
_DECADES = np.arange(-6, 6.01, 0.125)
"""Powers of ten of the numbers to try: beyond them a square of a square is infinite in float32."""
_COARSE = np.array([1e2, 1.0, 1e4, 1e1, 1e6, 1e-3])
"""Numbers of all magnitudes, for arrays of few elements."""
_STEPS = np.arange(0.25, 4, 0.5)
"""Numbers between the integers and halves at which a Round or a Floor changes."""
_LARGEST_HALF = 65504.0
"""The largest number of float16."""
_ENOUGH, _MOST = 1 << 9, 1 << 16
"""The least elements of an array with room for all numbers, and the most elements that are compared."""
_BENDS, _FEW, _RUNS = 12, 8, 64
"""The most combined numbers of constants, the most elements of such a constant, and the most runs of small arrays."""


class _Departure(Struct, frozen=True):
    """An element at which the sides diverge, with its starting numbers."""

    numbers: dict[Key, float]

    @property
    def size(self) -> float:
        """The departure with the smallest size is reported."""
        return max(map(abs, self.numbers.values()))


def describe_departure(trials: Sequence[Trial], constants: Iterable[Constant]) -> str:
    """Describe where the sides of a region diverge that agree on ``trials``; empty if nowhere.

    ``trials`` are on several inputs; ``constants`` are read by the region.
    """
    trial = trials[-1]
    if not _is_by_element(chain(*trial.cone.sides)):
        return ""
    try:
        parts = trial.choose_own_parts()
        nodes = [node for node in chain(*(part.nodes for part in parts)) if node.op]
        if not nodes or not _is_by_element(nodes):
            return ""
        places = [trial.name_starts(side, part) for side, part in enumerate(parts)]
        seen = [each.read_values(places) for each in trials]
        ranges = _find_ranges(seen)
        if not ranges:
            return ""
        sides = trial.open_sides(parts, places, seen[-1])
        points = _list_points(nodes, constants)
        departures = list(_list_departures(trial, sides, seen[-1], [*ranges], points))
    except (InputError, RefusedError):
        return ""
    if not departures:
        return ""
    return _describe(trial, min(departures, key=lambda each: each.size), ranges)


def _is_by_element(nodes: Iterable[Node]) -> bool:
    return {node.op for node in nodes} <= _BY_ELEMENT


def _find_ranges(seen: Sequence[Values]) -> dict[Key, tuple[Any, Any]]:
    ranges: dict[Key, tuple[Any, Any]] = {}
    for key, array in seen[-1].items():
        if is_floating(array.dtype) and array.size:
            arrays = [own[key] for own in seen]
            ranges[key] = min(each.min() for each in arrays), max(each.max() for each in arrays)
    return ranges


def _describe(trial: Trial, departure: _Departure, ranges: dict[Key, tuple[Any, Any]]) -> str:
    start = dict.fromkeys(ranges, "")
    if len(ranges) > 1:
        for key in ranges:
            name = key if isinstance(key, str) else output_name(trial.plan.entries[0][key])
            start[key] = f"{name!r} "
    between = ", ".join(
        f"{start[key]}{float(low):.3g} to {float(high):.3g}" for key, (low, high) in ranges.items()
    )
    at = " and ".join(f"{start[key]}{number:.3g}" for key, number in departure.numbers.items())
    return f"agrees on the values seen ({between}), departs at {at}"


def _list_points(nodes: Sequence[Node], constants: Iterable[Constant]) -> Array:
    """Return a few numbers of all magnitudes, then some around the operators' bends."""
    bends = dict.fromkeys(chain(_list_attributes(nodes), _list_numbers(constants)))
    few = [number for number in bends if np.isfinite(number) and number][:_BENDS]
    # A Clip after an Add bends at the difference of both numbers, after a Mul at their quotient.
    pairs = [number for a, b in combinations(few, 2) for number in (a - b, a + b, a / b, b / a)]
    sorted_bends = np.unique([0.0, *few, *pairs])
    beyond = np.concatenate(
        [sorted_bends * 1.125, sorted_bends * 0.875, (sorted_bends[1:] + sorted_bends[:-1]) / 2]
    )
    magnitudes = 10.0**_DECADES
    near = np.concatenate([sorted_bends, beyond, _STEPS])
    points = np.concatenate([_COARSE, -_COARSE, near, -near, magnitudes, -magnitudes])
    return points[np.sort(np.unique(points, return_index=True)[1])]


def _list_attributes(nodes: Iterable[Node]) -> Iterator[float]:
    for text in chain(*(node.attrs.values() for node in nodes)):
        try:
            yield float(text)
        except ValueError:
            continue


def _list_numbers(constants: Iterable[Constant]) -> Iterator[float]:
    for constant in constants:
        if np.prod(constant.shape) <= _FEW:
            yield from np.asarray(constant.read(), np.float64).reshape(-1).tolist()


def _list_departures(
    trial: Trial, sides: Sequence[Side], seen: Values, keys: Sequence[Key], points: Array
) -> Iterator[_Departure]:
    known = trial.compute(sides[0], seen)
    if not known:
        return
    ranges: dict[Key, tuple[float, float]] = {}
    for key in keys:
        op = "" if isinstance(key, str) else trial.plan.entries[0][key].node.op
        ranges[key] = _RANGES.get(op, (-np.inf, np.inf))
    longer = _lengthen(seen)
    # Constants may not fit a different size.
    values = longer if all(trial.compute(side, longer) for side in sides) else seen
    for drawn in _draw_far(values, ranges, points):
        ends = [trial.compute(side, drawn) for side in sides]
        if not all(ends):
            continue
        for number, (first, *both) in enumerate(zip(known, *ends, strict=False)):
            apart = _find_apart(trial, sides, drawn, both, number, first)
            starts = [np.broadcast_to(drawn[key], both[0].shape) for key in keys]
            numbers = np.stack([_sample(start)[apart] for start in starts])
            if numbers.size:
                least = int(np.argmin(abs(numbers).max(axis=0)))
                yield _Departure(dict(zip(keys, numbers[:, least].tolist(), strict=True)))


def _lengthen(seen: Values) -> Values:
    """Lengthen the first axis if values are few and share a rank."""
    rank = max(array.ndim for array in seen.values())
    count = -(-_ENOUGH // max(array.size for array in seen.values()))
    if not rank or count < 2:
        return seen
    longer = dict(seen)
    for key, array in seen.items():
        if array.ndim == rank and array.size:
            longer[key] = np.resize(array, (array.shape[0] * count, *array.shape[1:]))
    return longer


def _find_apart(
    trial: Trial,
    sides: Sequence[Side],
    drawn: Values,
    values: Sequence[Array],
    number: int,
    seen: Array,
) -> Array:
    """Find elements whose difference exceeds the tolerance and either side's noise.

    The tolerance is relative to the element, and to the largest of ``seen``: a small number may
    come from a large, rounded intermediate result.
    """
    tolerance = allow_share(trial.tolerate(*values), trial.cone.ends[number])
    numbers = [_sample(value) for value in values]
    sizes = np.maximum(*(np.nan_to_num(abs(each), posinf=0) for each in numbers))
    limit = np.maximum(
        tolerance.find_limit(seen), max(tolerance.rtol, tolerance.of_largest) * sizes
    )
    apart = _measure(*numbers)
    # Beyond its range float16 has infinity: these differences show nothing.
    starts = [
        abs(_sample(np.broadcast_to(array, values[0].shape)))
        for array in drawn.values()
        if is_floating(array.dtype) and array.size
    ]
    is_half = (np.isfinite(numbers[0]) != np.isfinite(numbers[1])) & (
        np.max(starts, axis=0) > _LARGEST_HALF
    )
    apart = np.where(is_half, 0, apart)
    if (apart > limit).any():
        for again in shake(drawn):
            for side, own in zip(sides, numbers, strict=True):
                ends = trial.compute(side, again)
                noise = _measure(own, _sample(ends[number])) if ends else np.inf
                limit = np.maximum(limit, noise)
    wrong: Array = apart > limit
    return wrong


def _draw_far(
    seen: Values, ranges: Mapping[Key, tuple[float, float]], points: Array
) -> Iterator[dict[Key, Array]]:
    """Yield values with far numbers, each in its range, at one start at a time, then at all."""
    keys = list(ranges)
    size = max(seen[key].size for key in keys)
    runs = min(-(-len(points) // size), _RUNS)
    groups = [keys]
    if len(keys) > 1:
        groups = [*([key] for key in keys), keys]
    for run, chosen in product(range(runs), groups):
        far: dict[Key, Array] = {}
        for number, key in enumerate(chosen):
            array = seen[key]
            wide = widen(np.empty(0, array.dtype)).dtype
            most = float(np.sqrt(np.finfo(wide).max))
            low, high = max(ranges[key][0], -most), min(ranges[key][1], most)
            # In different orders, so that many pairs meet.
            order = (np.arange(len(points)) + run * size) * (1 + 6 * number) % len(points)
            numbers = np.clip(points, low, high)[order].astype(wide)
            far[key] = np.resize(numbers.astype(array.dtype, copy=False), array.shape)
        yield {**seen, **far}


def _sample(array: Array) -> Array:
    places = np.unique(np.linspace(0, array.size - 1, min(array.size, _MOST)).astype(np.int64))
    listed = np.atleast_1d(array)
    return widen(listed[np.unravel_index(places, listed.shape)]).astype(np.float64)


def _measure(wanted: Array, value: Array) -> Array:
    """Return elementwise distances; infinite if only one number is finite."""
    with np.errstate(invalid="ignore"):
        apart = abs(wanted - value)
    finite = np.isfinite(wanted), np.isfinite(value)
    # Two that are not finite count as equal, even infinity and not a number.
    return np.where(finite[0] & finite[1], apart, np.where(finite[0] | finite[1], np.inf, 0.0))
