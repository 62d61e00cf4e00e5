"""Running graphshare from a test."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

from graphshare.cli.main import run
from tests.surroundings import ROOT


def in_process(*arguments: str | Path) -> None:
    """A command that must succeed, run in this process: hundreds of them take a while otherwise."""
    talk = io.StringIO()
    with contextlib.redirect_stderr(talk):
        status = run([str(argument) for argument in arguments])
    assert status == 0, talk.getvalue()


def as_command(*arguments: str | Path) -> str:
    """What a real command prints; it must succeed."""
    words = [sys.executable, "-m", "graphshare", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
