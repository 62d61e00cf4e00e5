"""``duplicate --mode batch`` as a user runs it, and ``verify`` of its results."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.files.schema import find_violations
from graphshare.formats.mxnet.symbol import read_symbol
from tests.processes import ROOT, done, files_in, graphshare, refused, write_json
from tests.symbols import Document, Record, document, old_batch_norm, operator, variable

FIXTURES = ROOT / "fixtures"


@pytest.fixture
def siam(tmp_path: Path) -> Path:
    """A folder with lenet as a batch of two branches."""
    done(
        graphshare(
            "duplicate",
            FIXTURES / "lenet",
            "--prefix",
            "sha-",
            "--mode",
            "batch",
            "--force",
            "-o",
            "siam",
            cwd=tmp_path,
        )
    )
    return tmp_path


def change(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "siam-symbol.json"
    found = json.loads(path.read_text())
    edit({node["name"]: node for node in found["nodes"]} | {"": found})
    path.write_text(json.dumps(found))


def verdict(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    run = graphshare("verify", "siam", "--format", "json", *arguments, cwd=folder)
    found = json.loads(run.stdout)
    assert find_violations(found, "verify") == []
    return run.returncode, found


def test_the_printed_command_proves_it(tmp_path: Path) -> None:
    for stem in ("blog", "lenet"):
        command = (
            "duplicate",
            FIXTURES / stem,
            "--prefix",
            "sha-",
            "--prefix",
            "b-",
            "--mode",
            "batch",
            "--force",
            "-o",
            stem,
        )
        said = done(graphshare(*command, cwd=tmp_path)).stderr.decode()
        printed = shlex.split(re.search(r"prove it: graphshare (.*)", said)[1])  # type: ignore[index]
        last = done(graphshare(*printed, cwd=tmp_path)).stdout.decode().splitlines()[-1]
        assert last.startswith("EQUAL: (original), sha-, b- and runs of their own")


def test_parameters_stay_and_outputs_keep_their_names(siam: Path) -> None:
    assert (siam / "siam-0000.params").read_bytes() == (FIXTURES / "lenet-0000.params").read_bytes()
    found = json.loads(done(graphshare("inspect", "siam", "--format", "json", cwd=siam)).stdout)
    assert found["outputs"] == ["softmax_output", "sha-softmax_output"]
    assert found["inputs"] == ["data", "sha-data", "softmax_label", "sha-softmax_label"]
    shapes = ("--shape", "softmax_label=2", "--shape", "sha-softmax_label=2")
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.standard_normal((2, 1, 28, 28)).astype("float32") for name in ("data", "sha-data")
    }
    np.savez(siam / "x.npz", **arrays)
    np.save(siam / "y.npy", arrays["sha-data"])
    done(graphshare("run", "siam", "--feed", "x.npz", *shapes, "-o", "both.npz", cwd=siam))
    done(graphshare("run", FIXTURES / "lenet", "--feed", "data=y.npy", "-o", "one.npz", cwd=siam))
    with np.load(siam / "both.npz") as both, np.load(siam / "one.npz") as one:
        assert np.allclose(both["sha-softmax_output"], one["softmax_output"], rtol=1e-5)
        assert not np.allclose(both["softmax_output"], one["softmax_output"], rtol=1e-2)


def test_the_map_tells_what_the_branches_share(tmp_path: Path) -> None:
    command = (
        "duplicate",
        FIXTURES / "blog",
        "--prefix",
        "sha-",
        "--mode",
        "batch",
        "-o",
        "siam",
        "--map-out",
        "m.json",
    )
    done(graphshare(*command, cwd=tmp_path))
    found = json.loads((tmp_path / "m.json").read_text())
    assert find_violations(found, "map") == []
    how = {(e["branch"], e["from"]["name"]): (e["how"], e["to"]["name"]) for e in found["entries"]}
    assert how["", "data"] == ("kept", "data")
    assert how["sha-", "data"] == ("copied", "sha-data")
    assert how["", "conv1"] == how["sha-", "conv1"] == ("tied", "conv1")
    assert how["sha-", "makeloss0"] == ("tied", "makeloss0_batch")


def test_without_the_original_and_with_a_shared_input(tmp_path: Path) -> None:
    command = (
        "duplicate",
        FIXTURES / "lenet",
        "--prefix",
        "a-",
        "--prefix",
        "b-",
        "--mode",
        "batch",
        "--force",
    )
    done(
        graphshare(
            *command, "--drop-original", "--share-input", "*label", "-o", "siam", cwd=tmp_path
        )
    )
    found = json.loads(done(graphshare("inspect", "siam", "--format", "json", cwd=tmp_path)).stdout)
    assert found["outputs"] == ["a-softmax_output", "b-softmax_output"]
    assert found["inputs"] == ["a-data", "b-data", "softmax_label"]
    assert verdict(tmp_path)[0] == verdict(tmp_path, "--prefix", "a-", "--prefix", "b-")[0] == 0


def test_verify_is_asked_before_anything_is_written(tmp_path: Path) -> None:
    """A reduction over the samples gives other numbers than each branch would have: forced, and disproved."""
    nodes = [variable("data"), operator("mean", "m", [0], attrs={"axis": "0", "keepdims": "True"}),
             operator("broadcast_sub", "s", [0, 1])]  # fmt: skip
    write_json(tmp_path / "g.json", document(nodes, [2]))
    command = ("duplicate", "g.json", "--prefix", "sha-", "--mode", "batch", "-o", "x.json")
    said = refused(
        graphshare(*command, cwd=tmp_path), '(node "m"): mean takes one value of all samples'
    )
    assert "--force" in said
    run = graphshare("duplicate", *command[1:], "--force", cwd=tmp_path)
    assert "warning: mean takes one value of all samples: m" in done(run).stderr.decode()
    run = graphshare("verify", "x.json", "--shape", "data=2,3", cwd=tmp_path)
    assert run.returncode == 1
    assert "values differ" in run.stdout.decode()


def test_a_disproved_batch_is_not_written(tmp_path: Path) -> None:
    attrs = {"axis": "0", "keepdims": "True", "__shape__": "(2, 3)"}
    nodes = [variable("data", attrs={"__shape__": "(2, 3)"}), operator("max", "m", [0], attrs=attrs),
             operator("broadcast_sub", "s", [0, 1])]  # fmt: skip
    write_json(tmp_path / "g.json", document(nodes, [2]))
    command = (
        "duplicate",
        "g.json",
        "--prefix",
        "sha-",
        "--mode",
        "batch",
        "--force",
        "--verify",
        "-o",
        "x.json",
    )
    run = graphshare(*command, cwd=tmp_path)
    assert run.returncode == 1, run.stderr.decode()
    assert files_in(tmp_path) == ["g.json"]


@pytest.mark.parametrize(
    ("edit", "details"),
    [
        (
            lambda n: n["data_batch"]["inputs"].reverse(),
            ["'data_batch' joins sha-data, data, which is not the order of the branches"],
        ),
        (
            lambda n: n["sha-softmax"]["inputs"][0].__setitem__(1, 0),
            ["output 'sha-softmax_output' is part 0 of 'softmax_split', not 1"],
        ),
        (
            lambda n: n[""]["heads"].reverse(),
            [
                "output 'sha-softmax_output' is part 1 of 'softmax_split', not 0",
                "output 'softmax_output' stands where 'sha-sha-softmax_output' should",
                "output 'softmax_output' is part 0 of 'softmax_split', not 1",
            ],
        ),
        (
            lambda n: n[""]["heads"].__setitem__(1, n[""]["heads"][0]),
            ["output 'softmax_output' is part 0 of 'softmax_split', not 1"],
        ),
        (
            lambda n: n["sha-softmax"].update(name="b-softmax"),
            ["output 'b-softmax_output' stands where 'sha-softmax_output' should"],
        ),
        (
            lambda n: n["softmax_split"]["attrs"].update(num_outputs="3"),
            ["'softmax_split' does not make a part for each branch"],
        ),
        (
            lambda n: n["data_batch"]["inputs"].pop(),
            ["'data_batch' does not join one input of each branch"],
        ),
        (lambda n: n[""]["heads"].pop(), ["1 output cannot be those of 2 branches"]),
        (
            lambda n: n[""]["heads"].append(n[""]["heads"][0]),
            ["3 outputs cannot be those of 2 branches"],
        ),
    ],
)
def test_planted_faults_of_structure_are_found(
    siam: Path, edit: Callable[[dict[str, Any]], None], details: list[str]
) -> None:
    change(siam, edit)
    code, found = verdict(siam)
    assert code == 1
    assert found["branches"][0]["stages"][0]["details"] == details


def test_a_planted_mixture_of_samples_is_found(siam: Path) -> None:
    """Statistics of the batch instead of the moving ones cannot be planted at inference; a sum over the samples can."""

    def mix(nodes: dict[str, Any]) -> None:
        nodes["tanh3"].update(op="reverse", attrs={"axis": "(0,)"})

    change(siam, mix)
    code, found = verdict(siam)
    assert code == 1
    assert [stage["verdict"] for stage in found["branches"][1]["stages"]] == [
        "holds",
        "holds",
        "fails",
    ]


def test_feeds_and_shapes_hold_for_all_branches(siam: Path) -> None:
    np.save(siam / "x.npy", np.ones((3, 1, 28, 28), "float32"))
    code, found = verdict(siam, "--feed", "data=x.npy")
    assert code == 0
    assert [b["rounds"][0]["outputs"][0]["shape"] for b in found["branches"]] == [[3, 10]] * 2
    assert verdict(siam, "--shape", "sha-data=2,1,28,28", "--rounds", "2")[0] == 0
    np.save(siam / "y.npy", np.ones((2, 1, 28, 28), "float32"))
    said = refused(
        graphshare("verify", "siam", "--feed", "data=x.npy", "--feed", "sha-data=y.npy", cwd=siam)
    )
    assert "'sha-data' has the shape" in said


def chain(*operators: tuple[str, dict[str, str]], label: bool = False) -> Document:
    """Data through some operators, one after the other."""
    nodes: list[Record] = [variable("data")]
    if label:
        nodes.append(variable("some_label"))
    for i, (op, attrs) in enumerate(operators):
        before = [len(nodes) - 1] if i or not label else [0, 1]
        nodes.append(operator(op, f"n{i}", before, attrs=attrs))
    return document(nodes, [len(nodes) - 1])


def norm() -> Document:
    names = ("data", "gamma", "beta", "moving_mean", "moving_var")
    return document([*map(variable, names), operator("BatchNorm", "n0", range(5))], [5])


COUPLED: dict[str, tuple[Document, str]] = {
    "training BatchNorm": (
        norm(),
        "BatchNorm takes mean and variance of the whole batch while training",
    ),
    "reshape to a fixed batch": (
        chain(("Reshape", {"shape": "(32, -1)"})),
        "sets axis 0 to 32, whatever the batch size is",
    ),
    "old reshape": (chain(("Reshape", {"target_shape": "(32, 0)"})), "sets axis 0 to 32"),
    "sum over all": (chain(("sum", {})), "takes one value of all samples"),
    "mean over axis 0": (chain(("mean", {"axis": "(0, 1)"})), "takes one value of all samples"),
    "all axes but one": (
        chain(("sum", {"axis": "1", "exclude": "True"})),
        "takes one value of all samples",
    ),
    "behind a transpose": (
        chain(("transpose", {"axes": "(1, 0)"}), ("sum", {"axis": "1"})),
        "takes one value of all samples",
    ),
    "softmax over samples": (chain(("softmax", {"axis": "0"})), "works along the samples"),
    "sorted as one row": (chain(("sort", {"axis": "None"})), "works on all samples in one row"),
    "gradient by batch": (
        chain(("MakeLoss", {"normalization": "batch"})),
        "divides its gradient by the number of all samples",
    ),
    "gradient by valid": (
        chain(("SoftmaxOutput", {"normalization": "valid"}), label=True),
        "divides its gradient by the number of valid values",
    ),
    "slice": (chain(("slice", {"begin": "(1,)", "end": "(2,)"})), "takes a part of the samples"),
    "slice_axis": (
        chain(("slice_axis", {"axis": "0", "begin": "0", "end": "1"})),
        "takes a part of the samples",
    ),
    "split": (chain(("SliceChannel", {"axis": "0", "num_outputs": "2"})), "splits the batch axis"),
    "squeeze": (chain(("squeeze", {})), "drops the batch axis"),
    "reverse": (chain(("reverse", {"axis": "0"})), "works along the samples"),
    "size": (chain(("shape_array", {})), "returns the size of the batch"),
    "range": (chain(("_contrib_quantize_v2", {})), "takes one range for all samples"),
    "nobody's": (chain(("Nobody", {})), "it is not a registered operator"),
    "unknown": (chain(("_np_cumsum", {"axis": "0"})), "has an unknown effect on the batch axis"),
    "rows": (chain(("dot", {}), label=True), "sums over the batch axis"),
}


@pytest.mark.parametrize("name", COUPLED)
def test_what_mixes_samples_is_named_and_can_be_forced(tmp_path: Path, name: str) -> None:
    found, why = COUPLED[name]
    write_json(tmp_path / "g.json", found)
    command = (
        "duplicate",
        "g.json",
        "--prefix",
        "sha-",
        "--mode",
        "batch",
        "--as-input",
        "data",
        "-o",
        "x.json",
    )
    said = refused(graphshare(*command, cwd=tmp_path), why)
    assert '(node "n' in said
    assert not (tmp_path / "x.json").exists()
    run = done(graphshare(*command, "--force", cwd=tmp_path))
    assert why in run.stderr.decode()


def test_every_operator_that_mixes_is_named_at_once(tmp_path: Path) -> None:
    found = chain(("softmax", {"axis": "0"}), ("Nobody", {}), ("mean", {"axis": "0"}))
    write_json(tmp_path / "g.json", found)
    said = refused(
        graphshare("duplicate", "g.json", "--prefix", "a-", "--mode", "batch", cwd=tmp_path)
    )
    assert said.count("error: ") == 3


FINE: dict[str, Document] = {
    "fold and unfold": chain(
        ("Reshape", {"shape": "(-1, 4)"}),
        ("softmax", {"axis": "-1"}),
        ("Reshape", {"shape": "(-1, 2, 4)"}),
    ),
    "there and back": chain(
        ("transpose", {"axes": "(1, 0, 2)"}),
        ("softmax", {"axis": "0"}),
        ("transpose", {"axes": "(1, 0, 2)"}),
    ),
    "stays moved": chain(("transpose", {"axes": "(1, 2, 0)"}), ("relu", {})),
    "other axes": chain(("sum", {"axis": "(1, 2)"})),
    "new axis": chain(("expand_dims", {"axis": "0"}), ("sum", {"axis": "0"})),
    "swapped": chain(("SwapAxis", {"dim1": "0", "dim2": "2"}), ("mean", {"axis": "1"})),
    "copied": chain(("Reshape", {"shape": "(0, -1)"}), ("SliceChannel", {"num_outputs": "2"})),
}


@pytest.mark.parametrize("name", FINE)
def test_what_only_moves_samples_is_followed_and_proved(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / "g.json", FINE[name])
    done(
        graphshare(
            "duplicate", "g.json", "--prefix", "sha-", "--mode", "batch", "-o", "siam", cwd=tmp_path
        )
    )
    code, found = verdict(tmp_path, "--shape", "data=3,2,4")
    assert (code, found["equal"]) == (0, True), found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mode", "batch", "--tie", "*"], "--tie and --copy choose between modes"),
        (["--mode", "batch", "--upto", "fc1"], "--upto leaves the original"),
        (["--force"], "--force is for --mode batch"),
        (["--batch-axis", "data=1"], "--batch-axis is for --mode batch"),
        (["--mode", "batch", "--batch-axis", "data"], "is not NAME=AXIS"),
        (["--mode", "batch", "--batch-axis", "data=-1"], "is not NAME=AXIS"),
        (["--mode", "batch", "--batch-axis", "data=100"], "is not NAME=AXIS"),
        (["--mode", "batch", "--batch-axis", "=1"], "is not NAME=AXIS"),
        (["--mode", "batch", "--batch-axis", "nothing=1", "--force"], "names no variable"),
        (["--mode", "batch", "--batch-axis", "nothing=10", "--force"], "names no variable"),
        (["--mode", "batch", "--batch-axis", "conv1_weight=1", "--force"], "is not an input"),
        (
            ["--mode", "batch", "--batch-axis", "data=1", "--force", "--strict"],
            "expects the samples on axis 0",
        ),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: list[str], words: str) -> None:
    refused(
        graphshare(
            "duplicate", FIXTURES / "lenet", "--prefix", "sha-", *arguments, "-o", "x", cwd=tmp_path
        ),
        words,
    )
    assert files_in(tmp_path) == []


def test_names_that_the_batch_would_meet(tmp_path: Path) -> None:
    nodes = [variable("data"), variable("sha-data"), operator("relu", "data_batch", [0]), operator("relu", "r", [2]),
             operator("relu", "r_split", [3]), operator("relu", "r_batch", [4])]  # fmt: skip
    write_json(tmp_path / "g.json", document(nodes, [3]))
    said = refused(
        graphshare(
            "duplicate",
            "g.json",
            "--prefix",
            "sha-",
            "--mode",
            "batch",
            "-o",
            "x.json",
            cwd=tmp_path,
        )
    )
    for name in ("sha-data", "data_batch", "r_split", "r_batch"):
        assert f"would become '{name}', a name that the graph already has" in said


def test_old_files(tmp_path: Path) -> None:
    """States that only the name of an operator implies stay under it; one behind a head asks for an upgrade."""
    write_json(tmp_path / "old.json", old_batch_norm())
    command = ("duplicate", "--prefix", "sha-", "--mode", "batch", "--force", "-o", "siam")
    done(graphshare(command[0], "old.json", *command[1:], cwd=tmp_path))
    code, _ = verdict(tmp_path, "--random-params", "0", "--shape", "data=2,3,1,1")
    assert code == 0
    head = old_batch_norm()
    head["nodes"], head["arg_nodes"], head["heads"] = head["nodes"][:4], [0, 1, 2], [[3, 0]]
    write_json(tmp_path / "head.json", head)
    refused(
        graphshare(command[0], "head.json", *command[1:], cwd=tmp_path),
        "implies states by its name",
        "upgrade",
    )
    done(graphshare(command[0], "head.json", *command[1:], "--upgrade", cwd=tmp_path))


def test_a_batch_is_made_once(siam: Path) -> None:
    command = ("duplicate", "siam", "--prefix", "b-", "--mode", "batch", "--force", "-o", "again")
    refused(graphshare(*command, cwd=siam), "a batch of branches already")


def test_the_value_of_a_parameter_in_a_set_of_inputs_counts() -> None:
    """Else another value of the parameter would be drawn, and the batch compared on that."""
    nodes = [variable("data"), variable("w_weight"), operator("broadcast_mul", "out", [0, 1])]
    model = gs.Checkpoint(read_symbol(json.dumps(document(nodes, [2])).encode()))
    batch = gs.duplicate(model, "sha-", mode="batch")
    values = {name: np.ones((1, 2), "float32") for name in ("data", "w_weight")}
    assert gs.verify(batch, inputs=gs.Inputs(sets=[values]))
    with pytest.raises(gs.RefusedError, match="'w_weight' has no value"):
        gs.verify(batch, feeds={"data": values["data"]})
