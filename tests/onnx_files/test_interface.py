"""The names of outputs, and inputs that have defaults, are a model's interface: only a request for
them changes them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

import graphshare as gs
from tests.onnx_files.mutable import build, declare, node
from tests.onnx_files.running import Session
from tests.processes import done, graphshare, refused
from tests.symbols import document, mxnet_text, operator, variable

pytest.importorskip("onnxruntime")
WEIGHT = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def layers(*names: str, inputs: str = "", outputs: str = "", ir: int = 9) -> ModelProto:
    """A chain of products with equal weights, some of which are inputs or outputs as well."""
    values = ["x", *(f"h{number}" for number in range(1, len(names))), "y"]
    nodes = [node("MatMul", f"{values[i]} {name}", values[i + 1]) for i, name in enumerate(names)]
    model = build(
        nodes,
        [declare("x", ("N", 4)), *(declare(name, (4, 4)) for name in inputs.split())],
        [declare("y", ("N", 4)), *(declare(name, (4, 4)) for name in outputs.split())],
        [numpy_helper.from_array(WEIGHT, name) for name in names],
    )
    model.ir_version = ir
    return model


def write(path: Path, model: ModelProto) -> Path:
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    return path


def list_interface(path: Path) -> list[str]:
    graph = onnx.load(path).graph
    return [value.name for value in (*graph.input, *graph.output)]


@pytest.mark.parametrize(
    ("alias", "message", "hint"),
    [
        (
            "b=a",
            "'b' would become 'a', but it is an output",
            "tie them the other way round: --alias a=b",
        ),
        (
            "b=new",
            "'b' would become 'new', but it is an output",
            "`graphshare rename` changes the names of outputs",
        ),
        (
            "[ab]=new",
            "'b' would become 'new', but it is an output",
            "`graphshare rename` changes the names of outputs",
        ),
        (
            "b=c",
            "'b' would become 'c', but it is an output",
            "`graphshare rename` changes the names of outputs",
        ),
    ],
)
def test_an_output_keeps_its_name(alias: str, message: str, hint: str, tmp_path: Path) -> None:
    write(tmp_path / "m.onnx", layers("a", "b", "c", outputs="b c"))
    run = graphshare("share", "m.onnx", "--alias", alias, "-o", "out.onnx", cwd=tmp_path)
    text = refused(run)
    assert message in text
    assert hint in text
    assert not (tmp_path / "out.onnx").exists()


def test_an_output_of_a_symbol_file_keeps_its_name(tmp_path: Path) -> None:
    nodes = [variable("data"), variable("a_weight"), variable("b_weight")]
    nodes += [
        operator(
            "FullyConnected",
            f"fc{weight}",
            [0, weight],
            attrs={"no_bias": "True", "num_hidden": "4"},
        )
        for weight in (1, 2)
    ]
    path = tmp_path / "m-symbol.json"
    path.write_text(mxnet_text(document(nodes, [3, 4, 2])))
    with pytest.raises(
        gs.RefusedError, match="'b_weight' would become 'a_weight', but it is an output"
    ):
        gs.share(path, aliases={"b_weight": "a_weight"})
    tied = gs.share(path, aliases={"a_weight": "b_weight"})
    assert tied.graph.heads[-1].node.name == "b_weight"


def test_ties_to_an_output_are_as_before(tmp_path: Path) -> None:
    source = write(tmp_path / "m.onnx", layers("a", "b", outputs="b"))
    gs.save(gs.share(source, aliases={"a": "b"}), tmp_path / "out.onnx")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    assert list_interface(tmp_path / "out.onnx") == ["x", "y", "b"]
    left, right = (
        Session(path.read_bytes(), optimize=False) for path in (source, tmp_path / "out.onnx")
    )
    x = np.ones((2, 4), np.float32)
    for name, value in left.run({"x": x}).items():
        assert right.run({"x": x})[name].tobytes() == value.tobytes()


@pytest.mark.parametrize("alias", ["b=a", "a=b", "b=new"])
def test_an_input_with_a_default_is_no_parameter_by_itself(alias: str, tmp_path: Path) -> None:
    """Its name would be gone, or a constant would follow what callers give it."""
    write(tmp_path / "m.onnx", layers("a", "b", inputs="b"))
    text = refused(graphshare("share", "m.onnx", "--alias", alias, "-o", "out.onnx", cwd=tmp_path))
    assert "'b' is not a parameter (callers can replace it: it is an input with a default)" in text
    assert "hint: if it is one after all, add --as-parameter b" in text
    done(
        graphshare(
            "share",
            "m.onnx",
            "--alias",
            alias,
            "--as-parameter",
            "b",
            "-o",
            "out.onnx",
            cwd=tmp_path,
        )
    )
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)


def test_a_pattern_passes_over_an_input_with_a_default(tmp_path: Path) -> None:
    source = write(tmp_path / "m.onnx", layers("w0", "w1", "w2", inputs="w1"))
    tied = gs.share(source, aliases={"w*": "w0"})
    assert [(one.name, one.to) for one in tied.report.ties.tied] == [("w2", "w0")]
    assert "'w1' may be a parameter (callers can replace it" in tied.notes[0]
    gs.save(tied, tmp_path / "out.onnx")
    assert list_interface(tmp_path / "out.onnx") == ["x", "w1", "y"]
    alone = write(tmp_path / "alone.onnx", layers("w0", "w1", inputs="w1"))
    with pytest.raises(gs.RefusedError, match="no parameter would change") as error:
        gs.share(alone, aliases={"w*": "w0"})
    assert "'w1' may be a parameter" in error.value.faults[0].hint


def test_before_ir_version_4_every_initializer_is_an_input_and_none_can_be_replaced(
    tmp_path: Path,
) -> None:
    model = layers("a", "b", inputs="a b", ir=3)
    model.opset_import[0].version = 7
    source = write(tmp_path / "m.onnx", model)
    assert [one.options for one in gs.detect(source)] == [["--alias b=a"]]
    gs.save(gs.share(source, aliases={"b": "a"}), tmp_path / "out.onnx")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    assert list_interface(tmp_path / "out.onnx") == ["x", "a", "y"]


@pytest.mark.parametrize("opset", [8, 9])
def test_before_ir_version_4_an_initializer_can_be_a_reshape(opset: int, tmp_path: Path) -> None:
    """From opset 9 on: earlier no Constant holds the integers that a Reshape takes."""
    model = layers("a", ir=3)
    model.opset_import[0].version = opset
    model.graph.initializer.append(
        numpy_helper.from_array(np.tile(WEIGHT, (2, 1)).reshape(8, 4), "b")
    )
    model.graph.initializer.append(
        numpy_helper.from_array(np.tile(WEIGHT, (2, 1)).reshape(4, 8), "c")
    )
    model.graph.node.extend([node("MatMul", "b c", "z")])
    model.graph.output.append(declare("z", (8, 8)))
    model.graph.input.extend([declare("a", (4, 4)), declare("b", (8, 4)), declare("c", (4, 8))])
    source = write(tmp_path / "m.onnx", model)
    if opset < 9:
        with pytest.raises(gs.RefusedError, match="they have shapes 4x8 and 8x4"):
            gs.share(source, aliases={"c": "b"})
        return
    gs.save(gs.share(source, aliases={"c": "b"}), tmp_path / "out.onnx")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    assert list_interface(tmp_path / "out.onnx") == ["x", "a", "b", "y", "z"]
    left, right = (
        Session(path.read_bytes(), optimize=False) for path in (source, tmp_path / "out.onnx")
    )
    x = np.ones((2, 4), np.float32)
    assert left.run({"x": x})["z"].tobytes() == right.run({"x": x})["z"].tobytes()


def test_untie_splits_no_input_with_a_default(tmp_path: Path) -> None:
    """What callers give it would reach only one of its operators."""
    model = layers("a", "b", inputs="a")
    model.graph.node[1].input[1] = "a"
    source = write(tmp_path / "m.onnx", model)
    with pytest.raises(gs.RefusedError) as error:
        gs.share(source, untie="a")
    assert (
        "`as_parameter='a'` says that it is a parameter: callers can replace it"
        in error.value.faults[0].hint
    )
    assert [one.to for one in gs.share(source, untie="a", as_parameter="a").report.ties.copied] == [
        "a_1"
    ]


def test_detect_suggests_only_ties_that_share_makes(tmp_path: Path) -> None:
    source = write(tmp_path / "m.onnx", layers("a", "b", "c", "d", inputs="d", outputs="b c"))
    (one,) = gs.detect(source)
    assert (one.names, one.options) == (["b", "a"], ["--alias a=b"])
    gs.share(source, aliases={"a": "b"})


def test_a_table_follows_no_input(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    nodes = [node("Gather", "table ids", "rows"), node("MatMul", "rows head", "y")]
    weights = [
        numpy_helper.from_array(np.ascontiguousarray(a), name)
        for a, name in ((table, "table"), (table.T, "head"))
    ]
    inputs = [declare("ids", ("N",), onnx.TensorProto.INT64), declare("head", (4, 8))]
    source = write(tmp_path / "m.onnx", build(nodes, inputs, [declare("y", ("N", 8))], weights))
    assert gs.detect(source) == []
    with pytest.raises(gs.RefusedError, match="no table that Gathers read has its transpose"):
        gs.share(source, transposed=True)


def test_a_group_ties_no_constant_to_an_input(tmp_path: Path) -> None:
    """It would follow what callers give that input."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, inputs in zip(paths, ("w", ""), strict=True):
        write(path, layers("w", "v", inputs=inputs))
    with pytest.raises(
        gs.RefusedError, match=r"'w' is in both .*, an input with a default in one of them"
    ):
        gs.group(paths, on_collision="tie-if-equal")
    model = gs.group(paths, on_collision="tie-if-equal", prefixes=("", "b-"))
    gs.save(model, tmp_path / "out.onnx")
    tensors = {tensor.name for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert tensors == {"w", "b-w", "v"}


def test_an_output_of_a_group_keeps_its_prefix(tmp_path: Path) -> None:
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, outputs in zip(paths, ("", "w"), strict=True):
        write(path, layers("w", "v", outputs=outputs))
    gs.save(
        gs.group(paths, on_collision="tie-if-equal", prefixes=("", "b-")), tmp_path / "out.onnx"
    )
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    assert list_interface(tmp_path / "out.onnx") == ["x", "b-x", "y", "b-y", "b-w"]


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (np.float32(2), np.arange(4, dtype=np.float32), "shapes scalar and 4"),
        (np.float32(2), np.full(1, 2, np.float32), "shapes scalar and 1"),
        (np.zeros((0, 3), np.float32), np.zeros((2, 3), np.float32), "shapes 0x3 and 2x3"),
    ],
)
def test_a_scalar_and_a_size_of_0_are_shapes(
    left: np.ndarray, right: np.ndarray, message: str, tmp_path: Path
) -> None:
    """In ONNX neither stands for an unknown one, as they do in symbol files."""
    weights = [
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in (("a", left), ("b", right))
    ]
    nodes = [node("Neg", name, f"{name}_out") for name in "ab"]
    outputs = [declare(f"{weight.name}_out", tuple(weight.dims)) for weight in weights]
    source = write(tmp_path / "m.onnx", build(nodes, [], outputs, weights))
    for aliases in ({"a": "b"}, {"b": "a"}):
        with pytest.raises(gs.RefusedError, match="cannot be one: they have shapes") as error:
            gs.share(source, aliases=aliases)
        parts = message.removeprefix("shapes ").split(" and ")
        assert " and ".join(parts if "a" in aliases else parts[::-1]) in str(error.value)


def test_a_scalar_input_takes_a_scalar(tmp_path: Path) -> None:
    """onnxruntime computes with any array in its place, and says () of an input of any rank too."""
    model = build([node("Mul", "v s", "y"), node("Neg", "u", "t")], [declare("v", ("N",)), declare("s", ())],
                  [declare("y", ("N",))])  # fmt: skip
    model.graph.input.append(onnx.helper.make_tensor_value_info("u", 1, None))
    model.graph.output.append(onnx.helper.make_tensor_value_info("t", 1, None))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    feeds = {
        "v": np.ones(3, np.float32),
        "s": np.ones(3, np.float32),
        "u": np.ones((2, 2), np.float32),
    }
    for run in (
        lambda: gs.run(tmp_path / "m.onnx", feeds=feeds),
        lambda: gs.bind(tmp_path / "m.onnx")(feeds),
    ):
        with pytest.raises(gs.RefusedError, match=r"'s' is \(3\), but the model declares \(\)"):
            run()
    values = gs.run(tmp_path / "m.onnx", feeds={**feeds, "s": np.float32(2)})
    assert values.outputs["t"].shape == (2, 2)
    drawn = gs.run(tmp_path / "m.onnx", shapes={"v": (3,), "u": (5, 2)}, seed=0)
    assert drawn.outputs["t"].shape == (5, 2)


def test_a_shape_without_a_stated_rank_is_no_scalar(tmp_path: Path) -> None:
    model = build(
        [node("Neg", "x", "y")],
        [declare("x", (1, 3))],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    reshaped = gs.reshape(tmp_path / "m.onnx", dynamic_batch=True)
    assert reshaped.report.outputs == {"y": None}
    run = done(graphshare("reshape", "m.onnx", "--dynamic-batch", "-o", "out.onnx", cwd=tmp_path))
    assert b"output y ?" in run.stderr
