"""What the processes of a test run share is made once, and again where it failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared_folders import build_once, compute_once


def test_a_folder_is_built_once_and_anew_after_a_failure(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    builds = 0

    def build(folder: Path) -> None:
        nonlocal builds
        builds += 1
        assert list(folder.iterdir()) == []
        (folder / "part").mkdir()
        (folder / "file").write_text(str(builds))
        if builds == 1:
            raise OSError("cut off")

    with pytest.raises(OSError, match="cut off"):
        build_once(tmp_path_factory, "test-of-build", build)
    folders = {build_once(tmp_path_factory, "test-of-build", build) for _ in range(3)}
    assert (builds, len(folders)) == (2, 1)
    assert (folders.pop() / "file").read_text() == "2"


def test_an_answer_is_computed_once(tmp_path: Path) -> None:
    answers = [
        compute_once(tmp_path, "one", lambda number=number: {"number": number}) for number in (1, 2)
    ]
    assert answers == [{"number": 1}] * 2
    assert compute_once(tmp_path, "other", lambda: {"number": 3}) == {"number": 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "other.json"]
