"""Another dtype for the arrays of a parameter file: values, what keeps its dtype, overflows, memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from graphshare.api.params import convert as convert_params
from graphshare.errors import RefusedError, UsageError
from graphshare.formats.model_names import PARAMETER_FORMATS
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import Cast
from graphshare.formats.params.format import find_format, read_index
from graphshare.formats.params.records import Record
from tests import params_bytes as build

FORMATS = tuple(name for name in PARAMETER_FORMATS if find_format(name).keeps_names)
RANDOM = np.random.default_rng(0)
ARRAYS = {
    "arg:w": RANDOM.standard_normal((3, 5)).astype("f4"),
    "arg:d": np.array([1e-9, 7e4, -7e4, np.inf, -np.inf, np.nan, 65504, 65519, 65520]),
    "arg:h": np.array([1.5, -2, 6e-8], "f2"),
    "arg:i": np.arange(4, dtype="i8"),
    "aux:m": np.array([True, False]),
    "aux:e": np.zeros((1, 2), "f4"),
}


def read(path: Path):
    file = read_index(path)
    with ArrayReader(file) as reader:
        return {record.key: np.array(reader.read(record)) for record in file.records}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.savez(tmp_path / "source.npz", **ARRAYS)
    return tmp_path / "source.npz"


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_cast_as_numpy_casts_and_the_rest_is_kept(
    source: Path, tmp_path: Path, format_: str, dtype: str
) -> None:
    first, second = tmp_path / f"a.{format_}", tmp_path / f"b.{format_}"
    convert_params(source, first)
    done = convert_params(first, second, dtype=dtype)
    found = read(second)
    assert list(found) == list(ARRAYS)
    for key, array in ARRAYS.items():
        with np.errstate(over="ignore"):
            wanted = array.astype(dtype) if array.dtype.kind == "f" else array
        assert found[key].dtype == wanted.dtype
        assert found[key].tobytes() == wanted.tobytes()
    assert done.cast == tuple(
        key for key, array in ARRAYS.items() if array.dtype.kind == "f" and array.dtype != dtype
    )
    # 7e4, -7e4 and 65520, which rounds up
    assert done.overflows == ({"arg:d": 3} if dtype == "float16" else {})


def test_float16_and_back_gives_the_values_of_float16(source: Path, tmp_path: Path) -> None:
    convert_params(source, tmp_path / "half.params", dtype="float16")
    convert_params(tmp_path / "half.params", tmp_path / "back.params", dtype="float32")
    assert np.array_equal(
        read(tmp_path / "back.params")["arg:w"], ARRAYS["arg:w"].astype("f2").astype("f4")
    )


def test_bfloat16_is_cast_by_value(tmp_path: Path) -> None:
    # 1, -2.5, 2.99e38, 0.000999
    numbers = np.array([0x3F800000, 0xC0200000, 0x7F610000, 0x3A830000], "<u4").view("<f4")
    upper = numbers.view("<u2")[1::2].tobytes()
    (tmp_path / "x.params").write_bytes(
        build.container([build.dense((4,), "bfloat16", upper)], ["w"])
    )
    done = convert_params(tmp_path / "x.params", tmp_path / "y.params", dtype="float32")
    assert np.array_equal(read(tmp_path / "y.params")["w"], numbers)
    assert (done.cast, done.overflows) == (("w",), {})
    assert convert_params(
        tmp_path / "x.params", tmp_path / "y.params", dtype="float16"
    ).overflows == {"w": 1}


def test_patterns_keep_their_dtype(source: Path, tmp_path: Path) -> None:
    done = convert_params(source, tmp_path / "x.params", dtype="float16", keep=["d", "=e"])
    assert done.cast == ("arg:w",)
    assert {key: str(array.dtype) for key, array in read(tmp_path / "x.params").items()}[
        "aux:e"
    ] == "float32"
    with pytest.raises(RefusedError, match="`keep` 'nothing' matches no parameter"):
        convert_params(source, tmp_path / "x.params", dtype="float16", keep=["nothing"])
    with pytest.raises(UsageError, match="`keep` needs `dtype`"):
        convert_params(source, tmp_path / "x.params", keep=["d"])
    with pytest.raises(UsageError, match="cannot convert to int8"):
        convert_params(source, tmp_path / "x.params", dtype="int8")


def test_where_nothing_changes_records_are_copied_as_they_are(tmp_path: Path) -> None:
    source, target = tmp_path / "x.params", tmp_path / "y.params"
    source.write_bytes(
        build.container([build.v1((2,), "float16"), build.dense((2,), "int32")], ["a", "b"])
    )
    done = convert_params(source, target, dtype="float16")
    assert (done.cast, done.densified) == ((), ())
    assert target.read_bytes() == source.read_bytes()


def test_sparse_arrays_are_cast_in_dense_form_on_request(tmp_path: Path) -> None:
    source, target = tmp_path / "x.params", tmp_path / "y.params"
    source.write_bytes(build.container([build.row_sparse((3, 1), [2], build.floats(7e4))], ["r"]))
    with pytest.raises(RefusedError, match="sparse"):
        convert_params(source, target, dtype="float16")
    done = convert_params(source, target, dtype="float16", densify=True)
    assert (done.cast, done.densified, done.overflows) == (("r",), ("r",), {"r": 1})
    assert read(target)["r"].tolist() == [[0], [0], [np.inf]]


def test_scalars_of_v3_records_stay_scalars(tmp_path: Path) -> None:
    source, target = tmp_path / "x.params", tmp_path / "y.params"
    source.write_bytes(
        build.container([build.dense((), data=build.floats(2), magic=build.V3)], ["s"])
    )
    convert_params(source, target, dtype="float64")
    assert (read(target)["s"].shape, read(target)["s"].tolist()) == ((), 2.0)


def test_pieces_may_end_inside_of_an_element() -> None:
    data = ARRAYS["arg:w"].tobytes()
    for size in (1, 3, 5, 7, len(data)):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        record = build_record("float32", ARRAYS["arg:w"].shape)
        found = b"".join(Cast("float16").chunks(record, "w", pieces))
        assert found == ARRAYS["arg:w"].astype("f2").tobytes()


def build_record(dtype: str, shape: tuple[int, ...]) -> Record:
    return Record("w", shape, dtype, "V2", 0, 0, 0, 0)


def test_memory_does_not_grow_with_the_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", w=np.zeros((1 << 24,), "f4"))
    peaks = []
    for target in ("y.npz", "y.params", "y.safetensors"):
        tracemalloc.start()
        convert_params(tmp_path / "x.npz", tmp_path / target, dtype="float64")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 16 << 20  # the array has 64 MiB, its pieces 1 MiB


NORMALIZED = [
    "arg:bn_gamma",
    "arg:bn_beta",
    "aux:bn_moving_mean",
    "aux:bn_moving_var",
    "1.weight",
    "1.bias",
    "1.running_mean",
]
OTHERS = ["arg:conv_weight", "arg:conv_bias", "2.weight", "2.moving_average"]


@pytest.mark.parametrize(
    ("dtype", "keep", "kept"),
    [
        ("float16", None, NORMALIZED),
        ("float16", (), []),
        ("float16", ("",), []),
        ("float16", ("conv*",), ["arg:conv_weight", "arg:conv_bias"]),
        ("float64", None, []),
    ],
)
def test_float16_keeps_what_batch_norm_takes_in_float32_only(
    tmp_path: Path, dtype: str, keep, kept: list[str]
) -> None:
    np.savez(tmp_path / "x.npz", **{key: np.ones(2, "f4") for key in (*NORMALIZED, *OTHERS)})
    done = convert_params(tmp_path / "x.npz", tmp_path / "y.npz", dtype=dtype, keep=keep)
    wanted = {key: "float32" if key in kept else dtype for key in (*NORMALIZED, *OTHERS)}
    assert {key: str(array.dtype) for key, array in read(tmp_path / "y.npz").items()} == wanted
    assert sorted(done.kept) == sorted(kept)
    assert {*done.cast, *done.kept} == {*NORMALIZED, *OTHERS}


def test_names_of_one_array_keep_one_dtype(tmp_path: Path) -> None:
    arrays = {
        "a": np.zeros(2, "f4"),
        "bn.running_mean": np.zeros(2, "f4"),
        "z": np.zeros(2, "f4"),
        "w": np.ones(2, "f4"),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    done = convert_params(tmp_path / "x.npz", tmp_path / "y.safetensors", dtype="float16", tie=True)
    assert (sorted(done.kept), done.cast) == (["a", "bn.running_mean", "z"], ("w",))
    assert str(read(tmp_path / "y.safetensors")["bn.running_mean"].dtype) == "float32"


def test_float16_keeps_what_the_operators_of_an_onnx_model_take_in_float32(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def weight(name: str, *shape: int):
        return numpy_helper.from_array(np.ones(shape, "f4"), name)

    def norm(data: str, out: str, names: str):
        return helper.make_node("BatchNormalization", [data, *names], [out])

    inner = helper.make_graph(
        [norm("h", "deep", "abcd")],
        "inner",
        [],
        [helper.make_tensor_value_info("deep", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"]),
        norm("y", "n", "1234"),
        helper.make_node("Resize", ["n", "", "scales"], ["h"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=inner, else_branch=inner),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4]),
        helper.make_tensor_value_info("flag", 9, []),
    ]
    weights = [
        weight("w", 2, 2, 1, 1),
        weight("scales", 4),
        *(weight(name, 2) for name in "1234abcd"),
    ]
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "g", ends, [out], weights)), tmp_path / "x.onnx"
    )

    done = convert_params(tmp_path / "x.onnx", tmp_path / "x.npz", dtype="float16")
    assert (done.cast, sorted(done.kept)) == (("w",), [*"1234abcd", "scales"])
    done = convert_params(tmp_path / "x.onnx", tmp_path / "y.npz", dtype="float16", keep=["w"])
    assert (sorted(done.cast), done.kept) == ([*"1234abcd", "scales"], ("w",))
