"""Where the outputs of models are placed: always below the folder of the outputs."""

from __future__ import annotations

import pytest

from graphshare.fleet.tasks import leads_outside


@pytest.mark.parametrize("relative", ["../up", "m/../../up", "m/..", "/up", "//up", ".."])
def test_paths_that_lead_out_of_a_folder(relative: str) -> None:
    assert leads_outside(relative, on_windows=False)
    assert leads_outside(relative, on_windows=True)


@pytest.mark.parametrize(
    "relative", ["..\\up", "m/..\\..\\up", "\\up", "\\\\host\\share\\up", "C:up", "c:/up", "m/C:up", "a\\b"]
)
def test_paths_that_lead_out_of_a_folder_on_windows_alone(relative: str) -> None:
    assert leads_outside(relative, on_windows=True)
    assert not leads_outside(relative, on_windows=False)


@pytest.mark.parametrize("relative", ["a", "a/b", "..a", "a..", "a/...", ".a/b", "./a", "a:b/c" * 9, "ab:c"])
def test_paths_that_stay_in_a_folder(relative: str) -> None:
    assert not leads_outside(relative, on_windows=False)


def test_names_of_windows_that_have_a_colon_later() -> None:
    assert not leads_outside("ab:c/d", on_windows=True)
