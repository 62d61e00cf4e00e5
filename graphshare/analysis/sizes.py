"""Sizes for inputs that nothing determines: one sample, and the first usual size that fits the whole graph.

Weights determine most of an input's shape (its channels, or the size behind a Flatten); image sizes and batch are often free. A
size is taken only when every shape in the graph follows from it without a contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphshare.analysis.shapes import Inference, infer
from graphshare.errors import RefusedError
from graphshare.ir.graph import Graph, Node
from graphshare.ops.unification import is_known

# Sizes that trained models were made for, then every small one.
_USUAL = (224, 28, 32, 112, 299, 48, 24, 12, 64, 96, 128, 160, 256, 300, 320, 416, 512)
_SMALL = range(1, 65)


def choose_sizes(
    graph: Graph,
    shapes: Mapping[Node, Sequence[int | None]],
    types: Mapping[Node, str],
    nodes: Sequence[Node],
    inference: Inference,
) -> tuple[Inference, dict[Node, tuple[int, ...]]] | None:
    """Return the inference with sizes chosen for variables of known rank, and the chosen shapes; None when none fits.

    Axis 0 becomes 1, the channels of an image 3, all other unknown sizes of all variables one number.
    """
    unknown = [node for node in nodes if node.is_variable and not is_known(inference.shapes[node][0])]
    partly = {node: shape for node in unknown if (shape := inference.shapes[node][0]) is not None}
    if not partly:
        return None
    for size in dict.fromkeys((*_USUAL, *_SMALL)):
        trial = {node: _fill_shape(shape, size) for node, shape in partly.items()}
        try:
            result = infer(graph, {**shapes, **trial}, types, nodes=nodes)
        except RefusedError:
            continue
        if _all_positive(result.shapes[node] for node in nodes):
            return result, {node: tuple(d or 0 for d in result.shapes[node][0] or ()) for node in partly}
    return None


def _fill_shape(shape: tuple[int | None, ...], size: int) -> tuple[int, ...]:
    fixed = {0: 1, 1: 3} if len(shape) == 4 else {0: 1}
    return tuple(fixed.get(axis, size) if d is None else d for axis, d in enumerate(shape))


def _all_positive(rows: Iterable[Sequence[tuple[int | None, ...] | None]]) -> bool:
    """Whether every first output has a known shape without an empty axis."""
    return all(row[0] is not None and all(d is not None and d > 0 for d in row[0]) for row in rows)
