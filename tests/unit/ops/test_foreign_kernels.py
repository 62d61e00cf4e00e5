"""Operators that MXNet 1.9.1 has under other names compute the same under both."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Array

BOXES = np.array([[[0.1, 0.1, 0.4, 0.4], [0.5, 0.5, 0.9, 0.9], [0.1, 0.2, 0.5, 0.4]]], np.float32)
SCORES = np.array([[[0.2, 0.7, 0.1], [0.8, 0.1, 0.3], [0.0, 0.2, 0.6]]], np.float32)
LABELS = np.array([[[1, 0.5, 0.5, 0.8, 0.9], [-1, -1, -1, -1, -1]]], np.float32)
OFFSETS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 12)
IMAGE = np.zeros((1, 2, 3, 4), np.float32)


def compute(op: str, inputs: list[Array], attrs: dict[str, str], outputs: int) -> list[Array]:
    variables = [Node("", f"v{i}") for i in range(len(inputs))]
    node = Node(op, "n", attrs, tuple(map(Entry, variables)))
    return run_plan(
        make_plan([Entry(node, i) for i in range(outputs)]),
        dict(zip(variables, inputs, strict=True)),
    ).outputs


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "outputs"),
    [
        ("MultiBoxPrior", [IMAGE], {"sizes": "(0.3, 0.5)", "ratios": "(1, 2)", "clip": "True"}, 1),
        ("MultiBoxTarget", [BOXES, LABELS, SCORES], {"overlap_threshold": "0.4"}, 3),
        (
            "MultiBoxDetection",
            [SCORES, OFFSETS, BOXES],
            {"nms_threshold": "0.3", "threshold": "0.1"},
            1,
        ),
    ],
)
def test_an_old_name_computes_what_the_new_one_does(
    op: str, inputs: list[Array], attrs: dict[str, str], outputs: int
) -> None:
    old, new = (compute(name, inputs, attrs, outputs) for name in (op, f"_contrib_{op}"))
    for one, other in zip(old, new, strict=True):
        assert one.size
        np.testing.assert_array_equal(one, other)
