"""Every example runs by itself and says something."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.surroundings import ROOT

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "__init__")


def test_there_is_one_for_each_system() -> None:
    assert EXAMPLES == [
        "caffe2_sharing",
        "mxnet_blog",
        "paddle_session",
        "paddle_shared_fc",
        "tensornets_scopes",
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) > 5
