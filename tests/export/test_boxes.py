"""Boxes in ONNX against our kernels, on drawn boxes with ties of scores and overlaps, where
recorded cases do not reach.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.api.export import export
from graphshare.ir.graph import Entry, Graph, Node
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import run_onnx
from tests.export.kernel_judge import compare, compute, refusal

TOLERANCES = {"float32": Tolerance(1e-5, 1e-5), "float64": Tolerance(1e-9, 1e-9)}
SEEDS = [pytest.param(seed, marks=[] if seed < 6 else [pytest.mark.large]) for seed in range(60)]


class Draw:
    """Boxes, scores and attributes; every second seed puts boxes on a coarse grid, where overlaps
    are equal to limits.
    """

    def __init__(self, seed: int) -> None:
        self.stream = np.random.default_rng(seed)
        self.coarse = seed % 2 == 0
        self.dtype = "float64" if seed % 3 == 2 else "float32"

    def of(self, *values: Any) -> Any:
        return values[self.stream.integers(len(values))]

    def boxes(self, *lead: int, upright: bool = False) -> Any:
        numbers = self.stream.uniform(0, 1, (*lead, 4))
        if self.coarse:
            numbers = np.round(numbers * 4) / 4
        size = numbers[..., 2:] * (1 if upright else self.of(1, 1, -0.3)) + 0.1 * upright
        return np.concatenate([numbers[..., :2], numbers[..., :2] + size], axis=-1).astype(
            self.dtype
        )

    def scores(self, *shape: int) -> Any:
        few = self.stream.choice([0.0, 0.1, 0.2, 0.5, 0.9], shape)
        return (few if self.of(0, 1) else self.stream.uniform(0, 1, shape)).astype(self.dtype)

    def compare(self, op: str, attrs: dict[str, Any], *inputs: Any, count: int = 1) -> None:
        words = {key: str(value) for key, value in attrs.items()}
        _, judge = compare(op, words, *inputs, count=count, tolerance=TOLERANCES[self.dtype])
        assert judge == "onnxruntime"


@pytest.mark.parametrize("seed", SEEDS)
def test_suppression(seed: int) -> None:
    draw = Draw(seed)
    batch, count = (int(draw.stream.integers(1, high)) for high in (4, 30))
    ids = draw.stream.integers(-1, 3, (batch, count, 1)).astype(draw.dtype)
    rows = np.concatenate(
        [ids, draw.scores(batch, count, 1), draw.boxes(batch, count), ids][: 3 + seed % 2], axis=-1
    )
    attrs = {
        "overlap_thresh": draw.of(0.5, 0.25, 0.0, 1 / 3, -0.1),
        "valid_thresh": draw.of(0, 0.2, -2, 2),
        "topk": draw.of(-1, 3, 10, 100),
        "id_index": draw.of(-1, 0),
        "background_id": draw.of(-1, 0, 1),
        "force_suppress": draw.of(True, False),
        "in_format": draw.of("corner", "center"),
        "out_format": draw.of("corner", "center"),
    }
    draw.compare("_contrib_box_nms", attrs, rows if seed % 4 else rows[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_matching(seed: int) -> None:
    draw = Draw(seed)
    shape = (
        int(draw.stream.integers(1, 4)),
        int(draw.stream.integers(1, 6)),
        int(draw.stream.integers(1, 6)),
    )
    attrs = {
        "threshold": draw.of(0.1, 0.0, -1, 0.5),
        "is_ascend": draw.of(True, False),
        "topk": draw.of(-1, 1, 2, 9),
    }
    draw.compare("_contrib_bipartite_matching", attrs, draw.scores(*shape), count=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_detection(seed: int) -> None:
    draw = Draw(seed)
    batch, classes, count = (
        int(draw.stream.integers(low, high)) for low, high in ((1, 4), (2, 5), (1, 30))
    )
    offsets = (draw.stream.normal(size=(batch, 4 * count)) * (0 if draw.coarse else 0.5)).astype(
        draw.dtype
    )
    attrs = {
        "clip": draw.of(True, False),
        "threshold": draw.of(0.01, 0.2, 0.5, 2),
        "nms_threshold": draw.of(0.5, 0.25, 1, -1, 0),
        "force_suppress": draw.of(True, False),
        "nms_topk": draw.of(-1, 1, 5, 100),
    }
    scores = draw.scores(batch, classes, count)
    op = draw.of("_contrib_MultiBoxDetection", "MultiBoxDetection")
    draw.compare(op, attrs, scores, offsets, draw.boxes(1, count))


@pytest.mark.parametrize("seed", SEEDS)
def test_targets(seed: int) -> None:
    draw = Draw(seed)
    batch, rows, count = (
        int(draw.stream.integers(low, high)) for low, high in ((1, 4), (1, 5), (1, 30))
    )
    labels = np.full((batch, rows, 5 + seed % 2), -1, draw.dtype)
    for sample in labels:
        known = int(draw.stream.integers(0, rows + 1))
        sample[:known, 0] = draw.stream.integers(0, 3, known)
        sample[:known, 1:5] = draw.boxes(known, upright=True)
    attrs = {
        "overlap_threshold": draw.of(0.5, 0.2, -1),
        "ignore_label": draw.of(-1, -2),
        "negative_mining_ratio": draw.of(-1, 1),
        "negative_mining_thresh": 2,
    }
    scores = draw.stream.normal(size=(batch, 3, count)).astype(draw.dtype)
    draw.compare(
        "_contrib_MultiBoxTarget",
        attrs,
        draw.boxes(1, count, upright=True),
        labels,
        scores,
        count=3,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_proposals(seed: int) -> None:
    """Images smaller than the cells, boxes too small, equal scores, fewer boxes than wanted."""
    draw = Draw(seed)
    batch, height, width = (int(draw.stream.integers(1, high)) for high in (4, 5, 5))
    sides = [draw.stream.integers(1, 16 * side + 1, batch) for side in (height, width)]
    info = np.stack([*sides, draw.stream.choice([0.5, 1, 2], batch)], axis=1).astype(draw.dtype)
    deltas = (draw.stream.normal(size=(batch, 16, height, width)) * 0.3).astype(draw.dtype)
    attrs = {
        "scales": "(1, 2)",
        "ratios": "(0.5, 2)",
        "rpn_pre_nms_top_n": draw.of(-1, 5, 20, 6000),
        "rpn_post_nms_top_n": draw.of(1, 4, 30),
        "threshold": draw.of(0.7, 0.3, 0.0),
        "rpn_min_size": draw.of(1, 8, 16, 40),
        "output_score": True,
        "iou_loss": draw.of(True, False),
    }
    draw.compare(
        "_contrib_MultiProposal", attrs, draw.scores(batch, 8, height, width), deltas, info, count=2
    )


def test_integers_are_refused() -> None:
    assert "int32" in refusal(
        "_contrib_bipartite_matching", {"threshold": "0"}, np.zeros((2, 4), np.int32)
    )


@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    [
        ("_contrib_box_nms", {"id_index": "0", "overlap_thresh": "0.3", "topk": "10"}, [(20, 6)]),
        ("_contrib_MultiBoxDetection", {"nms_threshold": "0.3"}, [(3, 12), (48,), None]),
        (
            "_contrib_MultiProposal",
            {"scales": "(1, 2)", "ratios": "(0.5, 2)", "rpn_post_nms_top_n": "6"},
            [(8, 3, 3), (16, 3, 3), (3,)],
        ),
    ],
)
def test_the_caller_chooses_the_batch(
    op: str, attrs: dict[str, str], shapes: list[Any], tmp_path: Path
) -> None:
    """``None`` stands for anchors, which all samples share."""
    variables = [Node("", f"in{i}", num_outputs=1) for i in range(len(shapes))]
    node = Node(op, "node", attrs, tuple(map(Entry, variables)), num_outputs=1)
    graph = Graph((*variables, node), (Entry(node, 0),), {})
    names = [variable.name for variable in variables]
    draw = Draw(1)
    anchors = draw.boxes(1, 12)
    batches = {
        name: anchors.shape if shape is None else ("n:2", *shape)
        for name, shape in zip(names, shapes, strict=True)
    }
    path = tmp_path / "model.onnx"
    export(graph, path, shapes=batches, as_input=names, verify=False)
    for batch in (1, 3):
        inputs = [anchors if shape is None else draw.scores(batch, *shape) for shape in shapes]
        (wanted,) = compute(op, attrs, tuple(inputs), 1)
        (got,), judge = run_onnx(path.read_bytes(), dict(zip(names, inputs, strict=True)))
        assert judge == "onnxruntime"
        assert describe_mismatch(got, wanted, TOLERANCES["float32"]) is None
