"""Inputs that both models of a proof accept: fixed sizes of either, sets from files, and bodies that were computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import graphshare as gs
from tests.onnx_files.test_run import build
from tests.onnx_files.test_verify import write

FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
Sizes = list[int | str]


def draw(path: Path, name: str, seed: int = 0) -> np.ndarray:
    """Return what is drawn for an input."""
    return gs.run(path, seed=seed, all_outputs=True).outputs[name]


def negate(folder: Path, name: str, sizes: Sizes, op: str = "Neg") -> Path:
    """Write a model whose input has these sizes."""
    return write(folder, name, build([helper.make_node(op, ["x"], ["y"])], {"x": (FLOAT, sizes)}, {"y": FLOAT}))


@pytest.mark.parametrize("options", [{}, {"values_only": True}, {"values_only": True, "layers": True}])
@pytest.mark.parametrize("is_turned", [False, True])
def test_sizes_that_either_model_fixes_are_drawn(options: dict[str, bool], is_turned: bool, tmp_path: Path) -> None:
    pair = negate(tmp_path, "open", ["N", 3, "H", 5]), negate(tmp_path, "fixed", [4, 3, 7, "W"])
    path, other = reversed(pair) if is_turned else pair
    report = gs.verify(path, against=other, **options)
    assert report
    assert {output.shape for output in report.branches[0].rounds[0].outputs} == {(4, 3, 7, 5)}


@pytest.mark.parametrize("options", [{}, {"values_only": True}, {"values_only": True, "layers": True}])
@pytest.mark.parametrize("sizes", [[1, 3, 256], [1, 3, 224, 224]])
def test_sizes_that_contradict_each_other_are_named(options: dict[str, bool], sizes: Sizes, tmp_path: Path) -> None:
    path, other = negate(tmp_path, "small", [1, 3, 224]), negate(tmp_path, "large", sizes)
    with pytest.raises(gs.GraphshareError, match=r"input 'x' is 1x3x[0-9x]+ in .*\.onnx, and 1x3x[0-9x]+ in ") as raised:
        gs.verify(path, against=other, **options)
    assert all(name in str(raised.value) for name in ("small.onnx", "large.onnx", "1x3x224 ", "x".join(map(str, sizes))))


def test_sizes_that_are_given_fit_both_models(tmp_path: Path) -> None:
    path, other = negate(tmp_path, "open", ["N", 3]), negate(tmp_path, "fixed", [4, 3])
    assert gs.verify(path, against=other, shapes={"x": (4, None)}, values_only=True)
    with pytest.raises(gs.GraphshareError, match=r"input 'x' is 2x3 as it was given, and 4x3 in .*fixed\.onnx"):
        gs.verify(path, against=other, shapes={"x": (2, 3)}, values_only=True)


def mask(dtype: int = INT, name: str = "x", *, op: str = "Cast") -> onnx.ModelProto:
    """Return a model that masks ones by an input of 2 x 6, after a cast to bool or, if ``op`` is Not, by itself."""
    turned = helper.make_node(op, [name], ["m"], **({"to": BOOL} if op == "Cast" else {}))
    nodes = [turned, helper.make_node("Where", ["m", "one", "zero"], ["y"])]
    return build(nodes, {name: (dtype, [2, 6])}, {"y": FLOAT}, {"one": np.float32(1), "zero": np.float32(0)})


def named_mask() -> onnx.ModelProto:
    """Return a model that multiplies an input that is called a mask."""
    nodes = [helper.make_node("Mul", ["attention_mask", "attention_mask"], ["y"])]
    return build(nodes, {"attention_mask": (INT, [2, 6])}, {"y": INT})


def float_mask() -> onnx.ModelProto:
    """Return a model that subtracts an input, cast to float, from 1."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Cast", ["u"], ["m"], to=FLOAT),
        helper.make_node("Sub", ["one", "m"], ["y"]),
    ]
    return build(nodes, {"x": (INT, [2, 6])}, {"y": FLOAT}, {"one": np.float32(1), "axes": np.array([1])})


@pytest.mark.parametrize("model", [mask(), mask(BOOL, op="Not"), named_mask(), float_mask()])
def test_a_mask_has_a_one_in_every_row(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = write(tmp_path, "mask", model)
    name = model.graph.input[0].name
    rows = np.concatenate([draw(path, name, seed) for seed in range(20)])
    assert set(rows.ravel().tolist()) == {0, 1}
    assert rows.any(axis=-1).all()


def test_ids_that_are_masked_by_their_padding_are_indices(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["rows"]),
        helper.make_node("Cast", ["x"], ["m"], to=BOOL),
        helper.make_node("Not", ["m"], ["y"]),
    ]
    model = build(nodes, {"x": (INT, [2, 40])}, {"rows": FLOAT, "y": BOOL}, {"table": np.ones((30, 2), np.float32)})
    assert len(np.unique(draw(write(tmp_path, "ids", model), "x"))) > 20


def sized(op: str, nodes: list[onnx.NodeProto], initializers: dict[str, object], sizes: Sizes) -> object:
    model = build([*nodes, helper.make_node("Shape", ["v"], ["y"])], {"x": (INT, sizes)}, {"y": INT}, initializers)
    return pytest.param(model, id=op)


def sequence_mask() -> onnx.ModelProto:
    """Return a model that compares a range with lengths."""
    step, stop, start = np.int64(1), np.int64(8), np.int64(0)
    nodes = [
        helper.make_node("Range", ["start", "stop", "step"], ["r"]),
        helper.make_node("Unsqueeze", ["x", "axes"], ["lengths"]),
        helper.make_node("Less", ["r", "lengths"], ["y"]),
    ]
    constants = {"start": start, "stop": stop, "step": step, "axes": np.array([1])}
    return build(nodes, {"x": (INT, [3])}, {"y": BOOL}, constants)


ONE = np.float32(1)
SIZED = [
    sized("ConstantOfShape", [helper.make_node("ConstantOfShape", ["x"], ["v"])], {}, [2]),
    sized("Expand", [helper.make_node("Expand", ["one", "x"], ["v"])], {"one": ONE}, [2]),
    sized("Tile", [helper.make_node("Tile", ["one", "x"], ["v"])], {"one": np.ones((2, 2), np.float32)}, [2]),
    sized(
        "Range",
        [helper.make_node("Range", ["zero", "x", "step"], ["v"])],
        {"zero": np.int64(0), "step": np.int64(1)},
        [],
    ),
    sized(
        "Concat to Reshape",
        [
            helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
            helper.make_node("Concat", ["rest", "u"], ["s"], axis=0),
            helper.make_node("Reshape", ["data", "s"], ["v"]),
        ],
        {"axes": np.array([0]), "rest": np.array([3, -1]), "data": np.ones((3, 7), np.float32)},
        [],
    ),
    sized(
        "OneHot",
        [helper.make_node("OneHot", ["ids", "x", "values"], ["v"])],
        {"ids": np.array([0, 0]), "values": np.array([0, 1])},
        [],
    ),
    pytest.param(sequence_mask(), id="lengths"),
]


@pytest.mark.parametrize("model", SIZED)
def test_sizes_and_lengths_are_small_and_more_than_0(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = write(tmp_path, "sized", model)
    drawn = np.concatenate([draw(path, "x", seed).ravel() for seed in range(12)])
    assert drawn.min() >= 1
    assert drawn.max() < 9
    assert gs.run(path, seed=0).outputs["y"].all() or model.graph.output[0].type.tensor_type.elem_type == BOOL


def test_a_loop_makes_a_few_trips(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, dtype, []) for name, dtype in (("i", INT), ("on", BOOL), ("v", INT))]
    results = [helper.make_tensor_value_info(name, dtype, []) for name, dtype in (("go", BOOL), ("w", INT))]
    steps = [helper.make_node("Identity", ["on"], ["go"]), helper.make_node("Add", ["v", "i"], ["w"])]
    loop = helper.make_node("Loop", ["x", "", "zero"], ["y"], body=helper.make_graph(steps, "body", ends, results))
    path = write(tmp_path, "loop", build([loop], {"x": (INT, [])}, {"y": INT}, {"zero": np.int64(0)}))
    trips = {int(draw(path, "x", seed)) for seed in range(20)}
    assert trips <= set(range(1, 9))
    assert len(trips) > 3


def test_an_index_of_one_hot_is_below_its_depth(tmp_path: Path) -> None:
    constants = {"depth": np.int64(5), "values": np.array([0, 1])}
    model = build([helper.make_node("OneHot", ["x", "depth", "values"], ["y"])], {"x": (INT, [30])}, {"y": INT}, constants)
    assert set(draw(write(tmp_path, "hot", model), "x").tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("op", ["Less", "GreaterOrEqual"])
def test_numbers_on_both_sides_of_a_bound_are_drawn_in_turn(op: str, tmp_path: Path) -> None:
    path = write(tmp_path, "bound", build([helper.make_node(op, ["x", "c"], ["y"])], {"x": (INT, [])}, {"y": BOOL}, {"c": 7}))
    assert [int(draw(path, "x", seed)) for seed in range(4)] == [6, 7, 8, 6]
    report = gs.verify(path, against=path, rounds=3)
    assert report
