"""Operators that move, choose and order elements, in every dtype, where recorded cases of MXNet do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.elementwise import describe_mismatch
from tests.export.judge import export_operator, run_onnx
from tests.export.kernel_judge import compare, compute, refusal

DTYPES = ("float32", "uint8", "bool", "float16", "float64", "int8", "int32", "int64")
EVERYDAY = DTYPES[:3]

CUBE = (3, 4, 5)
PLAIN: list[tuple[str, dict[str, str], tuple[tuple[int, ...], ...], int]] = [
    ("transpose", {}, (CUBE,), 1),
    ("SwapAxis", {"dim1": "0", "dim2": "2"}, (CUBE,), 1),
    ("reverse", {"axis": "(0, 2)"}, (CUBE,), 1),
    ("depth_to_space", {"block_size": "2"}, ((2, 8, 2, 3),), 1),
    ("space_to_depth", {"block_size": "2"}, ((2, 3, 4, 6),), 1),
    (
        "slice",
        {"begin": "(1, None, -1)", "end": "(None, None, None)", "step": "(1, -1, -2)"},
        (CUBE,),
        1,
    ),
    ("slice", {"begin": "(-9, 9)", "end": "(9, -9)", "step": "(2, -1)"}, (CUBE,), 1),
    ("slice_axis", {"axis": "-1", "begin": "-3", "end": "-1"}, (CUBE,), 1),
    (
        "_slice_assign",
        {"begin": "(0, 1, 0)", "end": "(3, 4, 5)", "step": "(1, 2, 1)"},
        (CUBE, (3, 2, 5)),
        1,
    ),
    ("_slice_assign", {"begin": "(1,)", "end": "(3,)"}, (CUBE, (2, 4, 5)), 1),
    (
        "_slice_assign_scalar",
        {"begin": "(None, 3)", "end": "(None, 1)", "step": "(1, -1)", "scalar": "1.7"},
        (CUBE,),
        1,
    ),
    ("Concat", {"dim": "-1", "num_args": "2"}, (CUBE, (3, 4, 2)), 1),
    ("Concat", {"dim": "0", "num_args": "2"}, ((0, 3), (2, 3)), 1),
    ("SliceChannel", {"num_outputs": "5", "axis": "-1", "squeeze_axis": "True"}, (CUBE,), 5),
    ("SliceChannel", {"num_outputs": "1", "axis": "0"}, (CUBE,), 1),
    ("_npi_concatenate", {"axis": "None", "num_args": "2"}, (CUBE, ()), 1),
    ("_np_diag", {"k": "-2"}, ((4,),), 1),
    ("diag", {"k": "1", "axis1": "0", "axis2": "-1"}, (CUBE,), 1),
    ("_np_diagflat", {"k": "1"}, ((2, 2),), 1),
    ("_np_diagonal", {"offset": "10"}, (CUBE,), 1),
    ("_npi_tril", {"k": "-1"}, (CUBE,), 1),
    ("_npi_tril", {"k": "1"}, ((4,),), 1),
    ("_npi_rot90", {"k": "3", "axes": "(2, 1)"}, (CUBE,), 1),
    ("_np_roll", {"shift": "(2, -1)", "axis": "(0, 2)"}, (CUBE,), 1),
    ("_np_roll", {"shift": "(1,)", "axis": "(0, 1)"}, (CUBE,), 1),
    ("_np_roll", {"shift": "(-7,)"}, (CUBE,), 1),
    ("_np_moveaxis", {"source": "(0, -1)", "destination": "(-1, 0)"}, (CUBE,), 1),
    ("_npi_broadcast_to", {"shape": "(2, 3, -2, 5)"}, (CUBE,), 1),
    ("_np_atleast_3d", {"num_args": "3"}, ((), (2,), (2, 3)), 3),
    ("_npi_hstack", {"num_args": "2"}, ((), ()), 1),
    ("_npi_dstack", {"num_args": "2"}, ((3,), (3,)), 1),
    ("_npi_pad", {"pad_width": "((7, 0), (2, 9), (0, 1))", "mode": "reflect"}, (CUBE,), 1),
    ("_npi_pad", {"pad_width": "((7, 0), (2, 9), (0, 1))", "mode": "symmetric"}, (CUBE,), 1),
    (
        "_npi_pad",
        {"pad_width": "((7, 0), (2, 9), (0, 1))", "mode": "constant", "constant_value": "1.7"},
        (CUBE,),
        1,
    ),
    (
        "_npi_pad",
        {"pad_width": "((-1, 2), (-2, -1), (3, -5))", "mode": "constant", "constant_value": "1"},
        (CUBE,),
        1,
    ),
    ("_npi_pad", {"pad_width": "((-1, 2), (-2, -1), (3, -4))", "mode": "edge"}, (CUBE,), 1),
    ("_npi_delete", {"start": "0", "stop": "9", "step": "2", "axis": "-1"}, (CUBE,), 1),
    ("_npi_delete", {"int_ind": "-1"}, (CUBE,), 1),
    (
        "_npi_insert_slice",
        {"start": "1", "stop": "4", "step": "2", "axis": "1"},
        (CUBE, (3, 2, 5)),
        1,
    ),
    ("_npi_insert_scalar", {"int_ind": "-2", "axis": "-1"}, (CUBE, ()), 1),
]
INDEXED: list[tuple[str, dict[str, str], tuple[tuple[int, ...], ...], Any, int]] = [
    ("take", {"axis": "0"}, (CUBE,), np.array([1e9, -1e9, 2.9, -0.5, np.nan], "float32"), 1),
    ("take", {"axis": "-1", "mode": "wrap"}, (CUBE,), np.array([[-7, 12]], "int8"), 1),
    ("take", {"mode": "raise"}, (CUBE,), np.array([0, 2], "float64"), 1),
    ("pick", {"axis": "1"}, (CUBE,), np.arange(15).reshape(3, 5).astype("float16"), 1),
    (
        "pick",
        {"axis": "0", "keepdims": "True", "mode": "wrap"},
        (CUBE,),
        np.arange(20).reshape(1, 4, 5),
        1,
    ),
    ("gather_nd", {}, (CUBE,), np.array([[0, -1, 2], [1, -4, 3]], "float32"), 1),
    ("scatter_nd", {"shape": "(4, 3)"}, ((2,),), np.array([[0, 3], [1, 2]], "int32"), 1),
    ("_sparse_retain", {}, (CUBE,), np.array([2, 0, 7, -1], "float32"), 1),
]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    stream = np.random.default_rng(seed)
    low, high = {"bool": (0, 2), "uint8": (0, 10)}.get(dtype, (-9, 10))
    numbers = (
        stream.normal(size=shape) * 4
        if dtype.startswith("float")
        else stream.integers(low, high, shape)
    )
    return np.asarray(numbers).astype(dtype)


def in_dtypes(cases: list[Any]) -> list[Any]:
    return [
        pytest.param(
            *case,
            dtype,
            id=f"{case[0]}-{number}-{dtype}",
            marks=[] if dtype in EVERYDAY else [pytest.mark.large],
        )
        for number, case in enumerate(cases)
        for dtype in DTYPES
    ]


@pytest.mark.parametrize(("op", "attrs", "shapes", "count", "dtype"), in_dtypes(PLAIN))
def test_movement(
    op: str, attrs: dict[str, str], shapes: tuple[tuple[int, ...], ...], count: int, dtype: str
) -> None:
    _, judge = compare(
        op, attrs, *(draw(shape, dtype, i) for i, shape in enumerate(shapes)), count=count
    )
    assert judge == "onnxruntime"


@pytest.mark.parametrize(("op", "attrs", "shapes", "index", "count", "dtype"), in_dtypes(INDEXED))
def test_selection(
    op: str,
    attrs: dict[str, str],
    shapes: tuple[tuple[int, ...], ...],
    index: Any,
    count: int,
    dtype: str,
) -> None:
    _, judge = compare(
        op, attrs, *(draw(shape, dtype, i) for i, shape in enumerate(shapes)), index, count=count
    )
    assert judge == "onnxruntime"


@pytest.mark.parametrize("dtype", DTYPES)
def test_choices(dtype: str) -> None:
    x, y = draw(CUBE, dtype), draw(CUBE, dtype, 1)
    for condition in (draw((3,), "bool"), draw(CUBE, "bool"), draw(CUBE, "float16", 2)):
        assert compare("where", {}, condition, x, y)[1] == "onnxruntime"
    for places in (np.asarray([-1, 2, 2]), np.asarray(-1)):
        compare("_npi_insert_tensor", {"axis": "1"}, x, draw((3, 3, 5), dtype, 1), places)
    compare("_npi_insert_tensor", {"axis": "1"}, x, draw((5,), dtype, 1), np.asarray([3]))
    for index in (np.asarray([3, 1]), np.array([3, 1], "float32")):
        compare("_contrib_index_copy", {}, draw((5, 2), dtype), index, draw((2, 2), dtype, 1))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
@pytest.mark.parametrize("ascending", ["True", "False"])
@pytest.mark.parametrize("axis", ["-1", "0", "None"])
def test_ties_keep_the_order_of_their_places(dtype: str, ascending: str, axis: str) -> None:
    x = np.random.default_rng(0).integers(0, 5, (3, 40)).astype(dtype)
    attrs = {"is_ascend": ascending, "axis": axis}
    assert compare("sort", attrs, x)[1] == "onnxruntime"
    compare("argsort", {**attrs, "dtype": "uint8"}, x)
    for kind in ("both", "value", "indices", "mask"):
        compare(
            "topk",
            {**attrs, "ret_typ": kind, "k": "3", "dtype": "float16"},
            x,
            count=1 + (kind == "both"),
        )
    compare("topk", {**attrs, "ret_typ": "mask", "k": "0"}, x)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
def test_triangles_before_opset_14(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    data = export_operator("_npi_tril", {"k": "1"}, (x,), 1, opset=13)
    assert isinstance(data, bytes), str(data)
    (got,), _ = run_onnx(data, {"in0": x})
    assert describe_mismatch(got, compute("_npi_tril", {"k": "1"}, (x,), 1)[0]) is None


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16"])
def test_traces(dtype: str) -> None:
    compare(
        "_np_trace",
        {"axis1": "1", "axis2": "2"},
        np.random.default_rng(0).integers(0, 120, (2, 30, 30)).astype(dtype),
    )
    compare("_np_trace", {"offset": "9"}, draw((3, 4), dtype))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_coordinates(dtype: str) -> None:
    compare("_unravel_index", {"shape": "(-1, 4)"}, np.arange(50).astype(dtype))
    compare(
        "_ravel_multi_index", {"shape": "(3, 4)"}, np.asarray([[0, 2, 1], [3, 0, 2]]).astype(dtype)
    )
    compare("_contrib_index_array", {"axes": "(-1, 0)"}, draw(CUBE, dtype))


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_stops_where_mxnet_stops(index: int) -> None:
    x, places = draw(CUBE, "float32"), np.asarray([index])
    data = export_operator("take", {"mode": "raise"}, (x, places), 1)
    assert isinstance(data, bytes)
    with pytest.raises(Exception, match="out of"):
        run_onnx(data, {"in0": x, "in1": places})


def test_what_has_no_form_in_onnx_is_refused() -> None:
    x = draw(CUBE, "float32")
    odd = {"pad_width": "((1, 1), (0, 0), (0, 0))", "mode": "reflect", "reflect_type": "odd"}
    assert "reflect_type odd" in refusal("_npi_pad", odd, x)
    assert "negative" in refusal(
        "_npi_pad", {"pad_width": "((-1, 1), (0, 0), (0, 0))", "mode": "reflect"}, x
    )
    assert "empty" in refusal(
        "_npi_pad", {"pad_width": "((-3, 1), (0, 0), (0, 0))", "mode": "edge"}, x
    )
    assert "stype csr" in refusal("cast_storage", {"stype": "csr"}, draw((3, 4), "float32"))
    assert "depends on values" in refusal("_npx_nonzero", {}, x)
