"""A graph that declares the shape of its input, at another size, in every command that takes a shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from tests.processes import ROOT, done, graphshare, refused, write_json
from tests.symbols import document, operator, variable
from tests.unit.ops.test_declared_shapes import FIXED

WEIGHT = np.random.default_rng(0).random((4, 3, 3, 3), "float32")
SHAPE = ("--shape", "data=2,3,9,9")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "net-symbol.json", FIXED)
    np.savez(tmp_path / "p.npz", **{"arg:w": WEIGHT})
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("run", "net-symbol.json", "--seed", "0"), "c_output  2x4x7x7  float32"),
        (("check", "net-symbol.json"), "1 file: 1 note"),  # on the name of the weight
        (("inspect", "net-symbol.json"), "data 2x3x9x9"),
        (("draw", "net-symbol.json", "-o", "net.svg"), "wrote net.svg"),
        (
            ("compare", "net-symbol.json", "net-symbol.json", "--against-params", "p.npz"),
            "(0), (2, 3, 9, 9) float32",
        ),
        (("export", "net-symbol.json", "-o", "net.onnx"), "output c_output 2x4x7x7"),
        (
            ("export", "net-symbol.json", "-o", "net.onnx", "--dynamic-batch"),
            "output c_output batchx4x7x7",
        ),
        (
            ("export", "net-symbol.json", "-o", "net.onnx", "--shape", "data=n:2,3,h:9,w:9"),
            "input data nx3xhxw",
        ),
    ],
)
def test_the_given_shape_is_taken(command: tuple[str, ...], said: str, folder: Path) -> None:
    run = done(
        graphshare(
            *command, "--params", "p.npz", *(() if "--shape" in command else SHAPE), cwd=folder
        )
    )
    assert said in (run.stdout + run.stderr).decode()


def test_fed_arrays_have_any_size_in_every_way_to_run(folder: Path) -> None:
    model = gs.load(str(folder / "net-symbol.json")).with_params({"arg:w": WEIGHT})
    data = np.ones((2, 3, 9, 9), "float32")
    outputs = gs.run(model, feeds={"data": data}).outputs
    assert outputs["c_output"].shape == (2, 4, 7, 7)
    assert gs.bind(model)({"data": data})["c_output"].tobytes() == outputs["c_output"].tobytes()
    siamese = gs.duplicate(model, "sha-", mode="tie")
    assert gs.verify(siamese, shapes={"data": (2, 3, 9, 9)}, train_step=True)
    assert gs.verify(gs.duplicate(model, "sha-", mode="batch"), shapes={"data": (2, 3, 9, 9)})


def test_a_parameter_file_must_have_the_declared_shapes(folder: Path) -> None:
    np.savez(folder / "other.npz", **{"arg:w": np.ones((4, 3, 5, 5), "float32")})
    refusal = refused(
        graphshare(
            "run", "net-symbol.json", "--params", "other.npz", *SHAPE, "--seed", "0", cwd=folder
        )
    )
    assert "its __shape__ is (4,3,3,3)" in refusal
    assert "use the parameter file of this graph" in refusal


def test_a_label_that_declares_a_shape(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        variable("label", attrs={"__shape__": "(4,)"}),
        operator("SoftmaxOutput", "s", [0, 1]),
    ]
    write_json(tmp_path / "net.json", document(nodes, [2]))
    run = done(
        graphshare(
            "run",
            "net.json",
            "--shape",
            "data=2,3",
            "--shape",
            "label=2",
            "--seed",
            "0",
            cwd=tmp_path,
        )
    )
    assert "s_output  2x3" in run.stdout.decode()


def test_sizes_of_weights_are_none_that_a_batch_could_have(tmp_path: Path) -> None:
    """Without shapes and parameters both the input and the first weight are open; only the input has samples."""
    done(
        graphshare(
            "duplicate",
            ROOT / "fixtures" / "nin-symbol.json",
            "--prefix",
            "b-",
            "-o",
            "two.json",
            cwd=tmp_path,
        )
    )
    run = done(
        graphshare("verify", "two.json", "--random-params", "0", "--prefix", "b-", cwd=tmp_path)
    )
    assert b"conv1_weight" not in run.stderr
    assert b"1 output compared in 2 runs" in run.stdout
