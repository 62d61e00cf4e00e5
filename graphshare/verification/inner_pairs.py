"""Evidence that inner values of two models are the same: types, and parameters they depend on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, count

from graphshare.analysis.name_lists import output_name
from graphshare.formats.params.records import PRECISIONS
from graphshare.ir.graph import Entry, Node
from graphshare.ops.registry import visible_outputs
from graphshare.text.names import index_unique

_TELLING = 16
"""The least bytes of equal parameters that count as one: every model has 0, 1 and short shapes."""
FLOATS = frozenset(PRECISIONS)
"""The dtypes that one value may have in two models."""
Parts = tuple[str | None, Sequence[object] | None]
"""The dtype and the shape of a value, None where unknown."""
FindContent = Callable[[Node], Hashable | None]
"""Returns the content of a constant in the form of terms: its dtype, its shape, and its bytes or
their number and hash.
"""


def can_be_one(first: Parts, second: Parts) -> bool:
    """Whether the types of two values are compatible."""
    (dtype, shape), (other, sizes) = first, second
    return _are_compatible_dtypes(dtype, other) and _are_compatible_shapes(shape, sizes)


def _are_compatible_dtypes(first: str | None, second: str | None) -> bool:
    """Floats may differ in dtype."""
    dtypes = {first, second}
    if len(dtypes) == 1 or None in dtypes:
        return True
    return dtypes <= FLOATS


def _are_compatible_shapes(first: Sequence[object] | None, second: Sequence[object] | None) -> bool:
    if first is None or second is None:
        return True
    if len(first) != len(second):
        return False
    for x, y in zip(first, second, strict=True):
        are_known = isinstance(x, int) and isinstance(y, int)
        if are_known and x != y:
            return False
    return True


def pair_readers(
    sides: Sequence[Sequence[Node]], find_contents: Sequence[FindContent]
) -> Iterator[tuple[Entry, Entry]]:
    """Yield pairs of values that have read the same parameters last; ``sides`` are nodes in order.

    Parameters match by content or name, and have one reader. One operator may read parameters (a
    convolution its weight and bias) that several read on the other side; the last of these counts.
    """
    readers = [_find_readers(nodes) for nodes in sides]
    same = _match(readers, find_contents)
    pairs = [(readers[0][left], readers[1][right]) for left, right in same.items()]
    left_order, right_order = (dict(zip(nodes, count(), strict=False)) for nodes in sides)
    for group in _group_readers(pairs):
        lefts, rights = zip(*group, strict=True)
        a = next(visible_outputs(max(lefts, key=left_order.__getitem__)), None)
        b = next(visible_outputs(max(rights, key=right_order.__getitem__)), None)
        if a is not None and b is not None:
            yield a, b


def _group_readers(pairs: Iterable[tuple[Node, Node]]) -> Iterable[set[tuple[Node, Node]]]:
    """Groups with a common reader join."""
    groups: dict[tuple[int, Node], set[tuple[Node, Node]]] = {}
    for pair in pairs:
        known = [groups.get(reader, ()) for reader in enumerate(pair)]
        group = {pair}.union(*known)
        for each in group:
            groups.update(dict.fromkeys(enumerate(each), group))
    return {id(group): group for group in groups.values()}.values()


def _find_readers(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Map parameters with a single reader to it; readers of parameters alone do not count."""
    roots: dict[Node, tuple[Node, ...]] = {}
    readers: dict[Node, dict[Node, None]] = {}
    for node in nodes:
        if not node.inputs:
            if node.op or node.details.holds_value:
                roots[node] = (node,)
            continue
        operands = {entry.node: None for entry in node.inputs}
        read = tuple(dict.fromkeys(chain(*(roots.get(operand, ()) for operand in operands))))
        if operands.keys() <= roots.keys() and not node.subgraphs:
            roots[node] = read
            continue
        for root in read:
            readers.setdefault(root, {})[node] = None
    return {root: next(iter(own)) for root, own in readers.items() if len(own) == 1}


def _match(
    readers: Sequence[dict[Node, Node]], find_contents: Sequence[FindContent]
) -> dict[Node, Node]:
    """Match parameters by content, else by name."""
    contents: list[dict[Hashable, Node]] = [
        index_unique((_find_telling(find(node)), node) for node in own)
        for own, find in zip(readers, find_contents, strict=True)
    ]
    names: list[dict[Hashable, Node]] = [
        index_unique((output_name(Entry(node)), node) for node in own) for own in readers
    ]
    same: dict[Node, Node] = {}
    for lefts, rights in (contents, names):
        taken = set(same.values())
        for key, left in lefts.items():
            right = rights.get(key)
            if right is not None and left not in same and right not in taken:
                same[left] = right
    return same


def _find_telling(content: Hashable | None) -> Hashable | None:
    """Return the content unless it has too few bytes to identify a parameter."""
    match content:
        case (_, _, (_, _, *_)):  # a hash
            return content
        case (_, _, (bytes(data),)) if len(data) >= _TELLING:
            return content
    return None
