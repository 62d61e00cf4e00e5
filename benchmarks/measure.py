"""Whole processes, measured side by side: A B A B, so that a machine that slows down slows both."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple


class Run(NamedTuple):
    """Seconds of wall clock, the peak of resident memory in KiB (of the largest process, as the
    kernel accounts it), and
    seconds of processors."""

    seconds: float
    peak: int
    processor: float = 0.0


class Pair(NamedTuple):
    """Of two commands the median seconds and the highest peak, and the median of theirs / ours, pair by pair."""

    ours: Run
    theirs: Run
    ratio: float


# Output is thrown away; a failure shows the last of standard error.
_WRAPPER = """
import os, sys, time
quiet = os.open(os.devnull, os.O_WRONLY)
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1)])
_, status, used = os.wait4(pid, 0)
print(time.perf_counter() - start, used.ru_maxrss, used.ru_utime + used.ru_stime)
sys.exit(status != 0)
"""


def run_once(command: Sequence[str]) -> Run:
    """One run of ``command``; it must succeed.

    It starts from a small interpreter: a process begins as an image of its parent, whose memory would count as its own.
    """
    found = try_once(command)
    if isinstance(found, str):
        raise SystemExit(f"failed: {' '.join(command)}\n{found[-2000:]}")
    return found


def try_once(command: Sequence[str]) -> Run | str:
    """One run of ``command``; where it fails, what it wrote to stderr."""
    wrapper = [sys.executable, "-S", "-E", "-c", _WRAPPER, *command]
    # An installed package has its bytecode; here the first run, which does not count, writes it.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(wrapper, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        return done.stderr or "failed"
    seconds, peak, processor = done.stdout.split()[-3:]
    return Run(float(seconds), int(peak), float(processor))


def side_by_side(
    ours: Sequence[str],
    theirs: Sequence[str],
    *,
    rounds: int,
    before: Callable[[], None] = lambda: None,
) -> Pair:
    """Both commands in turn, ``rounds`` times after a first run of each that does not count; with 0
    rounds the first counts.

    ``before`` runs before each.
    """
    found: tuple[list[Run], list[Run]] = ([], [])
    for number in range(rounds + 1):
        for command, runs in zip((ours, theirs), found, strict=True):
            before()
            run = run_once(command)
            if number or not rounds:
                runs.append(run)
    ratios = [b.seconds / a.seconds for a, b in zip(*found, strict=True)]
    return Pair(_typical(found[0]), _typical(found[1]), median(ratios))


def _typical(runs: list[Run]) -> Run:
    return Run(*(median(column) for column in zip(*runs, strict=True)))._replace(
        peak=max(run.peak for run in runs)
    )


def settle() -> None:
    """Lets the disk finish what an earlier run left to it."""
    os.sync()
    time.sleep(0.05)
