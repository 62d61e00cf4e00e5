"""A float32 model and its float16 twin, in either format and order, are compared by value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare
from tests.processes import ROOT

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SHAPES = {"data": (2, 1, 28, 28)}


def narrow(source: Path, target: Path) -> None:
    """Write an ONNX model with every float as float16, as converters do that do not keep inputs and outputs."""
    from onnx import TensorProto, numpy_helper

    model = onnx.load(source)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(
                numpy_helper.from_array(numpy_helper.to_array(tensor).astype("f2"), tensor.name)
            )
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, target)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("twins")
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        (folder / name).write_bytes((ROOT / "fixtures" / name).read_bytes())
    graphshare.convert(folder / "lenet-0000.params", folder / "half.params", dtype="float16")
    graphshare.export(folder / "lenet", folder / "lenet.onnx", shapes={"data": (2, 1, 28, 28)})
    narrow(folder / "lenet.onnx", folder / "half.onnx")
    return {
        "mxnet32": graphshare.load(folder / "lenet"),
        "mxnet16": graphshare.load(folder / "lenet-symbol.json", params=folder / "half.params"),
        "onnx32": graphshare.load(folder / "lenet.onnx"),
        "onnx16": graphshare.load(folder / "half.onnx"),
    }


@pytest.mark.parametrize("one", ["mxnet32", "onnx32"])
@pytest.mark.parametrize("half", ["mxnet16", "onnx16"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_model_equals_its_float16_twin_within_the_tolerance_of_float16(
    models, one: str, half: str, swapped: bool
) -> None:
    left, right = (half, one) if swapped else (one, half)
    report = graphshare.compare(models[left], models[right], shapes=SHAPES)
    assert report, report.verdict
    # Weights are compared within one format; models of two formats are judged by samples.
    how = (
        "by weights for every input"
        if one[:4] == half[:4]
        else "within the tolerance of float16 on 1 input"
    )
    start = f"EQUAL: the other model and the original, {how}; 0 of 13 operators exact, "
    assert report.verdict.startswith(start)
    tolerance = report.branches[0].tolerance
    assert (tolerance.dtype, tolerance.of_largest) == ("float16", 1e-2)
    (output,) = report.branches[0].rounds[0].outputs
    assert not output.comparison.identical
    assert 0 < output.of_largest < 1e-2
    strict = graphshare.compare(models[left], models[right], shapes=SHAPES, exact=True)
    assert (strict.outcome, strict.branches[0].stages[-1].name) == ("not proved", "exact")


@pytest.mark.parametrize("format_", ["mxnet", "onnx"])
def test_another_weight_is_found_across_dtypes(models, tmp_path: Path, format_: str) -> None:
    model = models[f"{format_}32"]
    name = next(name for name in model.params if name.endswith("fc1_weight"))
    weight = np.array(model.params[name])
    weight[0] += 0.5
    report = graphshare.compare(model.with_params({name: weight}), models[f"{format_}16"], shapes=SHAPES)  # fmt: skip
    assert report.outcome == "not equal"
    stages = {stage.name: stage for stage in report.branches[0].stages}
    assert "values differ" in stages["values"].details[0]
    assert stages["regions"].details[0].startswith("first at fc1")


@pytest.mark.parametrize("name", ["mxnet32", "mxnet16", "onnx32", "onnx16"])
def test_equal_models_are_exact_in_the_tolerance_of_their_own(models, name: str) -> None:
    report = graphshare.compare(models[name], models[name], shapes=SHAPES)
    assert report.verdict == "EQUAL: the other model and the original, exact for every input"
    assert report.branches[0].rounds[0].outputs[0].comparison.identical
    assert report.branches[0].tolerance.of_largest == 1e-5


@pytest.mark.parametrize(("left", "right"), [("mxnet16", "onnx16"), ("onnx16", "mxnet16")])
def test_two_programs_of_float16_are_as_far_apart_as_either_is_from_itself(
    models, left: str, right: str
) -> None:
    report = graphshare.compare(models[left], models[right], shapes=SHAPES)
    assert report.outcome == "equal"
    assert any(" apart, and a model from itself " in note for note in report.notes)


DTYPES = ("float16", "float32", "float64")


def build_linear(dtype: str, weight: np.ndarray, bias: float, op: str) -> onnx.ModelProto:
    """Return a model of ``op(x @ weight + bias)`` whose numbers all have one dtype."""
    from onnx import TensorProto, helper

    code = getattr(TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper()))
    ends = [
        [helper.make_tensor_value_info(name, code, ["n", sizes])]
        for name, sizes in zip("xy", weight.shape, strict=True)
    ]
    arrays = {"w": weight, "b": np.full(weight.shape[1], bias)}
    tensors = [
        helper.make_tensor(name, code, array.shape, array.ravel()) for name, array in arrays.items()
    ]
    nodes = [("MatMul", "x w", "m"), ("Add", "m b", "a"), (op, "a", "y")]
    made = [
        helper.make_node(op, inputs.split(), [output], name=output) for op, inputs, output in nodes
    ]
    graph = helper.make_graph(made, "g", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("one", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_both_dtypes_hold_the_inputs_that_are_drawn(one: str, other: str, tmp_path: Path) -> None:
    for dtype in (one, other):
        onnx.save(build_linear(dtype, np.eye(64), 0.0, "Identity"), tmp_path / f"{dtype}.onnx")
    report = graphshare.compare(tmp_path / f"{one}.onnx", tmp_path / f"{other}.onnx")
    assert report, report.verdict
    assert all(
        output.comparison.max_abs == 0
        for values in report.branches[0].rounds
        for output in values.outputs
    )


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_shares_near_zero_are_as_far_apart_as_the_coarser_model_is_from_itself(
    swapped: bool, seed: int, tmp_path: Path
) -> None:
    """A Sigmoid near 0 turns the rounding of a sum near 13 into a hundredth of its result and more."""
    weight = np.random.default_rng(seed).standard_normal((256, 8)) / 8
    moved = weight.copy()
    moved[:, 3] *= 2
    for name in ("float32", "float16"):
        onnx.save(build_linear(name, weight, -13.0, "Sigmoid"), tmp_path / f"{name}.onnx")
    onnx.save(build_linear("float16", moved, -13.0, "Sigmoid"), tmp_path / "moved.onnx")
    for other, outcomes in (("float16", ["equal"]), ("moved", ["not equal", "not proved"])):
        pair = [tmp_path / f"{name}.onnx" for name in ("float32", other)]
        report = graphshare.compare(*(reversed(pair) if swapped else pair))
        assert report.outcome in outcomes, report.verdict
