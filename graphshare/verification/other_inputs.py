"""Different inputs for a part of a model may show a change that the model's own values hide."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.formats.params.narrow_dtypes import is_floating, widen
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerate, compare_values
from graphshare.verification.noise import allow_share, measure_spread, shake
from graphshare.verification.parts import Compute, Part
from graphshare.verification.region_plan import AnalyzedModel, Cone, RegionPlan

Key = int | str
"""A term, or the name of an input."""
Values = Mapping[Key, Array]
Sizes = Mapping[Key, Sequence[object]]
Draw = Callable[[Values, Sizes], Iterator[dict[Key, Array]]]
"""Yields different values by the same keys; the second argument has the sizes that must stay, if the rank is known."""
_OPEN = frozenset(
    """Add AveragePool BatchNorm BatchNormalization Concat Constant Conv ConvTranspose Convolution
    Deconvolution DepthToSpace Div Einsum Expand Flatten FullyConnected Gather Gemm
    GlobalAveragePool Identity InstanceNormalization LayerNormalization MatMul Mul Neg Pad
    ReduceMean ReduceSum Reshape Slice SliceChannel SpaceToDepth Split Sqrt Squeeze Sub Sum Tile
    Transpose Unsqueeze _copy _mul_scalar _plus_scalar broadcast_add broadcast_mul broadcast_sub
    elemwise_add elemwise_mul elemwise_sub transpose""".split()
)
"""Operators whose results differ if operands do, except for a factor of zero."""
MASKS = frozenset(
    """Abs Clip GlobalMaxPool Greater GreaterOrEqual LeakyRelu Less LessOrEqual Max MaxPool Min
    PRelu ReduceMax ReduceMin Relu ThresholdedRelu Where broadcast_maximum broadcast_minimum clip
    max min relu where""".split()
)
"""Operators that pass some numbers and hide others, without rounding."""
_MOVING = frozenset(
    """Cast Concat Constant ConstantOfShape DepthToSpace Expand Flatten Gather GatherElements
    GatherND Identity Reshape Shape Size Slice SliceChannel SpaceToDepth Split Squeeze Tile
    Transpose Unsqueeze _copy expand_dims slice_axis stack transpose""".split()
)
"""Operators whose results are elements of their operands, or sizes of these."""
_SIZING = {"Range": 0, "Resize": 1, "Upsample": 1}
"""Operators that read sizes from floats, and the first operand that they read so."""
_MEASURING = ("Shape", "Size", "shape_array", "size_array")
_DIGITS = {
    "bool": (0, 2),
    "float16": (1 << 10, 1 << 10),
    "float32": (1 << 20, 15 << 20),
    "float64": (1 << 20, 15 << 20),
}
"""By dtype the first integer used as a digit of labels, beyond most constants, and the number of digits."""
_LABELLED = 1 << 24
"""The most elements in all runs with labels."""
_GRID = frozenset(("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"))
_SCALES = (1.0, 8.0, 0.125, 1000.0)
_FEW, _MORE = 4096, 32
"""Fewer numbers get more sets, ``_MORE`` at most, ``_FEW`` numbers in all: only some near a threshold show a
difference.
"""
HIDDEN = "different inputs give different values"
"""The text for sides that are equal only on the drawn inputs."""
_LARGE = 1000
_NOISY = 100.0
"""The largest allowed multiple of the tolerance if a side differs from itself as much."""
# Powers of ten on either side of 1, within float32; outside float16 they become 0 or infinite.
_DECADES = 30.0
_LENGTHENED = 4
"""The most free sizes that are lengthened."""
_MAGNITUDES = (-1, 5)
"""Powers of ten of numbers tried after a mask: its threshold may be far from the drawn numbers."""
_SAMPLES, _NUMBERS = 1024, 1 << 14
"""The most samples tried at once, and the most numbers in them."""


def is_on_grid(cone: Cone) -> bool:
    """Whether a side rounds to a grid: numbers off it may never reach it, so they show nothing."""
    return any(node.op in _GRID for node in chain(*cone.sides)) and not is_alike(cone)


def only_moves(cone: Cone) -> bool:
    """Whether both sides of a region only move values and compute sizes."""
    return all(node.op in _MOVING for node in chain(*cone.sides))


def is_alike(cone: Cone, apart: Container[str] = ()) -> bool:
    """Whether both sides have the same operators, apart from order, attributes and operands.

    Operators in ``apart`` are ignored.
    """
    left, right = (sorted(node.op for node in side if node.op not in apart) for side in cone.sides)
    return left == right


def has_other_meanings(plan: RegionPlan, cone: Cone) -> bool:
    """Whether the sides have operator versions whose attributes mean different things."""
    meanings: list[set[tuple[str | None, int]]] = []
    for terms, nodes in zip(plan.terms, cone.sides, strict=True):
        own = [(node.op, plan.uncut.get((node, 0), terms.of(Entry(node)))) for node in nodes]
        meanings.append(
            {(op, version) for op, term in own if (version := terms.form.read_version(term))}
        )
    left, right = meanings[0] - meanings[1], meanings[1] - meanings[0]
    return not {op for op, _ in left}.isdisjoint(op for op, _ in right)


def has_other_values(plan: RegionPlan, cone: Cone) -> bool:
    """Whether matching operators of a region differ in attributes or constants, or are functions.

    An attribute that only one side states may be the default. Sides with other starts or another
    order are not compared: a Slice has different axes before and after a Transpose.
    """
    if any(
        terms.form.is_call(node)
        for terms, nodes in zip(plan.terms, cone.sides, strict=True)
        for node in nodes
    ):
        return True
    starts = [{term for term, _ in plan.list_starts(cone, side).values()} for side in (0, 1)]
    is_built_alike = starts[0] == starts[1] and [node.op for node in cone.left] == [
        node.op for node in cone.right
    ]
    return is_built_alike and any(
        _differ_in_values(plan, a, b) for a, b in zip(cone.left, cone.right, strict=True)
    )


def _differ_in_values(plan: RegionPlan, a: Node, b: Node) -> bool:
    if any(b.details.values.get(name, value) != value for name, value in a.details.values.items()):
        return True
    operands = zip(list_operands(a), list_operands(b), strict=False)
    keys = [
        (plan.left.key(x), plan.right.key(y))
        for x, y in operands
        if x is not None and y is not None
    ]
    return any(x != y and x[0] == y[0] == "constant" for x, y in keys)


class Side(NamedTuple):
    """One side of a region: its computation, keys of its starts by place, and its inputs."""

    compute: Compute
    places: Mapping[Place, Key]
    like: Mapping[Place, Any]


class Trial(Struct, frozen=True, eq=False):
    """A region of two models, computed on different inputs derived from its own.

    ``parts`` compute the region's ends, and perhaps other values; ``inputs`` are both models' by
    place. ``read`` returns a term's value.
    """

    sides: Sequence[AnalyzedModel]
    plan: RegionPlan
    cone: Cone
    parts: Sequence[Part]
    inputs: Sequence[Mapping[Place, Any]]
    read: Callable[[int], Any]
    tolerate: Tolerate

    def find_hidden(self, *, is_same: bool, is_like: bool) -> str:
        """Describe how sides that agree on some inputs differ on others; empty if they do not.

        With ``is_same`` they agree bit for bit. With ``is_like`` their operators match too, so only
        other inputs can tell: the text then also explains why these could not be computed.
        """
        try:
            parts = self._choose_parts(self.parts)
            draws = self._choose_draws(
                chain(*(part.nodes for part in parts)), is_same=is_same, is_like=is_like
            )
            places = [self.name_starts(side, part) for side, part in enumerate(parts)]
            values = self.read_values(places) if draws else {}
            texts = (
                self._try_draw(parts, places, values, draw, is_strict=is_like)
                for draw in draws
                if values
            )
            return next(filter(None, texts), "")
        except (InputError, RefusedError) as error:
            return error.faults[0].message if is_like else ""

    def moves_alike(self) -> bool:
        """Whether both sides move unique labels, and so all values, to the same places."""
        try:
            parts = self.choose_own_parts()
            if not all(map(_moves_alone, parts)):
                return False
            places = [self.name_starts(side, part) for side, part in enumerate(parts)]
            values = self.read_values(places)
            # Arrays of which only the size is read may have any values.
            moved = {
                key: array
                for key, array in values.items()
                if not _are_sizes_read(parts, places, key)
            }
            is_labelled = _can_label(moved) and not self._try_draw(
                parts, places, values, draw_labels, is_strict=True
            )
        except (InputError, RefusedError):
            return False
        return is_labelled

    def choose_own_parts(self) -> Sequence[Part]:
        """Return the parts from the region's own starts. Raises as :meth:`_choose_parts`."""
        starts = chain(*(self.plan.list_starts(self.cone, side).values() for side in (0, 1)))
        return self._choose_parts(
            self._cut_parts({term for term, entry in starts if entry.node.op})
        )

    def _cut_parts(self, known: set[int]) -> Sequence[Part]:
        for part in self.parts:
            part.opened.clear()  # never more than two parts are open
        targets = [[end[side] for end in self.cone.ends] for side in (0, 1)]
        return [
            Part(self.sides[i].model, own, *self.plan.trace(i, own, known))
            for i, own in enumerate(targets)
        ]

    def _choose_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Find parts, beginning with ``parts``, whose starts are common to both sides.

        A start of one side is computed from others on the other side, so it cannot be chosen
        freely.

        Raises:
            RefusedError: there are no such parts.
        """
        known = set[int]()
        while True:
            left, right = (set(part.touched.values()) for part in parts)
            # A side that reads only a value's size may compute the other's values from other terms.
            unlike = left ^ right | _list_values(parts[0]) ^ _list_values(parts[1])
            if not unlike:
                return parts
            if known == (left | right) - unlike:
                raise RefusedError(Fault("different inputs cannot be drawn"))
            known = (left | right) - unlike
            parts = self._cut_parts(known)

    def _choose_draws(self, nodes: Iterable[Node], *, is_same: bool, is_like: bool) -> list[Draw]:
        """Return draws that may show a difference in a region with these nodes."""
        draws: list[Draw] = []
        # A Relu hides all negative numbers; opposite signs pass it.
        operators = {node.op for node in chain(*self.cone.sides)}
        if not is_like and not operators <= _OPEN:
            draws.append(draw_scaled)
            draws += [draw_magnitudes] if not operators.isdisjoint(MASKS) else []
        others = {
            node for cone in self.plan.cones if cone is not self.cone for node in chain(*cone.sides)
        }
        # Any magnitude would also show how other regions round.
        if is_same and (is_like or others.isdisjoint(nodes)):
            draws.append(draw_other_inputs)
        return draws

    def name_starts(self, side: int, part: Part) -> dict[Place, Key]:
        """Map starts to terms, or to common names of inputs."""
        read = [node for node in part.nodes if (node, 0) in self.inputs[side]]
        return {**part.touched, **{(node, 0): self.sides[side].name_input(node) for node in read}}

    def read_values(self, places: Sequence[Mapping[Place, Key]]) -> dict[Key, Array]:
        """Return both sides' starts. Raises RefusedError if one is not an array."""
        named: dict[str, Any] = {}
        for side, own in zip(self.sides, self.inputs, strict=True):
            for (node, _), array in own.items():
                # An integer on one side is a whole number on the other.
                is_integer = isinstance(array, np.ndarray) and array.dtype.kind in "biu"
                name = side.name_input(node)
                named[name] = array if is_integer else named.get(name, array)
        keys = dict.fromkeys(key for own in places for key in own.values())
        values = {key: named[key] if isinstance(key, str) else self.read(key) for key in keys}
        if not all(isinstance(value, np.ndarray) for value in values.values()):
            raise RefusedError(Fault("different inputs cannot be drawn"))
        return values

    def open_sides(
        self, parts: Sequence[Part], places: Sequence[Mapping[Place, Key]], values: Values
    ) -> list[Side]:
        """Open both sides for such values. Raises InputError if a backend rejects one."""
        return [
            Side(part.open(_cast_values(values, own, like)), own, like)
            for part, own, like in zip(parts, places, self.inputs, strict=True)
        ]

    def _try_draw(
        self,
        parts: Sequence[Part],
        places: Sequence[Mapping[Place, Key]],
        values: Values,
        draw: Draw,
        *,
        is_strict: bool,
    ) -> str:
        sides = self.open_sides(parts, places, values)
        is_computed = False
        fixed = _list_sizing(parts, places)
        free = {key: array for key, array in values.items() if key not in fixed}
        for drawn in draw(free, self._find_sizes(free)):
            each = {**values, **drawn}
            ends = [self.compute(side, each) for side in sides]
            if all(ends) and (
                _get_shapes(each) == _get_shapes(values)
                or len({_get_shapes(own) for own in ends}) == 1
            ):
                is_computed = True
                if self._differ(sides, each, ends, is_strict=is_strict):
                    return HIDDEN
        # Rejected inputs, and sizes that give differently shaped ends, may be invalid.
        return "" if is_computed or not is_strict else "different inputs are refused"

    def _find_sizes(self, keys: Iterable[Key]) -> Sizes:
        """Return sizes of common starts that either side fixes, if the rank is known."""
        sizes: dict[Key, Sequence[object]] = {}
        for side, entries, inputs in zip(self.sides, self.plan.entries, self.inputs, strict=True):
            starts = {side.name_input(node): Entry(node) for node, _ in inputs}
            for key in keys:
                entry = starts.get(key) if isinstance(key, str) else entries.get(key)
                own = None if entry is None else side.find_parts(entry)[1]
                if own is not None:
                    known = sizes.get(key, own)
                    sizes[key] = [
                        n if isinstance(n, int) else m for n, m in zip(own, known, strict=False)
                    ]
        return sizes

    def compute(self, side: Side, values: Values) -> list[Any]:
        """Return the region's ends (a side's first targets), or nothing for rejected inputs."""
        try:
            return side.compute(_cast_values(values, side.places, side.like))[: len(self.cone.ends)]
        except (InputError, RefusedError):
            return []

    def _differ(
        self, sides: Sequence[Side], values: Values, ends: Sequence[list[Any]], *, is_strict: bool
    ) -> bool:
        """Whether the ends differ by more than a side's own do on values one step away."""
        noise: list[float] | None = None
        for number, (end, wanted, value) in enumerate(zip(self.cone.ends, *ends, strict=True)):
            if not (is_strict or all(_is_finite(each) for each in (wanted, value))):
                continue
            tolerance = allow_share(self.tolerate(wanted, value), end)
            comparison = compare_values(value, wanted, tolerance)
            if comparison:
                continue
            if noise is None:
                runs = [[self.compute(side, each) for each in shake(values)] for side in sides]
                noise = list(map(max, *map(measure_spread, runs, ends)))
            if comparison.max_abs > min(
                noise[number], _NOISY * tolerance.find_limit(np.asarray(wanted))
            ):
                return True
        return False


def _cast_values(
    values: Values, places: Mapping[Place, Key], like: Mapping[Place, Array]
) -> dict[Place, Array]:
    return {
        p: values[key].astype(like[p].dtype, copy=False) if p in like else values[key]
        for p, key in places.items()
    }


def _get_shapes(values: Values | Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        getattr(value, "shape", ())
        for value in (values.values() if isinstance(values, Mapping) else values)
    )


def _is_finite(value: Any) -> bool:
    return (
        not isinstance(value, np.ndarray)
        or value.dtype.kind != "f"
        or bool(np.isfinite(value).all())
    )


def _moves_alone(part: Part) -> bool:
    """Whether a part only moves values and computes sizes. Other Casts may merge numbers."""
    casts = [node for node in part.nodes if node.op == "Cast"]
    return all(not node.op or node.op in _MOVING for node in part.nodes) and all(
        _is_of_sizes(part, node) for node in casts
    )


def _is_of_sizes(part: Part, node: Node) -> bool:
    pending, seen = list(node.inputs), set[Node]()
    while pending:
        entry = pending.pop()
        is_start = (entry.node, entry.index) in part.touched or not (
            entry.node.op or entry.node.details.holds_value
        )
        if is_start:
            return False
        if entry.node.op not in _MEASURING and entry.node not in seen:
            seen.add(entry.node)
            pending += entry.node.inputs
    return True


def _list_values(part: Part) -> set[int]:
    """Return terms of which more than the size is read."""
    read = {
        (e.node, e.index) for node in part.nodes if node.op not in _MEASURING for e in node.inputs
    }
    return {term for place, term in part.touched.items() if place in read}


def _list_sizing(parts: Sequence[Part], places: Sequence[Mapping[Place, Key]]) -> set[Key]:
    """Return floats that determine sizes: a Resize scaled by a thousand would fill the memory."""
    sizing: set[Key] = set()
    for part, own in zip(parts, places, strict=True):
        for node in part.nodes:
            first = _SIZING.get(node.op)
            read = [] if first is None else list_operands(node)[first:]
            sizing.update(
                own[e.node, e.index] for e in read if e is not None and (e.node, e.index) in own
            )
    return sizing


def _are_sizes_read(parts: Sequence[Part], places: Sequence[Mapping[Place, Key]], key: Key) -> bool:
    starts = {place for own in places for place, each in own.items() if each == key}
    readers = [
        node
        for part in parts
        for node in part.nodes
        if any((e.node, e.index) in starts for e in node.inputs)
    ]
    return all(node.op in _MEASURING for node in readers)


def _can_label(values: Values) -> bool:
    count = sum(array.size for array in values.values())
    return (
        bool(values)
        and all(a.dtype.name in _DIGITS for a in values.values())
        and count * _count_runs(values) <= _LABELLED
    )


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


def draw_scaled(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield the floats shuffled, with other signs, and scaled; integers stay unchanged."""
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
    """Shuffle an array, or roll it if long: a permutation would take longer than most regions."""
    flat = array.reshape(-1)
    # A copy: numpy shuffles an empty array in place, and the array may be read-only.
    moved: Array = (
        rng.permutation(np.array(flat))
        if flat.size <= _FEW
        else np.roll(flat, int(rng.integers(1, flat.size)))
    )
    return moved.reshape(array.shape)


def _draw_signs(rng: np.random.Generator, array: Array) -> Array:
    return np.resize(rng.choice((-1, 1), min(array.size, _FEW)).astype(np.int8), array.shape)


def draw_magnitudes(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield the floats for many samples, each with its own signs and magnitude; keep integers.

    A free size serves as the number of samples; without one nothing is yielded, nor for floats of
    at most 16 bits: their rounding shows at every threshold.
    """
    floats = [key for key, array in values.items() if is_floating(array.dtype)]
    if any(values[key].dtype.itemsize < 4 for key in floats):
        return
    rng = np.random.default_rng(0)
    count = min(_SAMPLES, _NUMBERS // max(sum(array.size for array in values.values()), 1))
    for size in _list_free_sizes(values, known) if count > 1 else ():
        longer = _resize(values, known, size, size * count)
        for key in floats:
            samples = [
                n if n != old else 1
                for n, old in zip(longer[key].shape, values[key].shape, strict=True)
            ]
            longer[key] = _scale(rng, longer[key], 10.0 ** rng.uniform(*_MAGNITUDES, samples))
        yield longer


def _list_free_sizes(values: Values, known: Sizes) -> list[int]:
    sizes = {
        n
        for key, array in values.items()
        for axis, n in enumerate(array.shape)
        if _is_free(known.get(key, ()), axis)
    }
    return sorted(sizes - {0})[:_LENGTHENED]


def _is_free(sizes: Sequence[object], axis: int) -> bool:
    return axis >= len(sizes) or not isinstance(sizes[axis], int)


def _resize(values: Values, known: Sizes, size: int, other: int) -> dict[Key, Array]:
    shapes = {
        key: [
            other if n == size and _is_free(known.get(key, ()), axis) else n
            for axis, n in enumerate(array.shape)
        ]
        for key, array in values.items()
    }
    return {key: np.resize(array, shapes[key]) for key, array in values.items()}


def draw_other_inputs(values: Values, known: Sizes) -> Iterator[dict[Key, Array]]:
    """Yield different values for the same keys; equal sizes change together so that values fit.

    These are shuffled numbers with other signs, larger numbers, any magnitudes, and arrays with a
    free size increased by one. ``known`` has the sizes that are not free, if the rank is known.
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
        result = result * _draw_signs(rng, wide) * (_LARGE if number == 1 else 1)
    return np.asarray(result).astype(wide.dtype, copy=False).astype(array.dtype, copy=False)
