"""Training on the command line: the blog's experiment, what is written, what is refused, and what
verify says of branches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.files.schema import find_violations
from tests.processes import ROOT, done, graphshare, refused, write_json
from tests.symbols import document, operator, variable

FIXTURES = ROOT / "fixtures"
IMAGE = np.array([[1, 2, 3]] * 3, "float32").reshape(1, 1, 3, 3)
COPIED, TIED = 41.57999801635742, 41.15999984741211  # what MXNet's Module gives


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", IMAGE)
    np.save(tmp_path / "two.npy", np.concatenate([IMAGE, IMAGE]))
    for mode in ("copy", "tie"):
        done(
            graphshare(
                "duplicate",
                FIXTURES / "blog",
                "--prefix",
                "sha-",
                "--mode",
                mode,
                "-o",
                mode,
                cwd=tmp_path,
            )
        )
    return tmp_path


def outputs(folder: Path, *arguments: Any) -> list[float]:
    done(graphshare("run", *arguments, "-o", "out.npz", cwd=folder))
    with np.load(folder / "out.npz", allow_pickle=False) as found:
        return [float(x) for name in found.files for x in found[name].reshape(-1)]


BOTH = ("--feed", "data=x.npy", "--feed", "sha-data=x.npy")


@pytest.mark.parametrize(("mode", "after"), [("copy", COPIED), ("tie", TIED)])
def test_the_blogs_experiment(folder: Path, mode: str, after: float) -> None:
    assert outputs(folder, mode, *BOTH) == [42.0, 42.0]
    run = graphshare(
        "run", mode, *BOTH, "--sgd-steps", "1", "--params-out", "new.params", cwd=folder
    )
    assert "mean 42 before, 41." in done(run).stderr.decode()
    again = outputs(folder, f"{mode}-symbol.json", "--params", "new.params", *BOTH)
    assert again == pytest.approx([after, after], rel=1e-6)


def test_one_branch_fed_a_batch_of_two(folder: Path) -> None:
    arguments = (FIXTURES / "blog", "--feed", "data=two.npy", "--sgd-steps", "1")
    assert outputs(folder, *arguments) == pytest.approx([COPIED, COPIED], rel=1e-6)


def test_one_branch_of_a_tied_net_fed_a_batch_of_two_moves_both(folder: Path) -> None:
    run = (
        "run",
        "tie",
        "--target",
        "makeloss0",
        "--feed",
        "data=two.npy",
        "--sgd-steps",
        "1",
        "--params-out",
        "new.params",
    )
    done(graphshare(*run, cwd=folder))
    assert outputs(folder, "tie-symbol.json", "--params", "new.params", *BOTH) == pytest.approx(
        [COPIED, COPIED], rel=1e-6
    )


def test_batch_mode_trains_as_tied(folder: Path) -> None:
    done(
        graphshare(
            "duplicate",
            FIXTURES / "blog",
            "--prefix",
            "sha-",
            "--mode",
            "batch",
            "-o",
            "batch",
            cwd=folder,
        )
    )
    assert outputs(folder, "batch", *BOTH) == [42.0, 42.0]
    done(
        graphshare(
            "run", "batch", *BOTH, "--sgd-steps", "1", "--params-out", "new.params", cwd=folder
        )
    )
    for graph in ("batch", "tie"):  # the file fits both
        after = outputs(folder, f"{graph}-symbol.json", "--params", "new.params", *BOTH)
        assert after == pytest.approx([TIED, TIED], rel=1e-6)


def test_a_batch_cannot_drift_and_that_is_said(folder: Path) -> None:
    done(
        graphshare(
            "duplicate",
            FIXTURES / "blog",
            "--prefix",
            "sha-",
            "--mode",
            "batch",
            "-o",
            "batch",
            cwd=folder,
        )
    )
    for more in ([], ["--expect", "tied"]):
        refused(
            graphshare("verify", "batch", "--prefix", "sha-", "--train-step", *more, cwd=folder),
            "cannot drift",
        )


def test_both_inputs_in_one_batch(folder: Path) -> None:
    """The same by hand: the inputs are joined, the original runs once, and Module divides by the
    batch of the first alone.
    """
    attrs = {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "1"}
    nodes = [variable("data"), variable("sha-data"), variable("conv1_weight")]
    nodes += [operator("Concat", "both", [0, 1], attrs={"num_args": "2", "dim": "0"})]
    nodes += [
        operator("Convolution", "conv1", [3, 2], attrs=attrs),
        operator("MakeLoss", "loss", [4]),
    ]
    write_json(folder / "batch.json", document(nodes, [5]))
    params = FIXTURES / "blog-0000.params"
    assert outputs(
        folder, "batch.json", "--params", params, *BOTH, "--sgd-steps", "1"
    ) == pytest.approx([TIED, TIED], rel=1e-6)


@pytest.mark.parametrize("suffix", ["params", "npz", "safetensors"])
def test_all_that_the_file_held_is_written_and_only_the_trained_changes(
    folder: Path, suffix: str
) -> None:
    arguments = (
        FIXTURES / "lenet",
        "--shape",
        "data=2,1,28,28",
        "--seed",
        "0",
        "--sgd-steps",
        "2",
        "--momentum",
        "0.9",
    )
    done(graphshare("run", *arguments, "--params-out", f"new.{suffix}", cwd=folder))
    old = json.loads(
        done(
            graphshare("params", "list", FIXTURES / "lenet-0000.params", "--format", "json")
        ).stdout
    )
    new = json.loads(
        done(graphshare("params", "list", f"new.{suffix}", "--format", "json", cwd=folder)).stdout
    )
    assert [(a["key"], a["shape"], a["dtype"]) for a in new["arrays"]] == [
        (a["key"], a["shape"], a["dtype"]) for a in old["arrays"]
    ]
    done(
        graphshare(
            "run",
            FIXTURES / "lenet-symbol.json",
            "--params",
            f"new.{suffix}",
            *arguments[1:5],
            cwd=folder,
        )
    )


def test_the_report_follows_its_schema(folder: Path) -> None:
    run = done(
        graphshare(
            "run", "tie", *BOTH, "--sgd-steps", "3", "--wd", "0.1", "--format", "json", cwd=folder
        )
    )
    report = json.loads(run.stdout)
    assert list(find_violations(report, "run")) == []
    assert report["training"]["settings"] == {
        "learning_rate": 0.01,
        "momentum": 0,
        "wd": 0.1,
        "rescale": 1,
        "clip": None,
    }
    assert report["training"]["updated"] == ["arg:conv1_weight"]


def test_heads_that_are_no_losses(folder: Path) -> None:
    write_json(
        folder / "plain.json",
        document([variable("x"), variable("w_weight"), operator("elemwise_mul", "m", [0, 1])], [2]),
    )
    np.save(folder / "w.npy", np.array([1.0, 2.0], "float32"))
    np.save(folder / "v.npy", np.array([3.0, 5.0], "float32"))
    given = (
        "plain.json",
        "--feed",
        "x=v.npy",
        "--feed",
        "w_weight=w.npy",
        "--sgd-steps",
        "1",
        "--rescale-grad",
        "1",
    )
    given = (*given, "--learning-rate", "0.1")
    run = done(graphshare("run", *given, "-o", "out.npz", cwd=folder))
    assert "outputs that are not losses get a gradient of ones: m_output" in run.stderr.decode()
    assert np.load(folder / "out.npz")["m_output"].tolist() == pytest.approx([3 * 0.7, 5 * 1.5])
    assert outputs(folder, *given, "--head-gradient", "m_output=w.npy") == pytest.approx(
        [3 * 0.7, 5 * 1.0]
    )
    refused(
        graphshare("run", *given, "--head-gradient", "m_out=w.npy", cwd=folder),
        "is not an output",
        "m_output",
    )
    refused(
        graphshare("run", *given, "--head-gradient", "m_output=x.npy", cwd=folder), "has the shape"
    )


def test_options_that_do_not_go_together(folder: Path) -> None:
    refused(
        graphshare("run", "tie", *BOTH, "--params-out", "new.params", "--wd", "1", cwd=folder),
        "--params-out needs",
        "--wd needs",
    )
    refused(
        graphshare("run", "tie", *BOTH, "--sgd-steps", "1", "--profile", cwd=folder), "--profile"
    )
    refused(
        graphshare("run", "tie", *BOTH, "--sgd-steps", "1", "--params-out", "-", cwd=folder),
        "stdout",
    )
    refused(graphshare("run", "tie", *BOTH, "--sgd-steps", "0", cwd=folder), "--sgd-steps")
    refused(
        graphshare("verify", "tie", "--expect", "tied", cwd=folder),
        "--expect tied needs --train-step",
    )


def test_a_refusal_leaves_the_old_file(folder: Path) -> None:
    (folder / "new.txt").write_text("old")
    refused(
        graphshare("run", "tie", *BOTH, "--sgd-steps", "1", "--params-out", "new.txt", cwd=folder),
        "is not that of a parameter format",
    )
    assert (folder / "new.txt").read_text() == "old"


def test_nothing_to_train(folder: Path) -> None:
    write_json(
        folder / "none.json", document([variable("data"), operator("MakeLoss", "loss", [0])], [1])
    )
    refused(
        graphshare("run", "none.json", "--feed", "data=x.npy", "--sgd-steps", "1", cwd=folder),
        "no parameter to train",
    )


def test_what_no_gradient_reaches_is_mentioned(folder: Path) -> None:
    nodes = [variable("x"), variable("a_weight"), variable("b_weight"), operator("floor", "f", [1])]
    nodes += [
        operator("add_n", "sum", [0, 2, 3], attrs={"num_args": "3"}),
        operator("MakeLoss", "loss", [4]),
    ]
    write_json(folder / "floor.json", document(nodes, [5]))
    given = ("--shape", "x=3", "--seed", "0", "--random-params", "0", "--sgd-steps", "1")
    run = done(graphshare("run", "floor.json", *given, cwd=folder))
    assert "no gradient reaches a_weight\n" in run.stderr.decode()


SIZED = ("--shape", "data=1,1,3,3", "--train-step")


def test_verify_tells_tied_from_copied(folder: Path) -> None:
    tied = done(graphshare("verify", "tie", *SIZED, "--expect", "tied", cwd=folder)).stdout.decode()
    assert "ok   training    1 tied" in tied
    assert (
        tied.splitlines()[-1]
        == "EQUAL: sha- and the original, bit for bit; tied: they train as one"
    )
    copied = done(graphshare("verify", "copy", *SIZED, cwd=folder)).stdout.decode()
    assert "'conv1_weight' and 'sha-conv1_weight': copied: will drift, " in copied
    assert (
        copied.splitlines()[-1]
        == "EQUAL: sha- and the original, bit for bit; copied: 1 parameter will drift"
    )
    answer = graphshare("verify", "copy", *SIZED, "--expect", "tied", cwd=folder)
    assert answer.returncode == 1
    assert "FAIL training" in answer.stdout.decode()
    assert answer.stdout.decode().splitlines()[-1] == "NOT TIED: sha- will drift"


def test_verify_shows_the_blogs_numbers(folder: Path) -> None:
    for mode, after in (("copy", COPIED), ("tie", TIED)):
        run = graphshare(
            "verify", mode, "--feed", "data=x.npy", "--train-step", "--format", "json", cwd=folder
        )
        report = json.loads(done(run).stdout)
        assert list(find_violations(report, "verify")) == []
        (output,) = report["branches"][0]["training"]["outputs"]
        assert (output["before"], output["twin_before"]) == (42, 42)
        assert (output["after"], output["twin_after"]) == pytest.approx((after, after), rel=1e-6)
        (pair,) = report["branches"][0]["training"]["pairs"]
        assert pair["fate"] == {"copy": "drifts", "tie": "tied"}[mode]


def test_masks_of_dropout_are_shared_by_twins(folder: Path) -> None:
    nodes = [
        variable("data"),
        variable("fc_weight"),
        operator("Dropout", "drop", [0], attrs={"p": "0.5"}),
    ]
    nodes += [
        operator("FullyConnected", "fc", [2, 1], attrs={"num_hidden": "3", "no_bias": "True"})
    ]
    write_json(folder / "drop.json", document([*nodes, operator("MakeLoss", "loss", [3])], [4]))
    done(graphshare("duplicate", "drop.json", "--prefix", "sha-", "-o", "two.json", cwd=folder))
    arguments = ("--shape", "data=4,6", "--random-params", "1", "--train-step")
    answer = done(graphshare("verify", "two.json", *arguments, cwd=folder)).stdout.decode()
    assert "ok   training    0 tied, 1 copied: will drift" in answer


def test_verify_lists_20_parameters_that_drift_and_counts_the_rest(folder: Path) -> None:
    names = [f"w{number}_weight" for number in range(22)]
    nodes = [
        variable("data"),
        *map(variable, names),
        operator("add_n", "sum", range(1, 23), attrs={"num_args": "22"}),
    ]
    nodes += [operator("elemwise_mul", "product", [0, 23]), operator("MakeLoss", "loss", [24])]
    write_json(folder / "many.json", document(nodes, [25]))
    done(graphshare("duplicate", "many.json", "--prefix", "sha-", "-o", "two.json", cwd=folder))
    arguments = ("--shape", "data=3", "--random-params", "0", "--train-step")
    lines = (
        done(graphshare("verify", "two.json", *arguments, cwd=folder)).stdout.decode().splitlines()
    )
    drifting = [line.split(":")[0].strip() for line in lines if ": copied: will drift, " in line]
    assert drifting == [f"'{name}' and 'sha-{name}'" for name in names[:20]]
    assert lines[-2] == "       and 2 more that drift (--format json lists all)"


@pytest.mark.parametrize(
    ("shared", "fate"),
    [("data", "copied: 10 parameters will drift"), ("*", "copied, not tied, though")],
)
def test_copies_are_no_ties_where_data_is_shared_and_labels_are_zeros(
    shared: str, fate: str, tmp_path: Path
) -> None:
    for mode in ("copy", "tie"):
        shape = ("--mode", mode, "--share-input", shared, "-o", mode)
        done(graphshare("duplicate", FIXTURES / "lenet", "--prefix", "b_", *shape, cwd=tmp_path))
    step = ("--train-step", "--shape", "data=1,1,28,28")
    assert fate in done(graphshare("verify", "copy", *step, cwd=tmp_path)).stdout.decode()
    assert (
        "tied: they train as one"
        in done(graphshare("verify", "tie", *step, cwd=tmp_path)).stdout.decode()
    )
    assert graphshare("verify", "copy", *step, "--expect", "tied", cwd=tmp_path).returncode == 1
