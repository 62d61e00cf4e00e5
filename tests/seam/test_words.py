"""One word, one meaning: options that a model cannot use are refused, shapes hold for every branch, messages agree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphshare as gs
from tests.processes import ROOT, done, files_in, in_process, refused

pytest.importorskip("onnxruntime")
FIXTURES = ROOT / "fixtures"


@pytest.fixture
def lenet(tmp_path: Path) -> Path:
    """A folder with the pair ``lenet``."""
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(FIXTURES / name, tmp_path / name)
    return tmp_path


# Options that a format or a file cannot use.

REWRITES: dict[str, tuple[str, ...]] = {
    "duplicate": ("lenet", "--prefix", "b-"),
    "rename": ("lenet", "--prefix", "b-"),
    "extract": ("lenet", "--target", "fc1"),
    "share": ("lenet", "--alias", "bn1_gamma=bn1_beta"),
    "group": ("lenet", "lenet", "--prefix", "a-", "--prefix", "b-"),
    "fold": ("lenet",),
    "upgrade": ("lenet",),
}


@pytest.mark.parametrize(
    "option", [("--external-data", "copy"), ("--no-copy",)], ids=["external-data", "no-copy"]
)
@pytest.mark.parametrize("command", REWRITES)
def test_an_option_of_onnx_is_refused_for_mxnet(
    command: str, option: tuple[str, ...], lenet: Path
) -> None:
    before = files_in(lenet)
    run = in_process(command, *REWRITES[command], "-o", "out", *option, cwd=lenet)
    message = refused(run, option[0])
    assert files_in(lenet) == before
    assert "ONNX" in message or "No such option" in message


def test_the_tolerance_of_the_values_of_a_fold_is_refused_for_mxnet(lenet: Path) -> None:
    message = refused(
        in_process("fold", "lenet", "-o", "out", "--tolerance", "0.1", cwd=lenet), "--tolerance"
    )
    assert "is for ONNX models" in message
    assert "graphshare compare" in message


@pytest.mark.parametrize("option", [(), ("--no-verify",)])
def test_a_fold_of_mxnet_is_proved_by_weights_unless_it_must_not_be(
    option: tuple[str, ...], lenet: Path
) -> None:
    text = done(in_process("fold", "lenet", "-o", "out", *option, cwd=lenet)).stderr.decode()
    assert ("proved by weights, for every input" in text) == (not option)


@pytest.mark.parametrize("command", ["upgrade"])
def test_a_command_that_refuses_onnx_has_no_option_of_it(command: str) -> None:
    text = done(in_process(command, "--help")).stdout.decode()
    assert "ONNX:" not in text
    assert "--external-data" not in text
    assert "--no-copy" not in text


@pytest.mark.parametrize("command", ["duplicate", "rename", "extract", "share", "group"])
def test_a_command_that_takes_onnx_says_what_is_for_it(command: str) -> None:
    text = done(in_process(command, "--help")).stdout.decode()
    assert "--external-data [share|copy]" in text
    assert "ONNX:" in text


def test_numpy_does_not_compute_onnx_models(tmp_path: Path) -> None:
    """Two engines compute everything; where one of them computes nothing, there is no such proof."""
    done(
        in_process(
            "duplicate", FIXTURES / "small.onnx", "--prefix", "b_", "-o", tmp_path / "siam.onnx"
        )
    )
    run = in_process("verify", tmp_path / "siam.onnx", "--engine", "numpy,onnxruntime")
    message = refused(run, "numpy", "ONNX")
    assert "onnxruntime" in message


# ``run`` of an ONNX model is computed by onnxruntime, and refused where another engine is named.


@pytest.mark.parametrize("engine", ["onnxruntime", "auto"])
def test_run_computes_an_onnx_model_in_onnxruntime(engine: str) -> None:
    plain = done(in_process("run", "small.onnx", "--seed", "0", cwd=FIXTURES))
    named = done(in_process("run", "small.onnx", "--seed", "0", "--engine", engine, cwd=FIXTURES))
    assert named.stdout == plain.stdout
    assert b"by onnxruntime" in named.stderr


def test_run_says_what_can_be_done_where_another_engine_is_named() -> None:
    run = in_process("run", "small.onnx", "--seed", "0", "--engine", "numpy", cwd=FIXTURES)
    refused(
        run,
        "small.onnx: --engine numpy is for MXNet graphs",
        "leave it out: onnxruntime computes an ONNX model",
    )


# Verbs agree with the names before them.


def _siamese(folder: Path, source: Path | str, prefixes: Sequence[str], mode: str = "tie") -> Path:
    target = folder / ("siam.onnx" if str(source).endswith(".onnx") else "siam")
    gs.save(gs.duplicate(source, prefixes, mode=mode), target)
    return target


@pytest.mark.parametrize(
    "prefixes", [("b_",), ("b_", "c_")], ids=["two branches", "three branches"]
)
@pytest.mark.parametrize("model", ["lenet", "small.onnx"])
def test_several_inputs_are_seeded(model: str, prefixes: tuple[str, ...], tmp_path: Path) -> None:
    path = _siamese(tmp_path, FIXTURES / model, prefixes)
    shapes = ("--shape", "data=1,1,28,28") if model == "lenet" else ()
    notes = done(in_process("verify", path, *shapes)).stderr.decode()
    name = "data" if model == "lenet" else "x"
    names = ", ".join(
        [f"'{name}' (original)", *(f"'{prefix}{name}' ({prefix})" for prefix in prefixes)]
    )
    assert f"{names} are seeded (0), " in notes
    assert ") is seeded" not in notes


@pytest.mark.parametrize("model", ["lenet", "small.onnx"])
def test_inputs_of_two_files_are_seeded(model: str) -> None:
    shapes = ("--shape", "data=1,1,28,28") if model == "lenet" else ()
    notes = done(in_process("compare", model, model, *shapes, cwd=FIXTURES)).stderr.decode()
    name = "data" if model == "lenet" else "x"
    assert f"'{name}' is seeded (0), " in notes


@pytest.mark.parametrize("model", ["lenet", "small.onnx"])
def test_one_input_is_seeded(model: str, tmp_path: Path) -> None:
    """An input that both branches share is one."""
    name = "data" if model == "lenet" else "x"
    path = tmp_path / ("siam.onnx" if model != "lenet" else "siam")
    gs.save(gs.duplicate(FIXTURES / model, "b_", mode="tie", share_inputs=name), path)
    shapes = ("--shape", "data=1,1,28,28") if model == "lenet" else ()
    notes = done(in_process("verify", path, *shapes)).stderr.decode()
    assert f"'{name}' (all branches) is seeded (0), " in notes


# A shape holds for its branch, and for every other that has none of its own: in verify, export and run.

SHAPES: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, int]]] = {
    "of the original": ({"data": (2, 1, 28, 28)}, {"": 2, "b-": 2, "c-": 2}),
    "of a copy": ({"b-data": (2, 1, 28, 28)}, {"": 2, "b-": 2, "c-": 2}),
    "of a copy, its own": (
        {"data": (2, 1, 28, 28), "c-data": (3, 1, 28, 28)},
        {"": 2, "b-": 2, "c-": 3},
    ),
    "of all": (
        {"data": (1, 1, 28, 28), "b-data": (2, 1, 28, 28), "c-data": (3, 1, 28, 28)},
        {"": 1, "b-": 2, "c-": 3},
    ),
}
"""Shapes, and the batch of each branch that follows."""


def _words(shapes: dict[str, tuple[int, ...]]) -> list[str]:
    return [
        word
        for name, shape in shapes.items()
        for word in ("--shape", f"{name}={','.join(map(str, shape))}")
    ]


@pytest.fixture
def siam(tmp_path: Path) -> Path:
    """LeNet in three branches."""
    return _siamese(tmp_path, FIXTURES / "lenet", ("b-", "c-"))


@pytest.mark.parametrize("what", SHAPES)
def test_a_shape_in_verify_holds_for_every_branch(what: str, siam: Path) -> None:
    shapes, _ = SHAPES[what]
    report = json.loads(
        done(in_process("verify", siam, *_words(shapes), "--format", "json")).stdout
    )
    assert report["equal"]
    assert [branch["branch"] for branch in report["branches"]] == ["b-", "c-"]


@pytest.mark.parametrize("what", SHAPES)
def test_a_shape_in_run_holds_for_every_branch(what: str, siam: Path) -> None:
    shapes, batches = SHAPES[what]
    run = in_process("run", siam, *_words(shapes), "--seed", "0", "-o", siam.with_name("out.npz"))
    assert run.returncode == 0, run.stderr.decode()
    outputs = np.load(siam.with_name("out.npz"))
    assert {name: outputs[name].shape for name in outputs} == _expect(batches)


@pytest.mark.parametrize("what", SHAPES)
def test_a_shape_in_export_holds_for_every_branch(what: str, siam: Path) -> None:
    shapes, batches = SHAPES[what]
    target = siam.with_name("siam.onnx")
    run = in_process("export", siam, *_words(shapes), "-o", target)
    assert run.returncode == 0, run.stderr.decode()
    outputs: dict[str, Any] = {}
    for output in onnx.load(target).graph.output:
        outputs[output.name] = tuple(size.dim_value for size in output.type.tensor_type.shape.dim)
    assert outputs == _expect(batches)


def _expect(batches: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {f"{prefix}softmax_output": (batch, 10) for prefix, batch in batches.items()}


def test_a_shape_in_the_library_holds_for_every_branch(tmp_path: Path) -> None:
    model = gs.duplicate(FIXTURES / "lenet", ["b-", "c-"])
    shapes, batches = SHAPES["of a copy, its own"]
    outputs = gs.run(model, shapes=shapes, seed=0).outputs
    assert {name: array.shape for name, array in outputs.items()} == _expect(batches)
    gs.export(model, tmp_path / "siam.onnx", shapes=shapes)


def test_a_shape_with_an_open_size_holds_for_every_branch(siam: Path) -> None:
    run = in_process("export", siam, "--shape", "data=2,1,?,?", "-o", siam.with_name("siam.onnx"))
    assert run.returncode == 0, run.stderr.decode()
    inputs = [
        [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in onnx.load(siam.with_name("siam.onnx")).graph.input
    ]
    assert inputs == [[2, 1, 28, 28]] * 3
