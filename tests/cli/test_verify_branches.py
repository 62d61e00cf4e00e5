"""What ``verify`` is told for one branch or another: nothing of it is lost, and a branch that cannot is named."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.files.schema import find_violations
from tests.processes import ROOT, done, graphshare, refused, write_json
from tests.symbols import Document, document, operator, variable

FIXTURES = ROOT / "fixtures"
POOLED = {"global_pool": "True", "pool_type": "avg", "kernel": "(1, 1)"}


def pooled(*heads: int) -> Document:
    """A convolution that takes any size of three channels; node 1 is its weight and node 3 the mean of its output."""
    convolution = {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "2"}
    nodes = [
        variable("data"),
        variable("conv_weight"),
        operator("Convolution", "conv", [0, 1], attrs=convolution),
        operator("Pooling", "pool", [2], attrs=POOLED),
    ]
    return document(nodes, heads or (3,))


def looked_up() -> Document:
    """Rows of a table that is called data."""
    attrs = {"input_dim": "10", "output_dim": "4"}
    return document(
        [variable("ids"), variable("data"), operator("Embedding", "rows", [0, 1], attrs=attrs)], [2]
    )


def duplicated(folder: Path, graph: Document, *arguments: str) -> list[str]:
    """Duplicate a graph into ``siam.json``; return the command that is printed to prove it."""
    write_json(folder / "net.json", graph)
    run = done(graphshare("duplicate", "net.json", *arguments, "-o", "siam.json", cwd=folder))
    match = re.search(r"prove it: graphshare (.*)", run.stderr.decode())
    assert match is not None
    return shlex.split(match[1])


def verified(folder: Path, *arguments: str, graph: str = "siam.json") -> tuple[dict[str, Any], str]:
    """The report of a proof that holds, and the notes."""
    run = done(graphshare("verify", graph, "--format", "json", *arguments, cwd=folder))
    found: dict[str, Any] = json.loads(run.stdout)
    assert find_violations(found, "verify") == []
    return found, "\n".join(found["notes"])


def shapes(found: dict[str, Any], branch: int = 0) -> list[tuple[str | None, list[int]]]:
    """Whose sizes each run had, and the shape of its first output."""
    return [
        (values["sizes_of"], values["outputs"][0]["shape"])
        for values in found["branches"][branch]["rounds"]
    ]


def test_both_branches_run_at_the_sizes_of_either(tmp_path: Path) -> None:
    duplicated(tmp_path, pooled(2), "--prefix", "neg_", "--mode", "tie")
    found, notes = verified(
        tmp_path,
        "--random-params",
        "0",
        "--shape",
        "data=1,3,8,8",
        "--shape",
        "neg_data=2,3,9,9",
        "--rounds",
        "2",
    )
    assert shapes(found) == [("", [1, 2, 6, 6])] * 2 + [("neg_", [2, 2, 7, 7])] * 2
    assert (
        "at the sizes of the original: 'data' (original), 'neg_data' (neg_) are seeded (0), (1, 3, 8, 8)"
        in notes
    )
    assert (
        "at the sizes of branch 'neg_': 'data' (original), 'neg_data' (neg_) are seeded (0), (2, 3, 9, 9)"
        in notes
    )


@pytest.mark.parametrize("order", [("pos_", "neg_"), ("neg_", "pos_")])
def test_what_is_seeded_is_noted_once(tmp_path: Path, order: tuple[str, str]) -> None:
    prefixes = [word for prefix in order for word in ("--prefix", prefix)]
    duplicated(tmp_path, pooled(), *prefixes, "--mode", "tie")
    sizes = ("--shape", "data=1,3,8,8", "--shape", "neg_data=2,3,9,9")
    found, _ = verified(tmp_path, *prefixes, "--random-params", "0", *sizes)
    names = ", ".join(["'data' (original)", *(f"'{prefix}data' ({prefix})" for prefix in order)])
    seeded = [note for note in found["notes"] if "'data'" in note]
    assert sorted(seeded) == [
        f"{names} are seeded (0), (1, 3, 8, 8) float32",
        f"at the sizes of branch 'neg_': {names} are seeded (0), (2, 3, 9, 9) float32",
    ]


def test_feeds_of_either_branch_are_run_by_both(tmp_path: Path) -> None:
    duplicated(tmp_path, pooled(), "--prefix", "neg_", "--mode", "tie")
    for name, size in (("a", 8), ("b", 9)):
        np.save(tmp_path / f"{name}.npy", np.full((1, 3, size, size), size, "float32"))
    feeds = ("--random-params", "0", "--feed", "data=a.npy", "--feed", "neg_data=b.npy")
    found, _ = verified(tmp_path, *feeds, "--train-step")
    assert [sizes for sizes, _ in shapes(found)] == ["", "neg_"]
    assert found["branches"][0]["training"]["pairs"][0]["fate"] == "tied"
    np.save(tmp_path / "b.npy", np.load(tmp_path / "a.npy"))
    assert [sizes for sizes, _ in shapes(verified(tmp_path, *feeds)[0])] == [None]


def test_what_holds_for_one_of_three_branches_holds_for_those_without(tmp_path: Path) -> None:
    duplicated(tmp_path, pooled(2), "--prefix", "a-", "--prefix", "b-", "--mode", "tie")
    found, _ = verified(
        tmp_path, "--random-params", "0", "--shape", "a-data=1,3,7,7", "--shape", "b-data=1,3,9,9"
    )
    assert shapes(found, 0) == [(None, [1, 2, 5, 5])]
    assert shapes(found, 1) == [("", [1, 2, 5, 5]), ("b-", [1, 2, 7, 7])]
    found, _ = verified(tmp_path, "--random-params", "0", "--shape", "b-data=1,3,9,9")
    assert shapes(found, 0) == shapes(found, 1) == [(None, [1, 2, 7, 7])]


@pytest.mark.parametrize("mode", ["tie", "copy"])
def test_a_branch_that_cannot_run_at_its_sizes_is_named(tmp_path: Path, mode: str) -> None:
    duplicated(tmp_path, pooled(), "--prefix", "neg_", "--mode", mode)
    sizes = ("--random-params", "0", "--shape", "data=1,3,64,64", "--shape", "neg_data=1,7,96,96")
    said = refused(
        graphshare("verify", "siam.json", *sizes, cwd=tmp_path),
        "branch 'neg_' cannot run at neg_data (1,7,96,96)",
    )
    assert "channels of weight: 3 where 7 would fit" in said


def test_a_branch_that_cannot_run_at_the_sizes_of_another_is_named(tmp_path: Path) -> None:
    duplicated(tmp_path, pooled(), "--prefix", "neg_")
    weights = {
        "conv_weight": np.ones((2, 3, 3, 3), "float32"),
        "neg_conv_weight": np.ones((2, 7, 3, 3), "float32"),
    }
    np.savez(tmp_path / "w.npz", **{f"arg:{name}": array for name, array in weights.items()})
    run = graphshare(
        *(
            "verify",
            "siam.json",
            "--params",
            "w.npz",
            "--shape",
            "data=1,3,8,8",
            "--shape",
            "neg_data=1,7,9,9",
        ),
        cwd=tmp_path,
    )
    assert run.returncode == 1  # the parameters differ, whatever the sizes are
    said = run.stdout.decode()
    assert "shapes (2, 3, 3, 3) and (2, 7, 3, 3)" in said
    assert "branch 'neg_' cannot run at the sizes of the original, data (1,3,8,8)" in said
    assert "the original cannot run at the sizes of branch 'neg_', neg_data (1,7,9,9)" in said


@pytest.mark.parametrize("heads", [(3, 1), (1, 3), (1, 3, 1)])
@pytest.mark.parametrize("more", [(), ("--drop-original",)])
def test_variables_among_the_heads_of_tied_branches_are_paired(
    tmp_path: Path, heads: tuple[int, ...], more: tuple[str, ...]
) -> None:
    arguments = ("--prefix", "a-", "--prefix", "b-", "--mode", "tie", *more)
    printed = duplicated(tmp_path, pooled(*heads), *arguments)
    shape = "a-data=1,3,8,8"
    for words in (printed, [word for word in printed if not word.startswith("--prefix=") or more]):
        run = done(graphshare(*words, "--shape", shape, "--format", "json", cwd=tmp_path))
        for branch in json.loads(run.stdout)["branches"]:
            pairs = {(o["reference"], o["output"]) for o in branch["rounds"][0]["outputs"]}
            assert pairs == {
                ("conv_weight",) * 2,
                (branch["reference"] + "pool_output", branch["branch"] + "pool_output"),
            }


def test_a_head_that_only_some_branches_have_is_refused(tmp_path: Path) -> None:
    duplicated(tmp_path, pooled(3, 1), "--prefix", "neg_", "--mode", "copy")
    found = json.loads((tmp_path / "siam.json").read_text())
    names = [node["name"] for node in found["nodes"]]
    del found["heads"][[names[head[0]] for head in found["heads"]].index("neg_conv_weight")]
    write_json(tmp_path / "siam.json", found)
    said = refused(
        graphshare("verify", "siam.json", "--prefix", "neg_", "--random-params", "0", cwd=tmp_path)
    )
    assert "output 'conv_weight' has no counterpart 'neg_conv_weight'" in said


def test_any_variable_is_fed_as_run_takes_it(tmp_path: Path) -> None:
    duplicated(tmp_path, looked_up(), "--prefix", "neg_")
    np.save(tmp_path / "table.npy", np.arange(40, dtype="float32").reshape(10, 4))
    np.save(tmp_path / "ids.npy", np.array([3, 1]))
    feeds = ("--feed", "data=table.npy", "--feed", "ids=ids.npy")
    done(graphshare("run", "net.json", *feeds, cwd=tmp_path))
    found, _ = verified(tmp_path, *feeds)
    assert found["branches"][0]["parameters"] == [
        {"reference": "data", "parameter": "neg_data", "how": "fed", "detail": ""}
    ]
    np.savez(
        tmp_path / "w.npz", data=np.zeros((10, 4), "float32"), neg_data=np.zeros((10, 4), "float32")
    )
    found, _ = verified(tmp_path, *feeds, "--params", "w.npz")
    assert [p["how"] for p in found["branches"][0]["parameters"]] == ["equal"]


def test_a_conversion_is_mentioned(tmp_path: Path) -> None:
    done(graphshare("duplicate", FIXTURES / "blog", "--prefix", "sha-", "-o", "siam", cwd=tmp_path))
    np.save(tmp_path / "x.npy", np.ones((1, 1, 3, 3)))
    _, notes = verified(tmp_path, "--feed", "data=x.npy", graph="siam")
    assert "'data' is fed as float64 and was converted to float32" in notes


def test_a_shape_of_a_parameter_counts(tmp_path: Path) -> None:
    duplicated(tmp_path, looked_up(), "--prefix", "neg_")
    verified(tmp_path, "--random-params", "0", "--shape", "ids=2", "--shape", "neg_data=10,4")
    more = ("--random-params", "0", "--shape", "ids=2", "--shape", "neg_data=11,4")
    refused(graphshare("verify", "siam.json", *more, cwd=tmp_path), "11")
    np.savez(
        tmp_path / "w.npz", data=np.zeros((10, 4), "float32"), neg_data=np.zeros((10, 4), "float32")
    )
    more = ("--params", "w.npz", "--shape", "ids=2", "--shape", "data=11,4")
    refused(
        graphshare("verify", "siam.json", *more, cwd=tmp_path),
        "'data' has the shape (10,4), which does not fit (11,4)",
    )
    more = ("--params", "w.npz", "--seed", "0", "--shape", "ids=2", "--shape", "data=11,4")
    refused(
        graphshare("run", "net.json", *more, cwd=tmp_path),
        "'data' has the shape (10,4), which does not fit (11,4)",
    )


def test_a_variable_is_an_input_if_the_user_says_so(tmp_path: Path) -> None:
    printed = duplicated(tmp_path, looked_up(), "--prefix", "neg_", "--as-input", "data")
    assert "--as-input=data" in printed
    without = [word for word in printed if word not in ("--random-params", "0")]
    run = done(graphshare(*without, "--shape", "ids=2", "--format", "json", cwd=tmp_path))
    report = json.loads(run.stdout)
    assert report["branches"][0]["parameters"] == []
    assert "'data' (original), 'neg_data' (neg_) are seeded (0), (10, 4) float32" in report["notes"]
    said = refused(
        graphshare("verify", "siam.json", "--as-input", "dat", "--shape", "id=2", cwd=tmp_path)
    )
    assert said.count("names no variable") == 2
    assert "did you mean 'data'" in said


def test_what_nothing_needs_is_mentioned(tmp_path: Path) -> None:
    duplicated(tmp_path, pooled(), "--prefix", "neg_", "--mode", "tie")
    found = json.loads((tmp_path / "siam.json").read_text())
    found["arg_nodes"].append(len(found["nodes"]))
    found["nodes"].append(variable("more"))
    found.pop("node_row_ptr", None)
    write_json(tmp_path / "siam.json", found)
    _, notes = verified(
        tmp_path, "--random-params", "0", "--shape", "data=1,3,8,8", "--shape", "more=2"
    )
    assert "--shape: nothing that is compared needs more" in notes


def test_older_generations_are_upgraded_as_run_upgrades_them(tmp_path: Path) -> None:
    attrs = {"num_hidden": "3", "no_bias": "True", "weight_lr_mult": "2"}
    nodes = [
        variable("data"),
        variable("fc_weight"),
        operator("FullyConnected", "fc", [0, 1], attrs=attrs),
    ]
    for version in (None, 800, 903, 1000):
        printed = duplicated(tmp_path, document(nodes, [2], version=version), "--prefix", "neg_")
        done(
            graphshare(
                "run",
                "net.json",
                "--seed",
                "0",
                "--random-params",
                "0",
                "--shape",
                "data=2,5",
                cwd=tmp_path,
            )
        )
        done(graphshare(*printed, "--shape", "data=2,5", cwd=tmp_path))


def test_casts_of_an_older_generation_are_part_of_what_is_compared(tmp_path: Path) -> None:
    """They are not removed where an operator without a kernel leaves structure and parameters alone to compare."""
    for dtype in ("float16", "float32"):
        nodes = [
            variable("x"),
            operator("amp_cast", "cast", [0], attrs={"dtype": dtype}),
            variable("gamma"),
            variable("beta"),
        ]
        nodes += [operator("BatchNorm", "bn", [1, 2, 3]), operator("_contrib_fft", "fft", [4])]
        write_json(tmp_path / f"{dtype}.json", document(nodes, [5], version=None))
    arguments = ("compare", "float16.json", "--allow-unsupported")
    same = done(graphshare(*arguments, "float16.json", cwd=tmp_path)).stdout.decode().splitlines()
    assert same[1] == "  ok   structure   8 pairs of nodes, 3 operators, the same but for names"
    assert same[-1] == "STRUCTURE EQUAL: the other model and the original, values not compared"
    other = graphshare(*arguments, "float32.json", cwd=tmp_path)
    assert other.returncode == 1
    assert "'cast' and 'cast': attributes dtype 'float16' and 'float32'" in other.stdout.decode()
    assert (
        other.stdout.decode().splitlines()[-1]
        == "NOT PROVED: the models differ, and their values were not computed"
    )


def test_a_map_of_a_file_that_implies_variables_pairs_the_heads(tmp_path: Path) -> None:
    nodes = [variable(name) for name in ("data", "bn_gamma", "bn_beta")]
    attrs = {"eps": "0.001", "fix_gamma": "False"}
    graph = document(
        [*nodes, operator("BatchNorm", "bn", [0, 1, 2], attrs=attrs)], [3], version=None
    )
    duplicated(tmp_path, graph, "--prefix", "neg_", "--map-out", "map.json")
    found, notes = verified(
        tmp_path, "--map", "map.json", "--random-params", "0", "--shape", "data=2,3"
    )
    assert [p["parameter"] for p in found["branches"][0]["parameters"]][2:] == [
        "neg_bn_moving_mean",
        "neg_bn_moving_var",
    ]
    assert "added: 4 variables that it implies" in notes


def test_the_report_lists_the_parameters_by_name(tmp_path: Path) -> None:
    arguments = (
        "--prefix",
        "sha-",
        "--mode",
        "tie",
        "--copy",
        "fc*",
        "--copy",
        "conv2_bias",
        "-o",
        "siam",
    )
    done(graphshare("duplicate", FIXTURES / "lenet", *arguments, cwd=tmp_path))
    np.savez(
        tmp_path / "other.npz",
        **changed(tmp_path / "siam-0000.params", "sha-fc2_bias", without="sha-fc1_bias"),
    )
    run = graphshare(
        "verify",
        "siam",
        "--params",
        "other.npz",
        "--format",
        "json",
        "--random-params",
        "0",
        cwd=tmp_path,
    )
    assert run.returncode == 1
    found: dict[str, dict[str, str]] = {}
    for pair in json.loads(run.stdout)["branches"][0]["parameters"]:
        found.setdefault(pair["how"], {})[pair["reference"]] = pair["parameter"]
    assert found["tied"]["conv1_weight"] == "conv1_weight"
    assert found["equal"] == {
        name: f"sha-{name}" for name in ("conv2_bias", "fc1_weight", "fc2_weight")
    }
    assert found["different"] == {"fc2_bias": "sha-fc2_bias"}
    assert found["missing"] == {"fc1_bias": "sha-fc1_bias"}


def changed(path: Path, name: str, *, without: str) -> dict[str, Any]:
    """The arrays of a parameter file, one of them larger by one, without another."""
    from graphshare.formats.params.arrays import ArrayReader
    from graphshare.formats.params.format import read_index

    with ArrayReader(file := read_index(path)) as reader:
        arrays = {str(record.key): np.array(reader.read(record)) for record in file.records}
    arrays[f"arg:{name}"] += 1
    del arrays[f"arg:{without}"]
    return arrays


def test_operators_that_draw_give_both_branches_the_same(tmp_path: Path) -> None:
    attrs = {"low": "0", "high": "1", "shape": "(3,)"}
    nodes = [variable("data"), operator("_random_uniform", "noise", [], attrs=attrs)]
    graph = document([*nodes, operator("elemwise_add", "sum", [0, 1])], [2])
    verified(tmp_path, *duplicated(tmp_path, graph, "--prefix", "neg_")[2:], "--shape", "data=3")


def test_a_batch_takes_a_fed_parameter(tmp_path: Path) -> None:
    done(
        graphshare(
            "duplicate",
            FIXTURES / "blog",
            "--prefix",
            "sha-",
            "--mode",
            "batch",
            "-o",
            "siam",
            cwd=tmp_path,
        )
    )
    np.save(tmp_path / "w.npy", np.full((1, 1, 3, 3), 2, "float32"))
    found, notes = verified(
        tmp_path,
        "--feed",
        "conv1_weight=w.npy",
        "--shape",
        "data=1,1,3,3",
        graph="siam-symbol.json",
    )
    assert [p["how"] for p in found["branches"][0]["parameters"]] == ["tied"]
    assert "'data' (original) is seeded" in notes
    assert "'sha-data' (sha-) is seeded" in notes
    said = graphshare("verify", "siam", "--layers", cwd=tmp_path)
    refused(said, "one run, so --layers has no inner outputs")


def test_an_output_is_counted_once_however_often_it_is_compared(tmp_path: Path) -> None:
    done(
        graphshare(
            "duplicate", ROOT / "fixtures/lenet", "--prefix", "b_", "-o", "siam", cwd=tmp_path
        )
    )
    sizes = (
        "--shape",
        "data=2,1,28,28",
        "--shape",
        "b_data=3,1,28,28",
        "--rounds",
        "3",
        "--layers",
    )
    said = done(graphshare("verify", "siam", *sizes, cwd=tmp_path)).stdout.decode()
    assert (
        "values      1 output compared in 6 runs, 1 bit for bit, max abs 0; at the sizes of the original and of b_"
        in said
    )
    assert "layers      13 inner outputs compared in 6 runs, 13 bit for bit" in said
    export = (
        "export",
        "siam",
        "--dynamic-batch",
        "--shape",
        "*data=2,1,28,28",
        "-o",
        "siam.onnx",
        "--format",
        "json",
    )
    proved = json.loads(done(graphshare(*export, cwd=tmp_path)).stdout)
    assert proved["verdict"].startswith("EQUAL in onnxruntime: 2 outputs at 2 sizes, max abs ")
    assert [branch["outputs"] for branch in proved["proof"]["branches"]] == [1]
