"""Regions decided by their weights, for every input: what both sides compute is one expression but for rounded numbers.

Operators that multiply by constants and add constants are joined, in float64, to one linear operator with its kernel and its
bias, or to one scale and shift for each element. Two of them are one value if their numbers are at most ``LIMIT`` steps apart;
what reads them has the same term on both sides, if it does the same. No sample is needed, and no weight hides behind its bias:
each is compared in steps of its own size, and a bias in steps of the largest number that was added to it.

A fold rounds a few times: one of BatchNormalization takes a sum, a root, a quotient and a product, each rounded by half a step
at most. That makes 1.75 parts of the dtype's precision, and a step is half to one part of a number: 3.5 steps. ``LIMIT``
allows for two folds in a row.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.normal_form import make_form
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.ir.affine import AffineStep, Constant
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import NormalForm, Place
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.region_plan import FLOATS, AnalyzedModel, Cone, RegionPlan, find_term, get_place

LIMIT = 8.0
"""Steps of a dtype between two numbers that folds can make of the same weights."""
_FLOATS = ("float16", "float32", "float64")
"""Dtypes of weights, the coarsest first."""
_SHOWING = frozenset(
    """Add AveragePool Clip Concat Elu Flatten GlobalAveragePool HardSigmoid HardSwish LeakyRelu MaxPool Mul PRelu Relu Selu
    Sigmoid Softplus Sub Sum Tanh ThresholdedRelu""".split()
)
"""Operators whose results differ for some inputs where those of one operand do."""
SHIFTING = frozenset(("Add", "Constant", "Div", "Identity", "Mul", "Sub"))
"""Operators that scale and shift numbers."""
_BLOCK = 1 << 17
"""Elements of a kernel that are compared at once."""
_LARGEST = 1 << 24
"""Elements of the scales and shifts of one value."""


class Weighing(Struct, frozen=True):
    """How many steps the numbers of both sides are apart at most, and those that are too far apart, in words."""

    steps: float
    unlike: str = ""


class _Affine(Struct, frozen=True, eq=False):
    """A value that is a ``factor`` times a linear operator, or times the value ``core`` itself, plus a ``bias``.

    ``axis`` is that of channels, counted from the last, of which ``factor`` and ``bias`` have a number each; None for numbers
    in shapes that broadcast. ``bulk`` is the sum of what was added up to a bias without signs, ``dtype`` the coarsest of its
    numbers, and ``name`` that of the constant that was added last. One that ``is_itself`` is the value of its core. ``rank`` is
    that of the value, None where it is not known.
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
        """The shapes of the numbers; with a kernel that of its channels is one."""
        channels = [] if self.kernel is None else [(self.kernel.shape[self.out_axis],)]
        return [*channels, self.factor.shape, self.bias.shape]

    @property
    def identity(self) -> Hashable:
        """What values have in common that are equal bit for bit."""
        kernel = None if self.kernel is None else (self.kernel.term, self.out_axis)
        arrays = [(each.shape, each.tobytes()) for each in (self.factor, self.bias)]
        return self.core, kernel, self.axis, *arrays

    def change(self, core: Hashable, arrays: Sequence[Array], dtype: str, name: str) -> _Affine:
        """Return this value times a scale plus a shift with its bulk; ``dtype`` and ``name`` are those of their constants."""
        scale, shift, bulk = arrays
        return msgspec.structs.replace(
            self,
            core=core,
            factor=self.factor * scale,
            bias=self.bias * scale + shift,
            bulk=self.bulk * abs(scale) + bulk,
            dtype=min(self.dtype, dtype, key=_FLOATS.index),
            name=name,
            is_itself=False,
        )


class _Change(Struct, frozen=True, eq=False):
    """What an operator does to each number: it multiplies it by ``scale`` and adds ``shift``.

    ``bulk`` is the sum of what is added without signs. The numbers are made of ``constants``.
    """

    scale: Array
    shift: Array
    bulk: Array
    constants: tuple[Constant, ...]

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """The numbers."""
        return self.scale, self.shift, self.bulk

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the numbers."""
        return [each.shape for each in self.arrays]

    @property
    def name(self) -> str:
        """The name of the last constant."""
        return self.constants[-1].name if self.constants else ""


class Weigher:
    """Compares the weights of regions of a plan."""

    def __init__(
        self, sides: Sequence[AnalyzedModel], plan: RegionPlan, ranks: Mapping[Place, int], fed: Collection[Place] = ()
    ) -> None:
        """Take both sides of a plan; ``ranks`` are those of values that were computed, ``fed`` have other values than files."""
        self._sides, self._plan, self._fed = sides, plan, fed
        self._forms: list[NormalForm | None] = []
        self._records: list[RecordsByName | None] = []
        for side in sides:
            # Forms of its own: they count the identities that they use.
            facts = msgspec.structs.replace(side.facts, ranks=ranks)
            form = make_form(side.model.graph, side.model.parameter_file, plan.left.form.table, facts)
            self._forms.append(form)
            file = side.model.parameter_file
            self._records.append(None if file is None else RecordsByName(file))

    def weigh(self, cone: Cone) -> Weighing | None:
        """Return how the numbers of both sides compare; None where the sides are not one expression, or have other numbers.

        Raises MemoryLimitError.
        """
        if None in self._forms or any(node.subgraphs for node in chain(*cone.sides)):
            return None
        expressions = _Expressions(self._plan)
        ends: list[list[int]] = []
        with np.errstate(all="ignore"):  # what is not finite decides nothing
            for side in (0, 1):
                numbers = self._number(side, cone, expressions)
                if numbers is None:
                    return None
                ends.append([self._find_number(side, end[side], numbers) for end in cone.ends])
            if ends[0] == ends[1]:
                return Weighing(expressions.steps)
            unlike = (expressions.find_unlike(a, b) for a, b in zip(*ends, strict=True) if a != b)
            text = next(unlike, None)
        return Weighing(float("inf"), text) if text else None

    def _number(self, side: int, cone: Cone, expressions: _Expressions) -> dict[Place, int] | None:
        """Return the numbers of the values of a side of a region; None where one follows from more than its operands."""
        form = self._forms[side]
        assert form is not None
        numbers: dict[Place, int] = {}
        for node in cone.sides[side]:
            entries = list_operands(node)
            operands = [None if entry is None else self._find_number(side, entry, numbers) for entry in entries]

            def find(place: int, entries: Sequence[Entry | None] = entries) -> Constant | None:
                entry = entries[place] if place < len(entries) else None
                return None if entry is None else self._find_constant(side, entry)

            step, rank = form.read_step(node, operands, find), _find_rank(self._sides[side], node)
            affine = None if step is None else expressions.apply(step, operands[step.source], rank)
            if affine is not None:
                numbers[node, 0] = expressions.number(affine, side)
                continue
            drawn = form.drawn
            outputs = form.make_terms(node, [operand for operand in operands if operand is not None], ())
            if form.drawn > drawn:  # random numbers, or a call that may draw some
                return None
            numbers.update({(node, index): term for index, term in enumerate(outputs)})
        return numbers

    def _find_number(self, side: int, entry: Entry, numbers: Mapping[Place, int]) -> int:
        """Return the number of a value of a region, or the term of one that it starts from, whatever float either side has."""
        terms, table = self._plan.terms[side], self._plan.left.form.table
        if get_place(entry) in numbers:
            return numbers[get_place(entry)]
        key = terms.key(entry)
        if key[0] == "input" and isinstance(key[1], tuple) and key[1][1] in FLOATS:
            return table.number("input", (key[1][0], "float"))
        return find_term(terms, entry)

    def _find_constant(self, side: int, entry: Entry) -> Constant | None:
        """Return a constant of floats that a side reads; None for any other value."""
        place, terms = get_place(entry), self._plan.terms[side]
        if place not in terms.terms or place in self._fed:
            return None
        term, name = terms.of(entry), output_name(entry)
        form = self._forms[side]
        computed = self._sides[side].facts.computed.get(place) or (None if form is None else form.read_number(term))
        if computed is not None:
            dtype, shape, data = computed
            return (
                Constant(term, dtype, shape, name, lambda: np.frombuffer(data, dtype).reshape(shape))
                if dtype in _FLOATS
                else None
            )
        records = self._records[side]
        record = None if records is None or terms.key(entry)[0] != "constant" else records.of(entry.node)
        if (
            records is None
            or record is None
            or record.dtype not in _FLOATS
            or record.shape is None
            or record.storage != "default"
        ):
            return None

        def read() -> Array:
            with ArrayReader(records.file) as reader:
                return reader.read(record)

        return Constant(term, record.dtype, tuple(record.shape), name, read)


def _find_rank(side: AnalyzedModel, node: Node) -> int | None:
    """Return the rank of what an operator returns, where it follows from the inputs."""
    shape = side.find_parts(Entry(node))[1]
    return None if shape is None else len(shape)


class _Expressions:
    """The values of both sides of one region: those that are affine get a number where their numbers are near."""

    def __init__(self, plan: RegionPlan) -> None:
        self._table = plan.left.form.table
        self._first = len(self._table.keys)
        self._affine: dict[int, _Affine] = {}
        self._by_core: dict[Hashable, list[int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self.steps = 0.0

    def number(self, affine: _Affine, side: int) -> int:
        """Return the number of an affine value: on the right that of a left one with the same numbers, but for rounding."""
        if affine.is_itself:
            return int(affine.core[1])  # type: ignore[index]
        same = self._numbers.get(affine.identity)
        if same is not None:
            return same
        known = self._by_core.setdefault(affine.core, [])
        measured = [(_measure(self._affine[number], affine, most=LIMIT)[0], number) for number in (known if side else [])]
        # Of several that are near, such as those of two branches, the nearest one is meant.
        steps, nearest = min(measured, default=(float("inf"), 0))
        if steps <= LIMIT:
            self.steps = max(self.steps, steps)
            return nearest
        number = self._numbers[affine.identity] = self._table.number("affine", len(self._table.keys))
        self._affine[number] = affine
        if not side:
            known.append(number)
        return number

    def apply(self, step: AffineStep, source: int | None, rank: int | None) -> _Affine | None:
        """Return the value that a step makes of the one with a number; None where a number of it is not finite."""
        added = [each for each in (step.scale, step.shift, *(step.norm or ())) if each is not None]
        if source is None or any(prod(each.shape) > _LARGEST for each in added):
            return None
        if step.kernel is not None:
            value = _read_linear(step, step.kernel, rank if step.rank is None else step.rank)
        else:
            before = self._affine.get(source)
            rank = before.rank if rank is None and before is not None and step.norm is not None else rank
            change = _read_change(step) if step.norm is None else _read_norm(step.norm, step, rank)
            value = None if change is None or not _fits(*change.shapes) else _join(before, source, change, rank)
        numbers = () if value is None else (value.factor, value.bias, value.bulk)
        return value if all(np.isfinite(each).all() for each in numbers) else None

    def find_unlike(self, a: int, b: int) -> str | None:
        """Return the numbers in which two values differ that are one expression but for these, in words; None for others.

        A second difference may make up for the first one, as where weights before a Relu are scaled, and divided behind it.
        """
        one, other = self._affine.get(a), self._affine.get(b)
        if one is not None and other is not None:
            steps, text = _measure(one, other)
            if one.core != other.core:
                return self._find_unlike_part(one.core, other.core) if steps <= LIMIT else None
            # Statistics below the normal numbers of a coarser dtype round by more than a step of what they scale.
            is_shown = LIMIT < steps < float("inf") and one.dtype == other.dtype
            return text if is_shown else None
        keys = self._table.keys[a], self._table.keys[b]
        if min(a, b) < self._first or not all(key[0] == "operator" and key[1] in _SHOWING for key in keys):
            return None
        return self._find_unlike_part(*keys)

    def _find_unlike_part(self, a: Any, b: Any) -> str | None:
        """Return the difference of two keys that differ in one new term alone."""
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            parts = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
            return self._find_unlike_part(*parts[0]) if len(parts) == 1 else None
        if type(a) is int and type(b) is int and min(a, b) >= self._first and max(a, b) < len(self._table.keys):
            return self.find_unlike(a, b)
        return None


def _read_linear(step: AffineStep, kernel: Constant, rank: int | None) -> _Affine | None:
    """Return the value of a linear operator with a kernel; None where its bias is not by channel."""
    shift = np.zeros(()) if step.shift is None else _read(step.shift) * step.shift_factor
    # A convolution states its bias by channel, in no shape that broadcasts.
    bias = _split_channels(shift.reshape(-1, *[1] * (-step.axis - 1)) if shift.ndim == 1 else shift, step.axis)
    constants = [kernel] if step.shift is None else [kernel, step.shift]
    if bias is None or not _fits((kernel.shape[step.out_axis],), bias.shape):
        return None
    factor, name = np.full((), step.factor), constants[-1].name
    coarsest = _find_coarsest(constants)
    return _Affine(step.core, factor, bias, abs(bias), coarsest, kernel, step.out_axis, step.axis, name, rank=rank)


def _read_change(step: AffineStep) -> _Change:
    """Return what an operator does to each number by one constant."""
    scale = np.full((), step.factor) if step.scale is None else _read(step.scale) * step.factor
    shift = np.zeros(()) if step.shift is None else _read(step.shift) * step.shift_factor
    constants = tuple([each for each in (step.scale, step.shift) if each is not None])
    return _Change(1 / scale if step.divides else scale, shift, abs(shift), constants)


def _read_norm(constants: tuple[Constant, Constant, Constant, Constant], step: AffineStep, rank: int | None) -> _Change | None:
    """Return what a normalization by channel does to each number; None where the place of the channels is not known."""
    axis = step.norm_axis if step.norm_axis < 0 or rank is None else step.norm_axis - rank
    if axis >= 0 or len({each.shape for each in constants}) > 1:
        return None
    gamma, beta, mean, variance = (_read(each).reshape(-1, *[1] * (-axis - 1)) for each in constants)
    scale = gamma / np.sqrt(variance + step.epsilon)
    return _Change(scale, beta - mean * scale, abs(beta) + abs(mean * scale), constants)


def _join(before: _Affine | None, source: int, change: _Change, rank: int | None) -> _Affine:
    """Return the value that a change makes of one that is affine, or of any other, which ``source`` numbers."""
    dtype, name = _find_coarsest(change.constants), change.name
    if before is not None and before.axis is not None:
        channels = _split_change(before, before.axis, change)
        if channels:
            return before.change(before.core, channels, dtype, name)
        before = None
    # One more axis in front changes the rank of the result, which is part of what a value is.
    core: Hashable = ("each", source if before is None else before.core[1], rank)  # type: ignore[index]
    scale, shift, bulk = change.arrays if rank is None else map(_trim, change.arrays)
    if before is not None and _fits(*before.shapes, scale.shape, shift.shape):
        return before.change(core, (scale, shift, bulk), dtype, name)
    core = ("each", source, rank)
    is_itself = not any(each.shape for each in change.constants) and bool(change.scale == 1 and change.shift == 0)
    return _Affine(core, scale, shift, bulk, dtype, name=name, is_itself=is_itself, rank=rank)


def _fits(*shapes: tuple[int, ...]) -> bool:
    """Whether arrays of some shapes broadcast, to one that is not too large: a body that no run reaches may have any."""
    try:
        return prod(np.broadcast_shapes(*shapes)) <= _LARGEST
    except ValueError:
        return False


def _split_change(before: _Affine, axis: int, change: _Change) -> list[Array]:
    """Return the numbers of a change by channel of a linear operator; none where it has others."""
    split = [_split_channels(each, axis) for each in change.arrays]
    known = [each for each in split if each is not None]
    return known if len(known) == len(split) and _fits(*before.shapes, *(each.shape for each in known)) else []


def _find_coarsest(constants: Sequence[Constant]) -> str:
    return min((each.dtype for each in constants), key=_FLOATS.index, default=_FLOATS[-1])


def _read(constant: Constant) -> Array:
    return np.asarray(constant.read(), np.float64)


def _trim(array: Array) -> Array:
    """Return an array without axes of one element in front."""
    axes = next((axis for axis, size in enumerate(array.shape) if size != 1), array.ndim)
    return array.reshape(array.shape[axes:])


def _split_channels(array: Array, axis: int) -> Array | None:
    """Return the number of each channel of an array that broadcasts, or the one number of all; None where it has others."""
    # A product of matrices has two axes or more.
    if array.ndim > max(1 - axis, 2):
        return None
    trimmed = _trim(array)
    if not trimmed.ndim:
        return trimmed
    return trimmed.reshape(-1) if trimmed.ndim == -axis and trimmed.size == len(trimmed) else None


def _measure(one: _Affine, other: _Affine, most: float = float("inf")) -> tuple[float, str]:
    """Return how many steps of the coarser dtype two values with one core are apart, and where, in words.

    What follows numbers that are more than ``most`` steps apart is not looked at.
    """
    dtype = min(one.dtype, other.dtype, key=_FLOATS.index)
    shapes = [np.broadcast_shapes(*each.shapes) for each in (one, other)]
    if one.kernel is None and shapes[0] != shapes[1]:  # a number for all and one for each make unlike shapes of one element
        return float("inf"), "the shape of what is added or multiplied is another one"
    worst, text = 0.0, ""
    for name, first, second, bulk in _list_numbers(one, other):
        steps, index = _count_steps(first, second, bulk, dtype)
        if not steps <= worst:
            place = f" at {list(index)}" if index else ""
            worst, text = steps, f"{name} is {steps:.3g} steps of {dtype} from that of the original{place}"
        if worst > most:
            break
    return worst, text


def _list_numbers(one: _Affine, other: _Affine) -> Iterator[tuple[str, Array, Array, Array]]:
    """Yield the numbers of two values with one core, in blocks, and in which sizes they are compared."""
    bulk = np.maximum(one.bulk, other.bulk)
    yield f"bias {other.name!r}" if other.name else "the bias", one.bias, other.bias, bulk
    if one.kernel is None or other.kernel is None:
        size = np.maximum(abs(one.factor), abs(other.factor))
        yield f"scale {other.name!r}" if other.name else "the scale", one.factor, other.factor, size
        return
    is_same = (one.kernel.term, one.out_axis) == (other.kernel.term, other.out_axis)
    if is_same and np.array_equal(one.factor, other.factor):
        return
    kernels = [np.moveaxis(each.kernel.read(), each.out_axis, 0) for each in (one, other) if each.kernel is not None]
    if kernels[0].shape != kernels[1].shape:
        yield "the shape of the weight", np.zeros(1), np.zeros(2), bulk
        return
    count = len(kernels[0])
    rows = max(_BLOCK // max(kernels[0][:1].size, 1), 1)
    tail = [1] * (kernels[0].ndim - 1)
    factors = [np.broadcast_to(each.factor, count).reshape(-1, *tail) for each in (one, other)]
    for at in range(0, count, rows):
        first, second = (
            kernel[at : at + rows].astype(np.float64) * factor[at : at + rows]
            for kernel, factor in zip(kernels, factors, strict=True)
        )
        yield f"weight {other.kernel.name!r}", first, second, np.maximum(abs(first), abs(second))


def _count_steps(first: Array, second: Array, bulk: Array, dtype: str) -> tuple[float, Sequence[int]]:
    """Return how many steps of a dtype at numbers as large as ``bulk`` two arrays are apart at most, and where.

    Numbers below the normal ones of a dtype count as the smallest of these.
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
    # A step is half to one part of a number, so that only these can be the most steps apart.
    places = np.flatnonzero(relative >= most / 2)
    sizes = np.broadcast_to(size, apart.shape).reshape(-1)[places]
    steps = apart.reshape(-1)[places] / np.spacing(sizes.astype(dtype)).astype(np.float64)
    worst = int(np.argmax(steps))
    return float(steps[worst]), [int(index) for index in np.unravel_index(places[worst], apart.shape)]
