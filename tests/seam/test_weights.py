"""Weights are parameters wherever a model has them: as initializers or Constants, in its graph, in
bodies and in functions.

Every model computes ``left`` plus the largest number of 16, whose bytes a file has as often as it has the weight.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphshare as gs
from tests.processes import done, in_process, refused
from tests.seam.placed import BODIES, PLACES, body_of, declare, fix_input, make_model, place

ort = pytest.importorskip("onnxruntime")

VALUES = np.linspace(-2, 3, 16, dtype=np.float32)
DATA = VALUES.tobytes()
DENSE = [("initializer", where) for where in ("graph", *BODIES)] + [
    ("Constant", where) for where in PLACES
]
SPARSE = [("sparse initializer", where) for where in ("graph", *BODIES)] + [
    ("sparse Constant", "graph"),
    ("sparse Constant", "If"),
]
CASES = DENSE + SPARSE
MOVABLE = [case for case in CASES if case[1] != "function"]


def make_sparse(name: str, values: np.ndarray) -> onnx.SparseTensorProto:
    places = numpy_helper.from_array(np.arange(values.size, dtype=np.int64) * 2, f"{name} places")
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, name), places, [2 * values.size]
    )


def make(kind: str, where: str, values: np.ndarray = VALUES, name: str = "weight") -> ModelProto:
    nodes = [
        helper.make_node("ReduceMax", [name], ["peak"], keepdims=0),
        helper.make_node("Add", ["left", "peak"], ["answer"]),
    ]
    if kind == "Constant":
        tensor = numpy_helper.from_array(values)
        return settle(
            place(where, [helper.make_node("Constant", [], [name], "fixed", value=tensor), *nodes])
        )
    if kind == "sparse Constant":
        constant = helper.make_node("Constant", [], [name], sparse_value=make_sparse("", values))
        return settle(place(where, [constant, *nodes]))
    if kind == "initializer":
        return settle(place(where, nodes, [numpy_helper.from_array(values, name)]))
    model = place(where, nodes)
    graph = model.graph
    for _ in range(
        ("graph", "If", "If in Loop").index(where)
        if where in ("If", "If in Loop")
        else where != "graph"
    ):
        graph = body_of(next(node for node in graph.node if node.op_type in ("If", "Loop", "Scan")))
    graph.sparse_initializer.append(make_sparse(name, values))
    return settle(model)


def settle(model: ModelProto) -> ModelProto:
    """Give inputs that decide what is reached their values, so that every weight is."""
    names = {declared.name for declared in model.graph.input}
    for name, value in (("flag", True), ("count", np.int64(2))):
        if name in names:
            fix_input(model, name, value)
    return model


def check(path: Path) -> None:
    """Apply ONNX's full check, whose inference takes no sparse initializer."""
    bodies = [onnx.load(path, load_external_data=False).graph]
    for graph in bodies:
        bodies += [
            attribute.g
            for node in graph.node
            for attribute in node.attribute
            if attribute.type == attribute.GRAPH
        ]
    onnx.checker.check_model(
        str(path), full_check=not any(graph.sparse_initializer for graph in bodies)
    )


def write(folder: Path, model: ModelProto, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString(deterministic=True))
    check(path)
    return path


def compute(path: Path) -> list[bytes]:
    """Return what onnxruntime computes without optimizations, after ONNX's full check."""
    check(path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {node.name: np.float32([1, 2]) for node in session.get_inputs()}
    return [output.tobytes() for output in session.run(None, feeds)]


def list_records(path: Path) -> list[dict[str, Any]]:
    listing: dict[str, Any] = json.loads(
        done(in_process("params", "list", path, "--format", "json")).stdout
    )
    arrays: list[dict[str, Any]] = listing["arrays"]
    return arrays


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_tie_keeps_one_weight(kind: str, where: str, tmp_path: Path) -> None:
    path, tied = write(tmp_path, make(kind, where)), tmp_path / "tied.onnx"
    expected = compute(path)
    done(in_process("duplicate", path, "--prefix", "n_", "--mode", "tie", "-o", tied))
    assert tied.read_bytes().count(DATA) == path.read_bytes().count(DATA) == 1
    assert compute(tied) == 2 * expected
    report = done(in_process("verify", tied, "--prefix", "n_")).stdout.decode()
    inside = " (1 of them in functions)" if where == "function" else ""
    count = sum(
        not node.op and bool(node.details.holds_value) for node in gs.load(path).graph.nodes
    ) + (where == "function")
    assert f"tied: {count} of {count} parameter{'s' if count > 1 else ''}{inside}, " in report
    assert "bit for bit" in report


@pytest.mark.parametrize(("kind", "where"), MOVABLE)
def test_a_copy_has_a_weight_of_its_own(kind: str, where: str, tmp_path: Path) -> None:
    path, copied = write(tmp_path, make(kind, where)), tmp_path / "copied.onnx"
    done(in_process("duplicate", path, "--prefix", "n_", "-o", copied))
    assert copied.read_bytes().count(DATA) == 2
    assert {"weight", "n_weight"} <= {record["key"] for record in list_records(copied)}
    assert compute(copied) == 2 * compute(path)


@pytest.mark.parametrize(("kind", "where"), MOVABLE)
def test_copies_become_one_by_an_alias_and_two_again_when_untied(
    kind: str, where: str, tmp_path: Path
) -> None:
    path, copied, shared, untied = (
        tmp_path / f"{name}.onnx" for name in ("model", "copied", "shared", "untied")
    )
    write(tmp_path, make(kind, where))
    done(in_process("duplicate", path, "--prefix", "n_", "-o", copied))
    assert b"--alias n_weight=weight" in done(in_process("share", copied, "--detect")).stdout
    done(in_process("share", copied, "--alias", "n_weight=weight", "-o", shared))
    assert shared.read_bytes().count(DATA) == 1
    assert compute(shared) == 2 * compute(path)
    done(in_process("share", shared, "--untie", "weight", "-o", untied))
    assert untied.read_bytes().count(DATA) == 2
    assert compute(untied) == 2 * compute(path)


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_rename_and_back_keeps_every_byte(kind: str, where: str, tmp_path: Path) -> None:
    path, renamed, back, names = (
        tmp_path / name for name in ("model.onnx", "renamed.onnx", "back.onnx", "names.json")
    )
    write(tmp_path, make(kind, where))
    done(in_process("rename", path, "--prefix", "n_", "-o", renamed, "--map-out", names))
    if where != "function":
        assert "n_weight" in {record["key"] for record in list_records(renamed)}
    assert compute(renamed) == compute(path)
    done(in_process("rename", renamed, "--map", names, "--inverse", "-o", back))
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_weight_is_listed_and_compared(kind: str, where: str, tmp_path: Path) -> None:
    path, other = (
        write(tmp_path, make(kind, where)),
        write(tmp_path, make(kind, where, VALUES + 1), "other.onnx"),
    )
    name = "own.Composed/weight" if where == "function" else "weight"
    assert name in {record["key"] for record in list_records(path)}
    assert (
        name
        in json.loads(done(in_process("inspect", path, "--format", "json")).stdout)["parameters"]
    )
    assert in_process("diff", path, other).returncode == 1
    run = in_process("params", "diff", path, other)
    assert run.returncode == 1
    assert name.encode() in run.stdout
    assert not gs.diff(path, path)


@pytest.mark.parametrize(("kind", "where"), DENSE)
def test_a_parameter_file_has_the_weight(kind: str, where: str, tmp_path: Path) -> None:
    path = write(tmp_path, make(kind, where))
    done(in_process("params", "convert", path, tmp_path / "w.npz"))
    name = "own.Composed/weight" if where == "function" else "weight"
    assert np.load(tmp_path / "w.npz")[name].tobytes() == DATA
    assert name.encode() in done(in_process("params", "stats", path)).stdout


@pytest.mark.parametrize("kind", ["sparse initializer", "sparse Constant"])
def test_a_parameter_file_has_no_place_for_a_sparse_weight(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, make(kind, "graph"))
    refused(in_process("params", "convert", path, tmp_path / "w.npz"), "weight", "is sparse")


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (TensorProto.STRING, "string"),
        (TensorProto.INT4, "int4"),
        (TensorProto.FLOAT8E4M3FN, "float8e4m3fn"),
    ],
)
def test_a_parameter_file_has_no_place_for_odd_dtypes(
    dtype: int, name: str, tmp_path: Path
) -> None:
    values = ["a"] * 16 if name == "string" else [1] * 16
    constant = helper.make_node(
        "Constant", [], ["odd"], value=helper.make_tensor("", dtype, [16], values)
    )
    nodes = [constant, helper.make_node("Identity", ["left"], ["answer"])]
    model = make_model(
        helper.make_graph(nodes, "main", [declare("left")], [declare("answer")]),
        version=21,
        imports=(),
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for suffix in ("npz", "safetensors", "params"):
        refused(
            in_process("params", "convert", path, tmp_path / f"w.{suffix}"),
            '"odd"',
            f"is {name}, a dtype that parameter files do not have",
        )


@pytest.mark.parametrize("count", [7, 8])
def test_seven_floats_are_a_constant_and_eight_a_weight(count: int, tmp_path: Path) -> None:
    for where in ("graph", "If"):
        path = write(tmp_path, make("Constant", where, VALUES[:count]))
        names = {record["key"] for record in list_records(path)}
        assert ("weight" in names) == (count == 8)


def test_pads_of_seven_axes_are_a_constant(tmp_path: Path) -> None:
    nodes = [
        helper.make_node(
            "Constant", [], ["pads"], value=numpy_helper.from_array(np.zeros(14, np.int64))
        ),
        helper.make_node("Pad", ["left", "pads"], ["answer"]),
    ]
    shape = (1, 1, 1, 1, 1, 1, 2)
    path = write(
        tmp_path,
        make_model(
            helper.make_graph(nodes, "main", [declare("left", shape)], [declare("answer", shape)])
        ),
    )
    assert list_records(path) == []


def make_twins(where: str = "If") -> ModelProto:
    """Return a model with two operators whose bodies have a weight of one name each."""
    model, other = make("Constant", where), make("Constant", where, VALUES[::-1].copy())
    other.graph.node[0].name, other.graph.node[0].output[0] = "second", "twice"
    model.graph.node.append(other.graph.node[0])
    model.graph.output.append(declare("twice"))
    return model


def test_bodies_with_one_name_have_two_weights(tmp_path: Path) -> None:
    path, back, names = (
        write(tmp_path, make_twins()),
        tmp_path / "back.onnx",
        tmp_path / "names.json",
    )
    assert {record["key"] for record in list_records(path)} >= {"weight", "weight_1"}
    for mode, copies in (("tie", 1), ("copy", 2)):
        out = tmp_path / f"{mode}.onnx"
        done(in_process("duplicate", path, "--prefix", "n_", "--mode", mode, "-o", out))
        assert (
            out.read_bytes().count(DATA) == out.read_bytes().count(VALUES[::-1].tobytes()) == copies
        )
        assert compute(out) == 2 * compute(path)
    done(
        in_process(
            "rename", path, "--prefix", "n_", "-o", tmp_path / "renamed.onnx", "--map-out", names
        )
    )
    done(in_process("rename", tmp_path / "renamed.onnx", "--map", names, "--inverse", "-o", back))
    assert back.read_bytes() == path.read_bytes()


def test_a_name_that_the_model_has_elsewhere_is_numbered(tmp_path: Path) -> None:
    model = make("Constant", "If")
    model.graph.node.append(helper.make_node("Neg", ["result"], ["weight"]))
    model.graph.output.append(declare("weight"))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert "weight_1" in {record["key"] for record in list_records(path)}
    done(in_process("rename", path, "--prefix", "n_", "-o", tmp_path / "renamed.onnx"))
    assert {"n_weight_1"} <= {record["key"] for record in list_records(tmp_path / "renamed.onnx")}


def test_bodies_of_one_operator_share_a_weight_that_the_graph_then_has(tmp_path: Path) -> None:
    first, second = (
        helper.make_graph(
            [
                helper.make_node(
                    "Constant", [], [f"{name}_w"], value=numpy_helper.from_array(VALUES)
                ),
                helper.make_node("ReduceMax", [f"{name}_w"], [f"{name}_peak"], keepdims=0),
                helper.make_node(op, ["left", f"{name}_peak"], [f"{name}_out"]),
            ],
            name,
            [],
            [declare(f"{name}_out")],
        )
        for name, op in (("a", "Add"), ("b", "Sub"))
    )
    choice = helper.make_node("If", ["flag"], ["result"], then_branch=first, else_branch=second)
    inputs = [declare("left"), declare("flag", (), TensorProto.BOOL)]
    model = settle(make_model(helper.make_graph([choice], "main", inputs, [declare("result")])))
    path, shared = write(tmp_path, model), tmp_path / "shared.onnx"
    assert path.read_bytes().count(DATA) == 2
    done(in_process("share", path, "--alias", "b_w=a_w", "-o", shared))
    assert shared.read_bytes().count(DATA) == 1
    assert [tensor.name for tensor in onnx.load(shared).graph.initializer if tensor.dims] == ["a_w"]
    assert compute(shared) == compute(path)


def test_a_constant_that_is_an_output_is_copied_in_a_tie(tmp_path: Path) -> None:
    model = make("Constant", "graph")
    model.graph.output.append(declare("weight", (16,)))
    model.graph.initializer.append(numpy_helper.from_array(VALUES, "other"))
    path, tied = write(tmp_path, model), tmp_path / "tied.onnx"
    done(in_process("duplicate", path, "--prefix", "n_", "--mode", "tie", "-o", tied))
    assert compute(tied) == 2 * compute(path)


def test_an_extract_at_a_constant_gives_it(tmp_path: Path) -> None:
    path, part = write(tmp_path, make("Constant", "graph")), tmp_path / "part.onnx"
    done(in_process("extract", path, "--target", "weight", "-o", part))
    assert compute(part) == [DATA]


def test_a_copy_says_that_weights_in_functions_are_not_copied(tmp_path: Path) -> None:
    path, copied = write(tmp_path, make("Constant", "function")), tmp_path / "copied.onnx"
    run = done(in_process("duplicate", path, "--prefix", "n_", "-o", copied))
    assert b"1 weight in functions not copied" in run.stderr
    assert copied.read_bytes().count(DATA) == 1


def test_a_tie_that_ties_nothing_is_refused_where_there_are_weights(tmp_path: Path) -> None:
    path, out = write(tmp_path, make("Constant", "graph")), tmp_path / "out.onnx"
    refused(
        in_process(
            "duplicate", path, "--prefix", "n_", "--mode", "tie", "--copy", "weight", "-o", out
        ),
        "nothing would be tied",
    )
    assert not out.exists()
    small = write(tmp_path, make("Constant", "graph", VALUES[:2]), "small.onnx")
    run = done(in_process("duplicate", small, "--prefix", "n_", "--mode", "tie", "-o", out))
    assert b"there are no parameters, so nothing is tied" in run.stderr


@pytest.mark.parametrize("kind", ["initializer", "Constant"])
@pytest.mark.parametrize("where", ["If", "Loop", "If in Loop"])
def test_a_map_of_ids_without_weights_of_bodies_is_read(
    kind: str, where: str, tmp_path: Path
) -> None:
    path, tied, names = (
        write(tmp_path, make(kind, where)),
        tmp_path / "tied.onnx",
        tmp_path / "map.json",
    )
    done(in_process("duplicate", path, "--prefix", "n_", "-o", tied, "--map-out", names))
    old = json.loads(names.read_text())
    old["entries"] = [entry for entry in old["entries"] if entry["from"]["name"] != "weight"]
    for side in ("from", "to"):
        ids = sorted({entry[side]["id"] for entry in old["entries"]})
        for entry in old["entries"]:
            entry[side]["id"] = ids.index(entry[side]["id"])
    names.write_text(json.dumps(old))
    assert b"EQUAL" in done(in_process("verify", tied, "--map", names)).stdout


def test_external_data_of_a_body_moves_to_the_graph(tmp_path: Path) -> None:
    model = make("Constant", "If")
    tensor = (
        body_of(next(node for node in model.graph.node if node.op_type == "If"))
        .node[0]
        .attribute[0]
        .t
    )
    tensor.CopyFrom(
        TensorProto(data_type=TensorProto.FLOAT, dims=[16], data_location=TensorProto.EXTERNAL)
    )
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "64")):
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "here").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "here/w.bin").write_bytes(DATA)
    path, tied = tmp_path / "here/model.onnx", tmp_path / "other/tied.onnx"
    path.write_bytes(model.SerializeToString())
    expected = compute(path)
    done(in_process("duplicate", path, "--prefix", "n_", "--mode", "tie", "-o", tied))
    shutil.rmtree(tmp_path / "here")
    assert (tmp_path / "other/tied.onnx.data").read_bytes().count(DATA) == 1
    assert compute(tied) == 2 * expected


def test_a_constant_and_an_initializer_of_equal_values_are_one_model(tmp_path: Path) -> None:
    path, other = (
        write(tmp_path, make("Constant", "If")),
        write(tmp_path, make("initializer", "If"), "other.onnx"),
    )
    run = done(in_process("compare", path, other))
    assert run.stdout.splitlines()[-1].startswith(b"EQUAL")


@pytest.mark.parametrize(("kind", "where"), [case for case in DENSE if case[1] != "function"])
def test_new_values_of_a_weight_are_written_where_it_is(
    kind: str, where: str, tmp_path: Path
) -> None:
    path, out = write(tmp_path, make(kind, where)), tmp_path / "out.onnx"
    gs.save(gs.load(path).with_params({"weight": VALUES + 1}), out)
    assert out.read_bytes().count(DATA) == 0
    assert out.read_bytes().count((VALUES + 1).tobytes()) == 1
    assert compute(out) == compute(write(tmp_path, make(kind, where, VALUES + 1), "wanted.onnx"))


def test_a_group_of_models_keeps_the_weights_of_their_bodies(tmp_path: Path) -> None:
    first, second = (
        write(tmp_path, make("Constant", where), f"{where}.onnx") for where in ("If", "graph")
    )
    out = tmp_path / "group.onnx"
    done(in_process("group", first, second, "--prefix", "a_", "--prefix", "b_", "-o", out))
    assert {"a_weight", "b_weight"} <= {record["key"] for record in list_records(out)}
    assert compute(out) == compute(first) + compute(second)


@pytest.mark.parametrize(
    ("code", "sizes"), [(onnx.TensorProto.UINT4, (4, 8)), (onnx.TensorProto.INT4, (8, 4))]
)
def test_equal_bytes_of_other_types_are_not_equal(
    code: int, sizes: tuple[int, int], tmp_path: Path
) -> None:
    """Elements that no parameter file holds are listed as bytes; their dtype and shape count all the same."""
    helper = onnx.helper

    def make(*tensors: tuple[str, int, tuple[int, int]]) -> onnx.ModelProto:
        weights = [
            onnx.TensorProto(name=n, data_type=t, dims=s, raw_data=bytes(range(16)))
            for n, t, s in tensors
        ]
        nodes = [
            helper.make_node("Cast", [weight.name], [f"{weight.name}_y"], to=1)
            for weight in weights
        ]
        outputs = [helper.make_tensor_value_info(f"{n}_y", 1, s) for n, _, s in tensors]
        graph = helper.make_graph(nodes, "g", [], outputs, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    signed, other = ("w", onnx.TensorProto.INT4, (4, 8)), ("w", code, sizes)
    for name, model in {
        "a": make(signed),
        "b": make(other),
        "both": make(signed, ("v", code, sizes)),
    }.items():
        onnx.save(model, tmp_path / f"{name}.onnx")
    renamed = gs.rename(tmp_path / "b.onnx", match={"w_y": "v_y"})
    with pytest.raises(gs.RefusedError, match="with different types int4"):
        gs.group([tmp_path / "a.onnx", renamed], on_collision="tie-if-equal")
    with pytest.raises(gs.RefusedError, match="they have types int4"):
        gs.share(tmp_path / "both.onnx", aliases={"w": "v"})
    assert gs.detect(tmp_path / "both.onnx") == []
    (change,) = gs.diff_params(tmp_path / "a.onnx", tmp_path / "b.onnx").changes
    assert change.how == "form"
    assert "type int4" in change.detail
