"""``inspect`` as a user reads it: the summary, the layers, the lists of names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.analysis.cost import LayerCost
from graphshare.cli.commands.inspect import _format_model, _make_row
from graphshare.errors import Fault
from graphshare.files.schema import find_violations
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.inspection.folder import ModelFacts
from graphshare.inspection.graph import ModuleNames, list_module_names
from tests.processes import ROOT, done, environment, graphshare, refused, write_json, write_params
from tests.surroundings import size_of_day
from tests.symbols import document, old_batch_norm, operator, two_layers, variable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    write_json(tmp_path / "layers.json", two_layers())
    return tmp_path


def inspected(folder: Path, *arguments: str) -> list[str]:
    return done(graphshare("inspect", *arguments, cwd=folder)).stdout.decode().splitlines()


def test_the_summary_of_a_checkpoint_needs_no_option(folder: Path) -> None:
    assert inspected(folder, "lenet") == [
        "model             lenet-symbol.json, lenet-0000.params (49.3 kB)",
        "inputs            data ?x1x?x?, softmax_label ?",
        "outputs           softmax_output ?x10",
        "parameters        12,074 in 16 arrays, 48 of them in 4 auxiliary states",
        "multiply-adds     unknown: give --shape data=?,1,?,? with a size for each ?",
        "generation        1.0 (1.0 and later), mxnet_version 10901",
        "nodes             31",
        (
            "operators         Activation 3, Convolution 2, BatchNorm 2, Pooling 2, FullyConnected 2, "
            "Flatten 1, SoftmaxOutput 1"
        ),
    ]


def test_a_scalar_input_is_not_asked_for(tmp_path: Path) -> None:
    variables = [
        {"op": "null", "name": name, "inputs": []} for name in ("scale", "data", "fc_weight")
    ]
    dense = {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3", "no_bias": "True"}}
    operators = [
        {**dense, "inputs": [[1, 0, 0], [2, 0, 0]]},
        {"op": "_npi_multiply", "name": "m", "inputs": [[3, 0, 0], [0, 0, 0]]},
    ]
    attrs = {"mxnet_version": ["int", 10901], "is_np_shape": ["int", 1]}
    graph = {
        "nodes": variables + operators,
        "arg_nodes": [0, 1, 2],
        "heads": [[4, 0, 0]],
        "attrs": attrs,
    }
    (tmp_path / "scaled.json").write_text(json.dumps(graph))
    text = done(
        graphshare("inspect", "scaled.json", "--shape", "scale=", cwd=tmp_path)
    ).stdout.decode()
    assert "unknown: give --shape data=...\n" in text


def test_layers_and_totals_where_the_shapes_are_known(folder: Path) -> None:
    lines = inspected(folder, "lenet", "--shape", "data=2,1,28,28")
    assert "multiply-adds     657,024" in lines
    sections = "\n".join(lines).split("\n\n")
    assert len(sections) == 3
    operators, layers = (
        [line.split() for line in section.splitlines()] for section in sections[1:]
    )
    assert operators[:3] == [["operator", "nodes", "parameters", "multiply-adds"], ["Convolution", "2", "3,424", "640,000"],
                             ["FullyConnected", "2", "8,554", "17,024"]]  # fmt: skip
    assert layers[:3] == [["layer", "operator", "output", "parameters", "multiply-adds"],
                          ["conv1", "Convolution", "2x8x24x24", "208", "230,400"],
                          ["bn1", "BatchNorm", "2x8x24x24", "32"]]  # fmt: skip
    assert len(layers) == 1 + 13


def test_names_are_listed_on_request_only(folder: Path) -> None:
    assert not any("conv1_weight" in line for line in inspected(folder, "lenet"))
    lines = inspected(folder, "lenet", "--names")
    assert lines[: len(lines) - lines[::-1].index("")][:-1] == inspected(folder, "lenet")
    assert "  bn1_moving_mean  auxiliary  mutated by BatchNorm 'bn1'" in lines
    assert "  conv2_output     ?x16x?x?  float32" in lines
    assert any(
        line.startswith("arguments         data, conv1_weight, conv1_bias, bn1_gamma")
        for line in lines
    )


def test_a_long_list_of_outputs_is_cut(tmp_path: Path) -> None:
    nodes = [variable("data"), *(operator("relu", f"r{i}", [0]) for i in range(9))]
    write_json(tmp_path / "many.json", document(nodes, range(1, 10)))
    lines = inspected(tmp_path, "many.json")
    assert (
        "outputs           r0_output, r1_output, r2_output, r3_output, r4_output, r5_output and 3 more"
        in lines
    )


def test_a_declared_shape_gives_the_cost_of_one_sample(tmp_path: Path) -> None:
    nodes = [variable("x", attrs={"__shape__": "(0, 3)"}), variable("fc_weight"),
             operator("FullyConnected", "fc", [0, 1], attrs={"num_hidden": "4", "no_bias": "True"})]  # fmt: skip
    write_json(tmp_path / "fc.json", document(nodes, [2]))
    lines = inspected(tmp_path, "fc.json")
    assert "multiply-adds     12 for one sample of x" in lines
    assert "fc     FullyConnected  1x4             12             12" in lines
    assert gs.inspect(tmp_path / "fc.json", shapes={}).shaped.samples == ["x"]
    assert gs.inspect(tmp_path / "fc.json").shaped is None


def test_a_tied_parameter_is_counted_once_and_shared_after_that(folder: Path) -> None:
    tied = done(
        graphshare("duplicate", "layers.json", "--prefix", "b-", "--mode", "tie", cwd=folder)
    ).stdout
    run = done(
        graphshare("inspect", "-", "--shape", "data=5,3", "--shape", "b-data=5,3", data=tied)
    )
    rows = {
        words[0]: words[3:]
        for line in run.stdout.decode().splitlines()
        if len(words := line.split()) > 3
    }
    assert rows["fc1"] == ["16", "60"]
    assert rows["b-fc1"] == ["16", "shared", "60"]
    run = done(
        graphshare(
            "inspect",
            "-",
            "--shape",
            "data=5,3",
            "--shape",
            "b-data=5,3",
            "--format",
            "json",
            data=tied,
        )
    )
    found = json.loads(run.stdout)
    assert find_violations(found, "inspect") == []
    layers = {
        layer["name"]: (layer["parameters"], layer["shared"])
        for layer in found["shaped"]["totals"]["layers"]
    }
    assert (layers["fc1"], layers["b-fc1"]) == ((16, 0), (0, 16))


def test_contradicting_files_are_still_inspected(folder: Path) -> None:
    keys = ["arg:fc1_weight", "arg:fc1_bias", "arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean", "aux:bn_moving_var",
            "arg:fc2_weight"]  # fmt: skip
    write_params(folder / "wrong.params", keys, (7,))
    lines = inspected(folder, "layers.json", "--params", "wrong.params")
    assert "multiply-adds     unknown: shapes in the files contradict each other" in lines
    assert any(
        line.startswith('contradiction     layers.json (node "fc1"): FullyConnected cannot take')
        for line in lines
    )
    found = json.loads(
        done(
            graphshare(
                "inspect", "layers.json", "--params", "wrong.params", "--format", "json", cwd=folder
            )
        ).stdout
    )
    assert find_violations(found, "inspect") == []
    assert "shaped" not in found
    assert "fc1" in found["contradiction"]


def test_the_library_has_what_the_command_prints(folder: Path) -> None:
    run = done(
        graphshare("inspect", "lenet", "--shape", "data=2,1,28,28", "--format", "json", cwd=folder)
    )
    shaped = gs.inspect(folder / "lenet", shapes={"data": (2, 1, 28, 28)}).shaped
    assert shaped is not None
    assert (
        json.loads(run.stdout)["shaped"]["totals"]["multiply_adds"]
        == shaped.totals.multiply_adds
        == 657024
    )
    assert [layer.name for layer in shaped.totals.layers][-1] == "softmax"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Two models, one of them with two epochs, two that cannot be read, a loop of links, a pipe,
    and what is no model.
    """
    (tmp_path / "zoo" / "sub").mkdir(parents=True)
    for name in ("lenet-symbol.json", "lenet-0000.params", "nin-symbol.json"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path / "zoo" / "sub")
    shutil.copy(
        ROOT / "fixtures" / "lenet-0000.params", tmp_path / "zoo" / "sub" / "lenet-0012.params"
    )
    text = (ROOT / "fixtures" / "lenet-symbol.json").read_text()
    (tmp_path / "zoo" / "bad-symbol.json").write_text(text[:300])
    (tmp_path / "zoo" / "half-symbol.json").write_text(text)
    (tmp_path / "zoo" / "half-0003.params").write_bytes(
        (ROOT / "fixtures" / "lenet-0000.params").read_bytes()[:200]
    )
    (tmp_path / "zoo" / "package.json").write_text("{}")
    (tmp_path / "zoo" / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "zoo" / "pipe-symbol.json")
    return tmp_path


def test_a_folder_has_a_line_for_each_model(models: Path) -> None:
    run = graphshare("inspect", "zoo", cwd=models)
    assert run.returncode == 2
    assert run.stdout.decode().splitlines() == [
        "model            nodes     parameters  inputs -> outputs",
        "zoo/bad        error: line 19 column 15: ends inside the graph: the file is truncated",
        (
            "zoo/half       error: zoo/half-0003.params: record 0, byte 80: ends inside the data: "
            "expected 800 bytes, 120 left"
        ),
        "zoo/sub/lenet       31         12,074  data, softmax_label -> softmax_output",
        "zoo/sub/nin         57      24 arrays  data, softmax_label -> softmax_output",
    ]
    assert run.stderr == b"4 models, 2 cannot be read\n"
    assert done(graphshare("inspect", "zoo/sub/", cwd=models)).stderr == b"2 models\n"


def test_models_of_one_stem_are_told_apart_by_their_files(models: Path) -> None:
    small = ROOT / "fixtures" / "cases" / "draw" / "onnx" / "in" / "small.onnx"
    shutil.copy(small, models / "zoo" / "sub" / "lenet.onnx")
    text = done(graphshare("inspect", "zoo/sub", cwd=models)).stdout.decode()
    names = ["zoo/sub/lenet-symbol.json", "zoo/sub/lenet.onnx", "zoo/sub/nin"]
    assert [line.split()[0] for line in text.splitlines()[1:]] == names
    (models / "zoo" / "sub" / "lenet-0012.params").unlink()
    digests = done(graphshare("inspect", "zoo/sub", "--fingerprint", cwd=models)).stdout.decode()
    assert [line.split()[-1] for line in digests.splitlines()] == names


def test_a_folder_as_json(models: Path) -> None:
    run = graphshare("inspect", "zoo", "--format", "json", cwd=models)
    assert run.returncode == 2
    found = json.loads(run.stdout)
    assert find_violations(found, "inspect-folder") == []
    lines = graphshare("inspect", "zoo", "--format", "jsonl", cwd=models).stdout.splitlines()
    assert [json.loads(line) for line in lines] == found["models"]
    facts = {Path(model["graph"]).name: model for model in found["models"]}
    assert facts["lenet-symbol.json"]["params"] == "zoo/sub/lenet-0012.params"
    assert facts["lenet-symbol.json"]["epochs"] == [0, 12]
    assert (
        facts["bad-symbol.json"]["faults"][0]["message"]
        == "ends inside the graph: the file is truncated"
    )
    assert facts["bad-symbol.json"]["nodes"] is None
    assert [model.numbers for model in gs.inspect_folder(models / "zoo" / "sub")] == [12074, None]


def test_a_folder_of_nothing_and_options_of_one_model_are_refused(models: Path) -> None:
    (models / "empty").mkdir()
    refused(graphshare("inspect", "empty", cwd=models), "empty: contains no *-symbol.json")
    refused(
        graphshare("inspect", "zoo", "--names", "--shape", "data=1", cwd=models),
        "--names",
        "--shape",
        "one at a time",
    )


def test_several_models_have_a_line_each(models: Path) -> None:
    names = ["zoo/sub/lenet", "zoo/half-symbol.json", "zoo/sub", "zoo/sub/lenet-symbol.json"]
    run = graphshare("inspect", *names, cwd=models)
    assert run.returncode == 2
    assert run.stdout.decode().splitlines() == [
        "model            nodes     parameters  inputs -> outputs",
        "zoo/sub/lenet       31         12,074  data, softmax_label -> softmax_output",
        (
            "zoo/half       error: zoo/half-0003.params: record 0, byte 80: ends inside the data: "
            "expected 800 bytes, 120 left"
        ),
        "zoo/sub/nin         57      24 arrays  data, softmax_label -> softmax_output",
    ]
    assert run.stderr == b"3 models, 1 cannot be read\n"
    found = json.loads(graphshare("inspect", *names, "--format", "json", cwd=models).stdout)
    assert find_violations(found, "inspect-folder") == []
    assert found["models"][0]["epochs"] == [0, 12]
    refused(
        graphshare("inspect", *names, "--names", cwd=models),
        "--names concerns one model, and there are 4",
    )
    refused(
        graphshare("inspect", "nix", "zoo/sub/lenet", "nux", cwd=models),
        "nix: does not exist",
        "nux: does not exist",
    )
    refused(
        graphshare("inspect", "zoo/sub/lenet", "zoo/sub/nin", "--exclude", "x", cwd=models),
        "--exclude",
    )


def test_parameters_that_do_not_fit_are_warned_about(models: Path) -> None:
    shutil.copy(ROOT / "fixtures" / "lenet-0000.params", models / "zoo" / "sub" / "nin-0000.params")
    run = done(graphshare("inspect", "zoo/sub", cwd=models))
    assert b"warning: zoo/sub/nin-0000.params: lacks parameters of the graph: " in run.stderr


def test_one_model_of_a_folder_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """Ten graphs of 20,000 nodes, everyday four, take hardly more than one."""
    nodes = [variable("data"), *(operator("relu", f"relu{i}", [i]) for i in range(20_000))]
    text = json.dumps(document(nodes, [20_000]))
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    (tmp_path / "one" / "m-symbol.json").write_text(text)
    for number in range(size_of_day(4, 10)):
        (tmp_path / "many" / f"m{number}-symbol.json").write_text(text)
    script = (
        "import sys, resource; from graphshare.cli import main; code = main.run(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
    )
    peaks = []
    for folder in ("one", "many"):
        run = subprocess.run([sys.executable, "-c", script, "inspect", folder], cwd=tmp_path, capture_output=True,
                             env=environment(), check=False)  # fmt: skip
        assert run.returncode == 0, run.stderr
        peaks.append(int(run.stderr.split()[-1]))
    assert peaks[1] < 1.5 * peaks[0]


def test_weights_inside_functions_are_parameters(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight = helper.make_tensor("", onnx.TensorProto.FLOAT, [64, 64], [1.0] * 4096)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=weight),
        helper.make_node("Mul", ["in", "c"], ["out"]),
    ]
    function = helper.make_function(
        "own", "F", ["in"], ["out"], nodes, [helper.make_opsetid("", 17)]
    )
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [64, 64]) for name in "xy")
    calls = [
        helper.make_node("F", ["x"], ["h"], domain="own"),
        helper.make_node("Add", ["h", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        calls,
        "g",
        [x],
        [y],
        [helper.make_tensor("w", onnx.TensorProto.FLOAT, [64, 64], [1.0] * 4096)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=9),
        tmp_path / "f.onnx",
    )
    assert gs.inspect(tmp_path / "f.onnx").parameters == ["w", "own.F/c"]


def test_weights_that_models_share_are_grouped_by_the_models_that_have_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {"a": 16, "b": 32, "c": 40, "d": 20}
    arrays = {name: rng.normal(size=(16, count)).astype("float32") for name, count in rows.items()}
    arrays["small"] = np.ones((16, 15), "float32")

    def write(name: str, *weights: str) -> str:
        tensors = [
            numpy_helper.from_array(arrays[weight], f"w{i}") for i, weight in enumerate(weights)
        ]
        nodes = [
            helper.make_node("MatMul", ["x", tensor.name], [f"y{i}"])
            for i, tensor in enumerate(tensors)
        ]
        values = [
            helper.make_tensor_value_info(one, TensorProto.FLOAT, None)
            for one in ("x", *(n.output[0] for n in nodes))
        ]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            tmp_path / name,
        )
        return str(tmp_path / name)

    first, second = write("1.onnx", "a", "b", "small"), write("2.onnx", "a", "b", "c", "c", "small")
    third = write("3.onnx", "a", "d")
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", tmp_path)
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x08\x12\x03")
    shared = gs.inspect_shared(tmp_path)
    assert [(group.models, group.arrays, group.size) for group in shared.groups] == [
        ((first, second), 1, 2048),
        ((first, second, third), 1, 1024),
        ((second,), 1, 2560),
    ]
    assert (shared.weights, shared.distinct) == (
        3 * 1024 + 2 * 2048 + 2 * 2560 + 1280,
        1024 + 2048 + 2560 + 1280,
    )
    assert sorted(shared.left) == sorted(
        str(tmp_path / name) for name in ("broken.onnx", "lenet-symbol.json")
    )


def test_a_broken_file_of_an_older_epoch_is_a_fault_of_the_model(tmp_path: Path) -> None:
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", tmp_path)
    shutil.copy(ROOT / "fixtures" / "lenet-0000.params", tmp_path / "lenet-0002.params")
    (facts,) = gs.inspect_folder(tmp_path)
    assert (facts.epochs, facts.numbers, facts.faults) == ((2,), 12074, ())
    (tmp_path / "lenet-0001.params").write_bytes(b"broken")
    (facts,) = gs.inspect_folder(tmp_path)
    assert (facts.params, facts.epochs, facts.nodes) == (
        str(tmp_path / "lenet-0002.params"),
        (1, 2),
        None,
    )
    assert [fault.where for fault in facts.faults] == [str(tmp_path / "lenet-0001.params")]


def test_shapes_of_an_onnx_model_are_read_on_request(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,4] y) { a = Neg(x) y = Exp(a) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert gs.inspect(tmp_path / "m.onnx").shaped is None
    for shapes in ({}, {"x": (2, 4)}):
        assert gs.inspect(tmp_path / "m.onnx", shapes=shapes).shaped is not None
    variables = [operator("relu", "a", [0])]
    write_json(tmp_path / "plain.json", document([variable("x"), *variables], [1]))
    assert gs.inspect(tmp_path / "plain.json", shapes={}).shaped is None
    assert gs.inspect(tmp_path / "plain.json").shaped is None


def test_variables_without_nodes_are_listed_with_their_roles(tmp_path: Path) -> None:
    """A file of 2015 has none for the states of a BatchNorm; MXNet adds them while it loads."""
    write_json(tmp_path / "old.json", old_batch_norm())
    facts = gs.inspect(tmp_path / "old.json")
    states = ["bn_moving_mean", "bn_moving_var"]
    assert (facts.auxiliary_states, facts.implied) == (states, states)
    assert (facts.inputs, facts.parameters) == (
        ["data"],
        ["bn_gamma", "bn_beta", *states, "fc_weight", "fc_bias"],
    )
    added = [role for role in facts.roles if role.id is None]
    assert [(role.name, role.kind, role.consumers) for role in added] == [
        (name, "auxiliary", 1) for name in states
    ]


def test_names_for_a_module_are_those_of_data_labels_and_states() -> None:
    graph = gs.load(ROOT / "fixtures" / "lenet").graph
    assert list_module_names(graph) == ModuleNames(["data"], ["softmax_label"], [])
    nodes = [variable(name) for name in ("data", "rnn_parameters", "rnn_state")]
    nodes += [
        operator(
            "RNN", "rnn", [0, 1, 2], attrs={"state_size": "3", "num_layers": "1", "mode": "gru"}
        )
    ]
    graph = read_symbol(json.dumps(document(nodes, [3])).encode())
    assert list_module_names(graph) == ModuleNames(["data"], [], ["rnn_state"])


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"nodes": 1234, "inputs": ("x",), "outputs": ("y", "z"), "parameters": 3},
         "m/a        1,234       3 arrays  x -> y, z"),
        ({"nodes": 5, "outputs": tuple("abcde"), "parameters": 1, "numbers": 5000},
         "m/a            5          5,000  none -> a, b, c, d and 1 more"),
        ({"nodes": 5, "inputs": tuple("abcd"), "numbers": 0}, "m/a            5              0  a, b, c, d -> none"),
        ({"nodes": 5}, "m/a            5       0 arrays  none -> none"),
        ({"faults": (Fault("is torn", where="m/a-symbol.json"), Fault("is gone", where="m/a.params"))},
         "m/a      error: is torn; m/a.params: is gone"),
        ({"faults": tuple(Fault(f"f{i}") for i in range(4))}, "m/a      error: f0; f1; f2; f3"),
        ({"faults": tuple(Fault(f"f{i}") for i in range(5))}, "m/a      error: f0; f1; f2; f3; and 1 more"),
    ],
)  # fmt: skip
def test_the_line_of_a_model_of_a_folder(facts: dict[str, Any], line: str) -> None:
    assert _format_model(ModelFacts("m/a-symbol.json", None, (), **facts), "m/a    ") == line


@pytest.mark.parametrize(
    ("outputs", "counts", "row"),
    [
        (((1, 2), (3,)), (10, 0, None), ("1x2, 3", "10", "unknown")),
        (((),), (0, 5, 0), ("scalar", "5 shared", "")),
        (((1,),) * 3, (10, 5, 1), ("1, 1, 1", "10 + 5 shared", "1")),
        (
            ((1,),) * 4,
            (None, None, 2000),
            ("1, 1, 1 and 1 more", "unknown + unknown shared", "2,000"),
        ),
        (((1,),), (0, 0, 0), ("1", "", "")),
        (((1,),), (1, 1, 1), ("1", "1 + 1 shared", "1")),
    ],
)
def test_the_row_of_a_layer(
    outputs: tuple[tuple[int, ...], ...], counts: tuple[Any, ...], row: tuple[str, ...]
) -> None:
    assert _make_row(LayerCost("n", "op", outputs, *counts)) == ("n", "op", *row)


def test_named_sizes_of_inputs_with_initializers_count_as_unknown(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[4,4] x, float[k,n] a, float[n] b) => (float[4,n] y)
              <float[4,3] a = {1,1,1,1,1,1,1,1,1,1,1,1}, float[3] b = {1,1,1}> { h = MatMul (x, a)
               y = Add (h, b) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    shaped = json.loads(done(graphshare("inspect", path, "--format", "json")).stdout)["shaped"]
    assert (
        shaped["totals"]["parameters"],
        [layer["parameters"] for layer in shaped["totals"]["layers"]],
    ) == (None, [None, None])
    assert {output["name"]: output["shape"] for output in shaped["outputs"]}["a"] == ["k", "n"]
    assert "unknown" in done(graphshare("inspect", path, "--names")).stdout.decode()
    done(graphshare("inspect", path, "--shape", "x=4,4"))


def test_an_empty_path_is_called_empty(tmp_path: Path) -> None:
    for words in (["inspect", ""], ["params", "list", ""], ["check", ""]):
        refused(graphshare(*words, cwd=tmp_path), "the path of a file is empty")
