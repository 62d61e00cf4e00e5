"""What takes long and is the same for every test: in folders that all processes of a test run share."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder of this name, the same in all processes of a test run."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"shared-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def compute_once(folder: Path, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``compute`` says, in JSON: it is called where no process has kept an answer of
    this name in the folder.
    """
    kept = folder / f"{name}.json"
    if not kept.exists():
        text = json.dumps(compute())
        beside = kept.with_suffix(f".{os.getpid()}")
        beside.write_text(text)
        beside.replace(kept)
    answer: dict[str, Any] = json.loads(kept.read_text())
    return answer


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return the folder that ``build`` filled, which only one of the processes of a test run does."""
    folder = shared_folder(factory, name)
    finished = folder.with_name(f"{folder.name}.finished")
    with open(folder.with_name(f"{folder.name}.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            for part in folder.iterdir():  # of a build that failed
                shutil.rmtree(part) if part.is_dir() else part.unlink()
            build(folder)
            finished.touch()
    return folder
