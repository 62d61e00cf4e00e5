"""The committed fixtures are what their scripts make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.surroundings import run_oracle

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_nin_is_made_by_its_script(tmp_path: Path) -> None:
    script = FIXTURES / "make_nin.py"
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)], check=True, cwd=FIXTURES.parent, env=None
    )
    assert (tmp_path / "nin-symbol.json").read_bytes() == (
        FIXTURES / "nin-symbol.json"
    ).read_bytes()


def test_the_onnx_model_is_made_by_its_script(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(FIXTURES / "make_onnx.py")], check=True, cwd=tmp_path, env=None
    )
    made = (tmp_path / "small.onnx").read_bytes()
    assert made == (FIXTURES / "small.onnx").read_bytes()
    onnx.checker.check_model(made, full_check=True)


@pytest.mark.oracle
def test_the_others_are_made_by_mxnet(tmp_path: Path, oracle_python: str) -> None:
    run_oracle(oracle_python, FIXTURES / "make_with_mxnet.py", tmp_path)
    for name in ("blog-symbol.json", "blog-0000.params", "lenet-symbol.json", "lenet-0000.params"):
        assert (tmp_path / name).read_bytes() == (FIXTURES / name).read_bytes(), name
