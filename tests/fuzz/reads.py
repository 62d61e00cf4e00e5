"""Bytes for every reader of files, in process: each returns or refuses, within bounds of time and memory.

Where atheris is installed coverage guides what is tried (:mod:`tests.fuzz.guided`); elsewhere valid
files are changed blindly.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.collect import Collector
from tests.fuzz.readers import COUNTS, READERS
from tests.fuzz.sandbox import run_cases
from tests.fuzz.totals import Totals
from tests.surroundings import ROOT

_TOGETHER = 50
"""Inputs of one case of the blind campaign."""


def run(minutes: float, seed: int, keep: Path) -> Totals:
    """Run the campaign."""
    collector = Collector(keep)
    if find_spec("atheris") is not None:
        run_guided(collector, minutes, seed)
    else:
        run_blind(collector, minutes, seed)
    collector.totals.counts["readers"] = len(READERS)
    return collector.totals


def run_guided(collector: Collector, minutes: float, seed: int) -> None:
    """Attack each reader with atheris, one after the other."""
    seconds = max(1, round(60 * minutes / len(READERS)))
    with tempfile.TemporaryDirectory() as folder:
        for name in READERS:
            end, turn = time.monotonic() + seconds, 0
            while (
                left := round(end - time.monotonic())
            ) > 0:  # a crash or a hang ends a turn early
                turn += 1
                _guide(collector, name, Path(folder) / name, left, seed * 100 + turn)


def _guide(collector: Collector, name: str, folder: Path, seconds: int, seed: int) -> None:
    folder.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "tests.fuzz.guided", name, str(folder), str(seconds), str(seed)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=seconds + 60, check=False)
    counts = folder / "counts"
    if counts.exists() and counts.stat().st_size == COUNTS.size:
        executions, answers = COUNTS.unpack(counts.read_bytes())
        collector.count(executions, answers)
    for path in sorted((folder / "failures").glob("*.input")):
        what = path.with_suffix(".what").read_text(encoding="utf-8")
        _fail(collector, name, what.partition("\n")[0], what.partition("\n")[2], path.read_bytes())
        path.unlink()
    said = done.stderr.decode("utf-8", "replace")
    for path in [*folder.glob("crash-*"), *folder.glob("timeout-*"), *folder.glob("oom-*")]:
        kind = path.name.partition("-")[0]
        _fail(collector, name, kind, f"{kind}\n{said[-3000:]}", path.read_bytes())
        path.unlink()
    if done.returncode and not collector.totals.failures:
        _fail(collector, name, "did not run", said[-3000:], b"")


def _fail(collector: Collector, name: str, sort: str, what: str, data: bytes) -> None:
    reader = READERS[name]
    collector.fail(
        f"{name}: {sort}", f"{name}: {what}", reader.command, {f"input{reader.suffix}": data}
    )


def run_blind(collector: Collector, minutes: float, seed: int) -> None:
    """Change valid files at random."""
    campaign = Blind(seed)
    for outcome in run_cases(campaign.run, minutes):
        if outcome.status == "failed":
            name, data = campaign.culprit(outcome.number)
            _fail(collector, name, outcome.sort, outcome.what, data)
        else:
            collector.count(_TOGETHER, int(outcome.what))


class Blind:
    """Changed files by number: each case is a few of them for one reader."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.seeds = {name: list(reader.seeds()) for name, reader in READERS.items()}

    def make(self, number: int) -> tuple[str, list[bytes]]:
        """Return the reader and the files of case ``number``."""
        name = list(READERS)[number % len(READERS)]
        chance = random.Random(f"{self.seed} {number}")
        return name, [
            change(chance, self.seeds[name], READERS[name].words) for _ in range(_TOGETHER)
        ]

    def run(self, number: int) -> tuple[str, str]:
        """Read the files of case ``number``; return how many were read."""
        name, files = self.make(number)
        warnings.simplefilter("error")
        survivors = sum(map(READERS[name].read_or_refuse, files))
        return "done", str(survivors)

    def culprit(self, number: int) -> tuple[str, bytes]:
        """Return the reader and the first file of case ``number`` that fails, the first of all if none does again."""
        name, files = self.make(number)
        for data in files:
            try:
                READERS[name].read_or_refuse(data)
            except Exception:
                return name, data
        return name, files[0]


def change(chance: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Return a seed with some bytes flipped, cut, repeated, exchanged for a word, or joined to another seed."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        place = chance.randint(0, len(data))
        end = min(len(data), place + chance.choice((1, 1, 2, 4, 8, 16, 64)))
        way = chance.randrange(7)
        if way == 0 and data:
            data[min(place, len(data) - 1)] ^= 1 << chance.randrange(8)
        elif way == 1:
            data[place:end] = chance.randbytes(end - place)
        elif way == 2:
            del data[place:end]
        elif way == 3:
            data[place:place] = data[place:end] * chance.choice((1, 2, 40))
        elif way == 4:
            word = chance.choice(words)
            data[place : place + (len(word) if chance.random() < 0.7 else 0)] = word
        elif way == 5:
            data[place:] = chance.choice(seeds)[chance.randint(0, len(data)) :]
        else:
            data[place:end] = bytes(end - place)
    return bytes(data)
