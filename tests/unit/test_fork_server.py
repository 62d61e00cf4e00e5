"""A forked run is what a run in an interpreter of its own is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fork_server import ForkServer
from tests.processes import ROOT, environment, files_in, graphshare

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux only")

LENET = str(ROOT / "fixtures" / "lenet")
RUNS: dict[str, list[str]] = {
    "talk and files": ["duplicate", LENET, "--prefix", "x-", "-o", "out"],
    "data": ["inspect", f"{LENET}-symbol.json", "--format", "json"],
    "an error": ["duplicate", "nothing.json", "--prefix", "x-"],
    "a usage error": ["duplicat"],
    "a no": ["format", f"{LENET}-symbol.json", "--check", "--layout", "compact"],
    "standard input": ["extract", "-", "--target", "pool2"],
}


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_it_says_writes_and_answers_the_same(arguments: list[str], tmp_path: Path) -> None:
    data = Path(f"{LENET}-symbol.json").read_bytes() if "-" in arguments else b""
    found = []
    for name, more in (("forked", {}), ("own", {"PYTHONDONTWRITEBYTECODE": "1"})):
        (tmp_path / name).mkdir()
        run = graphshare(*arguments, data=data, cwd=tmp_path / name, **more)
        found.append((run.returncode, run.stdout, run.stderr, files_in(tmp_path / name)))
    assert found[0] == found[1]


def test_a_run_that_hangs_is_ended(tmp_path: Path) -> None:
    server = ForkServer()
    os.mkfifo(tmp_path / "nobody-writes.json")
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(
            ["inspect", "nobody-writes.json"],
            data=b"",
            cwd=str(tmp_path),
            environment=environment(),
            timeout=0.5,
        )
    run = server.run(
        ["--version"], data=b"", cwd=str(tmp_path), environment=environment(), timeout=60
    )
    assert run.stdout.startswith(b"graphshare ")
