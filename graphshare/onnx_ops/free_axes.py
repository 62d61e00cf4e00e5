"""Axes of values in a model with free sizes, and operators as the rules in :mod:`axis_rules` see
them.

An axis is a product of numbers and names of free sizes, the outermost factor first. A Reshape only
regroups factors, so a sample's data can still be found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from math import prod

import msgspec

from graphshare.ir.graph import Node
from graphshare.ir.walk import find_operand

Axis = tuple[int | str, ...]
Axes = tuple[Axis, ...]


class SizeRefusal(Exception):
    """An operator that needs fixed sizes; the text ends a sentence, or is empty without a rule."""


def is_free(axis: Axis) -> bool:
    """Return whether a size is free."""
    return any(isinstance(factor, str) for factor in axis)


def fix(size: int) -> Axis:
    """Return an axis of a fixed size."""
    # The empty product: axes of size 1 are joined and broadcast without special cases.
    return () if size == 1 else (size,)


def list_names(axis: Axis) -> list[str]:
    """Return the free sizes in an axis."""
    return [factor for factor in axis if isinstance(factor, str)]


def multiply_numbers(axis: Axis) -> int:
    """Return the product of the numbers in an axis."""
    return prod(factor for factor in axis if isinstance(factor, int))


def join(*axes: Axis) -> Axis:
    """Return one axis for several, the outermost first."""
    factors: list[int | str] = []
    for factor in chain.from_iterable(axes):
        if factors and isinstance(factor, int) and isinstance(last := factors[-1], int):
            factors[-1] = last * factor
        else:
            factors.append(factor)
    return tuple(factors)


class SizeTable:
    """The file's ``numbers`` for free sizes, and the batches among them; derived sizes are added.

    Sizes in ``before`` were already free in the file: it uses them correctly.
    """

    def __init__(
        self, numbers: Mapping[str, int], batches: Collection[str], before: Collection[str]
    ) -> None:
        self.numbers, self.batches, self.before = dict(numbers), frozenset(batches), set(before)
        self._derived: dict[tuple[Axis, int], str] = {}

    def count(self, axis: Axis) -> int:
        """Return the size of an axis in the file."""
        return prod(self.numbers[factor] if isinstance(factor, str) else factor for factor in axis)

    def is_new(self, axis: Axis) -> bool:
        """Return whether an axis has a free size that the file fixes."""
        return not self.before.issuperset(list_names(axis))

    def has_batch(self, axes: Iterable[Axis]) -> bool:
        """Return whether one of the axes has a batch."""
        return any(not self.batches.isdisjoint(axis) for axis in axes)

    def derive(self, axis: Axis, size: int) -> Axis:
        """Return the axis of an output that comes from ``axis`` and has ``size`` in the file."""
        if self.count(axis) == size:
            return axis
        if not is_free(axis):
            return fix(size)
        if self.has_batch([axis]):
            raise SizeRefusal("changes the number of samples")
        name = self._derived.setdefault((axis, size), f"size {len(self.numbers)}")
        self.numbers[name] = size
        if not self.is_new(axis):
            self.before.add(name)
        return (name,)

    def _find_samples(self, axis: Axis) -> Axis | None:
        for place, factor in enumerate(axis):
            if factor in self.batches:
                return axis[:place]
        return None

    def merge(self, row: Iterable[Axis]) -> Axis:
        """Return the axis that several are broadcast to."""
        axes = list(row)
        free = list(filter(is_free, axes))
        if len(set(map(self._find_samples, free))) > 1:
            raise SizeRefusal("has the samples on different axes of its inputs")
        fixed = [axis for axis in axes if axis and not is_free(axis)]
        if fixed and any(map(self.is_new, free)):
            size = self.count(fixed[0])
            raise SizeRefusal(f"has a fixed size of {size} on an axis whose size is free")
        return max(free or axes, key=self.count)


class Edit(msgspec.Struct, frozen=True):
    """A row of integers that replaces an operand; with ``expands`` the operand is expanded to it."""

    row: Axes
    expands: bool = False
    dtype: str = "int64"


def expand_axis(place: int, axis: Axis, rank: int) -> Edit:
    """Return the edit that expands one axis of an operand, of size 1, to ``axis``."""
    row: list[Axis] = [()] * rank
    row[place] = axis
    return Edit(tuple(row), expands=True)


class Operand(msgspec.Struct, frozen=True):
    """Facts about an operand; the defaults mean an absent operand or unknown facts.

    ``depends`` marks dependence on free sizes. ``row`` is set for a row of sizes, ``known`` for a
    few integers, None for each unknown one.
    """

    axes: Axes | None = None
    depends: bool = False
    row: Axes | None = None
    dtype: str = ""
    known: tuple[int | None, ...] | None = None

    @property
    def has_free_axis(self) -> bool:
        """Return whether an axis has a free size."""
        return any(map(is_free, self.axes or ()))


_ABSENT = Operand()


class Call(msgspec.Struct, eq=False):
    """An operator with its operands and the shapes of its outputs.

    Rules add ``edits`` by operand position, and the ``row`` of an output that is one.
    """

    node: Node
    version: int
    table: SizeTable
    operands: Sequence[Operand]
    shapes: Sequence[Sequence[int] | None]
    edits: dict[int, Edit] = msgspec.field(default_factory=dict)
    row: Axes | None = None

    @property
    def data(self) -> Axes:
        """Return the axes of the first operand."""
        return self.get_axes(0)

    def get_operand(self, place: int) -> Operand:
        """Return the facts about an operand, even an absent one."""
        return self.operands[place] if place < len(self.operands) else _ABSENT

    def get_axes(self, place: int) -> Axes:
        """Return an operand's axes. Raises SizeRefusal if they are unknown."""
        axes = self.get_operand(place).axes
        if axes is None:
            raise SizeRefusal(f"has an operand {place} whose shape is not known")
        return axes

    def has(self, place: int) -> bool:
        """Return whether there is an operand."""
        return find_operand(self.node, place) is not None

    def list_shapes(self) -> list[Sequence[int] | None]:
        """Return the outputs' shapes in the file, None for an omitted one. Raises SizeRefusal if
        one is unknown.
        """
        shapes = []
        for name, shape in zip(self.node.details.outputs, self.shapes, strict=True):
            if name and shape is None:
                raise SizeRefusal("has an output whose shape is not known")
            shapes.append(shape if name else None)
        return shapes

    def make_outputs(self, make_axes: Callable[[Sequence[int]], Axes]) -> list[Axes | None]:
        """Return the outputs' axes by their shapes in the file, None for an omitted one. Raises
        SizeRefusal if a shape is unknown.
        """
        return [None if shape is None else make_axes(shape) for shape in self.list_shapes()]

    def shape(self) -> Sequence[int]:
        """Return the first output's shape in the file. Raises SizeRefusal if unknown."""
        return self.list_shapes()[0] or ()

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute."""
        return int(self.node.attrs.get(name, default))

    def integers(self, name: str, place: int = 0) -> list[int] | None:
        """Return integers of an operand or attribute; None if absent or dependent on free sizes."""
        if place and self.has(place):
            row = self.operands[place].row
            if row is None or any(map(is_free, row)):
                return None
            return list(map(multiply_numbers, row))
        text = self.node.attrs.get(name)
        return None if text is None else parse_integers(text)

    def some_integers(self, name: str, place: int) -> Sequence[int | None] | None:
        """Return integers like :meth:`integers`, with None for each unknown one."""
        known = self.get_operand(place).known
        return self.integers(name, place) if known is None else known

    def axis(self, default: int = 0) -> int:
        """Return the attribute ``axis``, counted from the first. Raises IndexError if out of range."""
        return range(len(self.data))[self.integer("axis", default)]

    def refuse_batch(self, axes: Iterable[Axis], why: str) -> None:
        """Refuse an operator if one of the axes has a batch."""
        if self.table.has_batch(axes):
            raise SizeRefusal(why)

    def align(self, skipped: int) -> list[Axis]:
        """Return the operands' common axes except ``skipped``; expand operands without a free size."""
        operands = [self.get_axes(place) for place in range(len(self.operands))]
        common: list[Axis] = []
        for number, column in enumerate(zip(*operands, strict=True)):
            common.append(() if number == skipped else self.table.merge(column))
        for place, axes in enumerate(operands):
            row: list[Axis] = []
            for axis, own in zip(common, axes, strict=True):
                expands = is_free(axis) and not is_free(own)
                row.append(axis if expands else ())
            if any(row):
                self.edits[place] = Edit(tuple(row), expands=True)
        return common


def parse_integers(text: str) -> list[int]:
    """Return the integers in an attribute's text. Raises ValueError for other texts."""
    return [int(number) for number in text.strip("[]").split(", ") if number]


def find_row(call: Call) -> Axes | None:
    """Return the sizes in a computed row of integers; None if not followed."""
    if call.row is not None:
        return call.row
    first = call.get_operand(0).row
    rule = None if call.node.details.domain else _ROWS.get(call.node.op)
    if first is None or rule is None:
        return None
    return rule(call, first)


def _keep_row(_: Call, first: Axes) -> Axes:
    return first


def _concat_rows(call: Call, _: Axes) -> Axes | None:
    sizes: list[Axis] = []
    for operand in call.operands:
        if operand.row is None:
            return None
        sizes += operand.row
    return tuple(sizes)


def _gather_sizes(call: Call, first: Axes) -> Axes | None:
    # No attribute has an empty name: only the operand counts.
    numbers = call.integers("", 1)
    if numbers is None:
        return None
    return tuple(first[number] for number in numbers if -len(first) <= number < len(first))


def _slice_row(call: Call, first: Axes) -> Axes | None:
    starts, ends = call.integers("", 1), call.integers("", 2)
    has_steps = len(call.operands) > 4
    if not starts or not ends or has_steps:
        return None
    return first[starts[0] : ends[0]]


def _multiply_rows(call: Call, first: Axes) -> Axes | None:
    second = call.get_operand(1).row
    if second is None or len(first) != len(second):
        return None
    return tuple(map(join, first, second))


_ROWS: Mapping[str, Callable[[Call, Axes], Axes | None]] = {
    **dict.fromkeys(("Cast", "Identity", "Squeeze", "Unsqueeze"), _keep_row),
    "Concat": _concat_rows,
    "Gather": _gather_sizes,
    "Mul": _multiply_rows,
    "Slice": _slice_row,
}


def regroup(table: SizeTable, data: Axes, shape: Sequence[int]) -> Axes:
    """Return the axes of a shape with the factors of ``data`` in their order.

    A free size that is 1 in the file goes to an axis of size 1, else to the axis before it, or to
    the one behind it if that is split off: split heads belong to a sample.
    """
    # A Reshape reads elements row by row: the factors stay in order.
    factors = deque(join(*data))
    target = [
        _take_axis(table, factors, *sizes) for sizes in zip(shape, (*shape[1:], 0), strict=False)
    ]
    if factors and target:
        target[-1] = join(target[-1], tuple(factors))
    return tuple(target)


def _take_axis(table: SizeTable, factors: deque[int | str], size: int, behind: int) -> Axis:
    """Take the factors of an axis of ``size`` from the front; the next axis is ``behind``."""
    taken: list[int | str] = []
    rest = size
    while factors:
        factor, count = factors[0], table.count((factors[0],))
        is_unit = count == 1 and isinstance(factor, str)
        if rest == 1 and (not is_unit or (taken and _goes_behind(factors, size, behind))):
            break
        if count and rest % count == 0:
            taken.append(factors.popleft())
            rest //= count
        elif isinstance(factor, int) and count > rest > 0 and count % rest == 0:
            taken.append(rest)
            factors[0], rest = count // rest, 1
        else:
            break
    if rest != 1:
        raise SizeRefusal("splits an axis whose size is free")
    return join(tuple(taken))


def _goes_behind(factors: Sequence[int | str], size: int, behind: int) -> bool:
    """Return whether the first factor, a free size of 1, belongs to the next axis."""
    is_split = len(factors) > 1 and isinstance(part := factors[1], int) and 1 < behind < part
    return 1 in (size, behind) or is_split
