"""The memory of a run by inferred shapes and dtypes, before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from graphshare.errors import Fault, MemoryLimitError
from graphshare.ir.graph import Entry, Node
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array, Shape
from graphshare.resources import MORE_MEMORY, describe_excess
from graphshare.text.format import format_bytes, format_shape


def check_memory(
    nodes: Sequence[Node],
    heads: Sequence[Entry],
    inference: Inference,
    values: Mapping[Node, Array],
    *,
    keeps_all: bool = False,
) -> None:
    """Compare the memory for ``heads`` with the limit. ``nodes`` are in topological order.

    ``values`` are already in memory; other variables will be drawn. With ``keeps_all`` no value is
    freed, and each variable has a gradient, as in training. Unknown sizes count as 0.

    Raises:
        MemoryLimitError: the limit is below it; the first node beyond it is named with its bytes.
    """
    held = sum(array.nbytes for array in values.values())
    if keeps_all:
        held *= 2
    steps = list(_steps(nodes, heads, inference, values, keeps_all=keeps_all))
    peak = max((total for _, _, total in steps), default=0)
    # Once, for the peak: without a limit each question reads system files.
    if not describe_excess(peak, held):
        return
    node, own, total = next(
        step for step in steps if step[2] == peak or describe_excess(step[2], held)
    )
    what = "values" if node.is_variable else f"outputs of {node.op}"
    shapes = ", ".join(format_shape(shape) for shape in inference.shapes[node])
    needed = format_bytes(own)
    if total + held > own:
        needed += f", {format_bytes(total + held)} with all that is kept beside them"
    message = f"the {what} {shapes} take {needed}, {describe_excess(total, held)}"
    raise MemoryLimitError(Fault(message, node=node.name, hint=MORE_MEMORY))


def _steps(
    nodes: Sequence[Node],
    heads: Sequence[Entry],
    inference: Inference,
    values: Mapping[Node, Array],
    *,
    keeps_all: bool,
) -> Iterator[tuple[Node, int, int]]:
    """Yield each node with its outputs' bytes, and the bytes of all values alive then.

    Variables come first: they are drawn before anything runs.
    """
    sizes = {node: _node_bytes(node, inference) for node in nodes if node not in values}
    total = 0
    for node in nodes:
        if node.is_variable and node in sizes:
            total += sizes[node]
            yield node, sizes[node], total
    last_users = {} if keeps_all else _last_users(nodes, heads)
    for node in nodes:
        if not node.is_variable:
            total += sizes[node]
            yield node, sizes[node], total
            total -= sum(sizes[other] for other in last_users.get(node, ()))


def _last_users(nodes: Sequence[Node], heads: Sequence[Entry]) -> dict[Node, list[Node]]:
    """Return the operators whose outputs each node uses last; heads stay."""
    last: dict[Node, list[Node]] = {}
    seen = {entry.node for entry in heads}
    for node in reversed(nodes):
        if node.is_variable:
            continue
        for other in (node, *(entry.node for entry in node.inputs)):
            if other not in seen and not other.is_variable:
                seen.add(other)
                last.setdefault(node, []).append(other)
    return last


def _node_bytes(node: Node, inference: Inference) -> int:
    return sum(map(_array_bytes, inference.shapes[node], inference.types[node]))


def _array_bytes(shape: Shape, dtype: str | None) -> int:
    if shape is None or None in shape:
        return 0
    return max(0, prod(size or 0 for size in shape)) * _item_size(dtype or "float32")


@lru_cache(maxsize=32)
def _item_size(dtype: str) -> int:
    try:
        return np.dtype(dtype).itemsize
    except TypeError:  # bfloat16: numpy lacks it, and it is computed as float32
        return 4
