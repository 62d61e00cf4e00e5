"""ONNX models through the functions of the library: what works on them, and what is refused by name."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.errors import InputError, RefusedError
from graphshare.files.schema import find_violations

FIXTURES = Path(__file__).parents[3] / "fixtures"
FLOAT = TensorProto.FLOAT


def value(name: str, shape: object = ("n", 4)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def make_model() -> onnx.ModelProto:
    """Return a model with unnamed nodes, an absent input, two outputs of one node, and subgraphs
    that capture outer values.
    """
    rng = np.random.default_rng(0)
    inner = helper.make_graph(
        [helper.make_node("Add", ["h", "k"], ["inner"])],
        "inner",
        [],
        [value("inner", None)],
        [numpy_helper.from_array(np.ones(4, "f"), "k")],
    )
    other = helper.make_graph(
        [helper.make_node("Sub", ["h", "scale"], ["less"])], "other", [], [value("less", None)]
    )
    otherwise = helper.make_graph(
        [helper.make_node("If", ["flag"], ["nested"], then_branch=inner, else_branch=other)],
        "else",
        [],
        [value("nested", None)],
    )
    then = helper.make_graph(
        [helper.make_node("Mul", ["h", "scale"], ["more"], name="mul")],
        "then",
        [],
        [value("more", None)],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["mm"], name="fc"),
        helper.make_node("Add", ["mm", "fc.bias"], ["h"]),
        helper.make_node("Clip", ["h", "", "top"], ["clipped"], name="clip"),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["flag"], name="greater"),
        helper.make_node(
            "If", ["flag"], ["y"], name="cond", then_branch=then, else_branch=otherwise
        ),
        helper.make_node(
            "Split", ["clipped"], ["left", "right"], name="split", axis=1, num_outputs=2
        ),
        helper.make_node("Concat", ["right", "left"], ["z"], name="cat", axis=1),
    ]
    tensors = {
        "fc.weight": rng.normal(size=(4, 4)).astype("f"),
        "fc.bias": rng.normal(size=4).astype("f"),
        "top": np.float32(0.7),
        "scale": np.float32(2),
        "zero": np.float32(0),
    }
    graph = helper.make_graph(
        nodes,
        "main",
        [value("x")],
        [value("y"), value("z")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
        value_info=[value("h"), value("mm")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "model.onnx"
    onnx.save(make_model(), target)
    return target


def run(path: Path, x: np.ndarray) -> list[np.ndarray]:
    import onnxruntime

    onnx.checker.check_model(str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {node.name: x for node in session.get_inputs()})


@pytest.mark.parametrize("producer", ["", "pytorch"])
def test_a_model_is_known_by_its_first_fields_whatever_its_name(
    tmp_path: Path, producer: str
) -> None:
    model = make_model()
    model.producer_name = producer
    (tmp_path / "weights").write_bytes(model.SerializeToString())
    assert gs.inspect(tmp_path / "weights").generation == "ONNX (IR 8, opset ai.onnx 18)"
    model.producer_name = "a\1b"  # the start of some other message
    (tmp_path / "other").write_bytes(model.SerializeToString())
    with pytest.raises(
        gs.GraphshareError, match="other: is not a symbol file: it starts with 08 08 12 03 61 01 62"
    ):
        gs.inspect(tmp_path / "other")


@pytest.mark.parametrize("mode", ["tie", "copy"])
def test_branches_compute_the_same(path: Path, tmp_path: Path, mode: str) -> None:
    result = gs.duplicate(gs.load(path), ["b-", "c-"], mode=mode)
    out = tmp_path / "siam.onnx"
    gs.save(result, out)
    graph = onnx.load(out).graph
    assert len(graph.initializer) == (5 if mode == "tie" else 15)
    assert [node.name for node in graph.node].count("") == 6  # unnamed nodes stay unnamed
    for sign in (1, -1):
        x = sign * np.random.default_rng(1).uniform(0.1, 1, (2, 4)).astype("f")
        expected = run(path, x)
        outputs = run(out, x)
        assert all(np.array_equal(a, b) for a, b in zip(expected * 3, outputs, strict=True))
    assert gs.verify(gs.load(out), prefixes=["b-", "c-"])


def test_an_inverse_rename_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    renamed, back = tmp_path / "renamed.onnx", tmp_path / "back.onnx"
    gs.save(gs.rename(gs.load(path), prefix="net/"), renamed, map=tmp_path / "map.json")
    model = onnx.load(renamed)
    assert {node.name for node in model.graph.node if node.name} >= {"net/fc", "net/clip"}
    assert [output.name for output in model.graph.output] == ["net/y", "net/z"]
    gs.save(gs.rename(gs.load(renamed), map=tmp_path / "map.json", inverse=True), back)
    assert back.read_bytes() == path.read_bytes()


def test_what_needs_operators_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    model = gs.load(path)
    for refused in (
        lambda: gs.duplicate(model, "b-", mode="batch"),
        lambda: gs.upgrade(model),
        lambda: gs.run(model, engine="numpy"),
        lambda: gs.export(model, tmp_path / "x.onnx"),
        lambda: gs.train(model, steps=1),
        lambda: gs.bind(model, engine="numpy"),
        lambda: gs.run(model, profile=True),
        lambda: gs.run(model, batch=1),
    ):
        with pytest.raises(RefusedError, match="this is an ONNX model"):
            refused()


@pytest.fixture
def with_data(path: Path) -> Path:
    """The model with its weights in a file beside it."""
    target = path.with_name("outside.onnx")
    onnx.save_model(
        onnx.load(path),
        target,
        save_as_external_data=True,
        location="outside.bin",
        size_threshold=0,
        convert_attribute=False,
    )
    return target


def list_places(path: Path) -> dict[str, dict[str, str]]:
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    return {
        tensor.name: {pair.key: pair.value for pair in tensor.external_data} for tensor in tensors
    }


def test_external_data_stays_in_its_directory(with_data: Path) -> None:
    x = np.random.default_rng(1).uniform(0.1, 1, (2, 4)).astype("f")
    expected = run(with_data, x)
    for mode in ("tie", "copy"):
        out = with_data.with_name(f"{mode}.onnx")
        gs.save(gs.duplicate(gs.load(with_data), "b-", mode=mode), out, no_copy=True)
        assert not out.with_name(f"{mode}.onnx.data").exists()
        places = list_places(out)
        assert all(
            places.get(f"b-{name}", place) == place
            for name, place in list_places(with_data).items()
        )
        assert all(np.array_equal(a, b) for a, b in zip(expected * 2, run(out, x), strict=True))


def test_external_data_is_copied_by_ranges_into_another_directory(
    with_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "other" / "copy.onnx"
    out.parent.mkdir()
    model = gs.duplicate(gs.load(with_data), "b-", mode="copy")
    with pytest.raises(RefusedError, match="`no_copy`"):
        gs.save(model, out, no_copy=True)
    assert not list(out.parent.iterdir())
    gs.save(model, out, verify_bytes=True)
    places = list_places(out)
    assert places["fc.weight"] == places["b-fc.weight"]  # one range for both
    assert places["fc.weight"]["location"] == "copy.onnx.data"
    x = np.random.default_rng(1).uniform(0.1, 1, (2, 4)).astype("f")
    assert all(
        np.array_equal(a, b) for a, b in zip(run(with_data, x) * 2, run(out, x), strict=True)
    )


def test_copies_get_data_of_their_own_on_request(with_data: Path) -> None:
    out = with_data.with_name("own.onnx")
    gs.save(gs.duplicate(gs.load(with_data), "b-", mode="copy"), out, external_data="copy")
    places = list_places(out)
    assert places["fc.weight"]["location"] == "outside.bin"
    assert places["b-fc.weight"]["location"] == "own.onnx.data"
    assert gs.verify(gs.load(out), prefixes="b-")


@pytest.mark.parametrize(
    "location", ["../outside.bin", "/etc/passwd", "link/outside.bin", "", "a\\..\\..\\b"]
)
def test_external_data_outside_of_the_directory_is_refused(
    with_data: Path, tmp_path: Path, location: str
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    model = onnx.load(with_data, load_external_data=False)
    for pair in model.graph.initializer[0].external_data:
        pair.value = location if pair.key == "location" else pair.value
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"fc\.weight.*not in the model's directory"):
        gs.load(folder / "model.onnx")


def test_arrays_replace_initializers(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    bias = np.arange(4, dtype="f")
    gs.save(gs.duplicate(gs.load(path), "b-").with_params({"b-fc.bias": bias}), out)
    held = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(out).graph.initializer
    }
    assert np.array_equal(held["b-fc.bias"], bias)
    assert not np.array_equal(held["fc.bias"], bias)
    assert np.array_equal(gs.load(out).params["b-fc.bias"], bias)


def test_a_group_has_the_operator_sets_of_both_and_one_feeds_the_other(
    path: Path, tmp_path: Path
) -> None:
    head = helper.make_model(
        helper.make_graph(
            [helper.make_node("Twice", ["v"], ["w"], domain="own")],
            "head",
            [value("v")],
            [value("w")],
        ),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("own", 1)],
        ir_version=9,
        functions=[
            helper.make_function(
                "own",
                "Twice",
                ["a"],
                ["b"],
                [helper.make_node("Add", ["a", "a"], ["b"])],
                [helper.make_opsetid("", 18)],
            )
        ],
    )
    onnx.save(head, tmp_path / "head.onnx")
    out = tmp_path / "joined.onnx"
    gs.save(gs.group([path, tmp_path / "head.onnx"], connect=[("z", "v")]), out)
    model = onnx.load(out)
    assert (model.ir_version, {item.domain: item.version for item in model.opset_import}) == (
        9,
        {"": 18, "own": 1},
    )
    x = np.random.default_rng(1).uniform(0.1, 1, (2, 4)).astype("f")
    assert np.array_equal(run(out, x)[1], 2 * run(path, x)[1])


def test_models_of_two_operator_sets_are_not_grouped(path: Path, tmp_path: Path) -> None:
    model = onnx.load(path)
    model.opset_import[0].version = 17
    onnx.save(model, tmp_path / "older.onnx")
    with pytest.raises(
        RefusedError, match=r"operator set ai\.onnx is 18 in one and 17 in the other"
    ):
        gs.group([path, tmp_path / "older.onnx"], prefixes=["", "b-"])


def test_names_of_two_values_are_all_listed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
             helper.make_node("Split", ["x"], ["c", "p-b"], axis=1, num_outputs=2)]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [value("x")], [value(name, ("n", 2)) for name in ("a", "b", "c", "p-b")]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
        tmp_path / "m.onnx",
    )
    with pytest.raises(RefusedError, match="two values would be called 'p-b'"):
        gs.duplicate(tmp_path / "m.onnx", "p-")


def save_split(path: Path, outputs: list[str], *more: onnx.NodeProto) -> Path:
    """Write a model that splits its input x in two; its ``Split`` is known as the first of ``outputs``."""
    nodes = [helper.make_node("Split", ["x"], outputs, axis=1, num_outputs=2), *more]
    graph = helper.make_graph(
        nodes, "g", [value("x")], [value(output, None) for node in nodes for output in node.output]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path
    )
    return path


def test_a_group_does_not_give_two_values_one_name(tmp_path: Path) -> None:
    one, other = (
        save_split(tmp_path / "one.onnx", ["a", "p-d"]),
        save_split(tmp_path / "other.onnx", ["c", "d"]),
    )
    with pytest.raises(gs.GraphshareError) as error:
        gs.group([one, other], prefixes=["", "p-"])
    (fault,) = error.value.faults
    assert fault.message == "two values would be called 'p-d', and a name stands for one value"
    assert (fault.node, fault.hint) == (
        "p-c",
        "choose another name or prefix, or rename one of them first",
    )


@pytest.mark.parametrize(
    ("name", "new", "node"),
    [("r", "b", "b"), ("b", "r", "r"), ("x", "b", "a"), ("a", "b", "b"), ("b", "a", "a")],
)
def test_a_rename_does_not_give_two_values_one_name(
    tmp_path: Path, name: str, new: str, node: str
) -> None:
    path = save_split(tmp_path / "m.onnx", ["a", "b"], helper.make_node("Relu", ["x"], ["r"]))
    with pytest.raises(gs.GraphshareError) as error:
        gs.rename(path, names={name: new})
    (fault,) = error.value.faults
    assert fault.message == f"two values would be called {new!r}, and a name stands for one value"
    assert fault.node == node


def test_a_map_names_any_value_and_has_an_inverse(path: Path, tmp_path: Path) -> None:
    out, map_path = tmp_path / "out.onnx", tmp_path / "map.json"
    gs.save(
        gs.rename(gs.load(path), names={"fc.weight": "W", "right": "second", "z": "scores"}),
        out,
        map=map_path,
    )
    graph = onnx.load(out).graph
    assert graph.output[1].name == "scores"
    split = next(node for node in graph.node if node.op_type == "Split")
    assert (split.name, list(split.output)) == ("split", ["left", "second"])
    onnx.checker.check_model(str(out))
    assert find_violations(json.loads(map_path.read_bytes()), "map") == []
    gs.save(gs.rename(gs.load(out), map=map_path, inverse=True), tmp_path / "back.onnx")
    assert (tmp_path / "back.onnx").read_bytes() == path.read_bytes()


def test_a_plain_map_that_exchanges_names_has_an_inverse(path: Path, tmp_path: Path) -> None:
    there, back, names = tmp_path / "there.onnx", tmp_path / "back.onnx", tmp_path / "names.json"
    names.write_text('{"left": "right", "right": "z", "z": "left", "mm": "h", "h": "mm"}')
    gs.save(gs.rename(gs.load(path), map=names), there)
    outputs = {node.op_type: list(node.output) for node in onnx.load(there).graph.node}
    assert (outputs["Split"], outputs["Concat"]) == (["right", "z"], ["left"])
    assert (outputs["MatMul"], outputs["Add"]) == (["h"], ["mm"])
    gs.save(gs.rename(gs.load(there), map=names, inverse=True), back)
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("seed", range(6))
def test_any_plain_map_of_values_has_an_inverse(path: Path, tmp_path: Path, seed: int) -> None:
    graph = onnx.load(path).graph
    values = {name for node in graph.node for name in (*node.input, *node.output) if name}
    old, new = sorted(values), sorted(values)
    random.Random(seed).shuffle(new)
    there, back, names = tmp_path / "there.onnx", tmp_path / "back.onnx", tmp_path / "names.json"
    names.write_text(json.dumps(dict(zip(old, new, strict=True))))
    gs.save(gs.rename(gs.load(path), map=names), there)
    gs.save(gs.rename(gs.load(there), map=names, inverse=True), back)
    assert back.read_bytes() == path.read_bytes()


def test_a_prefix_of_all_names_is_replaced(path: Path, tmp_path: Path) -> None:
    first, second, direct = (tmp_path / name for name in ("a.onnx", "b.onnx", "c.onnx"))
    gs.save(gs.rename(gs.load(path), prefix="net1/"), first)
    gs.save(gs.rename(gs.load(first), strip_prefix="net1/", prefix="net2/"), second)
    gs.save(gs.rename(gs.load(path), prefix="net2/"), direct)
    assert second.read_bytes() == direct.read_bytes()


def test_texts_and_small_floats_are_compared_by_their_bytes(tmp_path: Path) -> None:
    words = helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"bc"])
    eighths = helper.make_tensor(
        "eighths", TensorProto.FLOAT8E4M3FN, [3], b"\x01\x02\x03", raw=True
    )
    nodes = [
        helper.make_node("Identity", ["words"], ["w"]),
        helper.make_node("Relu", ["rows"], ["r"]),
        helper.make_node("Cast", ["eighths"], ["e"], to=FLOAT),
    ]
    outputs = [
        helper.make_tensor_value_info("w", TensorProto.STRING, [2]),
        value("e", [3]),
        value("r", [4]),
    ]
    places = helper.make_tensor("", TensorProto.INT64, [2], [0, 3])
    rows = helper.make_sparse_tensor(
        helper.make_tensor("rows", FLOAT, [2], [1.0, 2.0]), places, [4]
    )
    graph = helper.make_graph(nodes, "g", [], outputs, [words, eighths], sparse_initializer=[rows])
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path
    )
    assert [record.layout for record in gs.load(path).parameter_file.records] == [
        "onnx string",
        "onnx float8e4m3fn",
        "onnx sparse",
    ]
    gs.save(gs.duplicate(path, "b-"), tmp_path / "out.onnx")
    (branch,) = gs.verify(tmp_path / "out.onnx", prefixes="b-", allow_unsupported=True).branches
    assert [pair.how for pair in branch.parameters] == ["equal"] * 3


def test_an_mxnet_model_is_exported_before_it_feeds_an_onnx_model(tmp_path: Path) -> None:
    lenet = gs.load(FIXTURES / "lenet-symbol.json", params=FIXTURES / "lenet-0000.params")
    best = helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0)
    outputs = [helper.make_tensor_value_info("best", TensorProto.INT64, ["n"])]
    graph = helper.make_graph([best], "g", [value("scores", ("n", 10))], outputs)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "best.onnx",
    )
    with pytest.raises(RefusedError, match="shape"):
        gs.group([lenet, tmp_path / "best.onnx"], connect=[("softmax_output", "scores")])
    joined = gs.group(
        [lenet, tmp_path / "best.onnx"],
        connect=[("softmax_output", "scores")],
        shapes={"data": (2, 1, 28, 28)},
    )
    out = tmp_path / "joined.onnx"
    gs.save(joined, out)
    x = np.random.default_rng(0).normal(size=(2, 1, 28, 28)).astype("f")
    assert np.array_equal(
        run(out, x)[0], gs.run(lenet, feeds={"data": x}).outputs["softmax_output"].argmax(1)
    )


def test_what_is_written_otherwise_is_a_note(path: Path, tmp_path: Path) -> None:
    model = onnx.load(path)
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    swapped = tmp_path / "swapped.onnx"
    assert 128 <= len(graph) < 1 << 14
    field = b"\x3a" + bytes([len(graph) & 127 | 128, len(graph) >> 7]) + graph
    swapped.write_bytes(model.SerializeToString() + field)
    gs.save(gs.load(swapped), tmp_path / "same.onnx")
    assert (tmp_path / "same.onnx").read_bytes() == swapped.read_bytes()
    result = gs.duplicate(swapped, "b-", mode="tie")
    assert any("not in protobuf's own order" in note for note in result.notes)
    assert gs.duplicate(path, "b-").notes == ()
    gs.save(result, tmp_path / "ordered.onnx")
    gs.save(gs.duplicate(path, "b-", mode="tie"), tmp_path / "expected.onnx")
    assert (tmp_path / "ordered.onnx").read_bytes() == (tmp_path / "expected.onnx").read_bytes()
