"""Find the integers that graph inputs need: numbers compared with, indices, lengths and masks, or any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from graphshare.formats.facets import Integers
from graphshare.formats.onnx.facts import read_constant
from graphshare.formats.onnx.protobuf import WireError
from graphshare.formats.onnx.stored import find_stored
from graphshare.formats.onnx.types import read_type
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import list_operands
from graphshare.text.format import format_names

_PASSED_ON = frozenset(
    (
        "Identity",
        "Cast",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Transpose",
        "Expand",
        "Tile",
    )
)
_SELECTED = _PASSED_ON | {"Gather", "GatherElements", "Slice"}
_STARTS, _ENDS, _AXES = 1, 2, 3  # inputs of Slice
_NEAR = {
    "Equal": (0,),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), (-1, 0, 1)),
}
"""Steps around a bound, so that a comparison is true and false in turn."""
# Counts and sizes are drawn below this, so that every run stays small.
_MANY = 9
_SIZES = {"ConstantOfShape": ((0, _MANY),), "Expand": ((1, 2),), "Loop": ((0, _MANY),), "OneHot": ((1, _MANY),),
          "Range": ((1, _MANY), (2, 2)), "Reshape": ((1, 2),), "Tile": ((1, 3),), "TopK": ((1, 2),)}  # fmt: skip
"""Operands that are sizes, counts or steps, with the range of each; only 1 if nothing else always fits."""
_CONDITIONS = {"And": 2, "If": 1, "Not": 1, "Or": 2, "Where": 1}
"""The number of operands of an operator, from the first, that are conditions."""
_CASTS = {"9": ("truth values", (0, 1)), **dict.fromkeys(("1", "10", "11", "16"), ("floats", (1,)))}
"""The dtypes that a Cast returns, and the integers for them."""
_ENDS_OF_VALUES = frozenset(
    """ArgMax ArgMin DequantizeLinear Equal Greater GreaterOrEqual Less LessOrEqual NonZero Shape
    Size""".split()
)
"""Operators that take any integers, and return values of another kind."""
_COMPUTING = frozenset(
    """Abs Add BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Clip Concat ConvInteger
    DynamicQuantizeLinear MatMulInteger Max Mean Min Mul Neg QLinearConv QLinearMatMul ReduceL1
    ReduceMax ReduceMean ReduceMin ReduceSum Relu Sign Sub Sum Where""".split()
)
"""Operators that take any integers, and return integers."""
_FIRST = _SELECTED | {"BitShift", "CumSum", "Div", "Mod", "Pad", "Split", "TopK"}
"""Operators of which only the first operand may be any integer: others are places, sizes or divisors."""
_ANY = Integers("", low=-128, high=256)
"""For inputs of which nothing is a place or a size: all bytes, signed or not."""
_SMALL = Integers("", high=2)
"""For inputs with other uses: indices of any table, and both values of a condition."""
_LARGEST = 4096  # bytes of a constant that is read, such as all byte values of a one-hot encoding
_LISTED = 8

Key = tuple[Node, int]
Operands = Sequence["Entry | None"]
Outer = Mapping[Key, Entry]
Wishes = Iterator[tuple[int, Integers]]


def find_integers(graph: Graph) -> dict[str, list[Integers]]:
    """Return the integers that operators, also in bodies, need from inputs that reach them unchanged, by name."""
    integers: dict[str, list[Integers]] = {}
    origins: dict[Key, Sequence[str]] = {}
    for node in graph.variables():
        if node.details.holds_value:
            continue
        origins[node, 0] = [node.name]
        if "mask" in node.name.lower():
            integers[node.name] = [Integers("it is called a mask", (0, 1), is_mask=True)]
    for node, operands, outer in walk_operands(graph):
        for place, wish in _list_wishes(node, operands, outer):
            for name in _find_origins(operands[place], origins):
                if wish not in integers.setdefault(name, []):
                    integers[name].append(wish)
        names: dict[str, None] = {}
        for operand in _list_passed(node, operands):
            names |= dict.fromkeys(_find_origins(operand, origins))
        if names:
            origins[node, 0] = list(names)[:_MANY]
    bound = _find_bound(graph)
    for node in graph.variables():
        if not node.details.holds_value:
            weakest = _SMALL if node.name in bound else _ANY
            integers.setdefault(node.name, []).append(weakest)
    return integers


def _find_bound(graph: Graph) -> set[str]:
    """Return the inputs of which some integers, or integers computed from them, may be places or sizes."""
    sources: dict[Key, set[str]] = {
        (node, 0): {node.name} for node in graph.variables() if not node.details.holds_value
    }
    bound: set[str] = set()
    for node, operands, _ in walk_operands(graph, all_domains=True):
        reached: set[str] = set()
        for place, operand in enumerate(operands):
            names = set() if operand is None else sources.get((operand.node, operand.index), set())
            if _takes_any(node, place):
                reached |= names
            else:
                bound |= names
        goes_on = node.op not in _ENDS_OF_VALUES and not _leaves_integers(node)
        if reached and goes_on:
            sources |= {(node, index): reached for index in range(node.num_outputs or 1)}
    return bound


def _takes_any(node: Node, place: int) -> bool:
    if node.details.domain:
        return False
    if node.op in _FIRST:
        return place == 0
    return node.op in _COMPUTING or node.op in _ENDS_OF_VALUES


def _leaves_integers(node: Node) -> bool:
    return node.op == "Cast" and node.attrs.get("to") in _CASTS


def _list_passed(node: Node, operands: Operands) -> Operands:
    """Return the operands whose integers are in a node's output, unchanged."""
    if node.op == "Concat":
        return operands
    return operands[:1] if node.op in _SELECTED else ()


def walk_operands(
    graph: Graph, *, all_domains: bool = False
) -> Iterator[tuple[Node, list[Entry | None], Mapping[Key, Entry]]]:
    """Yield ONNX nodes, also in bodies, with inputs by position, and the captured values."""
    outer: dict[Key, Entry] = {}
    graphs = [graph]
    for each in graphs:  # grows by the bodies
        for node in each.nodes:
            if node.details.domain and not all_domains:
                continue
            operands = list_operands(node)
            followed = [None if entry is None else _follow(entry, outer) for entry in operands]
            yield node, followed, outer
            captures = [variable for body in node.subgraphs for variable in body.captures]
            # Captured values are the last inputs of the node that has the bodies.
            for variable, entry in zip(reversed(captures), reversed(node.inputs), strict=False):
                outer[variable, 0] = _follow(entry, outer)
            graphs += node.subgraphs


def _find_origins(entry: Entry | None, origins: Mapping[Key, Sequence[str]]) -> Sequence[str]:
    return () if entry is None else origins.get((entry.node, entry.index), ())


def _follow(entry: Entry, outer: Mapping[Key, Entry]) -> Entry:
    return outer.get((entry.node, entry.index), entry)


def _list_wishes(node: Node, operands: Operands, outer: Outer) -> Wishes:
    """Yield the operands that need certain integers."""
    start = f"{node.op} {node.name!r}"
    for place in range(min(len(operands), _CONDITIONS.get(node.op, 0))):
        yield place, Integers(f"{start} takes it as a condition", (0, 1), is_mask=True)
    for place, high in _SIZES.get(node.op, ()):
        if place < len(operands):
            yield place, Integers(f"{start} takes it as a size", low=1, high=high)
    least, rule = _RULES.get(node.op, (0, None))
    if rule is not None and len(operands) >= least:
        yield from rule(node, operands, outer, start)


def _cast(node: Node, _: Operands, outer: Outer, start: str) -> Wishes:
    if node.attrs.get("to") in _CASTS:
        noun, values = _CASTS[node.attrs["to"]]
        yield 0, Integers(f"{start} turns it into {noun}", values, is_mask=True)


def _one_hot(_: Node, operands: Operands, outer: Outer, start: str) -> Wishes:
    depth = max([1, *(read_numbers(operands[1], outer) or ())])
    yield 0, Integers(f"{start} takes it as an index below {depth}", high=depth)


def _compare(node: Node, operands: Operands, outer: Outer, start: str) -> Wishes:
    for place, other in enumerate(reversed(operands)):
        values = read_numbers(other, outer)
        if not values:
            continue
        near = dict.fromkeys(value + step for value in values for step in _NEAR[node.op])
        names = format_names(map(str, values), _LISTED)
        yield place, Integers(f"{start} compares it with {names}", tuple(near))


def _gather(node: Node, operands: Operands, _: Outer, start: str) -> Wishes:
    size = _find_size(operands[0], int(node.attrs.get("axis") or 0))
    if size:
        yield 1, Integers(f"{start} takes it as an index below {size}", high=size)


def _slice(_: Node, operands: Operands, outer: Outer, start: str) -> Wishes:
    axes: list[int] | None = [0]
    if len(operands) > _AXES and operands[_AXES] is not None:
        axes = read_numbers(operands[_AXES], outer)
    sizes = [_find_size(operands[0], axis) for axis in axes or ()]
    size = min(filter(None, sizes), default=1)
    yield _STARTS, Integers(f"{start} takes it as a start", high=size)
    yield _ENDS, Integers(f"{start} takes it as an end", low=1, high=size + 1)


_RULES: Mapping[str, tuple[int, Callable[[Node, Operands, Outer, str], Wishes]]] = {
    "Cast": (1, _cast),
    "OneHot": (2, _one_hot),
    **dict.fromkeys(_NEAR, (2, _compare)),
    **dict.fromkeys(("Gather", "GatherElements"), (2, _gather)),
    "Slice": (_ENDS + 1, _slice),
}
"""The least number of operands, and the rule, of operators whose integers depend on attributes or
other operands.
"""


def _find_size(entry: Entry | None, axis: int) -> int | None:
    """Return an initializer's size on an axis, or the file's; None if open."""
    if entry is None:
        return None
    stored = find_stored(entry.node.details)
    info = stored.values.infos.get(entry.index) or stored.input
    stated = None if info is None else read_type(info)
    shape: Sequence[int | str | None] | None = None
    if stored.place is not None:
        shape = stored.place.shape
    elif stated is not None:
        shape = stated.shape
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


def read_numbers(entry: Entry | None, outer: Mapping[Key, Entry] = EMPTY) -> list[int] | None:
    """Return the numbers of a small integer constant; None for other values."""
    while entry is not None and entry.node.op in _PASSED_ON and entry.node.inputs:
        entry = _follow(entry.node.inputs[0], outer)
    if entry is None:
        return None
    node = entry.node
    text = node.attrs.get("value_int") or node.attrs.get("value_ints", "")
    if text and node.op == "Constant":
        try:
            return [int(number) for number in text.strip("[]").split(", ") if number != "..."]
        except ValueError:  # onnxruntime refuses other contents
            return None
    try:
        dtype, _, numbers = read_constant(node, _LARGEST)
    except WireError:  # onnxruntime reports the fault
        return None
    if numbers is None or "int" not in dtype:
        return None
    return list(map(int, numbers))
