"""Constants that may come from a fixed size: exporters fold computations from a size into numbers.

Nothing in the file marks such a number, so each is only a suspicion: it meets a value that depends
on the free size, and equals that size, its last index, or a part or product of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import isclose, prod

from graphshare.formats.onnx.facts import read_constant
from graphshare.formats.onnx.protobuf import WireError
from graphshare.ir.graph import Entry, Node
from graphshare.ir.walk import find_dependents, find_operand, list_operands, post_order
from graphshare.onnx_ops.free_axes import Axes, Axis, is_free
from graphshare.onnx_ops.integer_inputs import read_numbers
from graphshare.onnx_ops.joined_constants import JoinedConstant, find_joined_constants

_LARGEST = 1 << 16  # bytes of a constant that is read
_LEAST = 3  # numbers from smaller sizes are everywhere: 2, 1, a half
_STRIDES = (2, 4, 8, 16, 32)
_STEPS = (4, 8, 16, 32, 64, 128)
_NUMBERS = frozenset(
    "Add Clip Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Sub Where".split()
)
"""Operators that compute with a number, or compare with it."""
_PLACES = frozenset("Add Cast Expand Gather Mul Sub".split())
"""Operators whose constant operand may be positions of a sequence; for Expand the first."""
_PASSED_ON = frozenset("Cast Identity Reshape Squeeze Unsqueeze".split())
_POOLS = frozenset("AveragePool LpPool MaxPool".split())

_STATED = ("value_float", "value_floats", "value_int", "value_ints")
Place = tuple[Node, int]


class FixedConstants:
    """Finds such constants: ``sizes`` are free sizes in the file by name, ``axes`` the axes of
    values.

    ``shapes`` are all shapes in the file, ``computed`` integers that only constants determine.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        inputs: Sequence[Node],
        sizes: Mapping[str, int],
        axes: Mapping[Place, Axes],
        shapes: Mapping[Place, Sequence[int]],
        computed: Mapping[Place, Sequence[int]],
    ) -> None:
        self._nodes, self._axes, self._shapes, self._computed = nodes, axes, shapes, computed
        large = {name: number for name, number in sizes.items() if number >= _LEAST}
        # Of sizes with the same number the first one is named.
        self._sizes = {number: name for name, number in reversed(large.items())}
        self._numbers: dict[Axis, int] = {(name,): number for number, name in self._sizes.items()}
        self._products = [a * b for a, b in combinations(large.values(), 2)]
        self._listed: set[Node] = set()
        self._dependent = find_dependents(nodes, inputs)
        self._joined: dict[Node, list[JoinedConstant]] = {}
        for each in find_joined_constants(nodes, axes, shapes, sizes):
            self._joined.setdefault(each.node, []).append(each)

    def list_notes(self) -> list[str]:
        """Return a note on each constant, with its node."""
        notes = []
        hint = "it may come from the fixed size, so check it or compare with `witness`"
        for node in self._nodes:
            name = node.details.label or node.name
            notes += [f"{node.op} {name!r}: {text}: {hint}" for text in self._find(node)]
        return notes

    def _find(self, node: Node) -> Iterator[str]:
        if node in self._dependent:
            if node.op in _POOLS:
                yield from self._find_kernel(node)
            elif node.op in ("Gather", "Slice", "TopK"):
                yield from self._find_ends(node)
            elif node.op == "Pad":
                yield from self._find_pads(node)
            elif node.op in _NUMBERS:
                for entry in self._list_constants(list_operands(node)):
                    yield from self._match_scalar(entry)
        if node.op in _PLACES:
            operands = list_operands(node)
            candidates = operands[:1] if node.op == "Expand" else operands
            is_index = node.op in ("Cast", "Gather")
            for entry in self._list_constants(candidates):
                yield from self._match_places(entry, is_index=is_index)
        for each in self._joined.get(node, ()):
            yield from self._match_joined(each)

    def _match_joined(self, joined: JoinedConstant) -> Iterator[str]:
        """Yield a constant with different numbers for positions joined to a free size, once."""
        origins = post_order([joined.entry.node])
        if self._listed.isdisjoint(origins) and self._has_rows(joined):
            self._listed.update(origins)
            name = "a size" if joined.size.startswith("size ") else f"the size {joined.size}"
            yield f"its constant has numbers for each place that is joined to {name}"

    def _has_rows(self, joined: JoinedConstant) -> bool:
        """Return whether the numbers at the positions differ, or are not read."""
        entry = joined.entry
        shape, values = self._shapes[entry.node, entry.index], self._read(entry)
        count = shape[joined.axis]
        if not values or _find_origin(entry) is not entry.node or count == 1:
            return True
        inner = prod(shape[joined.axis + 1 :])
        rows = [values[start : start + inner] for start in range(0, len(values), inner)]
        return any(row != rows[number - number % count] for number, row in enumerate(rows))

    def _list_constants(self, operands: Sequence[Entry | None]) -> list[Entry]:
        return [entry for entry in filter(None, operands) if entry.node not in self._dependent]

    def _list_axes(self, node: Node) -> Axes:
        """Return the axes of the first operand; none if they do not depend on free sizes."""
        entry = find_operand(node, 0)
        return () if entry is None else self._axes.get((entry.node, entry.index), ())

    def _find_kernel(self, node: Node) -> Iterator[str]:
        """Yield a window as large as its axis: a mean over all positions of one size."""
        kernel = _parse_numbers(node.attrs.get("kernel_shape", ""))
        for axis, size in zip(self._list_axes(node)[2:], kernel, strict=False):
            if is_free(axis) and size in self._sizes:
                yield f"its window of {size:g} is {self._name(int(size))}"
                return

    def _find_ends(self, node: Node) -> Iterator[str]:
        """Yield an index, start, end or count that is its axis's size or last position."""
        axes = self._list_axes(node)
        if not any(map(is_free, axes)):
            return
        # A Slice or TopK has its own output size: the number that it states.
        own = set(self._axes.get((node, 0), ())) - set(axes)
        for place in (1, 2) if node.op == "Slice" else (1,):
            for number in dict.fromkeys(self._read_integers(node, place)):
                if number in self._sizes and (self._sizes[number],) not in own:
                    yield f"{number} is {self._name(number)}"
                elif -number in self._sizes and node.op == "Slice":
                    yield f"{number} goes back by {self._name(-number)}"
                elif number + 1 in self._sizes and node.op != "TopK":
                    yield f"{number} is the last place of {self._name(number + 1)}"
                elif 2 * number in self._sizes and node.op != "Gather":
                    yield f"{number} is half of {self._name(2 * number)}"

    def _find_pads(self, node: Node) -> Iterator[str]:
        """Yield a Pad at the end to a multiple: it fits only the fixed size."""
        axes, pads = self._list_axes(node), self._read_integers(node, 1)
        places = self._read_integers(node, 3) or range(len(axes))
        for place, before, after in zip(places, pads, pads[len(places) :], strict=False):
            if before or after <= 0 or not -len(axes) <= place < len(axes):
                continue
            size = self._numbers.get(axes[place])
            step = next((step for step in _STEPS if step > after), None)
            if size is None or step is None:
                continue
            if (size + after) % step == 0:
                yield f"{after} fills up {self._name(size)} to a multiple of {step}"

    def _read_integers(self, node: Node, place: int) -> Sequence[int]:
        entry = find_operand(node, place)
        if entry is None:
            return ()
        return self._computed.get((entry.node, entry.index)) or read_numbers(entry) or ()

    def _match_scalar(self, entry: Entry) -> Iterator[str]:
        values = set(self._read(entry))
        if len(values) != 1:
            return
        (value,) = values
        for product in self._products:
            if _is_close(value, product) or _is_close(value, 1 / product):
                yield f"{value:g} follows from {product}, the product of two sizes"
                return
        for size in self._sizes:
            for text, number in _list_forms(size):
                if _is_close(value, number):
                    yield f"{value:g} is {text.format(self._name(size))}"
                    return

    def _match_places(self, entry: Entry, *, is_index: bool) -> Iterator[str]:
        """Yield numbers that count on from a size: positions after such a past, or an index."""
        values, origin = self._read(entry), _find_origin(entry)
        if not values or values[0] not in self._sizes:
            return
        is_lone = len(values) == 1 and not is_index
        counts_on = all(later - earlier == 1 for earlier, later in pairwise(values))
        if is_lone or not counts_on:
            return
        if origin in self._listed:  # by an earlier operator
            return
        self._listed.add(origin)
        listed = ", ".join(f"{value:g}" for value in values[:3])
        if len(values) > 3:
            listed += "..."
        yield f"{listed} counts on from {self._name(int(values[0]))}"

    def _read(self, entry: Entry) -> list[float]:
        node = _find_origin(entry)
        if node.op not in ("", "Constant"):
            return []
        for name in _STATED if node.op else ():
            if name in node.attrs:
                return _parse_numbers(node.attrs[name])
        try:
            _, _, numbers = read_constant(node, _LARGEST)
        except WireError:  # onnxruntime reports the fault
            return []
        return [float(number) for number in numbers or () if not isinstance(number, bytes)]

    def _name(self, size: int) -> str:
        name = self._sizes[size]
        if name.startswith("size "):
            return f"a size, {size},"
        return f"the size {name}"


def _is_close(value: float, number: float) -> bool:
    return isclose(value, number, rel_tol=1e-6)


def _parse_numbers(text: str) -> list[float]:
    """Return the numbers in an attribute's text; a faulty file may have something else."""
    numbers = text.strip("[]").split(", ")
    try:
        return [float(number) for number in numbers if number not in ("", "...")]
    except ValueError:
        return []


def _find_origin(entry: Entry) -> Node:
    """Return the node with a value's numbers, perhaps in another shape or dtype."""
    while entry.node.op in _PASSED_ON and entry.node.inputs:
        entry = entry.node.inputs[0]
    return entry.node


def _list_forms(size: int) -> Iterator[tuple[str, float]]:
    yield "{}", size
    yield "{}", -size
    yield "1 / {}", 1 / size
    if size > _LEAST:
        yield "1 less than {}", size - 1
    if size > 4:  # the root of 4 is 2, and 2 is everywhere
        yield "the root of {}", size**0.5
        yield "1 / the root of {}", size**-0.5
    for stride in _STRIDES if size >= 2 * _STRIDES[-1] else ():
        yield f"{stride} times {{}}", size * stride
        yield f"1 / {stride} / {{}}", 1 / (size * stride)
