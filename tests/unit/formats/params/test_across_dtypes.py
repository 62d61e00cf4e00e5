"""``params diff`` across dtypes: up to one step of the less precise one, and only where it is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphshare
from graphshare.api.diff_params import diff_params
from graphshare.api.params import convert as convert_params
from tests import params_bytes as build

RANDOM = np.random.default_rng(0)
NUMBERS = np.concatenate(
    [RANDOM.standard_normal(1000), 10.0 ** RANDOM.uniform(-9, 4, 1000)]
).astype("f4")


def write(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one = write(tmp_path / "one.npz", w=NUMBERS, i=np.arange(3), s=np.ones(2, "f4"))
    convert_params(one, tmp_path / "half.npz", dtype="float16")
    return one, tmp_path / "half.npz"


def test_unlike_dtypes_are_a_difference_unless_asked(files: tuple[Path, Path]) -> None:
    for left, right in (files, files[::-1]):
        assert [change.how for change in diff_params(left, right).changes] == ["values", "form"]
        found = graphshare.diff_params(left, right, across_dtypes=True)
        assert not found
        assert (found.equal, found.across) == (3, {"float16": 2})
    assert diff_params(files[0], files[0], across_dtypes=True).across == {}


@pytest.mark.parametrize("step", [1, 3])
def test_one_step_of_float16_is_equal_and_three_are_not(
    tmp_path: Path, files: tuple[Path, Path], step: int
) -> None:
    half = NUMBERS.astype("f2")
    moved = (half.view("u2") + np.uint16(step)).view("f2")
    other = write(tmp_path / "moved.npz", w=moved, i=np.arange(3), s=np.ones(2, "f4"))
    found = diff_params(write(tmp_path / "exact.npz", w=half.astype("f4"), i=np.arange(3), s=np.ones(2, "f4")), other,
                        across_dtypes=True)  # fmt: skip
    assert [change.how for change in found.changes] == (["values"] if step > 1 else [])


def test_what_float16_cannot_hold_is_a_difference(tmp_path: Path) -> None:
    one = write(tmp_path / "one.npz", w=np.array([1, 1e5], "f4"))
    done = convert_params(one, tmp_path / "half.npz", dtype="float16")
    assert done.overflows == {"w": 1}
    (change,) = diff_params(one, tmp_path / "half.npz", across_dtypes=True).changes
    assert (change.how, change.distance.max_abs) == ("values", None)


def test_integers_and_shapes_are_compared_as_ever(tmp_path: Path) -> None:
    one = write(tmp_path / "one.npz", i=np.arange(4), s=np.ones(2, "f4"))
    other = write(tmp_path / "other.npz", i=np.arange(4).astype("f4"), s=np.ones((2, 1), "f2"))
    found = diff_params(one, other, across_dtypes=True)
    assert [change.how for change in found.changes] == ["form", "form"]
    assert found.across == {}


def test_bfloat16_has_steps_of_its_own(tmp_path: Path) -> None:
    upper = NUMBERS.view("<u2")[1::2]  # truncated, as some writers do
    (tmp_path / "b.params").write_bytes(
        build.container([build.dense(NUMBERS.shape, "bfloat16", upper.tobytes())], ["w"])
    )
    for dtype in ("f4", "f2", "f8"):
        found = diff_params(
            write(tmp_path / "one.npz", w=NUMBERS.astype(dtype)),
            tmp_path / "b.params",
            across_dtypes=True,
        )
        assert found.across == {"bfloat16": 1}
        # The smallest numbers of float16 are further from bfloat16 than its steps
        assert bool(found) == (dtype == "f2")
