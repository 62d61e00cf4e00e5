"""Under NumPy shapes 0 is a size and () a shape; without them both stand for what is unknown."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.inference import infer
from tests.oracle.probed import Refusal, forward
from tests.symbols import document, operator, variable


def compute(op: str, attrs: dict[str, str], *inputs: Any, np_shape: bool) -> list[Any]:
    """Return the outputs of one operator."""
    arrays = [np.asarray(x, "float32") for x in inputs]
    return forward({"op": op, "attrs": attrs, "np_shape": np_shape, "count": len(arrays)}, arrays)


@pytest.mark.parametrize("op", ["_npi_zeros", "_npi_ones", "_full", "_npi_full", "_zeros", "_ones"])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (), (2,)])
def test_arrays_are_created_of_any_size(op: str, shape: tuple[int, ...]) -> None:
    attrs = {"shape": str(shape)} | ({"value": "1.5"} if "full" in op else {})
    (array,) = compute(op, attrs, np_shape=True)
    assert array.shape == shape
    if 0 in shape or not shape:
        with pytest.raises(Refusal, match="not fully known"):
            compute(op, attrs, np_shape=False)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 2)])
def test_an_identity_may_be_empty(shape: tuple[int, int]) -> None:
    (array,) = compute("_npi_identity", {"shape": str(shape)}, np_shape=True)
    assert np.array_equal(array, np.eye(*shape, dtype="float32"))


@pytest.mark.parametrize(("start", "stop"), [("0", "0"), ("3", "1"), ("0", "None")])
def test_a_range_may_be_empty(start: str, stop: str) -> None:
    (array,) = compute("_npi_arange", {"start": start, "stop": stop}, np_shape=True)
    assert array.shape == (0,)
    for op, np_shape in (("_npi_arange", False), ("_arange", True)):
        with pytest.raises(Refusal, match="is empty"):
            compute(op, {"start": start, "stop": stop}, np_shape=np_shape)


@pytest.mark.parametrize("op", ["_npi_det", "_linalg_det", "_npi_slogdet", "_linalg_slogdet"])
def test_a_determinant_of_one_matrix_has_no_axis(op: str) -> None:
    matrix = [[2.0, 1.0], [0.0, 3.0]]
    assert all(y.shape == () for y in compute(op, {}, matrix, np_shape=True))
    assert all(y.shape == (1,) for y in compute(op, {}, matrix, np_shape=False))
    assert all(y.shape == (0,) for y in compute(op, {}, np.zeros((0, 2, 2)), np_shape=True))


def test_axes_of_a_tensor_equation_may_be_none() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 3, 6)), np.ones((2, 3))
    first, second = (
        compute("_npi_tensorsolve", attrs, a, b, np_shape=True)[0]
        for attrs in ({"a_axes": "None"}, {})
    )
    assert first.shape == (6,)
    assert np.array_equal(first, second)


def test_boxes_without_an_area_do_not_overlap() -> None:
    (overlap,) = compute("_contrib_box_iou", {}, np.zeros((2, 4)), np.zeros((3, 4)), np_shape=False)
    assert np.array_equal(overlap, np.zeros((2, 3), "float32"))


@pytest.mark.parametrize("first", ["-1", "0"])
def test_an_unknown_leading_size_is_as_large_as_the_indices_need(first: str) -> None:
    (places,) = compute("_unravel_index", {"shape": f"({first}, 3)"}, [3, 5, 100], np_shape=False)
    assert places.tolist() == [[1, 1, 33], [0, 2, 1]]


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "softmin"])
def test_a_wider_output_holds_numbers_of_the_dtype_of_the_input(op: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4)).astype("float16")
    (wide,) = forward({"op": op, "attrs": {"dtype": "float32"}, "np_shape": False, "count": 1}, [x])
    assert wide.dtype == "float32"
    assert np.array_equal(wide, wide.astype("float16").astype("float32"))


@pytest.mark.parametrize("no_bias", ["True", "False"])
def test_a_dense_layer_of_no_samples_is_empty_and_of_no_inputs_is_its_bias(no_bias: str) -> None:
    # With a bias oneDNN refuses arrays without elements; the empty result is what its other path gives.
    attrs = {"num_hidden": "4", "no_bias": no_bias}
    bias = [] if no_bias == "True" else [np.arange(4)]
    (empty,) = compute(
        "FullyConnected", attrs, np.zeros((0, 3)), np.ones((4, 3)), *bias, np_shape=True
    )
    assert empty.shape == (0, 4)
    (biases,) = compute(
        "FullyConnected", attrs, np.zeros((2, 0)), np.ones((4, 0)), *bias, np_shape=True
    )
    assert np.array_equal(biases, np.zeros((2, 4)) + (bias[0] if bias else 0))
    (empty,) = compute(
        "FullyConnected",
        {**attrs, "flatten": "False"},
        np.zeros((2, 0, 3)),
        np.ones((4, 3)),
        *bias,
        np_shape=True,
    )
    assert empty.shape == (2, 0, 4)


@pytest.mark.parametrize(("op", "value"), [("softmax", 1), ("log_softmax", 0)])
def test_softmax_of_one_number(op: str, value: float) -> None:
    (y,) = compute(op, {}, 5.0, np_shape=True)
    assert y.shape == ()
    assert y == value
    with pytest.raises(Refusal, match="axis"):
        compute(op, {"axis": "1"}, 5.0, np_shape=True)


def test_an_identity_needs_rows_and_columns() -> None:
    for shape in ("()", "(2,)"):
        with pytest.raises(Refusal, match="rows and columns"):
            compute("_npi_identity", {"shape": shape}, np_shape=True)


def loop(op: str, attrs: dict[str, str], *, np_shape: bool) -> Any:
    """A loop over three steps whose body joins an array that it creates to the state."""
    made = [variable("x"), variable("s"), operator(op, "made", [], attrs=attrs),
            operator("_npi_concatenate", "joined", [1, 2], attrs={"num_args": "2", "axis": "0"})]  # fmt: skip
    body = document(made, [(0, 0, 0), (3, 0, 0)], version=None)
    attrs = {"num_args": "3", "num_outputs": "2", "num_out_data": "1", "in_data_locs": "(0,)", "in_state_locs": "(1,)",
             "remain_locs": "()"}  # fmt: skip
    found = document([variable("xs"), variable("state"), operator("_foreach", "loop", [0, 1], attrs=attrs, subgraphs=[body])],
                     [(2, 0, 0), (2, 1, 0)], row_ptr=False)  # fmt: skip
    found["attrs"]["is_np_shape"] = ["int", int(np_shape)]
    return read_symbol(json.dumps(found).encode())


def test_subgraphs_have_the_shapes_of_their_graph() -> None:
    graph = loop("_npi_zeros", {"shape": "(0, 2)"}, np_shape=True)
    values = dict(
        zip(
            graph.variables(), (np.ones((3, 4), "float32"), np.ones((1, 2), "float32")), strict=True
        )
    )
    found = infer(graph, {n: x.shape for n, x in values.items()}, dict.fromkeys(values, "float32"))
    assert found.shapes[graph.nodes[-1]] == [(3, 4), (1, 2)]
    outputs = run_plan(make_plan(graph.heads), values, shapes=found.shapes).outputs
    assert [x.shape for x in outputs] == [(3, 4), (1, 2)]
    tape = Tape(make_plan(graph.heads), values, list(values), shapes=found.shapes)
    assert [x.shape for x in tape.outputs] == [(3, 4), (1, 2)]
    legacy = loop("_npi_zeros", {"shape": "(0, 2)"}, np_shape=False)
    again = dict(zip(legacy.variables(), values.values(), strict=True))
    unknown = infer(legacy, {n: x.shape for n, x in again.items()}, dict.fromkeys(again, "float32"))
    with pytest.raises(RefusedError, match="not fully known"):
        run_plan(make_plan(legacy.heads), again, shapes=unknown.shapes)


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "nansum", "nanprod", "max", "min", "norm"])
def test_a_scalar_keeps_the_axes_that_it_does_not_have(op: str) -> None:
    """As in MXNet, which gives (1,) to what keeps no axes; nodes after it are inferred from these shapes."""
    (kept,), (left_out,) = (
        compute(op, {"keepdims": keep}, 3.0, np_shape=True) for keep in ("True", "False")
    )
    assert (kept.shape, left_out.shape) == ((), (1,))
    assert kept == left_out == 3


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("_npi_hsplit", {"indices": "()", "sections": "2"}),
        ("_split_v2", {"indices": "(0, 1)", "axis": "0"}),
        ("SliceChannel", {"num_outputs": "2", "axis": "0"}),
    ],
)
def test_parts_of_the_only_axis_have_none(op: str, attrs: dict[str, str]) -> None:
    for np_shape, shape in ((True, ()), (False, (1,))):
        parts = compute(op, attrs | {"squeeze_axis": "True"}, [3.0, 4.0], np_shape=np_shape)
        assert [(part.shape, part.item()) for part in parts] == [(shape, 3.0), (shape, 4.0)]


@pytest.mark.parametrize(
    ("op", "known", "stacked"),
    [
        ("_npi_dstack", (2, 3, 2), (2, 3, None)),
        ("_npi_dstack", (2, 3), (2, 3, None)),
        ("_npi_hstack", (4,), (None,)),
        ("_npi_hstack", (2, 4), (2, None)),
        ("_npi_vstack", (4,), (None, 4)),
    ],
)
def test_a_stack_has_the_sizes_of_one_input_but_for_the_axis(
    op: str, known: tuple[int, ...], stacked: Any
) -> None:
    nodes = [variable("a"), variable("b"), operator(op, "y", [0, 1], attrs={"num_args": "2"})]
    graph = read_symbol(json.dumps(document(nodes, [2])).encode())
    assert infer(graph, {graph.nodes[0]: known}, {}).shapes[graph.nodes[2]] == [stacked]
    assert infer(graph, {graph.nodes[1]: known}, {}).shapes[graph.nodes[2]] == [stacked]
