"""What is said of wrong inputs, word for word."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from graphshare.cli import main
from graphshare.formats.wrong_file import FILE_KINDS, JSON_KINDS
from tests.golden.wrong_inputs import GOLDEN, INPUTS, ONNX_TEXT, make_files, transcribe
from tests.processes import done, environment, files_in, graphshare, refused


def test_messages_of_wrong_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.parametrize(
    "name", ["m.onnxtxt", "m.json", "names.json", "m.textproto", "a text.onnx"]
)
def test_the_line_of_a_hint_converts_a_model(name: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    json_format = pytest.importorskip("google.protobuf.json_format")
    text_format = pytest.importorskip("google.protobuf.text_format")
    model = onnx.parser.parse_model(ONNX_TEXT.decode())
    texts = {
        "m.json": json_format.MessageToJson(model),
        "names.json": json_format.MessageToJson(model, preserving_proto_field_name=True),
        "m.textproto": text_format.MessageToString(model),
    }
    (tmp_path / name).write_text(texts.get(name, onnx.printer.to_text(model)))
    said = refused(graphshare("inspect", name, cwd=tmp_path), "is an ONNX model as")
    python = f'python() {{ {shlex.quote(sys.executable)} "$@"; }}'  # the one of these tests, whatever PATH has
    subprocess.run(
        ["sh", "-c", f"{python}; {said.split('`')[1]}"], check=True, cwd=tmp_path, env=environment()
    )
    (converted,) = {path.name for path in tmp_path.iterdir()} - {name}
    assert converted.endswith(".onnx")
    assert b"Relu 1" in done(graphshare("inspect", converted, cwd=tmp_path)).stdout
