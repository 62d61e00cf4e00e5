"""Shapes inferred backwards and from half of what there is to know, and contradictions told in words."""

from __future__ import annotations

from typing import Any

import pytest

from graphshare.ops.kernel import Context, KernelError, Shape
from graphshare.ops.registry import find_kernel, lookup
from tests.kernels.control_attrs import FOREACH, WHILE


def infer(
    operator: str, attrs: dict[str, str], inputs: list[Shape], outputs: list[Shape]
) -> tuple[Any, Any]:
    signature, kernel = lookup(operator), find_kernel(operator)
    assert signature is not None
    assert kernel is not None
    values, faults = signature.parse(attrs)
    assert not faults
    found, results = kernel.shapes(values, inputs, outputs)
    assert len(found) == len(inputs)
    return list(found), list(results)


N: Shape = None
LSTM = {"mode": "lstm", "state_size": "4", "num_layers": "1", "state_outputs": "True"}
CENTER = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(3, 5)"}

INFERRED = [
    ("Reshape", {"shape": "(0, -1)"}, [(None, 3, 4)], [N], [(None, 3, 4)], [(None, 12)]),
    ("Reshape", {"shape": "(0, -1)"}, [(None, 3, 4)], [(7, None)], [(7, 3, 4)], [(7, 12)]),
    ("Reshape", {"shape": "(-1, 4)"}, [(None, 3, 4)], [(6, None)], [(2, 3, 4)], [(6, 4)]),
    (
        "Reshape",
        {"shape": "(0, -4, 2, -1, 0)"},
        [(None, 6, 4)],
        [N],
        [(None, 6, 4)],
        [(None, 2, 3, 4)],
    ),
    (
        "Reshape",
        {"shape": "(-1, 0)", "reverse": "True"},
        [(2, 3, None)],
        [(None, 5)],
        [(2, 3, 5)],
        [(6, 5)],
    ),
    ("Reshape", {"shape": "(2, 3)"}, [N], [N], [N], [N]),
    ("Flatten", {}, [(None, 3, 4)], [N], [(None, 3, 4)], [(None, 12)]),
    ("Flatten", {}, [(2, None, 4)], [(2, 12)], [(2, 3, 4)], [(2, 12)]),
    ("reshape_like", {}, [(2, None), (3, 4)], [N], [(2, 6), (3, 4)], [(3, 4)]),
    ("transpose", {"axes": "(1, 2, 0)"}, [N], [(3, None, 2)], [(2, 3, None)], [(3, None, 2)]),
    ("transpose", {}, [(2, None)], [(5, None)], [(2, 5)], [(5, 2)]),
    ("SwapAxis", {"dim1": "0", "dim2": "1"}, [N], [(3, 2)], [(2, 3)], [(3, 2)]),
    ("expand_dims", {"axis": "1"}, [N], [(3, None, 2)], [(3, 2)], [(3, 1, 2)]),
    ("expand_dims", {"axis": "-1"}, [(2, None)], [N], [(2, None)], [(2, None, 1)]),
    ("squeeze", {"axis": "1"}, [(None, 1, 3)], [(4, None)], [(4, 1, 3)], [(4, 3)]),
    (
        "_npi_insert_slice",
        {"start": "1", "stop": "5", "step": "2", "axis": "1"},
        [(2, 5, 3), N],
        [N],
        [(2, 5, 3), N],
        [(2, 7, 3)],
    ),
    (
        "_npi_insert_slice",
        {"start": "1", "stop": "3", "step": "2", "axis": "1"},
        [(2, 5, 3), N],
        [N],
        [(2, 5, 3), N],
        [N],
    ),
    ("depth_to_space", {"block_size": "2"}, [N], [(1, 2, 4, 6)], [(1, 8, 2, 3)], [(1, 2, 4, 6)]),
    ("space_to_depth", {"block_size": "2"}, [N], [(1, 8, 2, 3)], [(1, 2, 4, 6)], [(1, 8, 2, 3)]),
    ("Concat", {"num_args": "2"}, [(2, 3), N], [(2, 7)], [(2, 3), (2, 4)], [(2, 7)]),
    ("Concat", {"num_args": "2"}, [(None, 3), (2, None)], [N], [(2, 3), (2, None)], [(2, None)]),
    ("_rnn_param_concat", {"num_args": "2", "dim": "0"}, [(3,), N], [(8,)], [(3,), (5,)], [(8,)]),
    ("stack", {"num_args": "2", "axis": "1"}, [N, N], [(3, 2, 4)], [(3, 4), (3, 4)], [(3, 2, 4)]),
    ("SliceChannel", {"num_outputs": "3"}, [N], [(2, 4), N, N], [(2, 12)], [(2, 4)] * 3),
    (
        "SliceChannel",
        {"num_outputs": "2", "squeeze_axis": "1"},
        [(3, None, 5)],
        [N, N],
        [(3, 2, 5)],
        [(3, 5)] * 2,
    ),
    ("_split_v2", {"indices": "(0, 2)", "axis": "1"}, [N], [N, (3, 4)], [(3, 6)], [(3, 2), (3, 4)]),
    (
        "slice_axis",
        {"axis": "1", "begin": "0", "end": "2"},
        [(None, 4)],
        [(3, None)],
        [(3, 4)],
        [(3, 2)],
    ),
    ("slice", {"begin": "(0, 1)", "end": "(None, 3)"}, [(None, 4)], [N], [(None, 4)], [(None, 2)]),
    (
        "_slice_assign",
        {"begin": "(1,)", "end": "(3,)"},
        [(4, 5), N],
        [N],
        [(4, 5), (2, 5)],
        [(4, 5)],
    ),
    (
        "Pooling",
        {"kernel": "(3,)", "stride": "(2,)", "pooling_convention": "same"},
        [(1, 2, 7)],
        [N],
        [(1, 2, 7)],
        [(1, 2, 4)],
    ),
    (
        "Pooling",
        {"kernel": "(3,)", "stride": "(2,)", "pooling_convention": "same"},
        [(1, 2, 8)],
        [N],
        [(1, 2, 8)],
        [(1, 2, 4)],
    ),
    ("slice_axis", {"axis": "0", "begin": "-4", "end": "None"}, [(4,)], [N], [(4,)], [(4,)]),
    ("slice_axis", {"axis": "0", "begin": "3", "end": "4"}, [(4,)], [N], [(4,)], [(1,)]),
    ("slice_axis", {"axis": "0", "begin": "0", "end": "-3"}, [(4,)], [N], [(4,)], [(1,)]),
    ("_npi_pinv_scalar_rcond", {}, [(2, 3)], [N], [(2, 3)], [(3, 2)]),
    ("_linalg_syrk", {"transpose": "True"}, [(2, 3)], [N], [(2, 3)], [(3, 3)]),
    ("_linalg_syrk", {"transpose": "True"}, [(5, 2, 3)], [N], [(5, 2, 3)], [(5, 3, 3)]),
    ("_linalg_syrk", {"transpose": "False"}, [(5, 2, 3)], [N], [(5, 2, 3)], [(5, 2, 2)]),
    ("_zeros", {"shape": "(2, 0, 200)"}, [], [(None, 32, None)], [], [(2, 32, 200)]),
    ("_arange", {"start": "0", "stop": "None", "infer_range": "True"}, [], [(5,)], [], [(5,)]),
    (
        "RNN",
        LSTM,
        [(5, 2, 3), N, N, N],
        [N, N, N],
        [(5, 2, 3), (144,), (1, 2, 4), (1, 2, 4)],
        [(5, 2, 4), (1, 2, 4), (1, 2, 4)],
    ),
    (
        "RNN",
        LSTM,
        [N, (144,), (None, 2, None), N],
        [N, N, N],
        [(None, 2, 3), (144,), (1, 2, 4), (1, 2, 4)],
        [(None, 2, 4), (1, 2, 4), (1, 2, 4)],
    ),
    ("SpatialTransformer", CENTER, [(2, 3, 4, 5), N], [N], [(2, 3, 4, 5), (2, 6)], [(2, 3, 3, 5)]),
    (
        "BilinearSampler",
        {},
        [(2, 3, 4, 5), N],
        [N],
        [(2, 3, 4, 5), (2, 2, None, None)],
        [(2, 3, None, None)],
    ),
    ("Correlation", {}, [(2, 3, 4, 5), N], [N], [(2, 3, 4, 5)] * 2, [(2, 9, 2, 3)]),
    (
        "_contrib_DeformableConvolution",
        {"kernel": "(3, 3)", "num_filter": "4", "num_group": "2"},
        [(1, 4, 6, 6), N, N, N],
        [N],
        [(1, 4, 6, 6), (1, 18, 4, 4), (4, 2, 3, 3), (4,)],
        [(1, 4, 4, 4)],
    ),
    (
        "ROIPooling",
        {"pooled_size": "(2, 2)", "spatial_scale": "1"},
        [(1, 3, 8, 8), N],
        [(6, None, 2, 2)],
        [(1, 3, 8, 8), (6, 5)],
        [(6, 3, 2, 2)],
    ),
    (
        "_contrib_MultiBoxDetection",
        {},
        [(2, 3, 5), N, N],
        [N],
        [(2, 3, 5), (2, 20), (1, 5, 4)],
        [(2, 5, 6)],
    ),
    (
        "_contrib_MultiBoxTarget",
        {},
        [(1, 5, 4), (2, 3, 5), (2, 3, None)],
        [N] * 3,
        [(1, 5, 4), (2, 3, 5), (2, 3, 5)],
        [(2, 20), (2, 20), (2, 5)],
    ),
    (
        "_contrib_Proposal",
        {"rpn_post_nms_top_n": "9"},
        [(1, 24, 3, 3), N, N],
        [N],
        [(1, 24, 3, 3), (1, 48, 3, 3), (1, 3)],
        [(9, 5)],
    ),
    ("_foreach", FOREACH, [(3, 2), (4,), N], [(None, 7), N], [(3, 2), (4,), N], [(3, 7), (4,)]),
    (
        "_while_loop",
        WHILE,
        [(1,), N, N],
        [(None, 2), N, (3,)],
        [(1,), N, (3,)],
        [(5, 2), (1,), (3,)],
    ),
]


@pytest.mark.parametrize(("operator", "attrs", "inputs", "outputs", "found", "results"), INFERRED)
def test_what_follows_both_ways(
    operator: str,
    attrs: dict[str, str],
    inputs: list[Shape],
    outputs: list[Shape],
    found: list[Shape],
    results: list[Shape],
) -> None:
    assert infer(operator, attrs, inputs, outputs) == (found, results)


CONTRADICTIONS = [
    (
        "Reshape",
        {"shape": "(4, -1)"},
        [(3, 5)],
        [N],
        "15 elements cannot be divided into groups of 4",
    ),
    ("Reshape", {"shape": "(-1, -1)"}, [(3, 5)], [N], "only one size may be -1"),
    ("Reshape", {"shape": "(4, 4)"}, [(3, 5)], [N], "has 16 elements, expected 15"),
    ("Reshape", {"shape": "(-4, 2, 2)"}, [(5,)], [N], "cannot be split into 2 and 2"),
    ("Reshape", {"shape": "(0, 0, 0)"}, [(3, 5)], [N], "has no axis left"),
    ("Reshape", {"shape": "(-5,)"}, [(3, 5)], [N], "not a code of Reshape"),
    ("reshape_like", {"lhs_begin": "1", "lhs_end": "1"}, [(3, 5), (5,)], [N], "begin 1 and end 1"),
    ("transpose", {"axes": "(0, 1, 0)"}, [(3, 5)], [N], "not a permutation"),
    ("transpose", {"axes": "(0, 2)"}, [(3, 5)], [N], "axis"),
    ("squeeze", {"axis": "0"}, [(3, 5)], [N], "only axes of size 1"),
    ("depth_to_space", {"block_size": "2"}, [(1, 6, 2, 2)], [N], "blocks of 4"),
    ("Concat", {"num_args": "2"}, [(2, 3), (4, 3)], [N], "does not fit"),
    ("Concat", {"num_args": "2"}, [(2, 3), (2, 3)], [(2, 5)], "does not fit"),
    ("Concat", {"num_args": "2"}, [(2, 7), N], [(2, 5)], "do not fit an output with 5"),
    ("SliceChannel", {"num_outputs": "2"}, [(2, 3)], [N, N], "into 2 equal parts"),
    (
        "SliceChannel",
        {"num_outputs": "2", "squeeze_axis": "1"},
        [(2, 4)],
        [N, N],
        "expected 1 to squeeze it",
    ),
    (
        "_split_v2",
        {"indices": "(0, 9)", "axis": "1"},
        [(2, 4)],
        [N, N],
        "less than the size of the axis, 4",
    ),
    ("Crop", {"num_args": "1"}, [(1, 1, 4, 4)], [N], "a height and a width"),
    ("Crop", {"num_args": "2"}, [(1, 1, 4, 4), (1, 1, 5, 5)], [N], "cropped out of 4"),
    (
        "slice_axis",
        {"axis": "0", "begin": "2", "end": "9"},
        [(4,)],
        [N],
        "begin 2 and end 9 select nothing",
    ),
    ("slice_like", {}, [(2, 2), (3, 3)], [N], "cannot be cut to 3"),
    ("Pad", {"mode": "edge", "pad_width": "(1, 1)"}, [(4,)], [N], "4 or 5 axes"),
    ("broadcast_to", {"shape": "(3, 3)"}, [(2, 3)], [N], "neither 1 nor 3"),
    ("broadcast_axis", {"axis": "0", "size": "3"}, [(2, 3)], [N], "only axes of size 1"),
    ("RNN", LSTM, [(5, 2, 3), (145,), N, N], [N, N, N], "parameters do not fit any input size"),
    ("RNN", LSTM, [(5, 2, 9), (144,), N, N], [N, N, N], "does not fit"),
    (
        "Correlation",
        {"max_displacement": "9"},
        [(1, 1, 4, 4)] * 2,
        [N],
        "without a larger pad_size",
    ),
    ("_contrib_box_nms", {}, [(2, 3, 4)], [N], "at least 6"),
    ("_arange", {"start": "3", "stop": "1"}, [], [N], "range from 3 to 1 by 1 is empty"),
]


@pytest.mark.parametrize(("operator", "attrs", "inputs", "outputs", "words"), CONTRADICTIONS)
def test_contradictions_say_what_would_fit(
    operator: str, attrs: dict[str, str], inputs: list[Shape], outputs: list[Shape], words: str
) -> None:
    with pytest.raises(KernelError, match=words):
        infer(operator, attrs, inputs, outputs)


def test_zeros_take_the_shape_that_inference_completed() -> None:
    signature, kernel = lookup("_zeros"), find_kernel("_zeros")
    assert signature is not None
    assert kernel is not None
    attrs, _ = signature.parse({"shape": "(2, 0, 6)"})
    made: Any = kernel.forward(Context(shapes=[(2, 3, 6)]), attrs)
    assert made.shape == (2, 3, 6)
    with pytest.raises(KernelError, match="not fully known"):
        kernel.forward(Context(), attrs)


def test_retained_rows_have_the_shape_of_the_data_however_many_there_are() -> None:
    kernel = find_kernel("_sparse_retain")
    assert kernel is not None
    assert kernel.shapes({}, [(5, 3), (2,)], [None]) == ([(5, 3), (2,)], [(5, 3)])
    assert kernel.shapes({}, [(None, 3), (2, 2)], [(5, None)]) == ([(5, 3), (2, 2)], [(5, 3)])
    assert kernel.shapes({}, [None, (2,)], [None]) == ([None, (2,)], [None])
    assert kernel.types({}, ["float16", "int64"], [None]) == (["float16", "int64"], ["float16"])
    with pytest.raises(KernelError):
        kernel.shapes({}, [(5, 3), (2,)], [(4, 3)])
