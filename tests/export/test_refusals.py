"""Nodes that are refused because runtimes fail on what they would be, each with its reason."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import helper

from graphshare.errors import BugError, RefusedError
from graphshare.export_onnx import translate
from graphshare.export_onnx.opsets import FIRST, IR_VERSIONS
from graphshare.ops.translation import TAKES, TAKES_LATER, Translator
from graphshare.verification.onnx_checker import check_model
from tests.elementwise import Tolerance
from tests.export.judge import export_operator, run_onnx
from tests.export.kernel_judge import compare, refusal


def exported(op: str, attrs: dict[str, str], *inputs: np.ndarray, outputs: int = 1) -> bytes:
    """Return the model of an operator that is not refused."""
    model = export_operator(op, attrs, inputs, outputs)
    assert isinstance(model, bytes), model
    return model


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return zeros."""
    return np.zeros(shape, dtype)


def test_regions_that_runtimes_refuse() -> None:
    regions = zeros(3, 5)
    assert "spatial_scale is 0" in refusal(
        "ROIPooling", {"pooled_size": "(2, 2)", "spatial_scale": "0"}, zeros(1, 2, 4, 4), regions
    )
    attrs = {
        "spatial_scale": "1",
        "output_dim": "2",
        "group_size": "1",
        "pooled_size": "3",
        "trans_std": "0.2",
        "part_size": "2",
    }
    offsets = zeros(3, 4, 2, 2)
    pooling = "_contrib_DeformablePSROIPooling"
    assert "no elements" in refusal(
        pooling, {**attrs, "sample_per_part": "2"}, zeros(2, 2, 0, 10), regions, offsets
    )
    assert "sample_per_part is -3" in refusal(
        pooling, {**attrs, "sample_per_part": "-3"}, zeros(2, 2, 4, 4), regions, offsets
    )


def test_sequences_without_elements() -> None:
    none = zeros(2, 0)
    arrays = (none, zeros(0), zeros(0), none, none, zeros(2, 0, dtype="int32"), zeros(2), zeros(2))
    assert "no elements" in refusal("_contrib_hawkesll", {}, *arrays)


def test_one_class_axis_is_missing() -> None:
    assert "no axis 1 for multi_output" in refusal(
        "SoftmaxOutput", {"multi_output": "True"}, zeros(3), zeros(3)
    )


def test_booleans_have_no_places() -> None:
    attrs = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(1, 3)"}
    arrays = zeros(1, 2, 4, 5, dtype="bool"), zeros(1, 6, dtype="bool")
    assert "its data is bool" in refusal("SpatialTransformer", attrs, *arrays)


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "dtype"),
    [
        ("BilinearSampler", {}, [(1, 2, 4, 5), (1, 2, 3, 3)], "int64"),
        (
            "SpatialTransformer",
            {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(2, 3)"},
            [(1, 2, 4, 5), (1, 6)],
            "int8",
        ),
        (
            "_contrib_DeformableConvolution",
            {"kernel": "(1, 1)", "num_filter": "3", "no_bias": "True"},
            [(1, 2, 4, 5), (1, 2, 4, 5), (3, 2, 1, 1)],
            "int32",
        ),
        ("Pooling", {"kernel": "(2, 2)", "pool_type": "max"}, [(1, 2, 4, 5)], "int64"),
        ("Pooling_v1", {"kernel": "(2, 2)", "pool_type": "max"}, [(1, 2, 4, 5)], "int32"),
        ("Pooling_v1", {"kernel": "(2, 2)", "pool_type": "max"}, [(1, 2, 4, 5)], "int8"),
        ("Pooling", {"kernel": "(2, 2)", "pool_type": "avg"}, [(1, 2, 4, 5)], "int8"),
        ("sort", {}, [(2, 3)], "bool"),
        ("argsort", {}, [(2, 3)], "bool"),
        ("topk", {}, [(2, 3)], "bool"),
        ("_histogram", {"bin_cnt": "2", "range": "(0, 1)"}, [(5,)], "bool"),
        ("_contrib_quadratic", {}, [(2, 3)], "bool"),
        ("khatri_rao", {"num_args": "2"}, [(2, 3), (4, 3)], "bool"),
        ("col2im", {"kernel": "(1, 1)", "output_size": "(2, 2)"}, [(1, 3, 4)], "bool"),
    ],
)
def test_dtypes_that_onnx_does_not_have(
    op: str, attrs: dict[str, str], shapes: list[tuple[int, ...]], dtype: str
) -> None:
    assert f"its data is {dtype}" in refusal(
        op, attrs, *(zeros(*shape, dtype=dtype) for shape in shapes)
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("whole", ["True", "False"])
def test_the_maximum_of_bytes_is_pooled(dtype: str, whole: str) -> None:
    x = np.random.default_rng(1).integers(-100, 100, (1, 2, 6, 5)).astype(dtype)
    compare("Pooling", {"kernel": "(2, 2)", "pool_type": "max", "global_pool": whole}, x)


def test_a_response_over_no_channels() -> None:
    assert "its nsize is 0" in refusal("LRN", {"nsize": "0"}, zeros(1, 2, 2, 2))


def test_groups_without_elements() -> None:
    data = zeros(1, 4, 2, 0)
    outputs = export_operator(
        "GroupNorm", {"num_groups": "4", "output_mean_var": "True"}, (data, zeros(4), zeros(4)), 3
    )
    assert isinstance(outputs, RefusedError)
    assert "its data has no elements" in str(outputs)


def test_absolute_values_of_booleans() -> None:
    compare("_npi_absolute", {}, np.array([True, False]))


def test_a_convolution_with_negative_padding() -> None:
    stream = np.random.default_rng(0)
    data, weight = (
        stream.normal(size=shape).astype(np.float32) for shape in ((1, 2, 8, 8), (6, 1, 3, 3))
    )
    attrs = {
        "kernel": "(3, 3)",
        "stride": "(2, 2)",
        "pad": "(2, -1)",
        "num_filter": "6",
        "num_group": "2",
        "no_bias": "1",
    }
    compare("Convolution", attrs, data, weight, tolerance=Tolerance(1e-6, 1e-5))


def test_data_that_runtimes_have_no_kernel_for() -> None:
    convolution = {"kernel": "(1, 1)", "num_filter": "1", "no_bias": "True"}
    data, weight = zeros(1, 1, 2, 2, dtype="uint8"), zeros(1, 1, 1, 1, dtype="uint8")
    assert "its data is uint8" in refusal("Convolution", convolution, data, weight)
    grid = {"transform_type": "affine", "target_shape": "(3, 4)"}
    assert "its data is uint8" in refusal("GridGenerator", grid, zeros(2, 6, dtype="uint8"))


def test_images_without_elements() -> None:
    assert "no elements" in refusal("_contrib_AdaptiveAvgPooling2D", {}, zeros(2, 3, 0, 9))
    arrays = zeros(2, 0, 6, 7), zeros(2, 18, 4, 5), zeros(4, 0, 3, 3)
    attrs = {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True"}
    assert "no elements" in refusal("_contrib_DeformableConvolution", attrs, *arrays)


def test_the_norm_of_single_numbers() -> None:
    data = np.arange(-4, 4, dtype="float32")
    compare(
        "L2Normalization", {"mode": "instance", "eps": "3.0"}, data, tolerance=Tolerance(1e-7, 1e-6)
    )


def test_products_and_norms_of_nothing() -> None:
    assert "no elements" in refusal("_npi_matmul", {}, zeros(2, 0), zeros(0))
    attrs = {"axis": "0", "output_mean_var": "True"}
    outputs = export_operator("LayerNorm", attrs, (zeros(0, 3), zeros(0), zeros(0)), 3)
    assert isinstance(outputs, RefusedError)
    assert "its data has no elements" in str(outputs)


def test_attributes_of_which_only_rounding_would_be_left() -> None:
    assert "its temperature is -0.5" in refusal("softmax", {"temperature": "-0.5"}, zeros(2, 3))
    ranges = np.array([-1.0], "float32"), np.array([1.0], "float32")
    arrays = zeros(1, 2, 2, 2, dtype="int8"), *(zeros(2) for _ in range(4)), *ranges
    attrs = {"min_calib_range": "-1", "max_calib_range": "1", "eps": "-1.5"}
    assert "its eps is -1.5" in refusal("_contrib_quantized_batch_norm", attrs, *arrays)


def test_the_least_of_booleans() -> None:
    a, b = np.array([True, True, False]), np.array([True, False, False])
    compare("broadcast_minimum", {}, a, b)
    compare("broadcast_maximum", {}, a, b)


def test_integers_where_onnx_has_floats() -> None:
    whole = zeros(2, 3, 4, 5, dtype="int32")
    vector = zeros(3, dtype="int32")
    assert "its data is int32" in refusal("L2Normalization", {}, whole)
    assert "expected floating point" in refusal("SoftmaxActivation", {}, whole)
    assert "its data is int32" in refusal("InstanceNorm", {}, whole, vector, vector)
    assert "its data is int32" in refusal("BatchNorm", {}, whole, vector, vector, vector, vector)
    attrs = {"pooled_size": "(2, 2)", "spatial_scale": "1.0"}
    assert "its data is bool" in refusal(
        "_contrib_ROIAlign", attrs, whole.astype(bool), zeros(4, 5, dtype="bool")
    )


def test_a_negative_eps() -> None:
    assert "its eps is -1.5" in refusal(
        "InstanceNorm", {"eps": "-1.5"}, zeros(1, 2, 3), zeros(2), zeros(2)
    )


def test_what_the_checker_says_of_a_dtype_is_a_refusal_of_its_node() -> None:
    def model(op_type: str, dtype: int, shape: tuple[int, ...]) -> bytes:
        node = helper.make_node(op_type, ["x"], ["y"], name="layer/norm/Sqrt")
        values = [
            helper.make_tensor_value_info("x", dtype, (2,)),
            helper.make_tensor_value_info("y", dtype, shape),
        ]
        graph = helper.make_graph([node], "test", values[:1], values[1:])
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()

    check_model(model("Sqrt", onnx.TensorProto.FLOAT, (2,)), {"layer/norm"})
    with pytest.raises(RefusedError, match="it cannot be exported with these dtypes") as refused:
        check_model(model("Sqrt", onnx.TensorProto.INT64, (2,)), {"layer", "layer/norm"})
    assert [fault.node for fault in refused.value.faults] == ["layer/norm"]
    with pytest.raises(BugError, match="ONNX's checker refuses the model"):
        check_model(model("Sqrt", onnx.TensorProto.FLOAT, (3, 2)), {"layer/norm"})


def test_sums_of_single_integers_keep_their_axes() -> None:
    one, ends = np.array(3, np.int8), [np.ones(1, np.float32)] * 4
    compare("_contrib_quantized_elemwise_add", {}, one, np.array(4, np.int8), *ends, count=1)


def test_a_threshold_below_every_score() -> None:
    scores = np.array([[[0.1, 0.2], [-1.2, 0.5], [-1.3, 0.4]]], np.float32)
    anchors = np.array([[[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]]], np.float32)
    compare("_contrib_MultiBoxDetection", {"threshold": "-1.5"}, scores, zeros(1, 8), anchors)


def test_activations_of_booleans() -> None:
    for op in ("sigmoid", "tanh"):
        compare(op, {}, np.array([True, False]))


def test_integers_that_are_quantized_already() -> None:
    compare("_contrib_quantize_v2", {"out_type": "int8"}, np.array([-3, 100], np.int8), count=3)
    assert "its data is int8 and its result uint8" in refusal(
        "_contrib_quantize_v2", {"out_type": "uint8"}, np.ones(2, np.int8)
    )


def test_the_mean_of_no_booleans_is_true() -> None:
    compare("mean", {"keepdims": "True"}, np.zeros((0, 2), bool))


def test_polynomials_of_booleans() -> None:
    for coefficients in ([True, False], [False, True], [False, False]):
        compare("_npi_polyval", {}, np.array(coefficients), np.array([True, False]))


def test_a_deformable_convolution_of_booleans() -> None:
    data, offset, mask, weight = (
        zeros(*shape, dtype="bool")
        for shape in ((1, 2, 3, 3), (1, 2, 3, 3), (1, 1, 3, 3), (2, 2, 1, 1))
    )
    attrs = {"kernel": "(1, 1)", "num_filter": "2", "no_bias": "1"}
    assert "its data is bool" in refusal(
        "_contrib_ModulatedDeformableConvolution", attrs, data, offset, mask, weight
    )
    assert "its data is bool" in refusal(
        "_contrib_DeformableConvolution", attrs, data, offset, weight
    )


def test_more_inputs_than_the_operator_has() -> None:
    assert "_npi_arcsinh has 2 inputs, expected 1 (x)" in refusal(
        "_npi_arcsinh", {}, zeros(2), zeros(2)
    )
    assert "_hypot has 1 input, expected 2 (lhs, rhs)" in refusal("_hypot", {}, zeros(2))


@pytest.mark.parametrize(
    ("op", "attrs", "dtype", "inputs"),
    [
        ("clip", {"a_min": "0", "a_max": "1"}, "bool", 1),
        ("_contrib_dequantize", {}, "float16", 1),
        ("_contrib_quantized_concat", {"num_args": "2", "dim": "1"}, "float16", 2),
        ("_contrib_quantized_elemwise_add", {}, "float16", 2),
    ],
)
def test_dtypes_that_the_kernel_refuses(
    op: str, attrs: dict[str, str], dtype: str, inputs: int
) -> None:
    data = [zeros(2, 3, dtype=dtype)] * inputs
    ranges = [zeros(1)] * (0 if op == "clip" else 2 * inputs)
    assert f"{dtype} is not supported, expected" in refusal(op, attrs, *data, *ranges)


def test_integers_in_a_process_of_events() -> None:
    inputs = (
        zeros(1, 2),
        zeros(2),
        zeros(2),
        zeros(1, 2),
        zeros(1, 3),
        zeros(1, 3),
        zeros(1),
        zeros(1),
    )
    assert "dtypes int64, expected one floating-point dtype" in refusal(
        "_contrib_hawkesll",
        {},
        *(x.astype("int32" if i == 5 else "int64") for i, x in enumerate(inputs)),
    )
    assert "dtypes float32, int64, expected one floating-point dtype" in refusal(
        "_contrib_hawkesll",
        {},
        *(x.astype({5: "int32", 6: "int64"}.get(i, "float32")) for i, x in enumerate(inputs)),
    )


def test_a_relu_of_booleans() -> None:
    data = np.array([[True, False]])
    compare("_contrib_quantized_act", {"act_type": "relu"}, data, zeros(1), zeros(1), count=3)


@pytest.mark.parametrize(
    ("op", "attrs", "dtypes"),
    [
        ("_contrib_quantized_concat", {"num_args": "2", "dim": "0"}, ("uint8", "float64")),
        ("_contrib_quantized_elemwise_add", {}, ("int8", "bool")),
    ],
)
def test_a_second_array_that_is_not_of_bytes(
    op: str, attrs: dict[str, str], dtypes: tuple[str, str]
) -> None:
    arrays = [zeros(2, 3, dtype=dtype) for dtype in dtypes]
    assert f"{dtypes[1]} is not supported, expected int8 or uint8" in refusal(
        op, attrs, *arrays, *[zeros(1)] * 4
    )


@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    [
        (
            "_contrib_quantized_fully_connected",
            {"num_hidden": "2", "no_bias": "True"},
            [(3, 4), (2, 4)],
        ),
        (
            "_contrib_quantized_conv",
            {"num_filter": "2", "kernel": "(1, 1)", "no_bias": "True"},
            [(1, 4, 2, 2), (2, 4, 1, 1)],
        ),
        ("_contrib_quantized_pooling", {"kernel": "(1, 1)"}, [(1, 4, 2, 2)]),
        ("_contrib_dequantize", {}, [(3, 4)]),
    ],
)
def test_quantized_layers_on_32_bits(
    op: str, attrs: dict[str, str], shapes: list[tuple[int, ...]]
) -> None:
    data, *weights = (zeros(*shape, dtype="int8") for shape in shapes)
    ranges = [zeros(1)] * (2 * len(shapes))
    assert "int32 is not supported, expected int8 or uint8" in refusal(
        op, attrs, data.astype("int32"), *weights, *ranges
    )


def test_rows_of_bytes_are_multiplied_in_an_old_version() -> None:
    a, b = np.array([[1, -2], [3, 50]], np.int8), np.array([[5, 7]], np.int8)
    model = export_operator("khatri_rao", {"num_args": "2"}, (a, b), 1, opset=13)
    assert isinstance(model, bytes)
    assert run_onnx(model, {"in0": a, "in1": b})[0][0].tolist() == [[5, -14], [15, 94]]  # 350 is 94


@pytest.mark.parametrize("blank", ["first", "last"])
def test_labels_without_elements(blank: str) -> None:
    data = np.random.default_rng(0).normal(size=(5, 2, 4)).astype(np.float32)
    near = Tolerance(1e-5, 1e-5)
    compare("CTCLoss", {"blank_label": blank}, data, zeros(2, 0), tolerance=near)
    attrs = {"blank_label": blank, "use_label_lengths": "True"}
    compare("CTCLoss", attrs, data, zeros(2, 0, dtype="int32"), zeros(2), tolerance=near)


def test_logarithms_of_factorials_of_booleans() -> None:
    compare("gammaln", {}, np.array([True, False]))


def test_images_of_bytes_are_added_in_an_old_version() -> None:
    images = np.full((1, 2, 2, 2), 100, np.int8), np.full((1, 2, 4, 4), 27, np.int8)
    attrs = {"scale": "2", "sample_type": "nearest", "num_args": "2", "multi_input_mode": "sum"}
    model = export_operator("UpSampling", attrs, images, 1, opset=13)
    assert isinstance(model, bytes)
    outputs, _ = run_onnx(model, {"in0": images[0], "in1": images[1]})
    assert outputs[0].tolist() == np.full((1, 2, 4, 4), 127).tolist()


@pytest.mark.parametrize(
    "attrs",
    [{}, {"enable_float_output": "True"}, {"min_calib_range": "-1", "max_calib_range": "2.5"}],
)
def test_products_of_single_integers_keep_their_axes(attrs: dict[str, str]) -> None:
    one, ends = np.array(3, np.int8), [np.ones(1, np.float32)] * 4
    compare("_contrib_quantized_elemwise_mul", attrs, one, np.array(4, np.int8), *ends, count=1)


def test_matrices_without_rows() -> None:
    compare("_linalg_det", {}, zeros(2, 0, 0))
    outputs, _ = run_onnx(exported("_linalg_slogdet", {}, zeros(0, 0), outputs=2), {})
    assert [x.tolist() for x in outputs] == [1, 0]
    compare("_npi_einsum", {"num_args": "2", "subscripts": "ij,j->i"}, zeros(2, 0), zeros(0))
    compare(
        "_npi_einsum",
        {"num_args": "3", "subscripts": "ij,j,kj->ik"},
        zeros(2, 0),
        zeros(0),
        zeros(4, 0),
    )


def test_matrices_that_mxnet_does_not_invert() -> None:
    assert "its data is uint8, and MXNet computes it only in" in refusal(
        "_npi_tensorinv", {"ind": "1"}, zeros(2, 2, dtype="uint8")
    )
    assert "its data is int32, and MXNet computes it only in" in refusal(
        "_npi_cholesky", {}, zeros(2, 2, dtype="int32")
    )


def test_sums_of_booleans_by_subscripts() -> None:
    a, b = (
        np.array([[True, False, True], [False, False, False]]),
        np.array([[True, True, True], [False, True, False]]),
    )
    for subscripts in ("ij,kj->ik", "ij,ij->i", "ij,ij->j"):
        compare("_npi_einsum", {"num_args": "2", "subscripts": subscripts}, a, b)


@pytest.mark.parametrize("op", ["Pooling", "Pooling_v1"])
@pytest.mark.parametrize("kind", ["max", "avg", "sum"])
def test_windows_of_padding_alone(op: str, kind: str) -> None:
    attrs = {"kernel": "(2, 2)", "pool_type": kind, "pad": "(1, 1)"}
    assert "its data has no elements" in refusal(op, attrs, zeros(1, 2, 4, 0))


def test_windows_of_no_channels() -> None:
    arrays = zeros(1, 0, 6, 7, dtype="int8"), zeros(1), zeros(1)
    refused = export_operator(
        "_contrib_quantized_pooling", {"kernel": "(2, 2)", "pool_type": "avg"}, arrays, 3
    )
    assert "its data has no elements" in str(refused)


def test_the_dtypes_of_operators_are_those_of_onnx() -> None:
    names = {"float16": "float16", "float32": "float", "float64": "double", "bool": "bool"}
    names |= {name: name for name in ("int8", "uint8", "int32", "int64")}
    for opset in IR_VERSIONS:
        for op_type, dtypes in TAKES.items():
            (first, *_) = onnx.defs.get_schema(
                op_type, max(opset, FIRST.get(op_type, 0)), ""
            ).inputs
            taken = {dtype for dtype, name in names.items() if f"tensor({name})" in first.types}
            stated = {dtype for dtype in dtypes if TAKES_LATER.get((op_type, dtype), 0) <= opset}
            assert stated == taken, f"{op_type} in version {opset}"


@pytest.mark.parametrize(
    "op",
    "relu sign erf _npi_sign _npx_relu _contrib_sign_ste _contrib_div_sqrt_dim add_n _npi_copysign".split(),
)
def test_booleans_that_onnx_does_not_compute_with(op: str) -> None:
    count = {"add_n": 4, "_npi_copysign": 2}.get(op, 1)
    attrs = {"num_args": "4"} if op == "add_n" else {}
    message = refusal(op, attrs, *[zeros(2, 3, dtype="bool")] * count)
    assert re.search(r"ONNX's \w+ takes no bool", message)


@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    [
        (
            "Deconvolution",
            {"kernel": "(2,)", "num_filter": "1", "no_bias": "True"},
            [(1, 1, 4), (1, 1, 2)],
        ),
        (
            "RNN",
            {"mode": "rnn_tanh", "state_size": "4", "num_layers": "1"},
            [(1, 2, 3), (36,), (1, 2, 4)],
        ),
        ("ROIPooling", {"pooled_size": "(2, 2)", "spatial_scale": "0.5"}, [(1, 1, 4, 4), (1, 5)]),
        (
            "_contrib_RROIAlign",
            {"pooled_size": "(2, 2)", "spatial_scale": "0.5", "sampling_ratio": "2"},
            [(1, 1, 4, 4), (1, 6)],
        ),
        (
            "_contrib_DeformablePSROIPooling",
            {
                "spatial_scale": "1",
                "no_trans": "1",
                "output_dim": "2",
                "group_size": "1",
                "pooled_size": "3",
            },
            [(1, 2, 4, 4), (1, 5)],
        ),
        ("col2im", {"kernel": "(1, 1)", "output_size": "(2, 2)"}, [(1, 3, 4)]),
    ],
)
def test_integers_that_mxnet_refuses(
    op: str, attrs: dict[str, str], shapes: list[tuple[int, ...]]
) -> None:
    assert "its data is int32" in refusal(
        op, attrs, *(zeros(*shape, dtype="int32") for shape in shapes)
    )


@pytest.mark.parametrize("mode", ["maximum", "minimum"])
def test_booleans_padded_with_their_extremes(mode: str) -> None:
    x = np.array([[True, False], [False, False]])
    compare("_npi_pad", {"mode": mode, "pad_width": "((1, 2), (2, 1))"}, x)


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("_np_roll", {"shift": "()"}, 1),
        ("_np_roll", {"shift": "None"}, 1),
        ("_np_roll", {"shift": "(1, -1)", "axis": "()"}, 1),
        ("_npi_delete", {"int_ind": "2", "axis": "1"}, 1),
        ("_npi_insert_scalar", {"int_ind": "3", "axis": "1"}, 2),
        ("_npi_insert_slice", {"int_ind": "-3", "axis": "1"}, 2),
    ],
)
def test_places_that_are_not_there(op: str, attrs: dict[str, str], inputs: int) -> None:
    assert "cannot be exported: " in refusal(op, attrs, *[zeros(2, 2, 3)] * inputs)


def test_single_numbers() -> None:
    one = np.array(0.5, np.float32)
    compare("SoftmaxActivation", {}, one)
    compare("_contrib_quantize_v2", {"out_type": "int8"}, one, count=3)
    compare(
        "_contrib_quantize_asym", {"min_calib_range": "0", "max_calib_range": "2"}, one, count=3
    )
    compare(
        "_contrib_requantize",
        {},
        np.array(5, np.int32),
        -np.ones(1, np.float32),
        np.ones(1, np.float32),
        count=3,
    )


def test_proposals_of_float16_in_an_old_version() -> None:
    stream = np.random.default_rng(0)
    arrays = [
        stream.uniform(0, 1, shape).astype("float16") for shape in ((1, 24, 4, 4), (1, 48, 4, 4))
    ]
    info = np.array([[64, 64, 1]], np.float16)
    attrs = {"feature_stride": "16", "rpn_post_nms_top_n": "8", "rpn_pre_nms_top_n": "40"}
    model = export_operator("_contrib_Proposal", attrs, [*arrays, info], 1, opset=13)
    assert isinstance(model, bytes)
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)


def test_norms_of_matrices_without_elements() -> None:
    assert "its data has no elements" in refusal(
        "_npi_norm", {"axis": "(1, 2)", "flag": "0", "ord": "inf"}, zeros(1, 0, 3, 4)
    )


def test_images_of_booleans_are_not_brightened() -> None:
    image = zeros(4, 4, 3, dtype="bool")
    assert "bool is not supported" in refusal(
        "_image_adjust_lighting", {"alpha": "(0.1, 0.1, 0.1)"}, image
    )


def test_a_translation_that_fails_on_what_its_kernel_takes_is_a_bug_at_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(t: object) -> str:
        raise KeyError("float16")

    monkeypatch.setattr(translate, "find_translation", lambda op: Translator(op, fail))
    with pytest.raises(
        BugError, match=r"the translation of relu \(node 'node'\) failed on in0 float32 \(2\)"
    ):
        export_operator("relu", {}, [zeros(2)], 1)
