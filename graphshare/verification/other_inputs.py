"""Different inputs for a part of a model may show a change that its own values hide."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerate, compare_values
from graphshare.verification.draws import (
    DrawValues,
    Key,
    Sizes,
    Values,
    can_label,
    draw_labels,
    draw_longer,
    draw_magnitudes,
    draw_other_inputs,
    draw_scaled,
)
from graphshare.verification.noise import allow_share, measure_spread, shake
from graphshare.verification.parts import Compute, Part, is_array
from graphshare.verification.region_plan import AnalyzedModel, Cone, RegionPlan, get_place

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
_GRID = frozenset(("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"))
_LARGE_RESULT = 1 << 18
"""The most elements of a result whose arrays are made longer."""
HIDDEN = "different inputs give different values"
"""The text for sides that are equal only on the drawn inputs."""
_NOISY = 100.0
"""The largest allowed multiple of the tolerance if a side differs from itself as much."""


def is_on_grid(cone: Cone) -> bool:
    """Whether a side rounds to a grid: numbers off it may never reach it, so they show nothing."""
    return any(node.op in _GRID for node in chain(*cone.sides)) and not is_alike(cone)


def only_moves(cone: Cone) -> bool:
    """Whether both sides of a region only move values and compute sizes."""
    return all(node.op in _MOVING for node in chain(*cone.sides))


def is_alike(cone: Cone, apart: Container[str] = ()) -> bool:
    """Whether both sides have the same operators, apart from order, attributes and operands.

    ``apart`` lists operators to ignore.
    """
    left, right = (sorted(node.op for node in side if node.op not in apart) for side in cone.sides)
    return left == right


def has_other_meanings(plan: RegionPlan, cone: Cone) -> bool:
    """Whether the sides have operator versions whose attributes mean different things."""
    meanings: list[set[tuple[str | None, int]]] = []
    for terms, nodes in zip(plan.terms, cone.sides, strict=True):
        own: set[tuple[str | None, int]] = set()
        for node in nodes:
            term = plan.uncut.get((node, 0), terms.of(Entry(node)))
            version = terms.form.read_version(term)
            if version:
                own.add((node.op, version))
        meanings.append(own)
    left, right = meanings[0] - meanings[1], meanings[1] - meanings[0]
    return not {op for op, _ in left}.isdisjoint(op for op, _ in right)


def has_other_values(plan: RegionPlan, cone: Cone) -> bool:
    """Whether matching operators of a region differ in attributes or constants, or are functions.

    An attribute that only one side states may be the default, if that is not known. Sides with
    other starts or another order are not compared: a Slice has different axes before and after a
    Transpose.
    """
    for terms, nodes in zip(plan.terms, cone.sides, strict=True):
        if any(map(terms.form.is_call, nodes)):
            return True
    starts = [{term for term, _ in plan.list_starts(cone, side).values()} for side in (0, 1)]
    operators = [[node.op for node in side] for side in cone.sides]
    if starts[0] != starts[1] or operators[0] != operators[1]:
        return False
    return any(_differ_in_values(plan, a, b) for a, b in zip(cone.left, cone.right, strict=True))


def _differ_in_values(plan: RegionPlan, a: Node, b: Node) -> bool:
    left, right = a.details.values, b.details.values
    if any(left[name] != right[name] for name in left.keys() & right.keys()):
        return True
    for terms, node, alone in zip(
        plan.terms, (a, b), (left.keys() - right.keys(), right.keys() - left.keys()), strict=True
    ):
        if not all(terms.form.may_be_default(node, name) for name in alone):
            return True
    for x, y in zip(list_operands(a), list_operands(b), strict=False):
        if x is None or y is None:
            continue
        key, other = plan.left.key(x), plan.right.key(y)
        if key[0] == other[0] == "constant" and key != other:
            return True
    return False


class Side(NamedTuple):
    """One side of a region: its computation, keys of its starts by place, and its inputs."""

    compute: Compute
    places: Mapping[Place, Key]
    like: Mapping[Place, Any]


class Trial(Struct, frozen=True, eq=False):
    """A region of two models, computed on inputs derived from its own.

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
            if not draws:
                return ""
            places = [self.name_starts(side, part) for side, part in enumerate(parts)]
            values = self.read_values(places)
            if not values:
                return ""
            for draw in draws:
                text = self._try_draw(parts, places, values, draw, is_strict=is_like)
                if text:
                    return text
        except (InputError, RefusedError) as error:
            return error.faults[0].message if is_like else ""
        return ""

    def moves_alike(self) -> bool:
        """Whether both sides move labels, and so all values, to the same places."""
        try:
            parts = self.choose_own_parts()
            if not all(map(_moves_alone, parts)):
                return False
            places = [self.name_starts(side, part) for side, part in enumerate(parts)]
            values = self.read_values(places)
            # Arrays of which only the size is read may have any values.
            moved = {key: values[key] for key in _list_read(parts, places)}
            if not can_label(moved):
                return False
            if self._try_draw(parts, places, values, draw_labels, is_strict=True):
                return False
            return not self._differ_when_long(parts, places, values)
        except (InputError, RefusedError):
            return False

    def _differ_when_long(
        self,
        parts: Sequence[Part],
        places: Sequence[Mapping[Place, Key]],
        values: Values,
    ) -> bool:
        """Whether sides that both take longer arrays return different ones.

        Arrays grow step by step until the results are large: several axes may grow together.
        """
        sides = self.open_sides(parts, places, values)
        for longer in draw_longer(values, self._find_sizes(values)):
            for drawn in longer:
                ends = [self.compute(side, {**values, **drawn}) for side in sides]
                if all(ends) and not all(map(np.array_equal, *ends)):
                    return True
                if not all(ends) or sum(map(np.size, chain(*ends))) > _LARGE_RESULT:
                    break
        return False

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

        A start of one side is computed from others on the other side: it cannot be chosen freely.
        Raises RefusedError if there are no such parts.
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

    def _choose_draws(
        self, nodes: Iterable[Node], *, is_same: bool, is_like: bool
    ) -> list[DrawValues]:
        draws: list[DrawValues] = []
        # A Relu hides all negative numbers; opposite signs pass it.
        operators = {node.op for node in chain(*self.cone.sides)}
        if not is_like and not operators <= _OPEN:
            draws.append(draw_scaled)
            if not operators.isdisjoint(MASKS):
                draws.append(draw_magnitudes)
        others = [cone for cone in self.plan.cones if cone is not self.cone]
        elsewhere = set(chain(*(chain(*cone.sides) for cone in others)))
        # Any magnitude would also show how other regions round.
        can_vary = is_like or elsewhere.isdisjoint(nodes)
        if is_same and can_vary:
            draws.append(draw_other_inputs)
        return draws

    def name_starts(self, side: int, part: Part) -> dict[Place, Key]:
        """Map starts to terms, or to common names of inputs."""
        starts: dict[Place, Key] = dict(part.touched)
        for node in part.nodes:
            if (node, 0) in self.inputs[side]:
                starts[node, 0] = self.sides[side].name_input(node)
        return starts

    def read_values(self, places: Sequence[Mapping[Place, Key]]) -> dict[Key, Array]:
        """Raises RefusedError if a start is not an array."""
        named: dict[str, Any] = {}
        for side, own in zip(self.sides, self.inputs, strict=True):
            for (node, _), array in own.items():
                # An integer on one side is a whole number on the other.
                is_integer = isinstance(array, np.ndarray) and array.dtype.kind in "biu"
                name = side.name_input(node)
                if is_integer:
                    named[name] = array
                else:
                    named.setdefault(name, array)
        values: dict[Key, Any] = {}
        for key in dict.fromkeys(chain(*(own.values() for own in places))):
            values[key] = named[key] if isinstance(key, str) else self.read(key)
        if not all(map(is_array, values.values())):
            raise RefusedError(Fault("different inputs cannot be drawn"))
        return values

    def open_sides(
        self, parts: Sequence[Part], places: Sequence[Mapping[Place, Key]], values: Values
    ) -> list[Side]:
        """Raises InputError if a backend rejects such values."""
        return [
            Side(part.open(_cast_values(values, own, like)), own, like)
            for part, own, like in zip(parts, places, self.inputs, strict=True)
        ]

    def _try_draw(
        self,
        parts: Sequence[Part],
        places: Sequence[Mapping[Place, Key]],
        values: Values,
        draw: DrawValues,
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
            # Rejected inputs, and sizes that give differently shaped ends, may be invalid.
            if not all(ends):
                continue
            has_new_sizes = _list_shapes(each.values()) != _list_shapes(values.values())
            if has_new_sizes and _list_shapes(ends[0]) != _list_shapes(ends[1]):
                continue
            is_computed = True
            if self._differ(sides, each, ends, is_strict=is_strict):
                return HIDDEN
        if is_strict and not is_computed:
            return "different inputs are refused"
        return ""

    def _find_sizes(self, keys: Iterable[Key]) -> Sizes:
        """Return sizes of common starts that either side fixes, if the rank is known."""
        sizes: dict[Key, Sequence[object]] = {}
        for side, entries, inputs in zip(self.sides, self.plan.entries, self.inputs, strict=True):
            starts = {side.name_input(node): Entry(node) for node, _ in inputs}
            for key in keys:
                entry = starts.get(key) if isinstance(key, str) else entries.get(key)
                if entry is None:
                    continue
                own = side.find_parts(entry)[1]
                if own is not None:
                    both = zip(own, sizes.get(key, own), strict=False)
                    sizes[key] = [n if isinstance(n, int) else known for n, known in both]
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
        """Whether ends differ by more than a side's own on values one step away."""
        noise: list[float] | None = None
        for number, (end, wanted, value) in enumerate(zip(self.cone.ends, *ends, strict=True)):
            if not (is_strict or all(map(_is_finite, (wanted, value)))):
                continue
            tolerance = allow_share(self.tolerate(wanted, value), end)
            comparison = compare_values(value, wanted, tolerance)
            if comparison:
                continue
            if noise is None:
                runs = [[self.compute(side, each) for each in shake(values)] for side in sides]
                noise = list(map(max, *map(measure_spread, runs, ends)))
            limit = _NOISY * tolerance.find_limit(np.asarray(wanted))
            if comparison.max_abs > min(noise[number], limit):
                return True
        return False


def _cast_values(
    values: Values, places: Mapping[Place, Key], like: Mapping[Place, Array]
) -> dict[Place, Array]:
    cast: dict[Place, Array] = {}
    for place, key in places.items():
        cast[place] = values[key]
        if place in like:
            cast[place] = values[key].astype(like[place].dtype, copy=False)
    return cast


def _list_shapes(values: Iterable[Any]) -> list[tuple[int, ...]]:
    return [getattr(value, "shape", ()) for value in values]


def _is_finite(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())


def _moves_alone(part: Part) -> bool:
    """Whether a part only moves values and computes sizes. Other Casts may merge numbers."""
    operators = [node for node in part.nodes if node.op]
    if not {node.op for node in operators} <= _MOVING:
        return False
    return all(_is_of_sizes(part, node) for node in operators if node.op == "Cast")


def _is_of_sizes(part: Part, node: Node) -> bool:
    pending, seen = list(node.inputs), set[Node]()
    while pending:
        entry = pending.pop()
        operand = entry.node
        is_input = not operand.op and not operand.details.holds_value
        if is_input or get_place(entry) in part.touched:
            return False
        if operand.op not in _MEASURING and operand not in seen:
            seen.add(operand)
            pending += operand.inputs
    return True


def _list_read_places(part: Part) -> set[Place]:
    """Return values of which a part reads more than the size."""
    readers = [node for node in part.nodes if node.op not in _MEASURING]
    return set(map(get_place, chain(*(node.inputs for node in readers))))


def _list_values(part: Part) -> set[int]:
    """Return terms of which more than the size is read."""
    read = _list_read_places(part)
    return {term for place, term in part.touched.items() if place in read}


def _list_read(parts: Sequence[Part], places: Sequence[Mapping[Place, Key]]) -> list[Key]:
    """Return starts of which either side reads more than the size."""
    keys: dict[Key, None] = {}
    for part, own in zip(parts, places, strict=True):
        read = _list_read_places(part)
        keys.update(dict.fromkeys(key for place, key in own.items() if place in read))
    return list(keys)


def _list_sizing(parts: Sequence[Part], places: Sequence[Mapping[Place, Key]]) -> set[Key]:
    """Return floats that determine sizes: a Resize scaled by a thousand would fill the memory."""
    sizing: set[Key] = set()
    for part, own in zip(parts, places, strict=True):
        for node in part.nodes:
            if node.op not in _SIZING:
                continue
            for entry in list_operands(node)[_SIZING[node.op] :]:
                if entry is not None and get_place(entry) in own:
                    sizing.add(own[get_place(entry)])
    return sizing
