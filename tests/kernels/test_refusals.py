"""What kernels say of values, shapes and dtypes that they cannot take, word by word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context, KernelError, Shape
from graphshare.ops.registry import find_kernel, lookup

N: Shape = None


def f(*shape: int, value: float = 0) -> Any:
    return np.full(shape, value, "float32")


def listed(values: Any, dtype: str = "float32") -> Any:
    return np.array(values, dtype)


def kernel_of(operator: str, attrs: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    signature, kernel = lookup(operator), find_kernel(operator)
    assert signature is not None
    assert kernel is not None
    values, faults = signature.parse(attrs)
    assert not faults
    return kernel, values


PS_POOLING = {"spatial_scale": "1", "output_dim": "2", "pooled_size": "2"}
PROPOSAL = {"scales": "(8,)", "ratios": "(0.5, 1)", "feature_stride": "16"}
HAWKES = [
    f(2, 3, value=1),
    f(3),
    f(3),
    f(2, 3),
    f(2, 4),
    np.zeros((2, 4), "int32"),
    f(2, value=4),
    f(2),
]
DEFORMABLE = {
    "spatial_scale": "1",
    "output_dim": "1",
    "group_size": "1",
    "pooled_size": "2",
    "sample_per_part": "1",
}

VALUES: list[tuple[str, dict[str, str], list[Any], str]] = [
    ("take", {"mode": "raise"}, [f(3, 2), listed([2, 3, 1])], "index 3 is out of range for size 3"),
    ("take", {"mode": "raise"}, [f(3, 2), listed([-1, 1])], "index -1 is out of range for size 3"),
    ("take", {"mode": "raise"}, [f(3, 2), listed([-2, 7])], "index -2 is out of range for size 3"),
    ("take", {"mode": "raise"}, [f(3, 2), listed([0, 7])], "index 7 is out of range for size 3"),
    ("gather_nd", {}, [f(3, 2), listed([[0, 3]])], "index 3 is out of range for size 3"),
    ("gather_nd", {}, [f(3, 2), listed([[-4, 2]])], "index -4 is out of range for size 3"),
    ("gather_nd", {}, [f(3, 2), listed([[-4, 3]])], "index 3 is out of range for size 3"),
    ("gather_nd", {}, [f(3, 2), listed([[0, 2], [0, 2]])], "index 2 is out of range for size 2"),
    (
        "_contrib_index_copy",
        {},
        [f(3, 2), listed([0, 3]), f(2, 2)],
        "indices are from 0 to 3, expected 0 to 2",
    ),
    (
        "_contrib_index_copy",
        {},
        [f(3, 2), listed([-1, 2]), f(2, 2)],
        "indices are from -1 to 2, expected 0 to 2",
    ),
    (
        "softmax_cross_entropy",
        {},
        [f(2, 3), listed([0, 3])],
        "labels are from 0 to 3, expected 0 to 2",
    ),
    (
        "softmax_cross_entropy",
        {},
        [f(2, 3), listed([-1, 2])],
        "labels are from -1 to 2, expected 0 to 2",
    ),
    (
        "_contrib_PSROIPooling",
        PS_POOLING,
        [f(2, 8, 4, 4), listed([[2, 0, 0, 1, 1]])],
        "a region refers to sample 2, but the batch has 2 samples",
    ),
    (
        "_contrib_PSROIPooling",
        PS_POOLING,
        [f(1, 8, 4, 4), listed([[-1, 0, 0, 1, 1]])],
        "a region refers to sample -1, but the batch has 1 sample",
    ),
    (
        "_contrib_PSROIPooling",
        PS_POOLING,
        [f(1, 9, 4, 4), f(1, 5)],
        "9 channels, expected 2 * 2 * 2",
    ),
    (
        "_contrib_DeformablePSROIPooling",
        {**DEFORMABLE, "no_trans": "True"},
        [f(2, 1, 4, 4), listed([[2, 0, 0, 1, 1]])],
        "a region refers to sample 2, but there are 2",
    ),
    (
        "_contrib_Proposal",
        PROPOSAL,
        [f(1, 6, 2, 2), f(1, 12, 2, 2), f(1, 3, value=20)],
        "6 scores are for 3 anchors, but ratios and scales give 2",
    ),
    (
        "_contrib_Proposal",
        PROPOSAL,
        [f(1, 4, 2, 3), f(1, 8, 2, 3), listed([[48, 32, 1]])],
        "an image of 48 by 32 pixels has more cells than 2 by 3",
    ),
    (
        "Crop",
        {"num_args": "1", "h_w": "(2, 3)", "offset": "(3, 1)"},
        [f(1, 1, 4, 4)],
        "a window of (2,3) at (3,1) leaves (1,1,4,4)",
    ),
    (
        "Crop",
        {"num_args": "1", "h_w": "(2, 3)", "offset": "(2, 2)"},
        [f(1, 1, 4, 4)],
        "a window of (2,3) at (2,2) leaves (1,1,4,4)",
    ),
    (
        "Crop",
        {"num_args": "1", "h_w": "(2, 3)", "offset": "(-1, 0)"},
        [f(1, 1, 4, 4)],
        "offset is (-1, 0), expected at least 0",
    ),
    (
        "UpSampling",
        {"scale": "2", "sample_type": "nearest", "num_args": "2"},
        [f(1, 1, 4, 4), f(1, 1, 2, 3)],
        "the size of (1,1,2,3) does not divide (8,8)",
    ),
    (
        "SliceChannel",
        {"num_outputs": "2", "squeeze_axis": "1"},
        [f(2, 6)],
        "axis 1 of a part has size 3, expected 1 to squeeze it",
    ),
    (
        "_zeros_without_dtype",
        {"shape": "(2,)", "dtype": "8"},
        [],
        "dtype 8 is not a number of a dtype, expected -1 to 7",
    ),
    (
        "_contrib_hawkesll",
        {},
        [*HAWKES[:5], np.array([[0, 1, 2, 3]] * 2, "int32"), *HAWKES[6:]],
        "mark 3 is out of range for 3 marks",
    ),
    (
        "_contrib_hawkesll",
        {},
        [*HAWKES[:5], f(2, 4), *HAWKES[6:]],
        "marks are float32, expected int32",
    ),
    (
        "_contrib_hawkesll",
        {},
        [*HAWKES[:6], HAWKES[6].astype("float64"), HAWKES[7]],
        "dtypes float32, float64, expected one floating-point dtype",
    ),
]


@pytest.mark.parametrize(("operator", "attrs", "inputs", "message"), VALUES)
def test_values_that_a_kernel_cannot_take_are_named(
    operator: str, attrs: dict[str, str], inputs: list[Any], message: str
) -> None:
    kernel, values = kernel_of(operator, attrs)
    with pytest.raises(KernelError) as caught:
        kernel.forward(Context(num_outputs=2), values, *inputs)
    assert str(caught.value) == message


def test_values_at_the_limits_are_taken() -> None:
    for operator, attrs, inputs in (
        ("take", {"mode": "raise"}, [f(3, 2), listed([0, 2])]),
        ("gather_nd", {}, [f(3, 2), listed([[-3, 2]])]),
        ("_contrib_index_copy", {}, [f(3, 2), listed([0, 2]), f(2, 2)]),
        ("softmax_cross_entropy", {}, [f(2, 3), listed([0, 2])]),
        ("_zeros_without_dtype", {"shape": "(2,)", "dtype": "7"}, []),
        ("Crop", {"num_args": "1", "h_w": "(2, 3)", "offset": "(2, 1)"}, [f(1, 1, 4, 4)]),
        ("_contrib_hawkesll", {}, HAWKES),
    ):
        kernel, values = kernel_of(operator, attrs)
        kernel.forward(Context(num_outputs=2), values, *inputs)


SHAPES: list[tuple[str, dict[str, str], list[Shape], str]] = [
    (
        "_contrib_index_copy",
        {},
        [(3, 2), (4,), (4, 2)],
        "4 new rows are more than the 3 that there are",
    ),
    ("_npi_polyval", {}, [(2, 3), (4,)], "coefficients have 2 axes, expected 1"),
    (
        "Convolution",
        {"kernel": "(3, 3)", "num_filter": "1", "stride": "(0, 1)"},
        [(1, 1, 5, 5), N, N],
        "kernel (3, 3), stride (0, 1) and dilate (1, 1) must be 1 or more everywhere",
    ),
    (
        "Convolution",
        {"kernel": "(3, 3)", "num_filter": "1", "dilate": "(1, 0)"},
        [(1, 1, 5, 5), N, N],
        "kernel (3, 3), stride (1, 1) and dilate (1, 0) must be 1 or more everywhere",
    ),
    (
        "broadcast_like",
        {"lhs_axes": "(0,)"},
        [(1, 2), (3, 2)],
        "lhs_axes (0,) and rhs_axes None must both be None or have the same length",
    ),
    (
        "broadcast_like",
        {"lhs_axes": "(0,)", "rhs_axes": "(0, 1)"},
        [(1, 2), (3, 2)],
        "lhs_axes (0,) and rhs_axes (0, 1) must both be None or have the same length",
    ),
    (
        "broadcast_like",
        {"lhs_axes": "(1,)", "rhs_axes": "(0,)"},
        [(1, 2), (3, 2)],
        "axis 1 of (1,2) has size 2, but only axes of size 1 can be broadcast",
    ),
    (
        "_npx_reshape",
        {"newshape": "(-6, -1, -1)"},
        [(4,)],
        "an axis of 4 cannot be split into -1 and -1",
    ),
    (
        "_npx_reshape",
        {"newshape": "(-6, 0, -1)"},
        [(4,)],
        "an axis of 4 cannot be split into 0 and -1",
    ),
    (
        "_npx_reshape",
        {"newshape": "(-6, 3, -1)"},
        [(4,)],
        "an axis of 4 cannot be split into 3 and 1",
    ),
    (
        "SliceChannel",
        {"num_outputs": "2", "squeeze_axis": "1"},
        [(2, 6)],
        "axis 1 of a part of (2,6) has size 3, expected 1 to squeeze it",
    ),
    (
        "slice_axis",
        {"axis": "0", "begin": "0", "end": "0"},
        [(4,)],
        "begin 0 and end 0 select nothing on an axis of size 4",
    ),
    (
        "slice_axis",
        {"axis": "0", "begin": "-5", "end": "2"},
        [(4,)],
        "begin -5 and end 2 select nothing on an axis of size 4",
    ),
    (
        "slice_axis",
        {"axis": "0", "begin": "3", "end": "-1"},
        [(4,)],
        "begin 3 and end -1 select nothing on an axis of size 4",
    ),
    (
        "slice_axis",
        {"axis": "0", "begin": "0", "end": "5"},
        [(4,)],
        "begin 0 and end 5 select nothing on an axis of size 4",
    ),
    ("_npi_pinv_scalar_rcond", {}, [(3,)], "(3) has 1 axis, expected matrices"),
    (
        "SliceChannel",
        {"num_outputs": "4"},
        [(2, 6)],
        "an axis of size 6 cannot be split into 4 equal parts",
    ),
]


@pytest.mark.parametrize(("operator", "attrs", "inputs", "message"), SHAPES)
def test_shapes_that_do_not_fit_are_named(
    operator: str, attrs: dict[str, str], inputs: list[Shape], message: str
) -> None:
    kernel, values = kernel_of(operator, attrs)
    with pytest.raises(KernelError) as caught:
        kernel.shapes(values, inputs, [None] * (4 if operator == "SliceChannel" else 1))
    assert str(caught.value) == message


def test_functions_of_floats_refuse_integers() -> None:
    for operator in ("_npi_arctan2", "_npi_hypot"):
        kernel, values = kernel_of(operator, {})
        assert kernel.types(values, ["float16", "float16"], [None]) == (
            ["float16"] * 2,
            ["float16"],
        )
        assert kernel.types(values, [None, None], [None]) == ([None] * 2, [None])
        with pytest.raises(KernelError) as caught:
            kernel.types(values, ["int32", "int32"], [None])
        assert str(caught.value) == "int32 is not supported, expected floating point"
