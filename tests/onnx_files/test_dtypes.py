"""Values of every type of ONNX: drawn, fed from Python and files, computed and compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.checkpoint.load import as_checkpoint
from graphshare.errors import InputError
from graphshare.execute.backends.onnx_session import OnnxSession
from graphshare.formats.params.array_files import read_arrays, read_value
from graphshare.formats.params.comparison import compare_arrays
from graphshare.formats.params.narrow_dtypes import (
    NARROW,
    find_numpy_dtype,
    from_raw,
    name_dtype,
    read_raw,
    to_raw,
    widen,
)
from graphshare.verification.comparison import tolerate_export
from graphshare.verification.input_sets import read_recorded, read_sets
from tests.processes import done, in_process, refused

pytest.importorskip("ml_dtypes")
FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING
COMPUTED = sorted(NARROW - {"float4e2m1", "float8e8m0"})
"""The dtypes that onnxruntime casts; it passes the others on."""
NUMBERS = {
    "float": [0.5, -1.5, 2, 0, 1],
    "int4": [-8, 7, 0, -1, 3],
    "uint4": [15, 0, 1, 8, 7],
    "int2": [-2, 1, 0, -1, 1],
}
NUMBERS |= {"uint2": [3, 0, 1, 2, 3], "float8e8m0": [0.5, 1, 2, 4, 0.25]}


def code(dtype: str) -> int:
    return int(getattr(TensorProto, dtype.upper()))


def numbers(dtype: str) -> np.ndarray:
    """Return five numbers of a dtype, which is an odd count where several are in a byte."""
    return np.array(NUMBERS.get(dtype, NUMBERS["float"])).astype(find_numpy_dtype(dtype))


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    tensors: Sequence[TensorProto] = (),
) -> Path:
    opset = 25 if onnx.defs.onnx_opset_version() > 24 else 23
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13 if opset == 25 else 11
    )
    path.write_bytes(model.SerializeToString())
    return path


def tensor(name: str, dtype: int = FLOAT, sizes: Sequence[int] = (5,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, sizes)


def passing(folder: Path, dtype: str, name: str = "m.onnx", *, factor: float = 1.0) -> Path:
    """Save a model that multiplies its numbers in float32; where onnxruntime does not cast a dtype,
    it passes them on.
    """
    if dtype not in COMPUTED:
        return save(folder / name, [], [tensor("x", code(dtype))], [tensor("x", code(dtype))])
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=FLOAT),
        helper.make_node("Mul", ["wide", "factor"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=code(dtype)),
    ]
    factors = numpy_helper.from_array(np.float32(factor), "factor")
    return save(
        folder / name, nodes, [tensor("x", code(dtype))], [tensor("y", code(dtype))], [factors]
    )


@pytest.fixture(autouse=True)
def needs(request: pytest.FixtureRequest) -> None:
    dtype = getattr(request.node, "callspec", None) and request.node.callspec.params.get("dtype")
    if isinstance(dtype, str) and not hasattr(TensorProto, dtype.upper()):
        pytest.skip("this onnx does not have the dtype")


@pytest.mark.parametrize("dtype", sorted(NARROW))
def test_bits_are_those_of_onnx(dtype: str) -> None:
    array = numbers(dtype)
    data = numpy_helper.from_array(array).raw_data
    raw = read_raw(data, dtype, array.shape)
    np.testing.assert_array_equal(to_raw(array), raw)
    assert from_raw(raw, dtype).tobytes() == array.tobytes()
    assert (from_raw(raw, dtype).dtype, name_dtype(array.dtype)) == (array.dtype, dtype)
    scalar, empty = array[:1].reshape(()), array[:0]
    for other in (scalar, empty):
        assert from_raw(to_raw(other), dtype).tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", sorted(NARROW))
def test_numbers_of_few_bits_are_drawn_fed_and_compared(dtype: str, tmp_path: Path) -> None:
    path, array = passing(tmp_path, dtype), numbers(dtype)
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    np.save(tmp_path / "x.npy", widen(array))
    np.save(tmp_path / "bits.npy", array)
    for value in (array, widen(array), widen(array).tolist()):
        (output,) = gs.run(path, feeds={"x": value}).outputs.values()
        assert (output.dtype, output.tobytes()) == (array.dtype, array.tobytes())
    drawn = gs.run(path, seed=1, all_outputs=True).outputs["x"]
    assert (drawn.dtype, len(set(widen(drawn).tolist())) > 1) == (array.dtype, True)
    shown = done(in_process("run", path, "--feed", f"x={tmp_path / 'x.pb'}"))
    assert f"5      {dtype}" in shown.stdout.decode()
    report = gs.compare(path, path, feeds={"x": array})
    assert report.rung == "exact"
    (output,) = report.branches[0].rounds[0].outputs
    assert (output.dtype, output.comparison.identical) == (dtype, True)
    for file, name in (("x.npy", "x.npy"), ("bits.npy", "x.npy"), ("x.pb", "input_0.pb")):
        folder = tmp_path / file.replace(".", "_")
        folder.mkdir()
        (folder / name).write_bytes((tmp_path / file).read_bytes())
        assert gs.compare(path, path, inputs=gs.Inputs(sets=folder))
    done(
        in_process("run", path, "--feed", f"x={tmp_path / 'bits.npy'}", "-o", tmp_path / "out.npz")
    )
    (output,) = np.load(tmp_path / "out.npz").values()
    np.testing.assert_array_equal(output, widen(array))


@pytest.mark.parametrize("dtype", COMPUTED)
def test_differences_of_few_bits_are_found_and_reduced(dtype: str, tmp_path: Path) -> None:
    path, other = passing(tmp_path, dtype), passing(tmp_path, dtype, "other.onnx", factor=-1)
    feeds = {"x": numbers(dtype)}
    assert not gs.compare(path, other, feeds=feeds)
    report = gs.compare(path, other, feeds=feeds, reduce=tmp_path / "parts")
    assert not report
    assert report.reduced is not None
    left, right = (tmp_path / "parts" / f"{name}.onnx" for name in ("original", "rewrite"))
    assert not gs.compare(left, right, inputs=gs.Inputs(sets=tmp_path / "parts"))


@pytest.mark.parametrize("dtype", ["bfloat16", "int4"])
def test_a_record_of_few_bits_is_in_a_dtype_of_numpy(dtype: str, tmp_path: Path) -> None:
    path, dump = passing(tmp_path, dtype), tmp_path / "dump.npz"
    written = done(in_process("run", path, "--seed", "0", "--all", "-o", dump))
    wide = {"bfloat16": "float32", "int4": "int8"}[dtype]
    assert f"in a dtype that numpy has: x (as {wide}), y (as {wide})" in written.stderr.decode()
    assert b"bit for bit" in done(in_process("compare", path, dump)).stdout
    assert not gs.compare(path, {"x": numbers(dtype), "y": numbers(dtype) * 0})


def test_an_output_in_another_dtype_is_a_difference(tmp_path: Path) -> None:
    cast = [helper.make_node("Cast", ["x"], ["y"], to=to) for to in (TensorProto.BFLOAT16, FLOAT)]
    kinds = zip("ab", cast, (TensorProto.BFLOAT16, FLOAT), strict=True)
    path, other = (
        save(tmp_path / name, [node], [tensor("x")], [tensor("y", kind)])
        for name, node, kind in kinds
    )
    for one, two in ((path, other), (other, path)):
        report = gs.compare(one, two)
        assert report.outcome == "not equal"
        (values,) = (stage for stage in report.branches[0].stages if stage.name == "values")
        assert "types " in values.details[0]
        assert all(dtype in values.details[0] for dtype in ("bfloat16", "float32"))


def test_floats_of_few_bits_are_compared_by_value() -> None:
    dtype = find_numpy_dtype("bfloat16")
    array = np.array([1, np.nan, np.inf, 0], "f").astype(dtype)
    assert compare_arrays(array, array.copy(), atol=0, rtol=0).identical
    near = np.array([1.0078125, np.nan, np.inf, -0.0], "f").astype(dtype)
    result = compare_arrays(near, array, atol=0, rtol=0.01)
    assert (result.equal, result.identical, result.max_abs) == (True, False, 0.0078125)
    assert not compare_arrays(near, array, atol=0, rtol=0.001)
    assert (
        compare_arrays(array, array.astype("f"), atol=1, rtol=1).reason
        == "types bfloat16 and float32"
    )
    assert tolerate_export(None).find_limit(array) == 8e-2
    integers = np.array([-8, 7]).astype(find_numpy_dtype("int4"))
    assert compare_arrays(integers, integers[::-1], atol=14, rtol=0).max_abs == 15


def test_integers_of_few_bits_are_fed_exactly(tmp_path: Path) -> None:
    path = passing(tmp_path, "int4")
    with pytest.raises(
        gs.RefusedError, match="'x' is int64, and not all of its values fit into int4"
    ):
        gs.run(path, feeds={"x": np.array([8, 0, 0, 0, 0])})


def test_sessions_in_both_processes_give_the_same(tmp_path: Path) -> None:
    path, array = passing(tmp_path, "uint2"), numbers("uint2")
    (own,) = OnnxSession(str(path)).run({"x": array})
    (other,) = gs.run(path, feeds={"x": array}).outputs.values()
    assert own.tobytes() == other.tobytes() == array.tobytes()


def test_outputs_of_few_bits_beside_texts_and_sequences(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["short"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["x"], ["text"], to=STRING),
        helper.make_node("SequenceConstruct", ["x", "x"], ["list"]),
    ]
    outputs = [
        helper.make_tensor_sequence_value_info("list", FLOAT, None),
        tensor("short", TensorProto.BFLOAT16, [2]),
        tensor("text", STRING, [2]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [tensor("x", FLOAT, [2])], outputs)
    found = gs.run(path, feeds={"x": np.float32([1, 2])}).outputs
    assert [x.tolist() for x in found["list"]] == [[1, 2]] * 2
    assert (found["short"].astype("f").tolist(), found["text"].tolist()) == ([1, 2], ["1", "2"])
    assert gs.compare(path, path)


def joining(folder: Path, text: str, name: str = "m.onnx") -> Path:
    nodes = [helper.make_node("StringConcat", ["x", "end"], ["y"])]
    return save(
        folder / name,
        nodes,
        [tensor("x", STRING)],
        [tensor("y", STRING)],
        [helper.make_tensor("end", STRING, [1], [text])],
    )


def test_texts_are_drawn_fed_and_compared(tmp_path: Path) -> None:
    path, other, texts = (
        joining(tmp_path, "!"),
        joining(tmp_path, "?", "other.onnx"),
        ["a", "é", "", "d", "e"],
    )
    (tmp_path / "set").mkdir()
    file = tmp_path / "set" / "input_0.pb"
    file.write_bytes(helper.make_tensor("", STRING, [5], texts).SerializeToString())
    wanted = [f"{text}!" for text in texts]
    for value in (texts, np.array(texts), np.array(texts, object)):
        assert gs.run(path, feeds={"x": value}).outputs["y"].tolist() == wanted
    assert b"string" in done(in_process("run", path, "--feed", f"x={file}")).stdout
    assert gs.compare(path, path, inputs=gs.Inputs(sets=tmp_path / "set"))
    assert not gs.compare(path, other)
    with pytest.raises(gs.RefusedError, match="a list of int64 is not an array of texts"):
        gs.run(path, feeds={"x": [1, 2, 3, 4, 5]})
    with pytest.raises(
        gs.RefusedError, match="start from what no file of arrays of numbers can hold: x"
    ):
        gs.compare(path, other, reduce=tmp_path / "parts")


@pytest.mark.parametrize("order", "<>")
def test_texts_in_a_file_of_numpy(order: str, tmp_path: Path) -> None:
    model = helper.make_node("StringConcat", ["x", "x"], ["y"])
    path = save(
        tmp_path / "m.onnx", [model], [tensor("x", STRING, [2, 2])], [tensor("y", STRING, [2, 2])]
    )
    texts = np.array([["a", "éé"], ["", "d"]], order="F").astype(f"{order}U2")
    np.save(tmp_path / "x.npy", texts)
    read = read_arrays(str(tmp_path / "x.npy"))[""]
    assert (read.dtype, read.tolist()) == (object, texts.tolist())
    done(in_process("run", path, "--feed", f"x={tmp_path / 'x.npy'}"))
    assert gs.compare(path, path, inputs=gs.Inputs(sets=tmp_path))
    data = (tmp_path / "x.npy").read_bytes()
    for broken, message in (
        (data[:-1], "31 bytes of data where its shape"),
        (data[:-4] + b"\xff" * 4, "cannot be read"),
    ):
        (tmp_path / "x.npy").write_bytes(broken)
        with pytest.raises(InputError, match=message):
            read_arrays(str(tmp_path / "x.npy"))


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, [2])


def taking(folder: Path, place: int, name: str = "m.onnx") -> Path:
    """Save a model of a sequence: it is an output, and so is one of its arrays."""
    nodes = [
        helper.make_node("SequenceAt", ["s", "place"], ["y"]),
        helper.make_node("SequenceInsert", ["s", "y"], ["t"]),
    ]
    places = numpy_helper.from_array(np.int64(place), "place")
    return save(
        folder / name, nodes, [sequence("s")], [sequence("t"), tensor("y", FLOAT, [2])], [places]
    )


def test_sequences_are_drawn_fed_and_compared(tmp_path: Path) -> None:
    path, other, arrays = (
        taking(tmp_path, 1),
        taking(tmp_path, 0, "other.onnx"),
        [np.float32([1, 2]), np.float32([3, 4])],
    )
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(numpy_helper.from_list(arrays, "s").SerializeToString())
    for value in (arrays, np.float32([[1, 2], [3, 4]]), [[1, 2], [3, 4]]):
        found = gs.run(path, feeds={"s": value}).outputs
        assert ([x.tolist() for x in found["t"]], found["y"].tolist()) == (
            [[1, 2], [3, 4], [3, 4]],
            [3, 4],
        )
    assert [x.shape for x in gs.run(path, seed=0, all_outputs=True).outputs["s"]] == [(2,), (2,)]
    shown = done(in_process("run", path, "--feed", f"s={folder / 'input_0.pb'}"))
    assert "t       3      sequence" in shown.stdout.decode()
    assert gs.compare(path, path, inputs=gs.Inputs(sets=folder))
    for options in ({}, {"layers": True}, {"exact": True}):
        assert gs.compare(path, path, **options)
        assert not gs.compare(path, other, **options)


def test_optional_values_are_drawn_fed_and_compared(tmp_path: Path) -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    ends = [helper.make_value_info(name, kind) for name in "xy"]
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Identity", ["x"], ["y"])], ends[:1], ends[1:]
    )
    folder = tmp_path / "set"
    folder.mkdir()
    for value in (None, np.float32([1, 2])):
        result = gs.run(path, feeds={"x": value}).outputs["y"]
        assert (None if result is None else result.tolist()) == (None if value is None else [1, 2])
        elem = onnx.OptionalProto.UNDEFINED if value is None else onnx.OptionalProto.TENSOR
        proto = onnx.OptionalProto(name="x", elem_type=elem)
        if value is not None:
            proto.tensor_value.CopyFrom(numpy_helper.from_array(value))
        (folder / "input_0.pb").write_bytes(proto.SerializeToString())
        (read,) = read_sets(str(folder), as_checkpoint(path).graph)
        assert (read["x"] is None) == (value is None)
        assert gs.compare(path, path, inputs=gs.Inputs(sets=folder))
    assert gs.run(path, seed=0).outputs["y"].shape == (2,)


def test_an_output_that_is_listed_twice(tmp_path: Path) -> None:
    ends = [tensor("x"), tensor("y"), tensor("y")]
    path = save(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:])
    other = save(
        tmp_path / "other.onnx", [helper.make_node("Abs", ["x"], ["y"])], ends[:1], ends[1:]
    )
    for options in ({}, {"layers": True}, {"exact": True}):
        assert gs.compare(path, path, **options)
        assert not gs.compare(path, other, **options)
    assert list(gs.run(path, seed=0).outputs) == ["y", "y#1"]


def test_a_recorded_set_has_inputs_and_outputs(tmp_path: Path) -> None:
    graph = as_checkpoint(taking(tmp_path, 1)).graph
    arrays = [np.float32([1, 2]), np.float32([3, 4])]
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(numpy_helper.from_list(arrays).SerializeToString())
    # By name
    (folder / "output_0.pb").write_bytes(
        numpy_helper.from_array(arrays[1], "y").SerializeToString()
    )
    (folder / "output_1.pb").write_bytes(
        numpy_helper.from_list([*arrays, arrays[1]], "t").SerializeToString()
    )
    recorded = read_recorded(str(folder), graph)
    assert sorted(recorded) == ["s", "t", "y"]
    assert [x.tolist() for x in recorded["t"]] == [[1, 2], [3, 4], [3, 4]]
    assert len(read_sets(str(folder), graph)[0]) == 1
    (folder / "output_1.pb").unlink()
    (folder / "output_0.pb").write_bytes(b"\x0a")
    with pytest.raises(InputError) as caught:
        read_recorded(str(folder), graph)
    assert caught.value.faults[0].where == str(folder / "output_0.pb")
    (folder / "output_0.pb").unlink()
    with pytest.raises(InputError, match="has no arrays of outputs"):
        read_recorded(str(folder), graph)


def make_optional(*values: np.ndarray) -> bytes:
    return b"".join(
        onnx.OptionalProto(elem_type=1, tensor_value=numpy_helper.from_array(x)).SerializeToString()
        for x in values
    )


SHORT = onnx.TensorProto(data_type=TensorProto.INT4, dims=[5], int32_data=[1])


@pytest.mark.parametrize(
    ("data", "declared", "message"),
    [
        (
            make_optional(np.float32([1]), np.float32([2])),
            "optional of float32",
            "is not an optional of float32",
        ),
        (
            onnx.SequenceProto(elem_type=4, map_values=[onnx.MapProto()]).SerializeToString(),
            "sequence of float32",
            "a map",
        ),
        (
            SHORT.SerializeToString(),
            "int4",
            "is not a tensor of numbers or texts: a tensor has 1 byte of data",
        ),
        (
            onnx.TensorProto(data_type=8, dims=[3], string_data=[b"a"]).SerializeToString(),
            "string",
            "is not a tensor",
        ),
        (b"\xff", "sequence of sequence of float32", "is not a sequence of sequence of float32"),
    ],
)
def test_broken_values_are_refused(
    data: bytes, declared: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "v.pb").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_value(str(tmp_path / "v.pb"), declared)


def test_a_file_of_a_value_needs_no_name(tmp_path: Path) -> None:
    path, array = passing(tmp_path, "bfloat16"), numbers("bfloat16")
    (tmp_path / "v.pb").write_bytes(numpy_helper.from_array(array, "x").SerializeToString())
    done(in_process("run", path, "--feed", tmp_path / "v.pb"))
    (tmp_path / "v.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    refused(
        in_process("run", path, "--feed", tmp_path / "v.pb"),
        "belongs to which variable",
        "--feed NAME=",
    )


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshare.formats.params import narrow_dtypes

    monkeypatch.setattr(narrow_dtypes, "is_installed", lambda: False)
    with pytest.raises(gs.UsageError) as caught:
        find_numpy_dtype("int4")
    assert caught.value.faults[0].hint == "pip install ml_dtypes"
