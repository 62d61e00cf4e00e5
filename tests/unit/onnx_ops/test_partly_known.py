"""Integers that are partly known: what a Slice of rows keeps of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphshare.ir.graph import Entry, Node, NodeDetails
from graphshare.onnx_ops.free_axes import Call, Operand, SizeTable, fix
from graphshare.onnx_ops.partly_known import Known, find_partly_known


def find_slice(numbers: Known, shape: Sequence[int], *bounds: int) -> Known | None:
    """Return what is known after a Slice with a start, an end, an axis and a step."""
    names = "data", "start", "end", "axis", "step"
    sources = [Entry(Node("", name)) for name in names[: len(bounds) + 1]]
    node = Node(
        "Slice", "part", inputs=tuple(sources), details=NodeDetails(domain="", outputs=("part",))
    )
    operands = [Operand(known=numbers), *(Operand(row=(fix(bound),)) for bound in bounds)]
    return find_partly_known(Call(node, 17, SizeTable({}, (), ()), operands, [shape]))


@pytest.mark.parametrize(
    ("shape", "bounds", "kept"),
    [
        ((2,), (1, 3), (None, 3)),
        ((1, 2), (1, 9), (3, 4)),
        ((2, 2), (-1, -9, 0, -1), (3, 4, 1, None)),
        ((2,), (0, 2, 1), None),
        ((0, 0), (0, 1), None),
        ((2,), (0, 2, 0, 0), None),
        ((), (0, 1), None),  # a faulty model: a number has no rows
    ],
)
def test_a_slice_keeps_rows(
    shape: Sequence[int], bounds: Sequence[int], kept: Known | None
) -> None:
    assert find_slice((1, None, 3, 4), shape, *bounds) == kept
