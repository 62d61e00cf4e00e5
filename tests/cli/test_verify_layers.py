"""``run --all`` and ``--layers`` of proofs: every inner output of files, branches and recorded
runs; the first that departs.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.files.schema import find_violations
from tests.processes import ROOT, done, graphshare, refused, write_json
from tests.symbols import document, operator, variable

FIXTURES = ROOT / "fixtures"
SHAPE = ("--shape", "data=1,1,28,28")
#: The outputs of lenet in topological order, with its inputs.
NAMES = [
    *(
        "data",
        "conv1_output",
        "bn1_output",
        "tanh1_output",
        "pool1_output",
        "conv2_output",
        "bn2_output",
        "tanh2_output",
    ),
    *(
        "pool2_output",
        "flatten_output",
        "fc1_output",
        "tanh3_output",
        "fc2_output",
        "softmax_label",
        "softmax_output",
    ),
]
OPERATORS = 13


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with lenet and a record of all its outputs."""
    for path in FIXTURES.glob("lenet*"):
        shutil.copy(path, tmp_path)
    done(graphshare("run", "lenet", "--seed", "3", *SHAPE, "--all", "-o", "dump.npz", cwd=tmp_path))
    return tmp_path


def change(folder: Path, name: str, **attrs: str) -> None:
    """Write ``other-symbol.json``: lenet with other attributes of one node."""
    found = json.loads((folder / "lenet-symbol.json").read_text())
    next(node for node in found["nodes"] if node["name"] == name)["attrs"].update(attrs)
    write_json(folder / "other-symbol.json", found)
    shutil.copy(folder / "lenet-0000.params", folder / "other-0000.params")


def compared(
    folder: Path, *arguments: str, equal: bool, command: str = "compare"
) -> dict[str, Any]:
    """The only branch of a report."""
    run = graphshare(command, *arguments, "--format", "json", cwd=folder)
    found = json.loads(run.stdout)
    assert find_violations(found, command) == []
    assert (run.returncode, found["equal"]) == ((0, True) if equal else (1, False)), (
        run.stdout.decode()
    )
    assert found["verdict"].startswith("EQUAL: " if equal else "NOT EQUAL: ")
    (branch,) = found["branches"]
    return {
        **branch,
        "notes": found["notes"],
        "by_name": {stage["name"]: stage for stage in branch["stages"]},
    }


def rewrite(folder: Path, change: Any) -> None:
    """Change the arrays of the record."""
    with np.load(folder / "dump.npz") as found:
        arrays = {name: found[name] for name in found}
    change(arrays)
    np.savez(folder / "dump.npz", **arrays)


def test_all_outputs_are_kept_in_topological_order_beside_the_inputs(folder: Path) -> None:
    with np.load(folder / "dump.npz") as dump:
        assert list(dump) == NAMES
        done(
            graphshare(
                "run",
                "lenet",
                "--seed",
                "3",
                *SHAPE,
                "--target",
                "tanh2",
                "-o",
                "one.npz",
                cwd=folder,
            )
        )
        with np.load(folder / "one.npz") as one:
            np.testing.assert_allclose(
                dump["tanh2_output"], one["tanh2_output"], rtol=1e-5, atol=1e-5
            )
    model = gs.load(folder / "lenet")
    shapes = {"data": (1, 1, 28, 28)}
    assert list(gs.run(model, seed=3, shapes=shapes, all_outputs=True).outputs) == NAMES
    assert (
        list(gs.run(model, seed=3, shapes=shapes, targets="bn1", all_outputs=True).outputs)
        == NAMES[:3]
    )
    fed = {"conv1_bias": model.params["conv1_bias"]}
    assert (
        "conv1_bias"
        in gs.run(
            model, seed=3, shapes=shapes, targets="conv1", feeds=fed, all_outputs=True
        ).outputs
    )


def test_all_does_not_go_with_everything(folder: Path) -> None:
    arguments = ("run", "lenet", "--seed", "0", *SHAPE, "--all")
    refused(
        graphshare(*arguments, "--sgd-steps", "1", cwd=folder),
        "--all and --sgd-steps cannot be combined",
    )
    refused(
        graphshare(*arguments, "--batch", "2", cwd=folder), "--all keeps the outputs of one pass"
    )


def test_a_record_is_compared_layer_by_layer(folder: Path) -> None:
    branch = compared(folder, "lenet", "dump.npz", "--layers", equal=True)
    assert (branch["reference"], branch["branch"]) == ("dump.npz", "this graph")
    layers = branch["rounds"][0]["layers"]
    assert [layer["reference"] for layer in layers] == [
        name for name in NAMES if name not in ("data", "softmax_label")
    ]
    assert all(layer["comparison"]["identical"] for layer in layers)
    heads = compared(folder, "lenet", "dump.npz", equal=True)
    assert heads["rounds"][0]["layers"] == []
    assert heads["notes"] == [
        "dump.npz has 12 arrays beside the outputs; --layers compares inner outputs"
    ]


def test_the_first_output_that_departs_from_a_record_is_named_with_its_difference(
    folder: Path,
) -> None:
    change(folder, "bn2", eps="0.1")
    branch = compared(folder, "other", "dump.npz", "--layers", equal=False)
    layers = branch["rounds"][0]["layers"]
    departed = [layer["node"] for layer in layers if not layer["comparison"]["equal"]]
    assert departed == ["bn2", "tanh2", "pool2", "flatten", "fc1", "tanh3", "fc2", "softmax"]
    (first, more) = branch["by_name"]["layers"]["details"]
    worst = next(layer["comparison"]["max_abs"] for layer in layers if layer["node"] == "bn2")
    assert first.startswith("first at BatchNorm 'bn2' and 'bn2_output', output 0: values differ")
    assert f"max abs {worst:.3g}" in first
    assert more == "and 7 more (--format json lists all)"
    assert branch["by_name"]["layers"]["summary"] == f"8 of {OPERATORS} inner outputs depart"


def test_an_inner_difference_counts_even_where_the_heads_are_equal(folder: Path) -> None:
    def shift(arrays: dict[str, Any]) -> None:
        arrays["bn1_output"] = arrays["bn1_output"] + 1

    rewrite(folder, shift)
    compared(folder, "lenet", "dump.npz", equal=True)
    branch = compared(folder, "lenet", "dump.npz", "--layers", equal=False)
    assert [branch["by_name"][name]["verdict"] for name in ("values", "layers")] == [
        "holds",
        "fails",
    ]
    assert branch["rounds"][0]["first"]["node"] == "bn1"
    assert branch["rounds"][0]["first"]["comparison"]["max_abs"] == pytest.approx(1, rel=1e-4)


def test_what_is_missing_in_a_record_is_counted_and_a_missing_head_fails(folder: Path) -> None:
    def shorten(arrays: dict[str, Any]) -> None:
        del arrays["conv1_output"], arrays["fc2_output"]
        arrays["elsewhere"] = arrays["bn1_output"]

    rewrite(folder, shorten)
    branch = compared(folder, "lenet", "dump.npz", "--layers", equal=True)
    assert branch["by_name"]["layers"]["summary"].startswith(
        "11 inner outputs compared, 11 bit for bit"
    )
    assert branch["by_name"]["layers"]["summary"].endswith("; 2 not recorded")
    assert branch["notes"] == [
        "dump.npz has arrays with names that the graph does not have: elsewhere"
    ]
    rewrite(folder, lambda arrays: arrays.pop("softmax_output"))
    for more in ([], ["--layers"]):
        branch = compared(folder, "lenet", "dump.npz", *more, equal=False)
        assert branch["by_name"]["values"]["details"] == [
            "softmax_output and softmax_output: dump.npz does not have it"
        ]


def test_a_recorded_parameter_is_compared_with_the_file_or_fed_without_one(folder: Path) -> None:
    def add_weights(arrays: dict[str, Any]) -> None:
        arrays.update(
            {name: np.array(value) for name, value in gs.load(folder / "lenet").params.items()}
        )

    rewrite(folder, add_weights)
    compared(folder, "lenet-symbol.json", "dump.npz", "--layers", equal=True)
    compared(folder, "lenet", "dump.npz", "--layers", equal=True)

    def shift(arrays: dict[str, Any]) -> None:
        arrays["conv2_bias"] = arrays["conv2_bias"] + 1

    rewrite(folder, shift)
    branch = compared(folder, "lenet", "dump.npz", "--layers", equal=False)
    assert branch["rounds"][0]["first"]["reference"] == "conv2_bias"


def test_inputs_that_are_not_recorded_are_fed_or_drawn(folder: Path) -> None:
    with np.load(folder / "dump.npz") as dump:
        np.save(folder / "x.npy", dump["data"])
    rewrite(folder, lambda arrays: arrays.pop("data"))
    compared(folder, "lenet", "dump.npz", "--layers", "--feed", "data=x.npy", equal=True)
    compared(folder, "lenet", "dump.npz", "--layers", "--seed", "3", *SHAPE, equal=True)
    branch = compared(folder, "lenet", "dump.npz", "--layers", "--seed", "4", *SHAPE, equal=False)
    assert branch["rounds"][0]["first"]["node"] == "conv1"


def test_a_record_does_not_go_with_everything(folder: Path) -> None:
    said = refused(
        graphshare("compare", "lenet", "dump.npz", "--rounds", "2", "--reduce", "parts", cwd=folder)
    )
    assert "leave --inputs and --rounds out" in said
    assert "--reduce needs two models" in said
    words = ("dump.npz", "--against-params", "lenet-0000.params")
    refused(graphshare("compare", "lenet", *words, cwd=folder), "--against-params is for a model")
    for words in (("--params", "lenet-0000.params"), ("--epoch", "0")):
        said = refused(
            graphshare("compare", "dump.npz", "lenet", *words, cwd=folder), "MODEL is a record"
        )
        assert "--against-params names those of OTHER" in said
    for words in (("--exact",), ("--map", "names.json"), ("--allow-unsupported",)):
        refused(
            graphshare("compare", "lenet", "dump.npz", *words, cwd=folder),
            f"{words[0]} needs two models, and one is a record",
        )
    refused(graphshare("compare", "lenet", "none.npz", cwd=folder), "none.npz")
    (folder / "bad.npz").write_bytes(b"PK\x03\x04 no more")
    refused(graphshare("compare", "lenet", "bad.npz", cwd=folder), "bad.npz")
    np.save(folder / "x.npy", np.zeros(1))
    unknown = graphshare("compare", "lenet", "dump.npz", "--feed", "dat=x.npy", cwd=folder)
    refused(unknown, "'dat' names no variable")


def test_rounding_is_measured_by_the_largest_number_of_an_output(folder: Path) -> None:
    """What is near zero differs most for its size: another program sums in another order."""

    def shift(share: float, arrays: dict[str, Any]) -> None:
        arrays["conv1_output"] = arrays["conv1_output"] + np.float32(
            share * np.abs(arrays["conv1_output"]).max()
        )

    rewrite(folder, partial(shift, 5e-6))
    compared(folder, "lenet", "dump.npz", "--layers", equal=True)
    compared(folder, "lenet", "dump.npz", "--layers", "--rtol", "1e-7", equal=False)
    rewrite(folder, partial(shift, 5e-5))
    compared(folder, "lenet", "dump.npz", "--layers", equal=False)
    compared(folder, "lenet", "dump.npz", "--layers", "--rtol", "1e-4", equal=True)


def test_two_files_are_compared_layer_by_layer(folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "net1_", "-o", "other", cwd=folder))
    branch = compared(folder, "lenet", "other", "--layers", equal=True)
    pairs = [(layer["reference"], layer["node"]) for layer in branch["rounds"][0]["layers"]]
    assert len(pairs) == OPERATORS
    assert all(reference == f"{node.removeprefix('net1_')}_output" for reference, node in pairs)
    model = gs.load(folder / "other")
    gs.save(
        model.with_params({"net1_fc1_bias": np.array(model.params["net1_fc1_bias"]) + 0.5}),
        folder / "changed",
    )
    report = gs.compare(folder / "lenet", folder / "changed", layers=True)
    assert not report
    layers = report.branches[0].rounds[0].layers
    first = next(layer for layer in layers if not layer.comparison)
    assert (first.reference, first.node) == ("fc1_output", "net1_fc1")
    assert first.comparison.max_abs == pytest.approx(0.5, rel=1e-4)


def test_files_of_another_structure_are_compared_by_name(folder: Path) -> None:
    change(folder, "bn2", eps="0.1")
    branch = compared(folder, "lenet", "other", "--layers", equal=False)
    assert branch["by_name"]["structure"]["details"] == [
        "'bn2' and 'bn2': attributes eps None and '0.1'"
    ]
    assert branch["by_name"]["regions"]["details"][0].startswith(
        "first at bn2_output: values differ"
    )
    assert branch["rounds"][0]["first"]["node"] == "bn2"
    change(folder, "bn2", eps="0.001")  # MXNet's default, but written
    branch = compared(folder, "lenet", "other", "--layers", equal=True)
    assert branch["by_name"]["layers"]["summary"].startswith("13 inner outputs compared")
    assert {stage["name"]: stage["verdict"] for stage in branch["stages"]} == {
        "structure": "skipped",
        "regions": "holds",
        "values": "holds",
        "layers": "holds",
    }
    change(folder, "conv2", num_filter="9")
    branch = compared(folder, "lenet", "other", "--layers", *SHAPE, equal=False)
    assert branch["by_name"]["structure"]["details"] == [
        "'conv2' and 'conv2': attributes num_filter '16' and '9'"
    ]
    assert (
        'one model alone does not compute it: (node "conv2"): Convolution'
        in branch["by_name"]["values"]["details"][0]
    )
    assert branch["by_name"]["layers"]["verdict"] == "skipped"


def test_branches_are_compared_layer_by_layer(folder: Path) -> None:
    done(
        graphshare(
            "duplicate", "lenet", "--prefix", "sha-", "--mode", "tie", "-o", "siam", cwd=folder
        )
    )
    branch = compared(folder, "siam", "--layers", "--rounds", "2", equal=True, command="verify")
    assert [len(values["layers"]) for values in branch["rounds"]] == [
        OPERATORS
    ] * 3  # the open size at 1, at 2, and once more
    assert branch["by_name"]["layers"]["summary"].startswith(
        "13 inner outputs compared in 3 runs, 13 bit for bit"
    )


def test_the_library_takes_arrays_as_a_record(folder: Path) -> None:
    model = gs.load(folder / "lenet")
    outputs = gs.run(model, seed=0, shapes={"data": (1, 1, 28, 28)}, all_outputs=True).outputs
    assert (
        gs.compare(model, outputs, layers=True).verdict
        == "EQUAL: this graph and the recorded arrays, bit for bit"
    )
    assert gs.compare(model, folder / "dump.npz", layers=True)


def test_a_graph_of_variables_has_no_inner_outputs(tmp_path: Path) -> None:
    write_json(tmp_path / "net.json", document([variable("x")], [0]))
    np.savez(tmp_path / "d.npz", x=np.ones(2, "float32"))
    branch = compared(tmp_path, "net.json", "d.npz", "--layers", equal=True)
    assert branch["by_name"]["layers"]["verdict"] == "skipped"


def test_repeated_names_are_numbered(tmp_path: Path) -> None:
    nodes = [variable("x"), operator("tanh", "t", [0]), operator("tanh", "t", [1])]
    write_json(tmp_path / "net.json", document(nodes, [2]))
    done(
        graphshare(
            "run",
            "net.json",
            "--seed",
            "0",
            "--shape",
            "x=3",
            "--all",
            "-o",
            "dump.npz",
            cwd=tmp_path,
        )
    )
    with np.load(tmp_path / "dump.npz") as dump:
        # The output of the graph has one name, whether inner values are listed or not.
        assert list(dump) == ["x", "t_output#1", "t_output"]
    branch = compared(tmp_path, "net.json", "dump.npz", "--layers", equal=True)
    assert [o["output"] for o in branch["rounds"][0]["outputs"]] == ["t_output"]


def test_an_old_file_records_and_holds(tmp_path: Path) -> None:
    nodes = [variable(name) for name in ("data", "bn_gamma", "bn_beta")]
    attrs = {"eps": "0.001", "fix_gamma": "False"}
    graph = document(
        [*nodes, operator("BatchNorm", "bn", [0, 1, 2], attrs=attrs)], [3], version=None
    )
    write_json(tmp_path / "net.json", graph)
    made_up = ("--random-params", "0")
    done(
        graphshare(
            "run",
            "net.json",
            "--seed",
            "0",
            *made_up,
            "--shape",
            "data=2,3",
            "--all",
            "-o",
            "d.npz",
            cwd=tmp_path,
        )
    )
    compared(tmp_path, "net.json", "d.npz", *made_up, "--layers", equal=True)


def test_outputs_alone_are_compared_whatever_the_structure(folder: Path) -> None:
    done(graphshare("fold", "lenet", "-o", "folded", cwd=folder))
    for pair in (("folded", "lenet"), ("lenet", "folded")):
        branch = compared(folder, *pair, *SHAPE, equal=True)
        assert [stage["name"] for stage in branch["stages"]] == ["structure", "regions", "values"]
        assert "Convolution" in branch["by_name"]["structure"]["details"][0]
    run = done(graphshare("compare", "folded", "lenet", *SHAPE, cwd=folder))
    start = "EQUAL: the other model and the original, by weights for every input; 1 difference of structure; "
    assert run.stdout.decode().splitlines()[-1].startswith(start)
    model = gs.load(folder / "folded")
    gs.save(
        model.with_params({"fc1_bias": np.array(model.params["fc1_bias"]) + 0.5}),
        folder / "changed",
    )
    branch = compared(folder, "changed", "lenet", *SHAPE, equal=False)
    assert branch["rounds"][0]["outputs"][0]["output"] == "softmax_output"
    assert branch["by_name"]["regions"]["details"][0].startswith(
        "first at fc1_output: values differ"
    )
    assert (
        gs.compare(folder / "changed", folder / "lenet", shapes={"data": (1, 1, 28, 28)}).outcome
        == "not equal"
    )


def test_a_cut_model_has_the_outputs_of_its_source(folder: Path) -> None:
    done(graphshare("extract", "lenet", "--target", "tanh3", "-o", "features", cwd=folder))
    branch = compared(folder, "features", "lenet", *SHAPE, "--target", "tanh3", equal=True)
    assert branch["rounds"][0]["outputs"][0]["comparison"]["identical"]
    branch = compared(
        folder, "lenet", "features", *SHAPE, "--rounds", "2", "--target", "tanh3", equal=True
    )
    assert [values["outputs"][0]["output"] for values in branch["rounds"]] == ["tanh3_output"] * 2
    for models, title in (
        (("features", "lenet"), "the other model"),
        (("lenet", "features"), "the original"),
    ):
        lost = graphshare("compare", *models, *SHAPE, cwd=folder)
        assert lost.returncode == 2
        said = lost.stdout.decode()
        assert (
            f"{title} alone has the output 'softmax_output'; --target chooses what is compared"
            in said
        )
        assert "`targets`" not in said
    unknown = graphshare("compare", "features", "lenet", "--shape", "dat=1", cwd=folder)
    refused(unknown, "'dat' names no variable")


def test_outputs_of_another_number_are_compared_by_name(folder: Path) -> None:
    done(
        graphshare(
            "extract", "lenet", "--target", "tanh3", "--target", "pool2", "-o", "two", cwd=folder
        )
    )
    done(graphshare("rename", "two", "--prefix", "x_", "-o", "renamed", cwd=folder))
    refused(
        graphshare("compare", "renamed", "lenet", cwd=folder),
        "the models have 2 outputs",
        "graphshare extract",
    )
    branch = compared(
        folder, "two", "lenet", *SHAPE, "--target", "tanh3", "--target", "pool2", equal=True
    )
    assert [output["output"] for output in branch["rounds"][0]["outputs"]] == [
        "tanh3_output",
        "pool2_output",
    ]


def test_drawn_parameters_are_equal_by_name(folder: Path) -> None:
    done(
        graphshare(
            "extract", "lenet-symbol.json", "--target", "tanh3", "-o", "features.json", cwd=folder
        )
    )
    done(
        graphshare(
            "extract",
            "lenet-symbol.json",
            "--target",
            "tanh3",
            "--target",
            "conv2",
            "-o",
            "two.json",
            cwd=folder,
        )
    )
    words = ("two.json", "--random-params", "0")
    compared(folder, "features.json", *words, *SHAPE, "--target", "tanh3", equal=True)
