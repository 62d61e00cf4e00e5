"""The sizes of a label that inference does not read are never asked for; those of other labels, and
for training, are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from tests.processes import done, graphshare, refused, write_json
from tests.symbols import document, operator, variable

DATA = np.random.default_rng(0).random((2, 3, 4, 4), "float32")


def reshaped() -> dict[str, Any]:
    """A language model's loss: the labels of all places in one list, so that nothing determines the
    rank of the input.
    """
    nodes = [
        variable("data"),
        operator("Reshape", "rows", [0], attrs={"shape": "(-3, -3)"}),
        variable("label"),
    ]
    nodes += [
        operator("Reshape", "list", [2], attrs={"shape": "(-1,)"}),
        operator("SoftmaxOutput", "out", [1, 3]),
    ]
    return document(nodes, [4])


def detector() -> dict[str, Any]:
    """The loss of a detector: targets of the boxes are computed from a label of three axes."""
    nodes = [
        variable("data"),
        operator("Reshape", "scores", [0], attrs={"shape": "(0, 0, -1)"}),
        variable("label"),
    ]
    nodes += [operator("_contrib_MultiBoxPrior", "boxes", [0], attrs={"sizes": "(0.5,)"})]
    nodes += [operator("_contrib_MultiBoxTarget", "targets", [3, 2, 1])]
    nodes += [operator("SoftmaxOutput", "out", [1, (4, 2, 0)], attrs={"multi_output": "True"})]
    return document(nodes, [5, (4, 0, 0)], row_ptr=False)


GRAPHS = {"reshaped": reshaped(), "detector": detector()}


@pytest.fixture(params=GRAPHS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_json(tmp_path / "net.json", GRAPHS[request.param])
    np.save(tmp_path / "x.npy", DATA)
    return tmp_path


@pytest.mark.parametrize("free", [(), ("--dynamic-batch",), ("--shape", "data=n:2,3,4,4")])
@pytest.mark.parametrize("label", [(), ("--shape", "label=2,1,5")])
def test_export(free: tuple[str, ...], label: tuple[str, ...], folder: Path) -> None:
    if (folder / "net.json").read_text().find("MultiBox") < 0:
        label = ("--shape", "label=2,3") if label else ()
    given = () if "--shape" in free else ("--shape", "data=2,3,4,4")
    options = ("--upto", "out_output", *given, *label, *free)
    run = done(graphshare("export", "net.json", *options, "-o", "net.onnx", cwd=folder))
    assert b"left out: label\n" in run.stderr
    assert b"EQUAL in onnxruntime" in run.stderr
    assert b"could have other sizes" not in run.stderr


def test_run_bind_and_verify(folder: Path) -> None:
    run = done(
        graphshare("run", "net.json", "--target", "out_output", "--feed", "data=x.npy", cwd=folder)
    )
    assert b"could have other sizes" not in run.stderr
    bound = gs.bind(folder / "net.json", targets=["out_output"])
    assert bound({"data": DATA})["out_output"].shape[0] in (2, 6)
    part = gs.extract(folder / "net.json", targets=["out_output"])
    assert gs.verify(gs.duplicate(part, "sha-", mode="tie"), feeds={"data": DATA})


def test_a_label_that_an_output_needs_is_asked_for(tmp_path: Path) -> None:
    write_json(tmp_path / "net.json", GRAPHS["detector"])
    np.save(tmp_path / "x.npy", DATA)
    hint = "choose its sizes, as in --shape label=2,"
    for command in (
        ("run", "net.json", "--feed", "data=x.npy"),
        ("export", "net.json", "--shape", "data=2,3,4,4", "-o", "a.onnx"),
    ):
        assert hint in refused(graphshare(*command, cwd=tmp_path))


def test_training_asks_for_the_label(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        variable("w"),
        operator("broadcast_mul", "y", [0, 1]),
        variable("label"),
    ]
    nodes += [
        operator("Reshape", "list", [3], attrs={"shape": "(-1,)"}),
        operator("SoftmaxOutput", "out", [2, 4]),
    ]
    write_json(tmp_path / "net.json", document(nodes, [5]))
    np.savez(tmp_path / "p.npz", **{"arg:w": np.ones((1, 3), "float32")})
    np.save(tmp_path / "x.npy", np.ones((2, 3), "float32"))
    command = ("run", "net.json", "--params", "p.npz", "--feed", "data=x.npy")
    done(graphshare(*command, cwd=tmp_path))
    refusal = refused(graphshare(*command, "--sgd-steps", "1", cwd=tmp_path))
    assert "the shape of 'label' cannot be inferred" in refusal
    done(graphshare(*command, "--sgd-steps", "1", "--shape", "label=2", cwd=tmp_path))
