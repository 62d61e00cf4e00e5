"""Inputs for a part of a model beside those that reach it: they may show a change that the others do not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import numpy as np

from graphshare.formats.params.narrow_dtypes import is_floating, is_narrow, widen
from graphshare.ir.graph import Node
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.region_plan import Cone, RegionPlan

Values = Mapping[Hashable, Array]
Sizes = Mapping[Hashable, Sequence[object]]
Draw = Callable[[Values, Sizes], Iterator[dict[Hashable, Array]]]
"""Returns other values by the same keys; the second argument has the sizes that must stay, where the rank is known."""
_SCALES = (1.0, 8.0, 0.125)
_LARGE = 1000
# Powers of ten on either side of 1, within the range of a float32; what a float16 cannot hold becomes 0 or infinite.
_DECADES = 30.0
_LENGTHENED = 4
"""How many sizes are tried."""


def is_alike(cone: Cone) -> bool:
    """Whether both sides have the same operators, which differ in attributes, constants, functions, bodies or order."""
    return sorted(node.op for node in cone.left) == sorted(node.op for node in cone.right)


def has_other_values(plan: RegionPlan, cone: Cone) -> bool:
    """Whether like operators of a region have other attributes or constants on both sides, or are functions.

    An attribute that one side alone states may be the default. Sides that start from other values, or have their operators in
    another order, are built in another way: a Slice before a Transpose has other axes than one behind it.
    """
    sides = ((plan.left, cone.left), (plan.right, cone.right))
    if any(terms.form.is_call(node) for terms, nodes in sides for node in nodes):
        return True
    starts = [{term for term, _ in own.values()} for own in plan.list_starts(cone)]
    is_built_alike = starts[0] == starts[1] and [node.op for node in cone.left] == [node.op for node in cone.right]
    return is_built_alike and any(_differ_in_values(plan, a, b) for a, b in zip(cone.left, cone.right, strict=True))


def _differ_in_values(plan: RegionPlan, a: Node, b: Node) -> bool:
    # An attribute that only one side states may be the default of the other.
    if any(b.details.values.get(name, value) != value for name, value in a.details.values.items()):
        return True
    operands = zip(list_operands(a), list_operands(b), strict=False)
    keys = [(plan.left.key(x), plan.right.key(y)) for x, y in operands if x is not None and y is not None]
    return any(x != y and x[0] == y[0] == "constant" for x, y in keys)


def draw_scaled(values: Values, known: Sizes) -> Iterator[dict[Hashable, Array]]:
    """Yield the same floats in other places and with other signs, and larger and smaller ones; integers stay."""
    # Each number with the other sign: what a Relu has hidden passes it.
    yield {key: _negate(array) for key, array in values.items()}
    rng = np.random.default_rng(0)
    for scale in _SCALES:
        yield {key: _scale(rng, array, scale) for key, array in values.items()}


def _negate(array: Array) -> Array:
    if not isinstance(array, np.ndarray) or not is_floating(array.dtype):
        return array
    negative: Array = -array
    return negative


def _scale(rng: np.random.Generator, array: Array, scale: float) -> Array:
    if not isinstance(array, np.ndarray) or not is_floating(array.dtype):
        return array
    if is_narrow(array.dtype):
        return _scale(rng, widen(array), scale).astype(array.dtype)
    moved: Array = rng.permutation(array.reshape(-1)).reshape(array.shape) * rng.choice((-1, 1), array.shape) * scale
    return np.asarray(moved, array.dtype)


def draw_other_inputs(values: Values, known: Sizes) -> Iterator[dict[Hashable, Array]]:
    """Yield other values by the same keys, which fit each other as far as equal sizes are one size.

    They are the same numbers in other places and with other signs, larger ones, numbers of any magnitude, and arrays that have
    one more of each size that is free; ``known`` has the sizes that are not, where the rank is known.
    """
    # Both sides call this for themselves, and must get the same inputs.
    rng = np.random.default_rng(0)
    for number in range(3):
        yield {key: _change(rng, array, number) for key, array in values.items()}
    fixed = {size for sizes in known.values() for size in sizes if isinstance(size, int)}
    arrays = {key: array for key, array in values.items() if isinstance(array, np.ndarray)}  # not sequences, and not nothing
    for size in sorted({size for array in arrays.values() for size in array.shape} - fixed - {0})[:_LENGTHENED]:
        longer = {key: np.resize(array, [n + (n == size) for n in array.shape]) for key, array in arrays.items()}
        yield {**values, **longer}


def _change(rng: np.random.Generator, array: Array, number: int) -> Array:
    """Return an array of the same shape and dtype with other values; sequences and optional values are the same."""
    if not isinstance(array, np.ndarray):
        return array
    if is_narrow(array.dtype):
        return _change(rng, widen(array), number).astype(array.dtype)
    result: Array = rng.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype.kind in "biu":
        # Integers stay small: most are indices or sizes, and large ones would be refused.
        result = np.array((result, result + 1, result * 0)[number]).astype(array.dtype)
    if array.dtype.kind != "f":
        return result
    if number == 2:
        result = 10.0 ** rng.uniform(-_DECADES, _DECADES, array.shape)
    result = result * rng.choice((-1, 1), array.shape) * (_LARGE if number == 1 else 1)
    with np.errstate(over="ignore"):
        return result.astype(array.dtype, copy=False)
