"""``verify`` as a user runs it: what holds is proved, and every planted fault is found and located."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.files.schema import find_violations
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from tests.processes import ROOT, done, graphshare, refused

FIXTURES = ROOT / "fixtures"


@pytest.fixture(params=["copy", "tie"])
def siam(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a duplicated lenet."""
    done(
        graphshare(
            "duplicate",
            FIXTURES / "lenet",
            "--prefix",
            "sha-",
            "--mode",
            request.param,
            "-o",
            "siam",
            cwd=tmp_path,
        )
    )
    return tmp_path


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    done(
        graphshare("duplicate", FIXTURES / "lenet", "--prefix", "sha-", "-o", "siam", cwd=tmp_path)
    )
    return tmp_path


def verdict(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    run = graphshare("verify", "siam", "--format", "json", *arguments, cwd=folder)
    found = json.loads(run.stdout)
    assert find_violations(found, "verify") == []
    return run.returncode, found


def change_graph(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "siam-symbol.json"
    found = json.loads(path.read_text())
    change({node["name"]: node for node in found["nodes"]} | {"": found})
    path.write_text(json.dumps(found))


def test_the_command_that_duplicate_prints_holds_as_it_stands(tmp_path: Path) -> None:
    for stem in ("blog", "lenet"):
        said = graphshare(
            "duplicate", FIXTURES / stem, "--prefix", "sha-", "-o", stem, cwd=tmp_path
        ).stderr.decode()
        printed = shlex.split(re.search(r"prove it: graphshare (.*)", said)[1])  # type: ignore[index]
        run = done(graphshare(*printed, cwd=tmp_path))
        assert run.stdout.decode().splitlines()[-1] == "EQUAL: sha- and the original, bit for bit"


def test_nin_is_verified_with_drawn_parameters(tmp_path: Path) -> None:
    cut = done(
        graphshare("extract", FIXTURES / "nin-symbol.json", "--target", "conv4_1024_output")
    ).stdout
    said = graphshare(
        "duplicate", "-", "--prefix", "sha-", "-o", "nin.json", data=cut, cwd=tmp_path
    ).stderr.decode()
    printed = shlex.split(re.search(r"prove it: graphshare (.*)", said)[1])  # type: ignore[index]
    run = done(graphshare(*printed, cwd=tmp_path))
    assert (
        run.stdout.decode().splitlines()[-1]
        == "EQUAL: sha- and the original, bit for bit; parameters not compared"
    )


@pytest.mark.parametrize("model", ["lenet", "small.onnx"])
@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_the_command_that_is_printed_for_a_single_branch_holds(
    model: str, mode: str, tmp_path: Path
) -> None:
    out = "-x.onnx" if model.endswith(".onnx") else "-x"
    words = ("--prefix", "b-", "--drop-original", "--mode", mode, "-o", out)
    said = done(graphshare("duplicate", FIXTURES / model, *words, cwd=tmp_path)).stderr.decode()
    assert "drift" not in said
    assert "all branches" not in said
    printed = shlex.split(re.search(r"prove it: graphshare (.*)", said)[1])  # type: ignore[index]
    run = done(graphshare(*printed, cwd=tmp_path))
    assert run.stdout.decode() == "SAME: the graphs and their parameters\n"


def test_no_command_is_printed_for_a_single_branch_that_is_a_part(tmp_path: Path) -> None:
    words = ("--prefix", "b-", "--drop-original", "--upto", "fc1", "-o", "x")
    run = done(graphshare("duplicate", FIXTURES / "lenet", *words, cwd=tmp_path))
    assert b"prove it" not in run.stderr


def test_the_printed_command_takes_a_path_with_a_dash_for_a_path(tmp_path: Path) -> None:
    said = done(
        graphshare("duplicate", FIXTURES / "lenet", "--prefix", "b-", "-o", "-x", cwd=tmp_path)
    ).stderr.decode()
    printed = shlex.split(re.search(r"prove it: graphshare (.*)", said)[1])  # type: ignore[index]
    assert "./-x-symbol.json" in printed
    done(graphshare(*printed, cwd=tmp_path))


def test_both_modes_hold(siam: Path) -> None:
    code, found = verdict(siam, "--rounds", "2", "--seed", "7")
    assert code == 0
    assert found["equal"] is True
    assert (found["version"], found["outcome"], found["rung"]) == (2, "equal", "on 3 inputs")
    assert [stage["verdict"] for stage in found["branches"][0]["stages"]] == ["holds"] * 3
    # An open size is drawn with one sample and with two.
    assert [values["outputs"][0]["shape"] for values in found["branches"][0]["rounds"]] == [
        [1, 10],
        [2, 10],
        [1, 10],
    ]
    code, found = verdict(siam, "--rounds", "2", "--shape", "data=3,1,28,28")
    assert (code, len(found["branches"][0]["rounds"])) == (0, 2)


def test_the_report_as_text_names_both_sides_of_each_branch(tmp_path: Path) -> None:
    for mode, name in (("copy", "siam"), ("batch", "joined")):
        done(
            graphshare(
                "duplicate",
                FIXTURES / "blog",
                "--prefix",
                "sha-",
                "--mode",
                mode,
                "-o",
                name,
                cwd=tmp_path,
            )
        )
    run = done(graphshare("verify", "siam", "--shape", "data=1,1,3,3", cwd=tmp_path))
    assert run.stdout.decode().splitlines() == [
        "(original) and sha-",
        "  ok   structure   4 pairs of nodes, 2 operators, the same but for names",
        "  ok   parameters  0 tied, 1 equal byte for byte",
        "  ok   values      1 output compared, 1 bit for bit, max abs 0",
        "EQUAL: sha- and the original, bit for bit",
    ]
    run = done(graphshare("verify", "joined", "--shape", "data=1,1,3,3", cwd=tmp_path))
    headline, structure, *_ = run.stdout.decode().splitlines()
    assert headline == "runs of their own and (original)"
    assert structure == "  ok   structure   one run of 3 operators for all branches"


def test_the_blog_gives_42_in_both_branches(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[[[1, 2, 3]] * 3]], "float32"))
    done(graphshare("duplicate", FIXTURES / "blog", "--prefix", "sha-", "-o", "siam", cwd=tmp_path))
    done(
        graphshare(
            "run",
            "siam",
            "--feed",
            "data=x.npy",
            "--feed",
            "sha-data=x.npy",
            "-o",
            "out.npz",
            cwd=tmp_path,
        )
    )
    with np.load(tmp_path / "out.npz") as outputs:
        assert {name: outputs[name].item() for name in outputs} == {
            "makeloss0_output": 42.0,
            "sha-makeloss0_output": 42.0,
        }
    code, found = verdict(tmp_path, "--feed", "data=x.npy")
    assert code == 0
    assert found["branches"][0]["rounds"][0]["outputs"][0]["shape"] == [1, 1, 1, 1]


def test_a_changed_weight_is_found_and_located(copied: Path) -> None:
    file = read_index(copied / "siam-0000.params")
    record = file.by_key()["arg:sha-conv2_weight"]
    data = bytearray((copied / "siam-0000.params").read_bytes())
    assert record.data_offset is not None
    data[record.data_offset + 2] ^= 0x40
    (copied / "siam-0000.params").write_bytes(data)
    code, found = verdict(copied)
    stages = {stage["name"]: stage for stage in found["branches"][0]["stages"]}
    assert code == 1
    assert stages["parameters"]["verdict"] == "fails"
    assert stages["parameters"]["details"] == ["'conv2_weight' and 'sha-conv2_weight': values"]
    assert stages["values"]["verdict"] == "fails"
    assert found["branches"][0]["rounds"][0]["first"]["node"] == "sha-conv2_weight"


def test_a_changed_computation_behind_equal_attributes_is_located(
    copied: Path, tmp_path: Path
) -> None:
    """The first differing operator, not only the output: one branch is fed something else through its own input."""
    with ArrayReader(file := read_index(copied / "siam-0000.params")) as reader:
        arrays = {record.key: np.array(reader.read(record)) for record in file.records}
    arrays["arg:sha-fc1_bias"] += 1
    np.savez(tmp_path / "other.npz", **{str(key): value for key, value in arrays.items()})
    code, found = verdict(copied, "--params", "other.npz")
    assert code == 1
    assert found["branches"][0]["rounds"][0]["first"]["node"] == "sha-fc1_bias"
    assert found["branches"][0]["rounds"][0]["first"]["comparison"]["max_abs"] == pytest.approx(
        1, rel=1e-5
    )


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("sha-bn1", "eps", "0.0011"),
        ("sha-pool1", "stride", "(1, 2)"),
        ("sha-conv1", "num_filter", "9"),
    ],
)
def test_a_changed_attribute_is_found(copied: Path, name: str, key: str, value: str) -> None:
    change_graph(copied, lambda nodes: nodes[name]["attrs"].update({key: value}))
    code, found = verdict(copied)
    stage = found["branches"][0]["stages"][0]
    assert (code, stage["name"], stage["verdict"]) == (1, "structure", "fails")
    assert name in stage["details"][0]
    assert f"{key} " in stage["details"][0]


def test_a_swapped_input_is_found(copied: Path) -> None:
    def swap(nodes: dict[str, Any]) -> None:
        nodes["sha-bn2"]["inputs"][1:3] = reversed(nodes["sha-bn2"]["inputs"][1:3])

    change_graph(copied, swap)
    code, found = verdict(copied)
    assert code == 1
    details = [detail for stage in found["branches"][0]["stages"] for detail in stage["details"]]
    assert any("bn2_gamma" in detail and "sha-bn2_beta" in detail for detail in details)


def test_one_node_for_two_is_found(copied: Path) -> None:
    """A weight that the copy shares with another of its own layers."""

    def share(nodes: dict[str, Any]) -> None:
        nodes["sha-bn2"]["inputs"][1] = nodes["sha-bn2"]["inputs"][2]

    change_graph(copied, share)
    assert verdict(copied)[0] == 1


def test_two_files_are_compared(tmp_path: Path) -> None:
    done(
        graphshare("rename", FIXTURES / "lenet", "--prefix", "other-", "-o", "other", cwd=tmp_path)
    )
    same = graphshare("compare", FIXTURES / "lenet", "other", cwd=tmp_path)
    assert done(same).stdout.decode().splitlines()[-1].startswith("EQUAL")
    found = json.loads((tmp_path / "other-symbol.json").read_text())
    next(node for node in found["nodes"] if node["name"] == "other-tanh1")["attrs"]["act_type"] = (
        "relu"
    )
    (tmp_path / "other-symbol.json").write_text(json.dumps(found))
    other = graphshare("compare", FIXTURES / "lenet", "other", cwd=tmp_path)
    assert other.returncode == 1
    assert "act_type 'tanh' and 'relu'" in other.stdout.decode()


def test_a_map_pairs_the_heads(tmp_path: Path) -> None:
    arguments = (
        "--prefix",
        "a-",
        "--prefix",
        "b-",
        "--drop-original",
        "-o",
        "siam",
        "--map-out",
        "map.json",
    )
    done(graphshare("duplicate", FIXTURES / "lenet", *arguments, cwd=tmp_path))
    code, found = verdict(tmp_path, "--map", "map.json")
    assert code == 0
    assert [(b["reference"], b["branch"]) for b in found["branches"]] == [("a-", "b-")]
    assert verdict(tmp_path, "--prefix", "a-", "--prefix", "b-")[0] == 0


def test_a_copy_up_to_an_inner_output_is_compared_with_that_output(tmp_path: Path) -> None:
    done(
        graphshare(
            "duplicate",
            FIXTURES / "lenet",
            "--prefix",
            "sha-",
            "--upto",
            "fc1",
            "-o",
            "siam",
            cwd=tmp_path,
        )
    )
    code, found = verdict(tmp_path, "--prefix", "sha-")
    assert code == 0
    assert found["branches"][0]["rounds"][0]["outputs"][0]["output"] == "sha-fc1_output"


def test_what_cannot_be_told_is_no_answer(copied: Path) -> None:
    refused(
        graphshare("verify", "siam", "--prefix", "no-", cwd=copied),
        "no output begins with the prefix 'no-'",
    )
    refused(
        graphshare("verify", FIXTURES / "lenet", cwd=copied),
        "the names of the outputs do not show which branches there are",
    )
    refused(
        graphshare("verify", "siam", "--shape", "dat=1,1,28,28", cwd=copied),
        "'dat' names no variable",
        "did you mean 'data'",
    )
    refused(graphshare("verify", "siam", "--shape", "data=1,2,28,28", cwd=copied), "conv1")
    refused(
        graphshare("verify", "siam-symbol.json", cwd=copied),
        "16 parameters have no value: no parameter file is given ('conv1_weight', ",
    )


def test_operators_without_a_kernel_are_all_listed_and_may_be_accepted(tmp_path: Path) -> None:
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "Nobody", "name": "n", "inputs": [[0, 0, 0]]},
        {"op": "NoOne", "name": "m", "inputs": [[1, 0, 0]]},
    ]
    text = json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[2, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10901]},
        }
    )
    (tmp_path / "g.json").write_text(text)
    done(graphshare("duplicate", "g.json", "--prefix", "sha-", "-o", "siam", cwd=tmp_path))
    refused(
        graphshare("verify", "siam", "--prefix", "sha-", cwd=tmp_path),
        "operator Nobody cannot be run",
        "operator NoOne",
    )
    run = done(
        graphshare("verify", "siam", "--prefix", "sha-", "--allow-unsupported", cwd=tmp_path)
    )
    assert (
        run.stdout.decode().splitlines()[-1]
        == "STRUCTURE EQUAL: sha- and the original, values not compared"
    )


def test_annotations_for_github(copied: Path) -> None:
    change_graph(copied, lambda nodes: nodes["sha-bn1"]["attrs"].update({"eps": "0.0011"}))
    run = graphshare("verify", "siam", "--format", "github", cwd=copied)
    assert run.returncode == 1
    *lines, last = run.stdout.decode().splitlines()
    assert last == "graphshare verify: 1 file: 2 errors"
    assert all(line.startswith("::error file=siam-symbol.json,title=verify-") for line in lines)


def test_duplicate_verifies_its_own_result_before_writing(tmp_path: Path) -> None:
    for mode in ("copy", "tie"):
        arguments = ("--prefix", "sha-", "--mode", mode, "--verify", "-o", mode)
        run = done(graphshare("duplicate", FIXTURES / "lenet", *arguments, cwd=tmp_path))
        assert "EQUAL: sha- and the original, bit for bit" in run.stderr.decode().splitlines()
        assert (tmp_path / f"{mode}-symbol.json").exists()


def test_a_result_that_cannot_be_verified_is_not_written(tmp_path: Path) -> None:
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "Nobody", "name": "n", "inputs": [[0, 0, 0]]},
    ]
    text = json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[1, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10901]},
        }
    )
    (tmp_path / "g.json").write_text(text)
    refused(
        graphshare(
            "duplicate", "g.json", "--prefix", "sha-", "--verify", "-o", "out.json", cwd=tmp_path
        ),
        "operator Nobody",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.json"]


def test_a_result_that_is_disproved_is_not_written_and_answers_no(tmp_path: Path) -> None:
    """A failed verdict is planted: a sound transform cannot be made to give one from outside."""
    code = (
        "import sys, graphshare.api.verify as verification; from graphshare.cli.main import run\n"
        "def broken(*sides, **options):\n"
        "    from graphshare.verification.report import Report, BranchReport, Stage\n"
        "    return Report((BranchReport('', 'sha-', (Stage('values', 'fails', '1 difference', ('planted',)),)),))\n"
        "verification.verify = broken; sys.exit(run(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "duplicate",
        str(FIXTURES / "lenet"),
        "--prefix",
        "sha-",
        "--verify",
        "-o",
        "out",
    ]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert "values of sha-: planted" in made.stderr
    assert not list(tmp_path.iterdir())


def test_a_page_shows_both_models(tmp_path: Path) -> None:
    lenet = str(ROOT / "fixtures" / "lenet")
    run = done(
        graphshare(
            "compare", lenet, lenet, "--shape", "data=1,1,28,28", "--format", "html", cwd=tmp_path
        )
    )
    assert run.stdout.startswith(b"<!doctype html>")
    assert b"EQUAL: the other model and the original, exact for every input" in run.stdout
    changed = gs.load(lenet)
    gs.save(
        changed.with_params({**changed.params, "fc1_bias": changed.params["fc1_bias"] + 1}),
        tmp_path / "changed",
    )
    words = ("compare", lenet, "changed", "--shape", "data=1,1,28,28", "--format", "html")
    run = graphshare(*words, cwd=tmp_path)
    assert (run.returncode, run.stdout[:15]) == (1, b"<!doctype html>")
    np.savez(tmp_path / "record.npz", softmax_output=np.ones((1, 10), "float32"))
    refused(
        graphshare("compare", lenet, "record.npz", "--format", "html", cwd=tmp_path),
        "--format html needs two models",
    )
