"""Inputs for a part of a model beside those that reach it: they may show a change that the others do not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.errors import InputError, RefusedError
from graphshare.formats.params.narrow_dtypes import is_narrow, widen
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.bodies import Read
from graphshare.verification.compare import Tolerate, compare_values
from graphshare.verification.region_plan import Cone, RegionPlan, Side, get_place, open_part

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


def try_other_inputs(sides: Sequence[Side], plan: RegionPlan, cone: Cone, find_value: Read, tolerate: Tolerate) -> str:
    """Return how the sides of a region, which are equal on some inputs, differ on others; empty where they do not.

    The left side is computed from what the right one starts from, which may be before the region.
    """
    lefts, rights = plan.list_starts(cone)
    own = dict(lefts.values())
    wanted = {term: own.get(term) or plan.sources.get(term) for term, _ in rights.values()}
    sources = {term: entry for term, entry in wanted.items() if entry is not None}
    cuts = {get_place(entry): term for term, entry in sources.items()}
    # The right side may start before the left region does: what lies between reads inputs of the model too.
    for node in _list_needed(cone, cuts):
        if not node.op and not node.details.holds_value:
            cuts[node, 0] = plan.left.terms[node, 0]
            sources[cuts[node, 0]] = Entry(node)
    values = {term: find_value(entry) for term, entry in sources.items()}
    if not values and not rights:
        return ""
    if None in wanted.values() or not all(isinstance(value, np.ndarray) for value in values.values()):
        return "different inputs cannot be drawn"
    starts = cuts, {place: term for place, (term, _) in rights.items()}
    sizes = {term: sides[0].find_parts(entry)[1] or () for term, entry in sources.items()}
    results = []
    try:
        for number, (side, start) in enumerate(zip(sides, starts, strict=True)):  # one of them is in memory at a time
            fed = {place: values[term] for place, term in start.items()}
            # With free sizes, as later inputs are longer than those that reached the region.
            compute = open_part(side.model, [end[number] for end in cone.ends], fed, has_sizes=False)
            inputs = ({place: each[term] for place, term in start.items()} for each in draw_other_inputs(values, sizes))
            results.append([_compute(compute, each) for each in inputs])
            del compute
    except (InputError, RefusedError) as error:
        return error.faults[0].message
    is_computed = False
    # Inputs that one side refuses show nothing: they may not be valid for the model.
    for left, right in zip(*results, strict=True):
        for wanted, value in zip(left, right, strict=True) if left and right else ():
            is_computed = True
            if not compare_values(value, wanted, tolerate(wanted, value)):
                return "different inputs give different values"
    return "" if is_computed else "different inputs are refused"


def _compute(compute: Callable[[Mapping[Place, Array]], list[Any]], inputs: Mapping[Place, Array]) -> list[Any]:
    """Return what a side computes; nothing for inputs that it refuses, which may not be valid."""
    try:
        return compute(inputs)
    except (InputError, RefusedError):
        return []


def _list_needed(cone: Cone, starts: Collection[Place]) -> list[Node]:
    """Return the nodes that the left ends of a region need beyond some values."""
    needed: dict[Node, None] = {}
    pending = [a for a, _ in cone.ends]
    while pending:
        entry = pending.pop()
        if get_place(entry) not in starts and entry.node not in needed:
            needed[entry.node] = None
            pending += entry.node.inputs
    return list(needed)


def draw_other_inputs(values: Mapping[int, Array], known: Mapping[int, Sequence[object]]) -> Iterator[dict[int, Array]]:
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
