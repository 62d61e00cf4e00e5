"""Decide regions by their weights, for every input: both sides are one expression up to rounding.

Products with constants and added constants are combined, in float64, into one linear operator with
kernel and bias, or into one scale and shift per element. Two such values count as one if their
numbers are at most ``LIMIT`` steps (:mod:`.affine_values`) apart; equal operators that read them
then have the same term on both sides. No weight hides behind its bias: each is compared in steps of
its own size. docs/still-the-same.md has the operators.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.normal_form import make_form
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.ir.affine import AffineStep, Constant, FindConstant
from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import NormalForm, Place
from graphshare.ir.walk import list_operands
from graphshare.ops.kernel import Array
from graphshare.verification.affine_values import (
    LARGEST,
    LIMIT,
    WEIGHT_DTYPES,
    AffineValue,
    ScaleShift,
    fits,
    join_change,
    measure,
    read_change,
    read_linear,
    read_norm,
)
from graphshare.verification.inner_pairs import FLOATS
from graphshare.verification.region_plan import (
    AnalyzedModel,
    Cone,
    RegionPlan,
    find_term,
    get_place,
)

_SHOWING = frozenset(
    """Add AveragePool Clip Concat Elu Flatten GlobalAveragePool HardSigmoid HardSwish LeakyRelu
    MaxPool Mul PRelu Relu Selu Sigmoid Softplus Sub Sum Tanh ThresholdedRelu""".split()
)
"""Operators whose results differ for some inputs if the values of one operand do."""
SHIFTING = frozenset(("Add", "Constant", "Div", "Identity", "Mul", "Sub"))
"""Operators that scale and shift numbers."""


class Weighing(Struct, frozen=True):
    """The sides' largest distance in steps, and a description if that is too far.

    With ``needs_shapes`` both sides have the same elements in order, and a run must show equal
    shapes.
    """

    steps: float
    unlike: str = ""
    needs_shapes: bool = False


class Weigher:
    """Compares the weights of regions of a plan."""

    def __init__(
        self,
        sides: Sequence[AnalyzedModel],
        plan: RegionPlan,
        ranks: Mapping[Place, int],
        fed: Collection[Place] = (),
    ) -> None:
        """``ranks`` are of computed values; ``fed`` values are not from files."""
        self._sides, self._plan, self._fed, self._ranks = sides, plan, fed, dict(ranks)
        self._forms: list[NormalForm] = []
        self._records: list[RecordsByName | None] = []
        for side in sides:
            # Separate forms: these count the identities used.
            facts = replace(side.facts, ranks=ranks)
            form = make_form(
                side.model.graph, side.model.parameter_file, plan.left.form.table, facts
            )
            assert form is not None  # the plan has one
            self._forms.append(form)
            file = side.model.parameter_file
            self._records.append(None if file is None else RecordsByName(file))

    def weigh(self, cone: Cone) -> Weighing | None:
        """Compare both sides' numbers; None if anything else differs.

        Raises MemoryLimitError.
        """
        if any(node.subgraphs for node in chain(*cone.sides)):
            return None
        weighed = self._compare(cone, 0)
        if weighed is None or not weighed.steps:
            return weighed
        # Near numbers are taken from one side, and what follows them may be near on these alone.
        other = self._compare(cone, 1)
        if other is None or bool(other.unlike) != bool(weighed.unlike):
            return None
        return replace(
            weighed,
            steps=max(weighed.steps, other.steps),
            needs_shapes=weighed.needs_shapes or other.needs_shapes,
        )

    def _compare(self, cone: Cone, reference: int) -> Weighing | None:
        """Compare both sides' numbers; near ones count as those of the side ``reference``."""
        expressions = _Expressions(self._plan, reference)
        ends: list[list[int]] = [[], []]
        with np.errstate(all="ignore"):  # numbers that are not finite decide nothing
            for side in (reference, 1 - reference):
                numbers = self._number(side, cone, expressions)
                if numbers is None:
                    return None
                ends[side] = [self._find_number(side, end[side], numbers) for end in cone.ends]
            if ends[0] == ends[1]:
                return Weighing(expressions.steps)
            if [*map(expressions.find_order, ends[0])] == [*map(expressions.find_order, ends[1])]:
                return Weighing(expressions.steps, needs_shapes=True)
            unlike = (expressions.find_unlike(a, b) for a, b in zip(*ends, strict=True) if a != b)
            text = next(unlike, None)
        return Weighing(float("inf"), text) if text else None

    def _number(self, side: int, cone: Cone, expressions: _Expressions) -> dict[Place, int] | None:
        """Return None where a value follows from more than its operands."""
        form = self._forms[side]
        numbers: dict[Place, int] = {}
        for node in cone.sides[side]:
            entries = list_operands(node)
            operands = self._find_operands(side, entries, numbers)
            find = partial(self._find_operand, side, entries)
            step = _read_step(form, node, operands, find, expressions)
            source, affine = None, None
            if step is not None:
                rank = self._find_rank(side, node, step)
                source = operands[step.source]
                affine = expressions.apply(step, source, rank)
            drawn = form.drawn
            if affine is not None:
                outputs: Sequence[int] = [expressions.number(affine, side)]
            else:
                known = [operand for operand in operands if operand is not None]
                outputs = form.make_terms(node, known, ())
            if form.drawn > drawn:  # random numbers, or a call that may draw some
                return None
            numbers.update({(node, index): number for index, number in enumerate(outputs)})
            if step is None or source is None:
                continue
            if affine is not None or step.is_reshape:
                expressions.follow_order(outputs[0], step, source, side)
        return numbers

    def _find_operands(
        self, side: int, entries: Sequence[Entry | None], numbers: Mapping[Place, int]
    ) -> list[int | None]:
        return [
            None if entry is None else self._find_number(side, entry, numbers) for entry in entries
        ]

    def _find_operand(
        self, side: int, entries: Sequence[Entry | None], place: int
    ) -> Constant | None:
        entry = entries[place] if place < len(entries) else None
        return None if entry is None else self.find_constant(side, entry)

    def _find_rank(self, side: int, node: Node, step: AffineStep) -> int | None:
        shape = self._sides[side].find_parts(Entry(node))[1]
        if shape is not None:
            return len(shape)
        if step.kernel is not None or step.is_reshape:
            return None
        source = list_operands(node)[step.source]
        if source is None or get_place(source) not in self._ranks:
            return None
        ranks = [len(each.shape) for each in step.constants]
        rank = max([self._ranks[get_place(source)], *ranks])
        self._ranks[node, 0] = rank
        return rank

    def _find_number(self, side: int, entry: Entry, numbers: Mapping[Place, int]) -> int:
        """Number a value in a region, or return a start's term; float dtypes count as one."""
        terms, table = self._plan.terms[side], self._plan.left.form.table
        if get_place(entry) in numbers:
            return numbers[get_place(entry)]
        key = terms.key(entry)
        if key[0] != "input":
            return find_term(terms, entry)
        name, dtype = key[1]
        return table.number("input", (name, "float")) if dtype in FLOATS else terms.of(entry)

    def list_constants(self, cone: Cone) -> Iterator[Constant]:
        for side, nodes in enumerate(cone.sides):
            entries = chain(*(node.inputs for node in nodes))
            yield from filter(None, (self.find_constant(side, entry) for entry in entries))

    def find_constant(
        self, side: int, entry: Entry, dtypes: Sequence[str] = WEIGHT_DTYPES
    ) -> Constant | None:
        """Return a constant of some dtypes (by default floats) that a side reads, else None."""
        place, terms = get_place(entry), self._plan.terms[side]
        if place not in terms.terms or place in self._fed:
            return None
        term, name = terms.of(entry), output_name(entry)
        computed = self._sides[side].facts.computed.get(place)
        if computed is None:
            computed = self._forms[side].read_number(term)
        if computed is not None:
            dtype, shape, data = computed
            if dtype not in dtypes:
                return None
            array = np.frombuffer(data, dtype).reshape(shape)
            return Constant(term, dtype, shape, name, lambda rows=...: array[rows])
        records = self._records[side]
        if records is None or terms.key(entry)[0] != "constant":
            return None
        record = records.of(entry.node)
        if record is None or record.dtype is None or record.shape is None:
            return None
        if record.dtype not in dtypes or record.storage != "default":
            return None

        def read(rows: slice | None = None) -> Array:
            with ArrayReader(records.file) as reader:
                return reader.read(record, rows)

        return Constant(term, record.dtype, tuple(record.shape), name, read)


def _read_step(
    form: NormalForm,
    node: Node,
    operands: Sequence[int | None],
    find: FindConstant,
    expressions: _Expressions,
) -> AffineStep | None:
    """A linear operator absorbs its input's single factor."""
    step = form.read_step(node, operands, find)
    # A factor of one element may add axes, unless the rank is fixed.
    if step is None or step.kernel is None or step.rank is None:
        return step
    source = operands[step.source]
    if source is None:
        return step
    base, factor = expressions.find_factor(source)
    if base == source:
        return step
    without_factor = [base if each == source else each for each in operands]
    scaled = form.read_step(node, without_factor, find)
    return step if scaled is None else replace(scaled, factor=scaled.factor * factor)


class _Expressions:
    """Both sides' values in one region: near affine values share a number."""

    def __init__(self, plan: RegionPlan, reference: int) -> None:
        self._table, self._reference = plan.left.form.table, reference
        self._first = len(self._table.keys)
        self._affine: dict[int, AffineValue] = {}
        self._by_core: dict[Hashable, list[int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._orders: dict[int, int] = {}
        self.steps = 0.0

    def number(self, affine: AffineValue, side: int) -> int:
        """Number an affine value like an equal one or, unless of the reference, a near one."""
        if affine.is_itself:
            return int(affine.core[1])  # type: ignore[index]
        same = self._numbers.get(affine.identity)
        if same is not None:
            return same
        known = self._by_core.setdefault(affine.core, [])
        # Equal values of the reference, such as a sum with 0, share a number, too: otherwise others
        # would be near two.
        limit = 0.0 if side == self._reference else LIMIT
        measured = [
            (measure(self._affine[number], affine, most=limit)[0], number) for number in known
        ]
        # Values of two branches may be near; the nearest one is meant.
        steps, nearest = min(measured, default=(float("inf"), 0))
        if steps <= limit:
            self.steps = max(self.steps, steps)
            return nearest
        number = self._numbers[affine.identity] = self._table.number(
            "affine", len(self._table.keys)
        )
        self._affine[number] = affine
        if side == self._reference:
            known.append(number)
        return number

    def apply(self, step: AffineStep, source: int | None, rank: int | None) -> AffineValue | None:
        """Return None unless all numbers are finite."""
        if source is None or step.is_reshape:
            return None
        if any(prod(each.shape) > LARGEST for each in step.constants):
            return None
        value: AffineValue | None
        if step.kernel is not None:
            fixed = rank if step.rank is None else step.rank
            value = read_linear(step, step.kernel, fixed)
        elif step.core is not None:
            one, none = np.ones(()), np.zeros(())
            value = AffineValue(
                ("each", step.core, rank), one, none, none, WEIGHT_DTYPES[-1], is_itself=True
            )
        else:
            value = self._change(step, source, rank)
        return value if value is not None and value.is_finite else None

    def _change(self, step: AffineStep, source: int, rank: int | None) -> AffineValue | None:
        before = self._affine.get(source)
        change: ScaleShift | None
        if step.norm is None:
            change = read_change(step)
        else:
            if before is not None and rank is None:
                rank = before.rank
            change = read_norm(step.norm, step, rank)
        if change is None or not fits(*change.shapes):
            return None
        return join_change(before, source, change, rank)

    def find_factor(self, number: int) -> tuple[int, float]:
        """Split a value into another and a factor for a linear operator to absorb."""
        affine = self._affine.get(number)
        if affine is None or affine.kernel is not None:
            return number, 1.0
        is_one = affine.factor.size == affine.bias.size == 1
        if not is_one or affine.bias.any():
            return number, 1.0
        return int(affine.core[1]), float(affine.factor.reshape(()))  # type: ignore[index]

    def find_order(self, number: int) -> int:
        """Return the number of a value's elements in order, regardless of shape."""
        return self._orders.get(number, number)

    def follow_order(self, number: int, step: AffineStep, source: int, side: int) -> None:
        """Number elements in order if a step keeps the order of its ``source``.

        A matrix product processes rows in order, however many axes count them.
        """
        order = self.find_order(source)
        if step.is_reshape:
            self._orders[number] = order
        elif order != source and step.core == ("dot", source):
            affine = self.apply(replace(step, core=("dot", order)), order, None)
            if affine is not None:
                self._orders[number] = self.number(affine, side)

    def find_unlike(self, a: int, b: int) -> str | None:
        """Describe numbers that alone distinguish two values, else return None.

        A second difference may cancel the first: weights scaled before a Relu may be divided after
        it.
        """
        one, other = self._affine.get(a), self._affine.get(b)
        if one is not None and other is not None:
            steps, text = measure(one, other)
            if one.core != other.core:
                return self._find_unlike_part(one.core, other.core) if steps <= LIMIT else None
            # Subnormal statistics in the coarser dtype round by more than a step of scaled numbers.
            is_shown = LIMIT < steps < float("inf") and one.dtype == other.dtype
            return text if is_shown else None
        if min(a, b) < self._first:
            return None
        keys = self._table.keys[a], self._table.keys[b]
        if not all(key[0] == "operator" and key[1] in _SHOWING for key in keys):
            return None
        return self._find_unlike_part(*keys)

    def _find_unlike_part(self, a: Any, b: Any) -> str | None:
        """The keys may differ only in one new term."""
        while isinstance(a, tuple) and isinstance(b, tuple):
            parts = [(x, y) for x, y in zip(a, b, strict=False) if x != y]
            if len(a) != len(b) or len(parts) != 1:
                return None
            a, b = parts[0]
        terms = range(self._first, len(self._table.keys))
        are_new_terms = all(type(each) is int and each in terms for each in (a, b))
        return self.find_unlike(a, b) if are_new_terms else None
