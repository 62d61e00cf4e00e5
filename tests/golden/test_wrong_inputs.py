"""What is said of wrong inputs, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphshare.cli import main
from graphshare.formats.wrong_file import FILE_KINDS, JSON_KINDS
from tests.golden.wrong_inputs import GOLDEN, INPUTS, make_files, transcribe
from tests.processes import files_in


def test_messages_of_wrong_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = files_in(tmp_path)

    def run(words: list[str]) -> tuple[int, str]:
        code = main.run(words)
        out, said = capfd.readouterr()
        assert out == ""
        return code, said

    assert transcribe(run) == GOLDEN.read_text(encoding="utf-8")
    assert files_in(tmp_path) == before


def test_there_are_enough_of_them() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert len({name for _, name, _ in INPUTS}) == len(INPUTS) >= 60
    assert "exit code" not in text  # all are refused
    assert "bug in graphshare" not in text
    for kind in (*FILE_KINDS, *JSON_KINDS):
        assert f"is {kind.name}" in text, kind.name
