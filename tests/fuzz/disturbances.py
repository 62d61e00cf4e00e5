"""The folder that disturbed commands work in, what happens to it meanwhile, and what they leave."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.faults import write_model_params, write_models
from tests.onnx_files.ending_models import crashing, doubling, swelling
from tests.processes import is_running, write_json
from tests.symbols import two_layers

MODELS, OUT, OUTSIDE = "models", "out", "outside"
TEMPORARY = ".graphshare-"
PATIENCE = 15.0
"""Seconds in which the processes that a command has started end after it."""
_OLD_TO_NEW = (
    (struct.pack("<f", 0.5), struct.pack("<f", 0.25)),
    (b"\0\0\x80?", b"\0\0\0@"),
    (b'"fc2"', b'"fcX"'),
    (b'\x12\x01y"', b'\x12\x01z"'),
    (b"\n\x01y\x12", b"\n\x01z\x12"),
)
"""Bytes of weights and of names, and others."""

Files = dict[str, bytes]


def _cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def _replace(path: Path, share: float) -> None:
    other = path.with_name("other")
    other.write_bytes(make_other(path.read_bytes()))
    other.replace(path)


def _overwrite(path: Path, share: float) -> None:
    """Write other content over the old one, at once."""
    data = make_other(path.read_bytes())
    with path.open("r+b", buffering=0) as file:
        file.write(data)


def _link(path: Path, share: float) -> None:
    other = path.parents[path.parent.name == "sub"].with_name(OUTSIDE) / "other"
    other.write_bytes(make_other(path.read_bytes()))
    path.unlink()
    path.symlink_to(other)


CHANGES: dict[str, Callable[[Path, float], None]] = {
    "cut": _cut, "replaced": _replace, "overwritten": _overwrite, "a link": _link,
    "removed": lambda path, share: path.unlink(),
}  # fmt: skip


def make_other(data: bytes) -> bytes:
    """Return another valid file of as many bytes as one of the models has."""
    for old, new in _OLD_TO_NEW:
        data = data.replace(old, new)
    return data


def put_link(path: Path, target: Path) -> None:
    """Put a link in place of a file; a folder that is there is left alone."""
    if path.is_symlink() or path.is_dir() or not path.parent.is_dir():
        return
    made = path.with_name(f"{path.name}.link")
    made.symlink_to(target)
    try:
        made.replace(path)
    except OSError:  # a folder has come
        made.unlink()


def find_other(made: Files, known: Sequence[Files]) -> list[str]:
    """Return what is wrong with files of which each run that is ``known`` makes others: all are of one of the runs."""
    if any(made.items() <= files.items() for files in known):
        return []
    return [
        f"{name} is of no run"
        for name in made
        if all(files.get(name) != made[name] for files in known)
    ] or ["files of two"]


def end_processes(mark: str) -> list[str]:
    """End what has a variable in its environment and is there after some seconds, and return what that is."""
    late = time.monotonic() + PATIENCE
    while (found := _list_processes(mark.encode())) and time.monotonic() < late:
        time.sleep(0.05)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return [*found.values()]


def _list_processes(mark: bytes) -> dict[int, str]:
    """Return the command lines of processes by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                entry.name.isdigit()
                and mark in (entry / "environ").read_bytes().split(b"\0")
                and is_running(int(entry.name))
            ):
                found[int(entry.name)] = (
                    (entry / "cmdline")
                    .read_bytes()
                    .decode("utf-8", "replace")
                    .replace("\0", " ")[-200:]
                )
    return found


def read_files(folder: Path) -> Files:
    """Return the files below a folder by their paths in it; links and folders are left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def make_folder(folder: Path) -> None:
    """Write the models, small ones of both formats, and a file that is nobody's output."""
    for name in (f"{MODELS}/sub", OUT, OUTSIDE, "odd"):
        (folder / name).mkdir(parents=True)
    write_models(folder / MODELS)
    found = two_layers()
    keys = [
        n["name"]
        for n in found["nodes"]
        if n["op"] == "null" and n["name"] not in ("data", "softmax_label")
    ]
    for place in (folder / MODELS, folder / MODELS / "sub"):
        write_json(place / "net-symbol.json", found)
        write_model_params(
            place / "net-0000.params", keys, {"fc1_weight": (4, 3), "fc2_weight": (2, 4)}
        )
    # Two models with one file of data may see it before and after a change, one each.
    shutil.move(folder / MODELS / "four.onnx", folder / MODELS / "sub")
    shutil.copy(folder / MODELS / "old.data", folder / MODELS / "sub")
    (folder / OUTSIDE / "net-symbol.json").write_bytes(b"mine")
    for make in (crashing, doubling, swelling):
        (folder / "odd" / f"{make.__name__}.onnx").write_bytes(make())
