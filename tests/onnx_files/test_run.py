"""``run`` of ONNX models: computed by onnxruntime, on inputs as the model declares and uses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.execute.backends import onnx_session, session
from graphshare.execute.prepare import declared_inputs
from tests import pictures
from tests.onnx_files.made import dense
from tests.onnx_files.test_verify import write
from tests.processes import done, in_process, refused

INT = TensorProto.INT64


def build(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int | str]]],
    outputs: dict[str, int],
    initializers: dict[str, object] | None = None,
    **more: object,
) -> onnx.ModelProto:
    """Return a model with inputs of these dtypes and shapes, and outputs of these dtypes."""
    ends = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    heads = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    tensors = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in (initializers or {}).items()
    ]
    graph = helper.make_graph(nodes, "g", ends, heads, tensors, **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def constant(name: str, value: object) -> onnx.NodeProto:
    return helper.make_node(
        "Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name)
    )


def rates() -> onnx.ModelProto:
    """A model that asks in the body of an If whether a rate is 8000, after it has asked for 16000."""
    info = [helper.make_tensor_value_info(name, 1, []) for name in ("a", "b", "c", "d")]
    one, two, other = (
        helper.make_graph([constant(name, np.float32(value))], name, [], [end])
        for name, value, end in zip("abc", (1, 2, 3), info, strict=False)
    )
    inner = helper.make_node("If", ["is_low"], ["d"], then_branch=two, else_branch=other)
    low = [
        constant("low", np.int64(8000)),
        helper.make_node("Equal", ["rate", "low"], ["is_low"]),
        inner,
    ]
    nodes = [
        helper.make_node("Squeeze", ["sr"], ["rate"]),
        constant("high", np.int64(16000)),
        helper.make_node("Equal", ["rate", "high"], ["is_high"]),
        helper.make_node(
            "If",
            ["is_high"],
            ["y"],
            then_branch=one,
            else_branch=helper.make_graph(low, "low", [], info[3:]),
        ),
    ]
    return build(nodes, {"sr": (INT, [1])}, {"y": 1})


def lookup() -> onnx.ModelProto:
    """A table of 30 rows, of which the rows of ``ids`` are taken."""
    table = np.arange(60, dtype=np.float32).reshape(30, 2)
    return build(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        {"ids": (INT, ["N", 40])},
        {"y": 1},
        {"table": table},
    )


def window() -> onnx.ModelProto:
    """A slice of four rows from ``start``, up to ``end``."""
    table, axes = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0])
    nodes = [helper.make_node("Slice", ["table", "start", "end", "axes"], ["y"])]
    return build(
        nodes, {"start": (INT, [1]), "end": (INT, [1])}, {"y": 1}, {"table": table, "axes": axes}
    )


def test_outputs_are_what_the_model_computes(tmp_path: Path) -> None:
    path, x = write(tmp_path, "dense"), np.array([[1, 2], [3, -40]], np.float32)
    computed = gs.run(path, feeds={"data": x})
    w = np.full((2, 2), 0.5, np.float32)
    h = np.maximum(x @ w, 0)
    assert list(computed.outputs) == ["out"]
    np.testing.assert_allclose(computed.outputs["out"], 0.5 * h @ w.T, rtol=1e-6)
    assert (computed.peak_bytes, computed.timings, computed.notes) == (0, [], [])
    every = gs.run(path, feeds={"data": x.tolist()}, all_outputs=True)
    assert list(every.outputs) == ["data", "h", "r", "out"]
    np.testing.assert_array_equal(every.outputs["r"], h)
    assert every.notes == ["'data' is fed as float64 and was converted to float32"]
    assert list(gs.run(path, feeds={"data": x}, targets=["r", "h"]).outputs) == ["r", "h"]


def test_inputs_are_drawn_at_sizes_that_the_model_takes(tmp_path: Path) -> None:
    run = done(
        in_process("run", write(tmp_path, "dense"), "--seed", "0", "-o", "out.npz", cwd=tmp_path)
    )
    lines = run.stderr.decode().splitlines()
    assert lines[:3] == [
        "'data' could have other sizes; --shape data=... sets them",
        "inputs drawn from seed 0: data (1, 2)",
        "wrote out.npz: out",
    ]
    assert "by onnxruntime" in lines[-1]
    first = gs.run(tmp_path / "dense.onnx", seed=0)
    assert first == gs.run(tmp_path / "dense.onnx", seed=0)
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_array_equal(written["out"], first.outputs["out"])
    assert gs.run(tmp_path / "dense.onnx", seed=0, shapes={"data": (5, 2)}).outputs[
        "out"
    ].shape == (5, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ("input 'data' has no value", "--seed SEED")),
        (["--feed", "data=[[1, 2, 3]]"], ("--feed 'data' is (1,3), but the model declares Nx2",)),
        (
            ["--feed", "w=[[1, 2], [3, 4]]", "--seed", "0"],
            ("'w' is not an input: the model contains its value",),
        ),
        (
            ["--feed", "dat=[[1, 2]]", "--seed", "0"],
            ("--feed 'dat' names no variable", "did you mean"),
        ),
        (
            ["--seed", "0", "--shape", "data=2"],
            ("--shape 'data' is (2), but the model declares Nx2",),
        ),
        (["--seed", "0", "--target", "hh"], ("--target 'hh' names no output and no node",)),
        (
            ["--seed", "0", "--engine", "numpy", "--profile", "--strict-engine"],
            (
                "--engine numpy is for MXNet graphs",
                "--strict-engine is for",
                "--profile is for",
                "onnxruntime computes an ONNX",
            ),
        ),
        (["--seed", "0", "--batch", "2"], ("--batch is for MXNet graphs",)),
        (["--seed", "0", "--sgd-steps", "1"], ("training is for MXNet graphs",)),
    ],
)
def test_what_it_cannot_compute_is_refused(
    options: list[str], words: tuple[str, ...], tmp_path: Path
) -> None:
    refused(
        in_process("run", write(tmp_path, "dense"), *options, cwd=tmp_path), "dense.onnx", *words
    )


def test_without_onnxruntime_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_session, "find_spec", lambda name: None)
    run = in_process("run", write(tmp_path, "dense"), "--seed", "0")
    refused(run, "onnxruntime is not installed", "hint: pip install onnx onnxruntime installs it")


def test_memory_and_time_are_limited(tmp_path: Path) -> None:
    shape = helper.make_node("Expand", ["x", "s"], ["big"])
    nodes = [shape, helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0)]
    path = write(
        tmp_path, "bomb", build(nodes, {"x": (1, [1])}, {"y": 1}, {"s": np.array([40_000, 40_000])})
    )
    refused(
        in_process("run", path, "--seed", "0", "--max-memory", "100M"),
        "takes more memory",
        "the limit of 100.0 MB allows",
    )
    small = write(
        tmp_path, "small", build(nodes, {"x": (1, [1])}, {"y": 1}, {"s": np.array([4, 4])})
    )
    assert gs.run(small, seed=0, max_memory="100M").outputs["y"].shape == ()
    ends = [
        helper.make_tensor_value_info(name, dtype, [])
        for name, dtype in (("i", INT), ("going", 9), ("k", INT))
    ]
    results = [
        helper.make_tensor_value_info(name, dtype, []) for name, dtype in (("on", 9), ("j", INT))
    ]
    steps = [
        helper.make_node("Identity", ["going"], ["on"]),
        helper.make_node("Identity", ["i"], ["j"]),
    ]
    loop = helper.make_node(
        "Loop", ["n", "flag", "n"], ["last"], body=helper.make_graph(steps, "body", ends, results)
    )
    endless = build([loop], {"n": (INT, []), "flag": (9, [])}, {"last": INT})
    feeds = ("--feed", "n=1000000000", "--feed", "flag=true")
    refused(
        in_process("run", write(tmp_path, "endless", endless), *feeds, "--time-limit", "0.5"),
        "--time-limit",
    )
    assert gs.run(small, seed=0).outputs["y"].shape == ()


def test_an_input_is_one_of_the_numbers_that_it_is_compared_with(tmp_path: Path) -> None:
    path = write(tmp_path, "rates", rates())
    rounds = [gs.run(path, seed=seed) for seed in range(8)]
    assert {run.outputs["y"].item() for run in rounds} == {1, 2}
    texts = {
        f"'sr' is {n}: Equal 'is_high' compares it with 16000; Equal 'is_low' compares it with 8000"
        for n in (8000, 16000)
    }
    assert {run.notes[0] for run in rounds} == texts
    assert gs.run(path, feeds={"sr": [44100]}).outputs["y"] == 3
    report = gs.compare(path, path)
    assert report
    assert len(texts & set(report.notes)) == 1


def test_an_array_that_is_compared_has_other_elements_too(tmp_path: Path) -> None:
    nodes = [constant("pad", np.int64(5)), helper.make_node("Equal", ["ids", "pad"], ["y"])]
    computed = gs.run(
        write(tmp_path, "mask", build(nodes, {"ids": (INT, [3, 20])}, {"y": 9})), seed=0
    )
    assert set(computed.outputs["y"].ravel().tolist()) == {True, False}
    assert computed.notes[0] == "'ids' is drawn from 0, 1, 5: Equal 'y' compares it with 5"


def test_an_index_is_below_the_size_of_its_axis(tmp_path: Path) -> None:
    computed = gs.run(write(tmp_path, "lookup", lookup()), seed=0, shapes={"ids": (3, 40)})
    rows = set(computed.outputs["y"][..., 0].ravel() / 2)
    assert len(rows) > 20
    assert max(rows) == 29
    assert (
        computed.notes[0] == "'ids' is drawn from 0 to 29: Gather 'y' takes it as an index below 30"
    )


def test_a_slice_is_within_bounds(tmp_path: Path) -> None:
    path = write(tmp_path, "window", window())
    computed = [gs.run(path, seed=seed, targets=["y"], all_outputs=True) for seed in range(30)]
    assert {int(run.outputs["start"].item()) for run in computed} == {0, 1, 2, 3}
    assert {int(run.outputs["end"].item()) for run in computed} == {1, 2, 3, 4}
    assert computed[0].notes[0].endswith(": Slice 'y' takes it as a start")


def test_an_input_with_an_initializer_need_not_be_fed(tmp_path: Path) -> None:
    model = dense()
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [2, 2]))
    path, x = write(tmp_path, "default", model), np.array([[1, 2]], np.float32)
    assert gs.run(path, feeds={"data": x}).outputs["out"].tolist() == [[0.75, 0.75]]
    doubled = gs.run(path, feeds={"data": x, "w": np.ones((2, 2), np.float32)})
    assert doubled.outputs["out"].tolist() == [[3, 3]]
    with pytest.raises(
        gs.GraphshareError, match=r"`feeds` 'w' is \(3\), but the model declares 2x2"
    ):
        gs.run(path, feeds={"data": x, "w": [1, 2, 3]})
    assert gs.compare(path, path, feeds={"w": np.ones((2, 2), np.float32)})


def test_what_is_no_array_of_numbers_is_left_out_of_files(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    model = build(nodes, {"x": (1, [2])}, {"y": 1})
    path = write(tmp_path, "sequence", model)
    assert list(gs.run(path, seed=0, targets=["s", "y"]).outputs) == ["s", "y"]
    words = ("run", path, "--seed", "0", "-o", tmp_path / "out.npz", "--target", "s")
    written = done(in_process(*words, "--target", "y"))
    assert b"left out, as they are not arrays of numbers: s" in written.stderr
    assert np.load(tmp_path / "out.npz").files == ["y"]
    refused(in_process(*words), "no output is an array of numbers: s", "--target")


def test_images_are_fed_and_classes_ranked(tmp_path: Path) -> None:
    pixels = pictures.texture(4, 4)
    pictures.save(tmp_path / "cat.png", pixels)
    nodes = [helper.make_node("ReduceMean", ["data"], ["y"], axes=[2, 3], keepdims=0)]
    path = write(tmp_path, "mean", build(nodes, {"data": (1, ["N", 3, 4, 4])}, {"y": 1}))
    (tmp_path / "words.txt").write_text("red\ngreen\nblue\n")
    arguments = ["--feed", "data=cat.png", "--top", "1", "--labels", "words.txt"]
    table = done(in_process("run", path, *arguments, cwd=tmp_path)).stdout.decode().splitlines()
    best = int(pixels.reshape(-1, 3).mean(0).argmax())
    assert table[1].split()[:3] == ["cat.png", str(best), ("red", "green", "blue")[best]]
    run = in_process("run", path, *arguments, "--resize", "8", cwd=tmp_path)
    refused(
        run,
        "--feed 'data' is (1,3,8,8), but the model declares Nx3x4x4",
        "--crop",
        "change the shape of images",
    )


def test_an_error_names_file_node_and_sizes(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    model = build(nodes, {"x": (1, ["N", "M"])}, {"y": 1}, {"w": np.ones((3, 2), np.float32)})
    path = write(tmp_path, "product", model)
    run = in_process("run", path, "--feed", "x=[[1, 2]]")
    refused(run, 'product.onnx (node "product"): onnxruntime', "fails", "--shape NAME=SIZES")


def test_an_input_of_any_rank_takes_what_is_fed(tmp_path: Path) -> None:
    model = build([helper.make_node("Neg", ["x"], ["y"])], {"x": (1, None)}, {"y": 1})  # type: ignore[dict-item]
    path = write(tmp_path, "any", model)
    for shape in ((), (3,), (2, 1, 4)):
        assert gs.run(path, feeds={"x": np.ones(shape, np.float32)}).outputs["y"].shape == shape


RARE = {
    "bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26,
}  # fmt: skip
ONES = np.array([1, 1, 1], "float32")


def save_rare(path: Path, place: str, code: int) -> Path:
    """Save a model with numbers of a dtype in a place; everywhere else there are float32 numbers."""
    back, there = (
        helper.make_node("Cast", ["h"], ["y"], to=1),
        helper.make_node("Cast", ["x"], ["h"], to=code),
    )
    values: dict[str, object] = {}
    nodes = {
        "input": [back],
        "default": [back],
        "weight": [back],
        "inner": [there, back],
        "output": [there],
    }[place]
    inputs: dict[str, tuple[int, list[int | str]]] = (
        {"x": (1, [3])} if place in ("inner", "output") else {"h": (code, [3])}
    )
    model = build(
        nodes,
        {} if place == "weight" else inputs,
        {"h": code} if place == "output" else {"y": 1},
        values,
    )
    if place in ("default", "weight"):
        model.graph.initializer.append(helper.make_tensor("h", code, [3], [1, 1, 1]))
    model.opset_import[0].version, model.ir_version = (25, 13) if code > 24 else (23, 11)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("dtype", RARE)
@pytest.mark.parametrize("place", ["input", "default", "weight", "inner", "output"])
def test_dtypes_without_arrays_are_computed_or_refused(
    place: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where ml_dtypes is not installed; test_dtypes.py has what is done with its arrays."""
    for module in (session, declared_inputs):
        monkeypatch.setattr(module, "is_installed", lambda: False)
    if RARE[dtype] > 24 and onnx.defs.onnx_opset_version() < 25:
        pytest.skip("this onnx does not have the dtype")
    path, name = (
        save_rare(tmp_path / "m.onnx", place, RARE[dtype]),
        "h" if place in ("input", "default") else "x",
    )
    arrays = (
        [ONES, ONES.astype("uint8"), ONES.astype("float16")]
        if place in ("input", "default")
        else [ONES]
    )
    for array in [None, *arrays]:
        feeds = {} if array is None or place == "weight" else {name: array}
        try:
            result = gs.run(path, seed=0, feeds=feeds)
        except gs.GraphshareError as error:
            (fault,) = error.faults
            assert fault.where == str(path)
            if "refuses the model: " in fault.message:
                return  # this onnxruntime does not compute with the dtype
            expected = {
                "output": f"output 'h' is a {dtype}, which numpy has no arrays of",
                "input": f"input 'h' is a {dtype}, which {'cannot be drawn' if array is None else 'numpy has no arrays of'}",
                "default": f"input 'h' is a {dtype}, which numpy has no arrays of",
            }
            assert (fault.message, fault.hint.startswith("pip install ml_dtypes, or ")) == (
                expected[place],
                True,
            )
        else:
            assert place in ("inner", "weight") or (place == "default" and not feeds)
            if feeds or place != "inner":
                np.testing.assert_array_equal(result.outputs["y"], ONES)
    if place == "inner":
        layers = gs.run(path, feeds={"x": ONES}, all_outputs=True)
        assert (sorted(layers.outputs), layers.notes[0]) == (
            ["x", "y"],
            "left out, as numpy has no such dtypes: h",
        )
