"""Faults that generated models found: MXNet's answers as literals, and what MXNet's rules refuse."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.kernel import KernelError
from graphshare.ops.onednn.convolution import per_unit
from graphshare.ops.registry import find_kernel, lookup
from tests.generate.more_cases import more_cases
from tests.oracle.probed import Refusal, backward, forward
from tests.symbols import document, operator, variable

ANSWERS: list[tuple[str, dict[str, str], bool, list[Any], list[Any]]] = [
    (
        "_contrib_BilinearResize2D",
        {"height": "2", "width": "3", "scale_width": "3.0"},
        False,
        [np.array([[[[0.0, 1.0], [2.0, 3.0]]]], "float32")],
        [np.array([[[[0.0, 0.5, 1.0], [2.0, 2.5, 3.0]]]], "float32")],
    ),
    (
        "_npi_insert_scalar",
        {"axis": "1"},
        False,
        [
            np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32"),
            np.array([[7.0], [7.0]], "float32"),
        ],
        [np.array([[7.0, 7.0, 0.0, 1.0, 2.0], [7.0, 7.0, 3.0, 4.0, 5.0]], "float32")],
    ),
    (
        "_npi_cholesky",
        {"lower": "False"},
        False,
        [np.array([[4.0, 2.0], [0.0, 5.0]], "float32")],
        [np.array([[2.0, 1.0], [0.0, 2.0]], "float32")],
    ),
    (
        "_linalg_sumlogdiag",
        {},
        True,
        [np.array([[1.0, 5.0], [5.0, 1.0]], "float32")],
        [np.array([0.0], "float32")],
    ),
    (
        "repeat",
        {"repeats": "0", "axis": "0"},
        True,
        [np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32")],
        [np.array([], "float32")],
    ),
    (
        "_contrib_hawkesll",
        {},
        False,
        [
            np.array([[1.0, 0.5]], "float32"),
            np.array([0.20000000298023224, 0.30000001192092896], "float32"),
            np.array([1.0, 2.0], "float32"),
            np.array([[0.0, 0.0]], "float32"),
            np.array([[1.0, 0.5, 1.0]], "float32"),
            np.array([[0, 1, 1]], "int32"),
            np.array([1.5], "float32"),
            np.array([3.0], "float32"),
        ],
        [np.array([-5.651144], "float32"), np.array([[0.135335, 0.049787]], "float32")],
    ),
    (
        "_contrib_quantized_concat",
        {"num_args": "2", "dim": "0"},
        False,
        [
            np.array([1, 2], "int8"),
            np.array([3], "int8"),
            np.array([1.0], "float32"),
            np.array([2.0], "float32"),
            np.array([1.0], "float32"),
            np.array([4.0], "float32"),
        ],
        [np.array([0, 1, 3], "int8"), np.array([0.0], "float32"), np.array([4.0], "float32")],
    ),
    (
        "_contrib_quantized_concat",
        {"num_args": "2", "dim": "0"},
        False,
        [
            np.array([1, 2], "uint8"),
            np.array([3], "uint8"),
            np.array([0.0], "float32"),
            np.array([0.0], "float32"),
            np.array([0.0], "float32"),
            np.array([0.0], "float32"),
        ],
        [np.array([1, 2, 3], "uint8"), np.array([0.0], "float32"), np.array([0.0], "float32")],
    ),
    (
        "_contrib_quantized_pooling",
        {"kernel": "(2, 2)", "pool_type": "max", "pooling_convention": "same"},
        False,
        [
            np.array([[[[1, 2, 3], [4, 5, 6]]]], "int8"),
            np.array([-1.0], "float32"),
            np.array([1.0], "float32"),
        ],
        [np.array([[[[5, 6]]]], "int8"), np.array([-1.0], "float32"), np.array([1.0], "float32")],
    ),
    (
        "ROIPooling",
        {"pooled_size": "(1, 1)", "spatial_scale": "1.0"},
        False,
        [
            np.array([[[[1.0, 2.0], [3.0, 4.0]]]], "float32"),
            np.array([[-0.5, 0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 1.0]], "float32"),
        ],
        [np.array([[[[2.0]]], [[[0.0]]]], "float32")],
    ),
    (
        "_npi_insert_scalar",
        {"axis": "0", "int_ind": "None"},
        False,
        [
            np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32"),
            np.array([[7.0, 8.0, 9.0]], "float32"),
        ],
        [np.array([[7.0, 8.0, 9.0], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32")],
    ),
    # in a range of 0 a number becomes infinite, and 0 NaN, which oneDNN makes the upper limit of
    # int8 and the lower of uint8
    *(
        (
            "_contrib_requantize",
            {"out_type": dtype, "min_calib_range": "0.0", "max_calib_range": "0.0"},
            False,
            [
                np.array([5, 0, -5], "int32"),
                np.array([-1.0], "float32"),
                np.array([1.0], "float32"),
            ],
            [np.array(values, dtype)],
        )
        for dtype, values in (("int8", [127, 127, -128]), ("uint8", [255, 0, 0]))
    ),
    *(
        (
            op,
            {"out_type": dtype},
            False,
            [np.zeros(2, np.float32), *ends],
            [np.array(values, dtype)],
        )
        for op, ends in (
            ("_contrib_quantize", [np.zeros(1, np.float32)] * 2),
            ("_contrib_quantize_v2", []),
        )
        for dtype, values in (("int8", [127, 127]), ("uint8", [0, 0]))
    ),
    (
        "_contrib_quantized_elemwise_mul",
        {"min_calib_range": "-1.0", "max_calib_range": "2.5"},
        False,
        [
            np.array([63], "int8"),
            np.array([50], "int8"),
            *(np.array([end], "float32") for end in (170.0, 1.5, 170.0, 0.5)),
        ],
        [np.array([-96], "int8"), np.array([-1.0], "float32"), np.array([2.5], "float32")],
    ),
    (
        "_contrib_MultiBoxDetection",
        {"nms_threshold": "-1", "threshold": "-1.5"},
        False,
        [
            np.array([[[0.0, 0.0], [-1.0, 0.5]]], "float32"),
            np.zeros((1, 8), np.float32),
            np.array([[[0.0, 0.0, 1.0, 1.0], [0.25, 0.25, 0.5, 0.5]]], "float32"),
        ],
        [np.array([[[0.0, 0.5, 0.25, 0.25, 0.5, 0.5], [-1.0] * 6]], "float32")],
    ),
    (
        "softmax",
        {"use_length": "True", "axis": "0", "temperature": "0.0"},
        False,
        [np.ones((2, 1), "float32"), np.array([1], "int32")],
        [np.array([[np.nan], [0]], "float32")],
    ),
    (
        "_contrib_ROIAlign",
        {"pooled_size": "(1, 2)", "spatial_scale": "0.5", "sample_ratio": "2"},
        False,
        [np.ones((1, 1, 4, 5), "float32"), np.array([[0, 16.5, 20.25, 88, 70.4]], "float32")],
        [np.zeros((1, 1, 1, 2), "float32")],
    ),
    (
        "_contrib_quantized_fully_connected",
        {"num_hidden": "2"},
        False,
        [
            np.zeros((1, 2), "int8"),
            np.zeros((2, 2), "int8"),
            np.array([-76, 106], "int8"),
            *(np.array([end], "float32") for end in (-1, 2, -0.5, 1.9, -3, 2)),
        ],
        [np.array([[-7649, 10669]], "int32")],
    ),
    (
        "_contrib_quantize_v2",
        {"out_type": "uint8"},
        False,
        [np.array([-3, 100], "int8")],
        [
            np.array([253, 100], "uint8"),
            np.array([-127.5], "float32"),
            np.array([127.5], "float32"),
        ],
    ),
    ("_npx_sigmoid", {}, False, [np.array([0, 1, 200], "uint8")], [np.array([0, 0, 1], "uint8")]),
    ("_npi_tanh", {}, False, [np.array([0, 1, 30], "int32")], [np.array([0, 0, 1], "int32")]),
    (
        "_npi_percentile",
        {"q_scalar": "30", "interpolation": "nearest"},
        False,
        [np.arange(36, dtype="float32")],
        [np.array(11, "float32")],
    ),
    *(
        (
            "_npi_percentile",
            {"q_scalar": q, "interpolation": how},
            False,
            [np.array(x, "float32")],
            [np.array(y, "float32")],
        )
        for how, q, x, y in (
            ("nearest", "50", [3, 7], 7),  # halves up, where numpy takes the even place
            ("nearest", "49", [3, 7], 3),
            ("lower", "99", [3, 7], 3),
            ("higher", "1", [3, 7], 7),
            ("nearest", "50", [3], 3),
            ("lower", "0", [3, 7], 3),
            ("lower", "100", [3, 7], 7),
            ("linear", "50", [3, 7], 5),
            ("midpoint", "10", [3, 7], 5),
        )
    ),
    (
        "_contrib_box_iou",
        {"format": "center"},
        False,
        [
            np.array([[2, 2, 2, 2]], "float32"),
            np.array([[3, 2, 2, 4], [2, 2, 2, 2], [9, 9, 1, 1]], "float32"),
        ],
        [np.array([[0.2, 1, 0]], "float32")],
    ),
    (
        "_contrib_box_nms",
        {"in_format": "center", "out_format": "corner", "coord_start": "1", "score_index": "0"},
        False,
        [np.array([[0.5, 2, 2, 2, 2], [0.75, 3, 2, 2, 4]], "float32")],
        [np.array([[0.75, 2, 0, 4, 4], [0.5, 1, 1, 3, 3]], "float32")],
    ),
    (
        "_contrib_box_nms",
        {"in_format": "corner", "out_format": "center", "coord_start": "1", "score_index": "0"},
        False,
        [np.array([[0.5, 1, 1, 3, 3], [0.75, 2, 0, 4, 5]], "float32")],
        [np.array([[0.75, 3, 2.5, 2, 5], [0.5, 2, 2, 2, 2]], "float32")],
    ),
    (
        "_contrib_box_decode",
        {"format": "corner"},
        False,
        [np.array([[[0.5, 0.5, 0, 0]]], "float32"), np.array([[[0, 1, 4, 3]]], "float32")],
        [np.array([[[2, 2, 6, 4]]], "float32")],
    ),
    (
        "_npi_percentile",
        {"q_scalar": "25"},
        False,
        [np.array([1, 2], "float64")],
        [np.array(1.25, "float64")],
    ),
    (
        "_npi_logspace",
        {"start": "nan", "stop": "2", "num": "2", "base": "2"},
        False,
        [],
        [np.array([np.nan, np.nan], "float32")],
    ),
    ("_linspace", {"start": "2", "stop": "inf", "num": "1"}, False, [], [np.array([2], "float32")]),
]

X = np.ones((2, 3, 4, 5), np.float32)
CUBE = X[0]
ROWS = X[0, 0]
VECTOR = ROWS[0]
BOXES = np.ones((1, 3, 6), np.float32)
REFUSALS: list[tuple[str, dict[str, str], list[Any]]] = [
    ("_npi_rot90", {"k": "1"}, [CUBE]),
    ("_npi_rot90", {"k": "1", "axes": "()"}, [CUBE]),
    ("_np_transpose", {"axes": "()"}, [CUBE]),
    ("_np_roll", {"shift": "(1, 2)"}, [CUBE]),
    ("_np_roll", {"shift": "(2,)", "axis": "(0, -3)"}, [CUBE]),
    ("_np_diag", {"k": "0"}, [CUBE]),
    ("_np_reshape", {"newshape": "(-2, -1)"}, [CUBE]),
    ("_npi_broadcast_to", {"shape": "(2, -1, 4)"}, [ROWS]),
    ("_npi_pinv_scalar_rcond", {}, [np.ones((2, 2), np.int8)]),
    ("_npi_arange", {"start": "0", "stop": "3", "repeat": "3"}, []),
    ("_npi_blackman", {}, []),
    ("_npi_identity", {"shape": "()"}, []),
    ("_contrib_arange_like", {"repeat": "-1"}, [ROWS]),
    ("_contrib_box_iou", {}, [np.ones(4, np.float32), np.ones((1, 4), np.float32)]),
    ("_contrib_box_nms", {"id_index": "2"}, [BOXES]),
    ("_contrib_box_nms", {"coord_start": "-2"}, [BOXES]),
    ("_contrib_box_nms", {"id_index": "0"}, [BOXES[..., :5]]),
    ("_contrib_BilinearResize2D", {"scale_height": "2.0"}, [X]),
    (
        "_contrib_quantized_pooling",
        {"global_pool": "True"},
        [X.astype(np.int8), -VECTOR[:1], VECTOR[:1]],
    ),
    ("_image_crop", {"x": "0", "y": "0", "width": "1", "height": "1"}, [X]),
    ("_split_v2", {"indices": "(1,)", "axis": "1"}, [CUBE]),
    ("squeeze", {"axis": "(0, -4)"}, [X[:1]]),
    ("broadcast_axis", {"axis": "(0, 0)", "size": "(2, 4)"}, [X[:1]]),
    ("hard_sigmoid", {}, [ROWS.astype(np.int32)]),
    ("dot", {"transpose_b": "True"}, [VECTOR, VECTOR]),
    ("LRN", {"nsize": "5"}, [CUBE]),
    ("BatchNorm_v1", {}, [CUBE, *[ROWS[0, :4]] * 4]),
    ("IdentityAttachKLSparseReg", {}, [VECTOR, VECTOR]),
    ("Pooling", {"kernel": "(2, 2)", "layout": "NCDHW", "pool_type": "max"}, [X]),
    ("Pooling", {"kernel": "(2, 2)", "pooling_convention": "same", "pool_type": "max"}, [X]),
    ("Pooling_v1", {"kernel": "(2, 2)", "pool_type": "sum"}, [X.astype(np.int32)]),
    (
        "UpSampling",
        {"scale": "2", "sample_type": "bilinear", "num_filter": "1", "num_args": "2"},
        [X, X[:1, :1, :4, :4]],
    ),
    (
        "RNN",
        {"mode": "rnn_relu", "state_size": "4", "num_layers": "1", "projection_size": "1"},
        [CUBE, VECTOR, CUBE],
    ),
    (
        "_npi_tensordot",
        {"a_axes_summed": "(1, 2)", "b_axes_summed": "(-2, 0)"},
        [CUBE[:, :, :2], CUBE[:, :2]],
    ),
    ("_npi_average", {"axis": "(1,)"}, [ROWS, np.ones(1, np.float32)]),
    ("_npi_average", {"axis": "()"}, [ROWS, np.ones(1, np.float32)]),
    ("_npi_solve", {}, [np.eye(3, dtype=np.float32)[None], np.ones((2, 3), np.float32)]),
    ("_npi_norm", {"flag": "-2", "axis": "(4,)"}, [CUBE]),
    ("_arange", {"start": "0", "stop": "3", "repeat": "0"}, []),
    ("_linalg_trsm", {}, [VECTOR, VECTOR]),
    (
        "_contrib_DeformableConvolution",
        {"kernel": "(1, 1)", "num_filter": "4", "num_deformable_group": "3", "no_bias": "True"},
        [X[:, :3], np.zeros((2, 6, 4, 5), np.float32), np.ones((4, 3, 1, 1), np.float32)],
    ),
    (
        "CTCLoss",
        {"use_data_lengths": "True"},
        [CUBE, np.ones((4, 1), np.float32), np.full(4, 9, np.float32)],
    ),
    (
        "CTCLoss",
        {"use_label_lengths": "True"},
        [CUBE, np.ones((4, 1), np.float32), np.full(4, 2, np.float32)],
    ),
    ("SoftmaxOutput", {"multi_output": "True"}, [VECTOR, VECTOR]),
    ("scatter_nd", {"shape": "(3, 4)"}, [np.arange(4, dtype=np.float32), np.zeros(1, np.float32)]),
    ("_npi_norm", {"flag": "-2", "axis": "(0, -3)"}, [CUBE]),
    ("_npi_percentile", {"q_scalar": "-1.5", "interpolation": "nearest"}, [ROWS]),
    ("_npi_percentile", {"q_scalar": "-0.5", "interpolation": "higher"}, [ROWS]),
    ("_npi_percentile", {"q_scalar": "100.5", "interpolation": "lower"}, [ROWS]),
    ("take", {"mode": "raise"}, [ROWS, np.full(1, -0.5, np.float32)]),
    (
        "_npi_tensorsolve",
        {"a_axes": "(1, 1, 2)"},
        [np.ones((2, 6, 3), np.float32), np.ones((3, 6), np.float32)],
    ),
    (
        "_contrib_ROIAlign",
        {"pooled_size": "(2, 3)", "spatial_scale": "0.0", "aligned": "True", "sample_ratio": "3"},
        [X, np.array([[0, 0, 0, 3, 3]], np.float32)],
    ),
    (
        "_contrib_MultiBoxTarget",
        {},
        [
            np.array([[[0, 0, 1, 1]]], np.float32),
            np.array([[[1, 0, 0, 1, 1], [-1, -1, -1, -1, 0]]], np.float32),
            np.ones((1, 2, 1), np.float32),
        ],
    ),
]


def _case(
    op: str, attrs: dict[str, str], arrays: list[Any], *, np_shape: bool = False
) -> dict[str, Any]:
    return {"op": op, "attrs": attrs, "family": "", "np_shape": np_shape, "count": len(arrays)}


@pytest.mark.parametrize(("op", "attrs", "np_shape", "arrays", "expected"), ANSWERS)
def test_the_answer_is_that_of_mxnet(
    op: str, attrs: dict[str, str], np_shape: bool, arrays: list[Any], expected: list[Any]
) -> None:
    outputs = forward(_case(op, attrs, arrays, np_shape=np_shape), arrays)
    assert [(y.shape, y.dtype) for y in outputs[: len(expected)]] == [
        (y.shape, y.dtype) for y in expected
    ]
    for got, want in zip(outputs, expected, strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("op", "attrs", "arrays"), REFUSALS)
def test_what_mxnet_refuses_is_refused(op: str, attrs: dict[str, str], arrays: list[Any]) -> None:
    with pytest.raises(Refusal):
        forward(_case(op, attrs, arrays), arrays)


@pytest.mark.parametrize(
    ("op", "attrs", "arrays"),
    [
        ("diag", {"k": "-2"}, [np.zeros((0, 0), np.float32)]),
        ("diag", {"k": "1"}, [np.zeros((4, 0), np.float32)]),
        ("_npi_pinv", {}, [np.zeros((2, 0, 4), np.float32), np.ones(3, np.float32)]),
        ("_npi_pinv", {}, [np.zeros((0, 3), np.float32), np.ones(2, np.float32)]),
    ],
)
def test_what_mxnet_refuses_without_elements_is_refused(
    op: str, attrs: dict[str, str], arrays: list[Any]
) -> None:
    with pytest.raises(Refusal):
        forward(_case(op, attrs, arrays, np_shape=True), arrays)


@pytest.mark.parametrize(
    ("op", "attrs", "arrays"),
    [
        (
            "FullyConnected",
            {"num_hidden": "4", "no_bias": "True"},
            [np.ones((0, 3), np.float32), np.ones((4, 3), np.float32)],
        ),
        (
            "FullyConnected",
            {"num_hidden": "4", "flatten": "False", "no_bias": "True"},
            [np.ones((3, 0, 5), np.float32), np.ones((4, 5), np.float32)],
        ),
        ("LeakyReLU", {"act_type": "prelu"}, [np.ones(0, np.float32), np.ones(0, np.float32)]),
        ("LeakyReLU", {"act_type": "prelu"}, [np.ones((2, 0), np.float32), np.ones(0, np.float32)]),
    ],
)
def test_arrays_without_elements_have_gradients_of_zeros(
    op: str, attrs: dict[str, str], arrays: list[Any]
) -> None:
    found = backward(_case(op, attrs, arrays, np_shape=True), arrays, 0)
    assert [found[i].shape for i in range(len(arrays))] == [x.shape for x in arrays]
    assert not any(found[i].any() for i in range(len(arrays)))


def test_a_singular_matrix_adds_nothing_to_the_gradient_of_determinants() -> None:
    a = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]])
    for op in ("_linalg_det", "_linalg_slogdet"):
        gradient = backward(_case(op, {}, [a]), [a], 0)[0]
        assert not gradient[0].any()
        assert gradient[1].all()


def test_a_penalty_acts_behind_an_operator_without_a_gradient() -> None:
    nodes = [
        variable("x"),
        variable("mean"),
        operator("IdentityAttachKLSparseReg", "sparse", [0, 1], attrs={"penalty": "3.0"}),
        operator("argmax", "best", [2]),
    ]
    graph = read_symbol(json.dumps(document(nodes, [3], row_ptr=False)).encode())
    x, mean = graph.variables()
    values = {x: np.full((2, 3), 0.5, np.float32), mean: np.full(3, 0.5, np.float32)}
    tape = Tape(make_plan(graph.heads), values, [x], streams=lambda node: np.random.default_rng(0))
    gradient = tape.backward([np.ones(2, np.float32)]).gradients[x]
    np.testing.assert_allclose(gradient, np.full((2, 3), 3 * (-0.1 / 0.5 + 0.9 / 0.5)), rtol=1e-5)


@pytest.mark.parametrize(("shape", "rows"), [((2,), 1), ((2, 3), 2), ((2, 3, 4), 6)])
def test_a_loss_is_divided_by_the_rows_along_its_last_axis(
    shape: tuple[int, ...], rows: int
) -> None:
    x = np.ones(shape, np.float32)
    gradient = backward(_case("MakeLoss", {"normalization": "batch"}, [x]), [x], 0)[0]
    np.testing.assert_allclose(gradient, np.full(shape, 1 / rows), rtol=1e-6)


def test_the_classes_of_svm_output_are_on_the_last_axis() -> None:
    data, label = np.full((2, 3, 2), 0.5, np.float32), np.zeros((2, 3), np.float32)
    label[1, 2] = 1
    gradient = backward(
        _case("SVMOutput", {"use_linear": "True"}, [data, label]), [data, label], 0
    )[0]
    assert gradient[0, 0].tolist() == [-1, 1]
    assert gradient[1, 2].tolist() == [1, -1]


def test_the_slope_at_a_kink_is_that_of_mxnet() -> None:
    x = np.ones((2, 3), np.float32)
    assert (backward(_case("MAERegressionOutput", {}, [x, x]), [x, x], 0)[0] < 0).all()
    image = np.ones((1, 1, 1, 1), np.float32)
    attrs = {"kernel_size": "1", "max_displacement": "0", "pad_size": "0", "is_multiply": "False"}
    both = backward(_case("Correlation", attrs, [image, image]), [image, image], 0)
    assert both[0] == -both[1] != 0


def test_a_quantized_convolution_with_the_channels_last_is_refused() -> None:
    attrs = {"kernel": "(3, 3)", "num_filter": "4", "layout": "NHWC", "no_bias": "True"}
    ends = [np.zeros(1, "float32"), np.ones(1, "float32")] * 2
    arrays = [np.ones((1, 6, 7, 4), "uint8"), np.ones((4, 3, 3, 4), "int8"), *ends]
    with pytest.raises(Refusal, match="layout NHWC is not supported for integers"):
        forward(_case("_contrib_quantized_conv", attrs, arrays), arrays)


def test_fused_integer_layers_refuse_other_dtypes() -> None:
    with pytest.raises(KernelError, match="bool is not supported, expected int8 or uint8"):
        per_unit("bool", np.zeros(1), np.ones(1))


def test_a_gradient_goes_past_fused_integers() -> None:
    nodes = [variable("x"), operator("_npi_multiply_scalar", "twice", [0], attrs={"scalar": "2"})]
    case, arrays = next(
        (c, a) for c, a in more_cases()["_sg_mkldnn_conv"] if c["attrs"].get("quantized") == "true"
    )
    for number, _ in enumerate(arrays):
        nodes.append(variable(f"v{number}"))
    inputs = range(2, 2 + len(arrays))
    nodes.append(
        operator(case["op"], "conv", inputs, attrs=case["attrs"], subgraphs=case["subgraphs"])
    )
    graph = read_symbol(json.dumps(document(nodes, [1, len(nodes) - 1], row_ptr=False)).encode())
    x, *others = graph.variables()
    values = {x: np.ones(3, np.float32), **dict(zip(others, arrays, strict=True))}
    tape = Tape(make_plan(graph.heads), values, [x], streams=lambda node: np.random.default_rng(0))
    assert tape.backward([np.ones(3, np.float32), None]).gradients[x].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("op", "attrs", "known", "outputs", "inputs"),
    [
        ("_npi_eigvals", {}, [None], [(2, 3)], [(2, 3, 3)]),
        ("_npi_eigh", {"UPLO": "L"}, [None], [None, (3, 3)], [(3, 3)]),
        (
            "_rnn_param_concat",
            {"num_args": "3", "dim": "0"},
            [(4,), (None,), (None,)],
            [(10,)],
            [(4,), (3,), (3,)],
        ),
        ("SequenceReverse", {"use_sequence_length": "True"}, [None, None], [None], [None, (None,)]),
        ("_np_cumsum", {"axis": "0"}, [None], [(2, 3)], [(2, 3)]),
        ("_random_pdf_poisson", {}, [None, None], [(2,)], [(2,), None]),
    ],
)
def test_inputs_follow_from_outputs(
    op: str, attrs: dict[str, str], known: list[Any], outputs: list[Any], inputs: list[Any]
) -> None:
    kernel, signature = find_kernel(op), lookup(op)
    assert kernel is not None
    assert signature is not None
    assert kernel.shapes(signature.parse(attrs)[0], known, outputs)[0] == inputs


def test_padding_with_an_extreme_passes_over_nan_unless_it_comes_first() -> None:
    x = np.array([[np.nan, 1, 2], [3, np.nan, 5], [0, 7, 8]], "float32")
    case = {
        "op": "_npi_pad",
        "attrs": {"pad_width": "((1, 0), (0, 1))"},
        "np_shape": True,
        "count": 1,
    }
    for mode, above, beside in (
        ("minimum", [np.nan, 1, 2], [np.nan, np.nan, 3, 0]),
        ("maximum", [np.nan, 7, 8], [np.nan, np.nan, 5, 8]),
    ):
        (padded,) = forward({**case, "attrs": {**case["attrs"], "mode": mode}}, [x])  # type: ignore[dict-item]
        np.testing.assert_array_equal(padded, np.column_stack([np.vstack([above, x]), beside]))
