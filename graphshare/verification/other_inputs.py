"""Inputs for a part of a model beside those that reach it: they may show a change that the others do not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import InputError, RefusedError
from graphshare.formats.params.narrow_dtypes import is_floating, is_narrow, widen
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerate, compare_values
from graphshare.verification.region_plan import Cone, RegionPlan, get_place, open_part

Values = Mapping[Hashable, Array]
Sizes = Mapping[Hashable, Sequence[object]]
Draw = Callable[[Values, Sizes], Iterator[dict[Hashable, Array]]]
"""Returns other values by the same keys; the second argument has the sizes that must stay, where the rank is known."""
_OPEN = frozenset(
    """Add AveragePool BatchNorm BatchNormalization Concat Constant Conv ConvTranspose Convolution Deconvolution DepthToSpace
    Div Einsum Expand Flatten FullyConnected Gather Gemm GlobalAveragePool Identity InstanceNormalization LayerNormalization
    MatMul Mul Neg Pad ReduceMean ReduceSum Reshape Slice SliceChannel SpaceToDepth Split Sqrt Squeeze Sub Sum Tile Transpose
    Unsqueeze _copy _mul_scalar _plus_scalar broadcast_add broadcast_mul broadcast_sub elemwise_add elemwise_mul elemwise_sub
    transpose
    """.split()
)
"""Operators whose results differ where operands do, up to a factor of zero."""
_GRID = frozenset(("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"))
_SCALES = (1.0, 8.0, 0.125, 1000.0)
_FEW, _MORE = 4096, 32
"""Of few numbers more sets are drawn, up to so many: few of them are near a threshold, where a small difference shows."""
_LARGE = 1000
# Powers of ten on either side of 1, within the range of a float32; what a float16 cannot hold becomes 0 or infinite.
_DECADES = 30.0
_LENGTHENED = 4
"""How many sizes are tried."""


def may_hide(cone: Cone) -> bool:
    """Whether an operator of a region may give one result for unlike operands, as a Relu does for negative numbers."""
    return any(node.op not in _OPEN for nodes in (cone.left, cone.right) for node in nodes)


def is_on_grid(cone: Cone) -> bool:
    """Whether one side of a region rounds to a grid: numbers beside the grid may not reach it, so others show nothing."""
    return any(node.op in _GRID for nodes in (cone.left, cone.right) for node in nodes) and not is_alike(cone)


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


class Start(Struct, frozen=True, eq=False):
    """What both sides of a region start from: ``touched`` places with their terms, and inputs of the models.

    ``names`` has the name of each input by place, which is one on both sides, ``values`` the inputs by name, and ``inputs``
    those of each side in the dtypes that they have there; ``read`` returns the value of a term.
    """

    touched: tuple[dict[Place, int], dict[Place, int]]
    names: Sequence[Mapping[Place, str]]
    values: Mapping[str, Any]
    inputs: Sequence[Mapping[Place, Any]]
    read: Callable[[int], Any]


def try_other_inputs(
    models: Sequence[Checkpoint],
    plan: RegionPlan,
    cone: Cone,
    start: Start,
    find_sizes: Callable[[int], Sequence[object]],
    tolerate: Tolerate,
    draw: Draw,
    *,
    is_strict: bool,
) -> str:
    """Return how the sides of a region, which agree on some inputs, differ on those that ``draw`` makes of them.

    The text is empty where they do not. With ``is_strict`` it also says why other inputs could not be computed.
    """
    touched = _find_frontier(plan, cone, start)
    if touched is None:
        return "different inputs cannot be drawn" if is_strict else ""
    nodes = [_list_computed(cone, touched[side], side) for side in (0, 1)]
    others = {node for each in plan.cones if each is not cone for node in (*each.left, *each.right)}
    # Numbers of any magnitude would show, too, what other regions round in another way.
    if draw is draw_other_inputs and not is_strict and not others.isdisjoint((*nodes[0], *nodes[1])):
        return ""
    read = [[node for node in own if not node.op] for own in nodes]
    places: list[dict[Place, Hashable]] = [
        {**touched[side], **{(node, 0): start.names[side][node, 0] for node in read[side] if (node, 0) in start.names[side]}}
        for side in (0, 1)
    ]
    keys = dict.fromkeys(key for own in places for key in own.values())
    values = {key: start.values[key] if isinstance(key, str) else start.read(key) for key in keys}  # type: ignore[arg-type]
    if not values:
        return ""
    if not all(isinstance(value, np.ndarray) for value in values.values()):
        return "different inputs cannot be drawn" if is_strict else ""
    sizes: dict[Hashable, Sequence[object]] = {key: find_sizes(key) for key in keys if isinstance(key, int)}
    results: list[list[list[Any]]] = []
    try:
        for side, (model, own) in enumerate(zip(models, places, strict=True)):
            like = start.inputs[side]
            known = {place: _cast_as(values[key], like.get(place)) for place, key in own.items()}
            # With free sizes, as later inputs are longer than those that reached the region.
            compute = open_part(model, [end[side] for end in cone.ends], known, has_sizes=False)
            for_side = ({p: _cast_as(each[key], like.get(p)) for p, key in own.items()} for each in draw(values, sizes))
            results.append([_compute(compute, each) for each in for_side])
            del compute  # one of them is in memory at a time
    except (InputError, RefusedError) as error:
        return error.faults[0].message if is_strict else ""
    return _compare(results[0], results[1], tolerate, is_strict=is_strict)


def _compare(lefts: list[list[Any]], rights: list[list[Any]], tolerate: Tolerate, *, is_strict: bool) -> str:
    """Return in words whether both sides differ; inputs that one side refuses show nothing, as they may not be valid."""
    is_computed = False
    for left, right in zip(lefts, rights, strict=True):
        for wanted, value in zip(left, right, strict=True) if left and right else ():
            is_computed = True
            is_number = is_strict or all(_is_finite(each) for each in (wanted, value))
            if is_number and not compare_values(value, wanted, tolerate(wanted, value)):
                return "different inputs give different values"
    return "" if is_computed or not is_strict else "different inputs are refused"


def _compute(compute: Callable[[Mapping[Place, Array]], list[Any]], values: Mapping[Place, Array]) -> list[Any]:
    """Return what a side computes; nothing for inputs that it refuses."""
    try:
        return compute(values)
    except (InputError, RefusedError):
        return []


def _cast_as(value: Array, like: Array | None) -> Array:
    """Return an array in the dtype of another one, if there is one."""
    return value if like is None or value.dtype == like.dtype else value.astype(like.dtype)


def _is_finite(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.dtype.kind != "f" or bool(np.isfinite(value).all())


def find_touched(plan: RegionPlan, side: int, targets: Sequence[Entry], known: Collection[int]) -> dict[Place, int]:
    """Return the places of known terms that a side computes ``targets`` from, with their terms."""
    terms = (plan.left, plan.right)[side]
    touched: dict[Place, int] = {}
    done: set[Node] = set()
    pending = [entry.node for entry in targets]
    while pending:
        node = pending.pop()
        if node in done or not node.op:
            continue
        done.add(node)
        for entry in node.inputs:
            term = plan.find_term(terms, entry) if entry.node.op else None
            if term is not None and term in known:
                touched[get_place(entry)] = term
            else:
                pending.append(entry.node)
    return touched


def _find_frontier(plan: RegionPlan, cone: Cone, start: Start) -> tuple[dict[Place, int], dict[Place, int]] | None:
    """Return the places of terms that both sides of a region are computed from; None where there are none.

    A term that one side alone starts from follows from others of the other side, so that both could not be chosen freely.
    """
    known = {*start.touched[0].values(), *start.touched[1].values()}
    while True:
        left, right = (find_touched(plan, side, [end[side] for end in cone.ends], known) for side in (0, 1))
        both = set(left.values()) & set(right.values())
        if both == set(left.values()) == set(right.values()):
            return left, right
        if known == both:
            return None
        known = both


def _list_computed(cone: Cone, stops: Collection[Place], side: int) -> list[Node]:
    """Return what a side of a region is computed by beyond some places: operators, and variables that they read."""
    done: dict[Node, None] = {}
    pending = [end[side].node for end in cone.ends]
    while pending:
        node = pending.pop()
        if node not in done:
            done[node] = None
            pending += [entry.node for entry in node.inputs if get_place(entry) not in stops]
    return [*done]


def draw_scaled(values: Values, known: Sizes) -> Iterator[dict[Hashable, Array]]:
    """Yield the same floats in other places and with other signs, and larger and smaller ones; integers stay."""
    # Each number with the other sign: what a Relu has hidden passes it.
    yield {key: _negate(array) for key, array in values.items()}
    rng = np.random.default_rng(0)
    count = sum(np.size(array) for array in values.values() if isinstance(array, np.ndarray))
    more = 10.0 ** rng.uniform(-1, 2, min(_MORE, _FEW // max(count, 1)))
    for scale in (*_SCALES, *more):
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
    if array.dtype.kind == "b":
        return np.asarray((result, ~result, result & False)[number])
    if array.dtype.kind in "iu":
        # Integers stay small: most are indices or sizes, and large ones would be refused.
        result = np.array((result, result + 1, result * 0)[number]).astype(array.dtype)
    if array.dtype.kind != "f":
        return result
    if number == 2:
        result = 10.0 ** rng.uniform(-_DECADES, _DECADES, array.shape)
    result = result * rng.choice((-1, 1), array.shape) * (_LARGE if number == 1 else 1)
    with np.errstate(over="ignore"):
        return result.astype(array.dtype, copy=False)
