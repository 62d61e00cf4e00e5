"""Evidence that inner values of two models are the same: types, and parameters they depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice

from graphshare.analysis.name_lists import output_name
from graphshare.formats.params.records import PRECISIONS
from graphshare.ir.graph import Entry, Node
from graphshare.ops.registry import visible_outputs

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
    # Floats of different dtypes may be one value; an integer and a float of one name are not.
    is_number = dtype == other or None in (dtype, other) or {dtype, other} <= FLOATS
    return is_number and not _have_other_shapes(shape, sizes)


def _have_other_shapes(first: Sequence[object] | None, second: Sequence[object] | None) -> bool:
    if first is None or second is None:
        return False
    sizes = zip(first, second, strict=False)
    return len(first) != len(second) or any(
        isinstance(x, int) and isinstance(y, int) and x != y for x, y in sizes
    )


def pair_readers(
    sides: Sequence[Sequence[Node]], find_contents: Sequence[FindContent]
) -> Iterator[tuple[Entry, Entry]]:
    """Yield pairs of values that have read the same parameters last; ``sides`` are nodes in order.

    Parameters match by content or name, and each has one reader. One operator may read parameters
    (a convolution its weight and bias) that several read on the other side; the last of these has
    the same value.
    """
    readers = [_find_readers(nodes) for nodes in sides]
    same = _match(readers, find_contents)
    orders = [{node: place for place, node in enumerate(nodes)} for nodes in sides]
    for group in _group_readers(
        (readers[0][left], readers[1][right]) for left, right in same.items()
    ):
        last = [
            max((node for own, node in group if own == side), key=orders[side].__getitem__)
            for side in (0, 1)
        ]
        ends = [list(islice(visible_outputs(node), 1)) for node in last]
        if all(ends):
            yield ends[0][0], ends[1][0]


def _group_readers(pairs: Iterable[tuple[Node, Node]]) -> list[set[tuple[int, Node]]]:
    """Group readers of the same parameters, each with its side; groups with a common reader join."""
    groups: dict[tuple[int, Node], set[tuple[int, Node]]] = {}
    for pair in pairs:
        readers = tuple(enumerate(pair))
        group = set(readers).union(*(groups.get(reader, ()) for reader in readers))
        groups.update(dict.fromkeys(group, group))
    return list({id(group): group for group in groups.values()}.values())


def _find_readers(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Map parameters with a single reader to it; those that read only parameters do not count."""
    roots: dict[Node, tuple[Node, ...]] = {}
    readers: dict[Node, dict[Node, None]] = {}
    for node in nodes:
        if not node.inputs:
            if node.op or node.details.holds_value:
                roots[node] = (node,)
            continue
        read = tuple(
            dict.fromkeys(root for entry in node.inputs for root in roots.get(entry.node, ()))
        )
        if all(entry.node in roots for entry in node.inputs) and not node.subgraphs:
            roots[node] = read
            continue
        for root in read:
            readers.setdefault(root, {})[node] = None
    return {root: next(iter(own)) for root, own in readers.items() if len(own) == 1}


def _match(
    readers: Sequence[dict[Node, Node]], find_contents: Sequence[FindContent]
) -> dict[Node, Node]:
    """Map left parameters to equal ones on the right, else to namesakes."""
    same: dict[Node, Node] = {}
    for keys in (
        [_index(own, find) for own, find in zip(readers, find_contents, strict=True)],
        [*map(_index, readers)],
    ):
        taken = {*same.values()}
        for key, left in keys[0].items():
            right = keys[1].get(key)
            if right is not None and left not in same and right not in taken:
                same[left] = right
    return same


def _index(parameters: dict[Node, Node], find: FindContent | None = None) -> dict[Hashable, Node]:
    """Index parameters by content or name; ambiguous keys are left out."""
    keys = [
        (output_name(Entry(node)) if find is None else _find_telling(find(node)), node)
        for node in parameters
    ]
    counts = Counter(key for key, _ in keys)
    return {key: node for key, node in keys if key is not None and counts[key] == 1}


def _find_telling(content: Hashable | None) -> Hashable | None:
    """Return the content if it identifies a parameter; None for a few bytes."""
    if not isinstance(content, tuple) or len(content) != 3 or not isinstance(content[2], tuple):
        return None
    *size, data = content[2]
    return content if size or (isinstance(data, bytes) and len(data) >= _TELLING) else None
