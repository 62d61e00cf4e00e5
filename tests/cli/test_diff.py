"""``diff`` as a user runs it, and as git does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from graphshare.cli.report import format_parameter_diff
from graphshare.files.schema import find_violations
from graphshare.formats.params.comparison import Distance
from graphshare.formats.params.diff import ParameterChange, ParameterDiff
from tests.paddle_programs import dense
from tests.processes import COMMAND, ROOT, done, environment, graphshare, refused, write_json
from tests.symbols import document, old_batch_norm, operator, two_layers, variable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return tmp_path


def differ(folder: Path, *arguments: str) -> dict[str, Any]:
    run = graphshare("diff", *arguments, "--format", "json", cwd=folder)
    found: dict[str, Any] = json.loads(run.stdout)
    assert find_violations(found, "diff") == []
    assert run.returncode == int(found["different"])
    return found


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_a_duplicate_is_the_original_modulo_its_map_or_its_prefix(mode: str, folder: Path) -> None:
    done(
        graphshare(
            "duplicate",
            "lenet",
            "--prefix",
            "sha-",
            "--mode",
            mode,
            "-o",
            "siam",
            "--map-out",
            "m",
            cwd=folder,
        )
    )
    assert not differ(folder, "lenet", "siam", "--map", "m")["different"]
    assert not differ(folder, "lenet", "siam", "--prefix", "sha-")["different"]
    found = differ(folder, "lenet", "siam")
    assert {node["name"][:4] for node in found["graph"]["added"]} == {"sha-"}
    assert found["graph"]["renamed"] == found["graph"]["removed"] == found["graph"]["changed"] == []
    assert len(found["parameters"]["changes"]) == (16 if mode == "copy" else 0)


@pytest.mark.parametrize("name", ["bn", ""])
def test_the_key_of_a_copied_barrier_is_no_difference(name: str, folder: Path) -> None:
    """Two SyncBatchNorms of one key would wait for each other, so ``duplicate`` gives each copy a key of its own."""
    inputs = [
        variable(f"bn_{part}") for part in ("data", "gamma", "beta", "moving_mean", "moving_var")
    ]
    graph = document(
        [
            *inputs,
            operator("_contrib_SyncBatchNorm", name, range(5), attrs={"key": "k", "ndev": "2"}),
        ],
        [5],
    )
    write_json(folder / "net.json", graph)
    done(
        graphshare(
            "duplicate",
            "net.json",
            "--prefix",
            "sha-",
            "-o",
            "siam.json",
            "--map-out",
            "m",
            cwd=folder,
        )
    )
    for how in (["--map", "m"], ["--prefix", "sha-"])[: 2 if name else 1]:
        assert not differ(folder, "net.json", "siam.json", *how)["different"]
    found = json.loads((folder / "siam.json").read_text())
    found["nodes"][-1]["attrs"]["key"] = "other"
    write_json(folder / "siam.json", found)
    (changed,) = differ(folder, "net.json", "siam.json", "--map", "m")["graph"]["changed"]
    assert [(change["key"], change["old"], change["new"]) for change in changed["changes"]] == [
        ("key", "k", "other")
    ]


def test_an_edit_in_a_copy_is_found_modulo_the_map(folder: Path) -> None:
    done(
        graphshare(
            "duplicate", "lenet", "--prefix", "sha-", "-o", "siam", "--map-out", "m", cwd=folder
        )
    )
    found = json.loads((folder / "siam-symbol.json").read_text())
    nodes = {node["name"]: node for node in found["nodes"]}
    nodes["sha-pool1"]["attrs"]["pool_type"] = "avg"
    conv = next(i for i, node in enumerate(found["nodes"]) if node["name"] == "conv1_weight")
    nodes["sha-conv1"]["inputs"][1] = [conv, 0, 0]  # a tie nobody asked for
    (folder / "siam-symbol.json").write_text(json.dumps(found))
    for how in (["--map", "m"], ["--prefix", "sha-"]):
        graph = differ(folder, "lenet", "siam", *how)["graph"]
        changes = {
            c["new"]["name"]: [(x["what"], x["old"], x["new"]) for x in c["changes"]]
            for c in graph["changed"]
        }
        assert changes == {
            "sha-pool1": [("attribute", "max", "avg")],
            "sha-conv1": [("input", "conv1_weight", "conv1_weight")],
        }


def test_renamed_files_of_2015_with_implied_states(folder: Path) -> None:
    write_json(folder / "old.json", old_batch_norm())
    shutil.copy(ROOT / "fixtures/cases/duplicate/old-with-parameters/in/old.params", folder)
    done(graphshare("rename", "old.json", "--params", "old.params", "--prefix", "x_", "-o", "new.json", "--params-out",
                    "new.params", cwd=folder))  # fmt: skip
    files = ["old.json", "new.json", "--params", "old.params", "--against-params", "new.params"]
    assert not differ(folder, *files, "--prefix", "x_")["different"]
    assert not differ(folder, *files, "--ignore-names")["different"]
    assert len(differ(folder, *files)["graph"]["renamed"]) == len(old_batch_norm()["nodes"])


def test_parameters_that_moved(folder: Path) -> None:
    from graphshare.formats.params.arrays import read_array
    from graphshare.formats.params.format import read_index

    file = read_index(folder / "lenet-0000.params")
    arrays = {record.key: np.array(read_array(file, record)) for record in file.records}
    arrays["arg:fc2_bias"][3] += 0.25
    arrays["arg:conv1_bias"] = arrays["arg:conv1_bias"].astype("float64")
    del arrays["arg:bn1_beta"]
    np.savez(folder / "moved.npz", **arrays)
    changes = differ(folder, "lenet", "lenet-symbol.json", "--against-params", "moved.npz")[
        "parameters"
    ]["changes"]
    told = {
        change["old"]: (change["how"], (change["distance"] or {}).get("differing"))
        for change in changes
    }
    assert told == {
        "arg:fc2_bias": ("values", 1),
        "arg:conv1_bias": ("form", 0),
        "arg:bn1_beta": ("removed", None),
    }
    moved = next(change for change in changes if change["old"] == "arg:fc2_bias")
    assert moved["distance"]["max_abs"] == pytest.approx(0.25, rel=1e-5)
    run = graphshare(
        "diff",
        "lenet",
        "lenet-symbol.json",
        "--against-params",
        "moved.npz",
        "--format",
        "sarif",
        cwd=folder,
    )
    results = json.loads(run.stdout)["runs"][0]["results"]
    messages = [
        result["message"]["text"] for result in results if result["ruleId"] == "diff-parameter"
    ]
    assert sorted(message.split()[1] for message in messages) == [
        "arg:bn1_beta",
        "arg:conv1_bias",
        "arg:fc2_bias",
    ]
    arguments = ("lenet", "lenet-symbol.json", "--against-params", "moved.npz", "--atol", "0.3")
    assert "arg:fc2_bias" not in {
        c["old"] for c in differ(folder, *arguments)["parameters"]["changes"]
    }


def test_the_prefix_of_a_key_is_repeated_only_where_it_changes() -> None:
    shape, dtype = (2, 3), "float32"
    changes = [
        ParameterChange("renamed", "arg:a", "aux:a", shape, dtype),
        ParameterChange("values", "arg:a", "arg:b", shape, dtype),
        ParameterChange("values", "arg:a", "arg:a", shape, dtype, distance=Distance(6, 2, 0.25)),
        ParameterChange("form", "a", "b", None, None),
        ParameterChange("form", "arg:a", "arg:a", shape, dtype, "another shape"),
        ParameterChange("added", None, "aux:b", None, None),
        ParameterChange("removed", "", None, (), dtype),
    ]
    difference = ParameterDiff("l", "r", 4, tuple(changes), across={"float16": 1, "bfloat16": 2})
    assert list(format_parameter_diff(difference)) == [
        ("changed", "renamed  arg:a -> aux:a  2x3 float32"),
        ("changed", "values   arg:a -> b  2x3 float32"),
        ("changed", "values   arg:a  2x3 float32; 2 of 6 differ, max abs 0.25"),
        ("changed", "form     a -> b  never filled"),
        ("changed", "form     arg:a  another shape"),
        ("added", "added    aux:b  never filled"),
        ("removed", "removed  (no name)  scalar float32"),
        ("", "parameters: 4 equal, 7 different"),
        ("", "1 array of different types compared up to the rounding of float16, 0.000977"),
        ("", "2 arrays of different types compared up to the rounding of bfloat16, 0.00781"),
    ]


def test_an_epoch_is_that_of_each_stem(folder: Path) -> None:
    done(
        graphshare(
            "params", "convert", "lenet", "lenet-0004.params", "--dtype", "float16", cwd=folder
        )
    )
    for name in ("lenet-symbol.json", "lenet-0004.params"):
        shutil.copy(folder / name, folder / name.replace("lenet", "other"))
    refused(
        graphshare("diff", "lenet", "other", cwd=folder), "2 parameter files", "choose with --epoch"
    )
    assert not differ(folder, "lenet", "other", "--epoch", "4")["different"]
    refused(
        graphshare("diff", "lenet", "other", "--epoch", "0", cwd=folder),
        "other-0000.params",
        "does not exist",
    )
    parameters = ("--against-params", "other-0004.params", "--epoch")
    assert differ(folder, "lenet", "other-symbol.json", *parameters, "0")["different"]
    assert not differ(folder, "lenet", "other-symbol.json", *parameters, "4")["different"]
    files = ("lenet-symbol.json", "other-symbol.json")
    refused(
        graphshare("diff", *files, "--epoch", "4", cwd=folder),
        "needs a stem, but 'lenet-symbol.json' and",
    )


def test_text_names_what_differs(folder: Path) -> None:
    found = json.loads((folder / "lenet-symbol.json").read_text().replace('"tanh3"', '"tanhX"'))
    next(node for node in found["nodes"] if node["name"] == "pool2")["attrs"]["pool_type"] = "avg"
    write_json(folder / "b.json", found)
    run = graphshare("diff", "lenet", "b.json", cwd=folder)
    assert run.returncode == 1
    assert run.stdout.decode().splitlines() == [
        "renamed  Activation tanh3 -> tanhX",
        "changed  Pooling pool2",
        "           attribute pool_type: max -> avg",
        "DIFFERENT: 1 node renamed, 1 node changed",
    ]


@pytest.mark.parametrize("words", [("-", "lenet"), ("lenet", "-")])
def test_one_graph_may_come_from_stdin(words: tuple[str, str], folder: Path) -> None:
    text = (folder / "lenet-symbol.json").read_bytes()
    run = graphshare("diff", *words, cwd=folder, data=text)
    assert done(run).stdout.decode() == "SAME: the graphs\n"
    assert run.stderr.decode() == "parameters are not compared: none are given for <stdin>\n"


def test_what_cannot_be_compared_is_refused(folder: Path) -> None:
    (folder / "bad.map").write_text('{"version": 1, "entries": [], "sources": []')
    (folder / "other.map").write_text('{"nobody": "noone"}')
    refused(graphshare("diff", "lenet", cwd=folder), "two graphs")
    refused(graphshare("diff", "-", "-", cwd=folder), "stdin")
    refused(
        graphshare("diff", "lenet", "lenet", "--map", "bad.map", cwd=folder),
        "bad.map",
        "is not a map",
    )
    refused(graphshare("diff", "lenet", "lenet", "--map", "other.map", cwd=folder), "pairs no node")
    refused(
        graphshare("diff", "lenet", "lenet", "--map", "nothing", cwd=folder),
        "nothing",
        "cannot be read",
    )
    for count in (2, 6, 8, 10):
        refused(
            graphshare("diff", *["lenet"] * count, "--git", cwd=folder),
            f"7 arguments of git's external diff, not {count}",
        )
    refused(
        graphshare("diff", "lenet", "lenet", "--prefix", "x_", cwd=folder),
        "lenet-symbol.json",
        "no node has the prefix 'x_'",
    )


def test_what_is_not_compared_is_said(folder: Path) -> None:
    run = done(graphshare("diff", "lenet", "lenet-symbol.json", cwd=folder))
    assert run.stderr == b"parameters are not compared: none are given for lenet-symbol.json\n"
    assert run.stdout == b"SAME: the graphs\n"


def test_git_passes_one_more_name_for_a_renamed_file_and_one_alone_for_conflicts(
    folder: Path,
) -> None:
    graph = "lenet-symbol.json"
    seven = (graph, graph, "0" * 40, "100644", graph, "1" * 40, "100644")
    for words, title in (
        (seven, f"{graph} b/{graph}"), ((*seven, "new.json", "similarity index 90%"), f"{graph} b/new.json"),
    ):  # fmt: skip
        run = done(graphshare("diff", "--git", *words, cwd=folder))
        assert run.stdout.decode() == f"diff --graphshare a/{title}\nSAME: the graphs\n"
    run = done(graphshare("diff", "--git", graph, cwd=folder))
    assert run.stdout.decode() == f"diff --graphshare a/{graph} b/{graph}\nunmerged\n"
    for old, new, what in (("/dev/null", graph, "new file"), (graph, "/dev/null", "deleted file")):
        run = done(
            graphshare(
                "diff", "--git", graph, old, "0" * 40, "100644", new, "1" * 40, "100644", cwd=folder
            )
        )
        assert run.stdout.decode() == f"diff --graphshare a/{graph} b/{graph}\n{what}\n"


@pytest.mark.parametrize(
    ("kind", "op", "other"), [("onnx", b"Add", b"Mul"), ("paddle", b"1.add", b"1.maximum")]
)
def test_git_shows_a_changed_graph_in_a_file_of_any_format(
    kind: str, op: bytes, other: bytes, tmp_path: Path
) -> None:
    small = (ROOT / "fixtures" / "small.onnx").read_bytes()
    data = small if kind == "onnx" else dense()[0].encode()
    assert op in data
    (tmp_path / "old").write_bytes(data)
    (tmp_path / "new").write_bytes(data.replace(op, other))
    words = ("old", "0" * 40, "100644", "new", "1" * 40, "100644")
    run = done(graphshare("diff", "--git", "model", *words, cwd=tmp_path))
    assert "DIFFERENT: 1 node changed" in run.stdout.decode()


def git(folder: Path, *arguments: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    run = subprocess.run(["git", *arguments], cwd=folder, env=environment(**identity, GIT_CONFIG_GLOBAL="/dev/null"),
                         capture_output=True, timeout=120, check=False)  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.decode()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_shows_graphs_and_parameters_through_the_driver(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / ".gitattributes").write_text(
        "*-symbol.json diff=graphshare\n*.params diff=graphshare\n"
    )
    git(folder, "config", "diff.graphshare.command", " ".join([*COMMAND, "diff", "--git"]))
    write_json(folder / "gone-symbol.json", two_layers())
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    text = (folder / "lenet-symbol.json").read_text()
    (folder / "lenet-symbol.json").write_text(text.replace('"tanh3"', '"tanhX"'))
    data = bytearray((folder / "lenet-0000.params").read_bytes())
    data[200] ^= 1
    (folder / "lenet-0000.params").write_bytes(bytes(data))
    said = git(folder, "diff")
    assert "diff --graphshare a/lenet-symbol.json b/lenet-symbol.json" in said
    assert "renamed  Activation tanh3 -> tanhX" in said
    assert "arg:conv1_weight  8x1x5x5 float32; 1 of 200 differ" in said
    (folder / "lenet-symbol.json").write_text(text[:300])  # a broken version must not stop git
    (folder / "gone-symbol.json").unlink()
    said = git(folder, "diff")
    assert "the file is truncated" in said
    assert "deleted file" in said


@pytest.mark.parametrize("changed", [True, False])
def test_what_differs_is_told_in_the_formats_of_ci(changed: bool, folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "a-", "-o", "other", cwd=folder))
    other = "other" if changed else "lenet"
    runs = {
        name: graphshare("diff", "lenet", other, "--format", name, cwd=folder)
        for name in ("github", "junit", "sarif")
    }
    assert {run.returncode for run in runs.values()} == {int(changed)}
    lines = runs["github"].stdout.decode().splitlines()
    assert (
        any(
            line.startswith("::error file=other-symbol.json,title=diff-renamed::") for line in lines
        )
        == changed
    )
    assert (
        any(
            line.startswith("::notice file=lenet-symbol.json,title=diff-verdict::SAME")
            for line in lines
        )
        != changed
    )
    suite = ElementTree.fromstring(runs["junit"].stdout)
    assert (int(suite.attrib["failures"]) > 0) == changed
    sarif = json.loads(runs["sarif"].stdout)
    assert find_violations(sarif, "sarif") == []
    assert (
        any(result["ruleId"] == "diff-renamed" for result in sarif["runs"][0]["results"]) == changed
    )


def test_what_changes_have_in_common_comes_before_them(folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "net1_", "-o", "other", cwd=folder))
    lines = graphshare("diff", "lenet", "other", cwd=folder).stdout.decode().splitlines()
    assert lines[:2] == [
        "31 nodes renamed: all have the prefix net1_",
        "renamed  variable data -> net1_data",
    ]
    assert len(lines) == 1 + 31 + 1
    assert lines[-1] == "DIFFERENT: 31 nodes renamed"
    found = differ(folder, "lenet", "other")
    assert found["summary"] == [{"what": "renamed", "count": 31, "text": lines[0]}]
    assert found["graph"]["renamed"][0]["new"]["name"] == "net1_data"
    for name, nodes in {"a": ["x", "y"], "b": ["p_x", "p_y"]}.items():
        write_json(
            folder / f"{name}.json",
            document([variable(nodes[0]), operator("relu", nodes[1], [0])], [1]),
        )
    text = graphshare("diff", "a.json", "b.json", cwd=folder).stdout.decode()
    assert text.startswith("2 nodes renamed: all have the prefix p_\nrenamed  variable x -> p_x\n")


def test_a_page_shows_both_graphs(folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "net1_", "-o", "other", cwd=folder))
    run = graphshare("diff", "lenet", "other", "--format", "html", cwd=folder)
    assert run.returncode == 1
    assert run.stdout.startswith(b"<!doctype html>")
    assert b"DIFFERENT: 31 nodes renamed" in run.stdout
    same = graphshare("diff", "lenet", "lenet", "--format", "html", cwd=folder)
    assert same.returncode == 0
    assert b"SAME: the graphs and their parameters" in same.stdout
