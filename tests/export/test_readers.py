"""What other programs misread is not emitted, as far as ``python -m benchmarks.readers`` found it
in their versions of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from graphshare.api.export import export
from graphshare.errors import RefusedError
from tests.corpus.test_export import seeded_model
from tests.export.judge import export_operator
from tests.kernels.recordings import FAMILIES, cases_of, recorded_inputs, recorded_outputs

GATHERS = ("Gather", "GatherElements", "GatherND")
OPERATORS = (
    "Deconvolution",
    "Embedding",
    "_contrib_box_nms",
    "batch_take",
    "gamma",
    "gather_nd",
    "pick",
    "take",
)


def list_traps(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield what onnx2torch or OpenVINO misreads in a graph, its bodies included."""
    makers = {
        output: (node, index) for node in graph.node for index, output in enumerate(node.output)
    }
    narrow = {
        tensor.name for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8
    }
    for node in graph.node:
        values = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
        }
        before = [makers[name][0].op_type if name in makers else "" for name in node.input]
        if node.op_type in GATHERS and before[1] == "Clip":
            yield "onnx2torch makes floats of integers in Clip, which are no indices"
        if node.op_type == "Cast" and values["to"] == onnx.TensorProto.BOOL and before[0] == "TopK":
            yield "OpenVINO does not read TopK before a Cast to bool"
        if node.op_type in ("Cast", "Mul") and narrow & set(node.input):
            narrow.update(node.output)
        if node.op_type == "Abs" and node.input[0] in narrow:
            yield "OpenVINO leaves Abs out behind a Cast of int8 constants, scaled or not"
        if node.op_type in ("Greater", "GreaterOrEqual") and "Div" in before:
            yield "OpenVINO takes NaN, of a division by 0, for greater than a number"
        pads = values.get("pads", [])
        if node.op_type == "ConvTranspose" and pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
            yield "onnx2torch refuses ConvTranspose with other padding at the end"
        yield from (
            trap
            for value in values.values()
            if isinstance(value, onnx.GraphProto)
            for trap in list_traps(value)
        )


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        ("i = Clip (p, low, high) y = Gather (x, i)", "onnx2torch makes floats"),
        ("v, i = TopK (x, k) y = Cast <to = 9> (v)", "OpenVINO does not read TopK"),
        ("f = Cast <to = 1> (w) g = Mul (f, x) y = Abs (g)", "OpenVINO leaves Abs out"),
        ("d = Div (x, x) y = Greater (d, x)", "OpenVINO takes NaN"),
        ("y = ConvTranspose <pads = [1, 1, 0, 0]> (x, w)", "onnx2torch refuses ConvTranspose"),
        (
            "y = If (c) <then_branch = t () => (float[1] r) { d = Div (x, x) r = Greater (d, x) }>",
            "OpenVINO takes NaN",
        ),
    ],
)
def test_each_trap_is_seen(lines: str, start: str) -> None:
    graph = onnx.parser.parse_graph(
        f"g (float[1] x, int64[1] p, bool[1] c) => (float[1] y) {{ {lines} }}"
    )
    graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.int8), "w"))
    assert [trap.startswith(start) for trap in list_traps(graph)] == [True]


def traps_of(op: str, attrs: dict[str, str], inputs: list[Any], outputs: int) -> list[str]:
    data = export_operator(op, attrs, inputs, outputs)
    return (
        []
        if isinstance(data, RefusedError)
        else list(list_traps(onnx.load_from_string(data).graph))
    )


@pytest.mark.parametrize("op", OPERATORS)
def test_translations_are_without_traps(op: str) -> None:
    cases = [
        (family, i, case)
        for family in FAMILIES
        for i, case in enumerate(cases_of(family))
        if case["op"] == op
    ]
    assert cases
    for family, i, case in cases:
        if not case.get("train"):
            assert (
                traps_of(
                    op, case["attrs"], recorded_inputs(family, i), len(recorded_outputs(family, i))
                )
                == []
            )


@pytest.mark.parametrize("adj", [0, 1])
def test_a_deconvolution_has_the_padding_of_pytorch(adj: int) -> None:
    attrs = {
        "kernel": "(4, 4)",
        "stride": "(2, 2)",
        "pad": "(1, 1)",
        "adj": f"({adj}, {adj})",
        "num_filter": "3",
    }
    inputs = [np.ones(shape, np.float32) for shape in ((1, 2, 5, 5), (2, 3, 4, 4))]
    assert traps_of("Deconvolution", {**attrs, "no_bias": "True"}, inputs, 1) == []


@pytest.mark.corpus
def test_int8_weights_are_scaled_without_a_trap(corpus: Path, tmp_path: Path) -> None:
    model, feeds = seeded_model(corpus, "quant_lenet_mkldnn_auto")
    export(model, tmp_path / "model.onnx", feeds=feeds, as_input=tuple(feeds), verify=False)
    traps = set(list_traps(onnx.load(tmp_path / "model.onnx").graph))
    # The divisor is never 0
    assert traps == {"OpenVINO takes NaN, of a division by 0, for greater than a number"}
