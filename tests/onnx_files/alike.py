"""Pairs of small models that are alike, as text: what is exact of them, and what both compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import parser

import graphshare as gs
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from graphshare.verification.regions import RegionReport
from tests.onnx_files.running import Session, Unrunnable, are_same

SIZES = (2, 3)
"""Of axes whose size is free."""


class Pair(NamedTuple):
    """Two graphs: ``head`` has the inputs and outputs of both, ``opset`` and ``other`` are their versions.

    ``functions`` and ``other_functions`` are those that the models define.
    """

    head: str
    left: str
    right: str
    opset: int = 21
    other: int = 0
    other_head: str = ""
    functions: str = ""
    other_functions: str = ""

    def build(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        return (
            parse(self.head, self.left, self.opset, self.functions),
            parse(
                self.other_head or self.head,
                self.right,
                self.other or self.opset,
                self.other_functions,
            ),
        )


def parse(head: str, body: str, opset: int, functions: str = "") -> onnx.ModelProto:
    """Return a model of ONNX's own text; ``body`` may begin with its initializers."""
    ir = 3 if opset < 9 else 8 if opset < 19 else 10
    weights = body if body.startswith("<") else "{" + body + "}"
    model = parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {opset}, "local" : 1]> g {head} {weights} {functions}'
    )
    if ir < 4:  # initializers are inputs there
        for tensor in model.graph.initializer:
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return model


def find_exact(pair: Pair, folder: Path, *, reverse: bool = False) -> RegionReport | None:
    """Return the report of two models of which every operator is exact; None where some are not."""
    models = []
    built = pair.build()
    for name, model in zip(("left", "right"), built[::-1] if reverse else built, strict=True):
        onnx.save(model, folder / f"{name}.onnx")
        models.append(gs.load(folder / f"{name}.onnx"))
    return make_judge(pair_models(*models, (), {})).find_exact()


def run(model: onnx.ModelProto, size: int) -> list[Any] | None:
    """Return the outputs with one size of each free axis; None where nothing computes them."""
    try:
        session = Session(model.SerializeToString(), optimize=False)
        rng = np.random.default_rng(size)
        feeds: dict[str, Any] = {}
        for value in session.inputs:
            shape = [n if isinstance(n, int) else size + i for i, n in enumerate(value.shape)]
            numbers = rng.standard_normal(shape)
            feeds[value.name] = (
                (numbers > 0)
                if value.type == "tensor(bool)"
                else (numbers * 4).astype(DTYPES[value.type])
            )
        return list(session.run(feeds).values())
    except Unrunnable:
        return None


DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
}


def assert_exact(pair: Pair, folder: Path, *, computes: bool = True) -> None:
    """Assert that two models are exact in both orders, and compute the same."""
    for reverse in (False, True):
        report = find_exact(pair, folder, reverse=reverse)
        assert report is not None, "not exact"
        assert report.exact == report.operators
        assert not report.regions
    left, right = pair.build()
    runs = [(run(left, size), run(right, size)) for size in SIZES]
    computed = [(a, b) for a, b in runs if a is not None and b is not None]
    assert len(computed) == len(runs) or not computes
    assert all(are_same(a, b) for a, b in computed)


def assert_unlike(pair: Pair, folder: Path) -> None:
    """Assert that two models are not exact in either order, and do not compute the same."""
    assert find_exact(pair, folder) is None
    assert find_exact(pair, folder, reverse=True) is None
    left, right = pair.build()
    runs = [(run(left, size), run(right, size)) for size in SIZES]
    assert any(not are_same(a, b) for a, b in runs), "both compute the same, which shows nothing"
