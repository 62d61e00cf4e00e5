"""How many files a second ``check`` gets through.

    python benchmarks/check.py FOLDER [--files 1000] [--jobs 2] [--rounds 3]

The symbol files in FOLDER are repeated until there are as many as asked for. Prints, of the fastest
round, files a second and the processor's milliseconds for a file: on a machine that does other work
too, the latter tells more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple


class Speed(NamedTuple):
    """Files a second by the clock, and milliseconds of processors for each."""

    files: float
    milliseconds: float


def measured(folder: Path, *, files: int, jobs: int) -> Speed:
    """One run over ``files`` files."""
    sources = sorted(path for path in folder.rglob("*.json"))
    if not sources:
        raise SystemExit(f"{folder} holds no *.json")
    with tempfile.TemporaryDirectory() as copies:
        for number, source in enumerate(islice(cycle(sources), files)):
            os.symlink(source.resolve(), Path(copies) / f"{number}-symbol.json")
        before, start = os.times(), time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "graphshare",
            "check",
            "--jobs",
            str(jobs),
            "-o",
            os.devnull,
            copies,
        ]
        done = subprocess.run(command, capture_output=True, check=False)
        seconds, after = time.perf_counter() - start, os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.decode())
    spent = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return Speed(files / seconds, spent / files * 1000)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    best = max(
        measured(options.folder, files=options.files, jobs=options.jobs)
        for _ in range(options.rounds)
    )
    print(
        f"{best.files:.0f} files a second with {options.jobs} jobs, {best.milliseconds:.1f} ms of a processor each"
    )


if __name__ == "__main__":
    main()
