"""Which records of two parameter files are compared, and what a difference of their names is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphshare.cli.report import format_parameter_diff
from graphshare.formats.params.diff import ParameterDiff, diff_parameters, pair_records
from graphshare.formats.params.format import read_index
from graphshare.formats.params.records import ParameterFile


def write(path: Path, *names: str) -> ParameterFile:
    """Arrays of 1, by name; 2 where the name ends with an exclamation mark."""
    np.savez(
        path,
        **{
            name.rstrip("!"): np.full(2, 2 if name.endswith("!") else 1, "float32")
            for name in names
        },
    )
    return read_index(path)


def diff(left: ParameterFile, right: ParameterFile, *, atol: float = 0.0) -> ParameterDiff:
    return diff_parameters(left, right, pair_records(left, right, {}), atol=atol)


@pytest.mark.parametrize(
    ("left", "right", "details"),
    [
        (["arg:a"], ["arg:a"], []),
        (["arg:a"], ["aux:a"], ["arg prefix became aux"]),
        (["a"], ["aux:a"], ["no prefix became aux"]),
        (["arg:a"], ["a"], ["arg prefix became none"]),
    ],
)
def test_a_prefix_that_changed_is_a_change_of_name(
    left: list[str], right: list[str], details: list[str], tmp_path: Path
) -> None:
    found = diff(write(tmp_path / "a.npz", *left), write(tmp_path / "b.npz", *right))
    assert [(change.how, change.detail) for change in found.changes] == [
        ("renamed", detail) for detail in details
    ]
    assert found.equal == (not details)


def test_changes_are_rows_of_a_table(tmp_path: Path) -> None:
    left = write(tmp_path / "a.npz", "arg:a", "arg:same", "arg:old", "arg:r")
    right = write(tmp_path / "b.npz", "arg:a!", "arg:same", "arg:new", "aux:r")
    found = diff(left, right)
    assert found.make_table().rows == [
        ("values", "arg:a", "arg:a", "2 float32", "1"),
        ("removed", "arg:old", "", "2 float32", ""),
        ("renamed", "arg:r", "aux:r", "arg prefix became aux", ""),
        ("added", "", "arg:new", "2 float32", ""),
    ]
    assert (found.equal, bool(found), bool(diff(left, left))) == (1, True, False)


def test_values_that_are_equal_as_numbers_differ_in_their_bits(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"arg:zero": np.zeros(2), "arg:one": np.ones(2)})
    np.savez(tmp_path / "b.npz", **{"arg:zero": -np.zeros(2), "arg:one": np.ones(2)})
    left, right = read_index(tmp_path / "a.npz"), read_index(tmp_path / "b.npz")
    found = diff(left, right)
    assert [(change.how, change.old) for change in found.changes] == [("bits", "arg:zero")]
    lines = [text for _, text in format_parameter_diff(found)]
    assert lines == ["bits     arg:zero  2 float64; 2 of 2 differ, equal as numbers but not as bits",
                     "parameters: 1 equal, 1 different"]  # fmt: skip
    assert not diff(left, right, atol=1e-9)
    np.savez(tmp_path / "c.npz", **{"arg:zero": -np.zeros(2, "float32"), "arg:one": np.ones(2)})
    assert [change.how for change in diff(left, read_index(tmp_path / "c.npz")).changes] == ["form"]


@pytest.mark.parametrize(
    ("chosen", "changed"),
    [
        (None, ["values", "removed", "added"]),
        ({"arg:a"}, ["values"]),
        ({"arg:old"}, ["removed"]),
        ({"arg:new"}, ["added"]),
        ({"arg:same"}, []),
    ],
)
def test_only_chosen_records_are_compared(
    chosen: set[str] | None, changed: list[str], tmp_path: Path
) -> None:
    left = write(tmp_path / "a.npz", "arg:a", "arg:same", "arg:old")
    right = write(tmp_path / "b.npz", "arg:a!", "arg:same", "arg:new")
    found = diff_parameters(left, right, pair_records(left, right, {}, chosen=chosen))
    assert [change.how for change in found.changes] == changed
