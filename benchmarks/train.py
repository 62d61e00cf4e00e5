"""How long a step of training takes, warmed up, against MXNet's Module on the same nets.

    PYTHON benchmarks/train.py --oracle ORACLE_PYTHON [--corpus DIRECTORY] [--rounds 8] [--threads 2] [NET ...]

The nets are those of ``tests/training/nets.py``, with their data, settings and first values; those
that come from the corpus need it. Each side is a process that has made the net and trained it
before; they are timed in turn, so that a machine that slows down slows both: a few steps after one
that does not count and a pause, in which the threads of the other go to sleep.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

_PAUSE = 0.3
_STEPS = 3


def ours(name: str, corpus: Path) -> Callable[[], Any]:
    """The net trained by this package."""
    from tests.training.ours import trainer_of

    return trainer_of(name, corpus).step


def theirs(name: str, corpus: Path) -> Callable[[], Any]:
    """The net trained by Module, to the end of each step."""
    import mxnet as mx  # type: ignore[import-not-found,unused-ignore]

    from tests.training.record import module_of

    module, batch, _ = module_of(name, corpus)

    def step() -> None:
        module.forward_backward(batch)
        module.update()
        mx.nd.waitall()

    return step


def serve(side: str, name: str, corpus: str) -> None:
    """Times a step for every line that comes in."""
    step = {"ours": ours, "theirs": theirs}[side](name, Path(corpus))
    for _ in range(3):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        time.sleep(_PAUSE)
        step()
        start = time.perf_counter()
        for _ in range(_STEPS):
            step()
        print((time.perf_counter() - start) / _STEPS, peak_mebibytes(), flush=True)


def peak_mebibytes() -> float:
    """The most memory that this process has had; Linux counts it from the start of its program."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def started(python: str, side: str, name: str, corpus: str, threads: int) -> subprocess.Popen[str]:
    """A side that is ready."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [python, __file__, "--serve", side, name, corpus]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "text": True,
    }
    process = subprocess.Popen(command, env={**os.environ, **limits}, **pipes)
    assert process.stdout is not None
    while (line := process.stdout.readline()) and line != "ready\n":
        pass
    if not line:
        raise SystemExit(f"{side} does not train {name}")
    return process


def timed(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Seconds a step, and the peak of memory in MiB."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    seconds, peak = process.stdout.readline().split()
    return float(seconds), float(peak)


def compare(name: str, arguments: argparse.Namespace) -> float:
    """How many times as long as Module this package takes, by the median of each."""
    corpus, threads = str(arguments.corpus), arguments.threads
    sides = [
        started(sys.executable, "ours", name, corpus, threads),
        started(arguments.oracle, "theirs", name, corpus, threads),
    ]
    seconds: list[list[float]] = [[], []]
    peaks = [0.0, 0.0]
    for _ in range(arguments.rounds):
        for i, side in enumerate(sides):
            once, peaks[i] = timed(side)
            seconds[i].append(once)
    for side in sides:
        assert side.stdin is not None
        side.stdin.close()
        side.wait()
    mine, other = (median(found) for found in seconds)
    times = f"{name:18} {1 / mine:8.1f} steps/s  MXNet {1 / other:8.1f} steps/s  {mine / other:5.2f} times as long"
    print(f"{times}; {peaks[0]:,.0f} MiB, MXNet {peaks[1]:,.0f} MiB", flush=True)
    return mine / other


def main() -> None:
    """The table, and the geometric mean."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    from tests.training.nets import NETS

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("nets", nargs="*", metavar="NET", help="which nets [all that can be made]")
    parser.add_argument("--oracle", required=True, help="a Python that has MXNet 1.9.1")
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    able = [
        name
        for name, net in NETS.items()
        if not net.get("spelled_out")
        and (arguments.corpus.is_dir() or not net["graph"].startswith("corpus:"))
    ]
    ratios = [compare(name, arguments) for name in arguments.nets or able]
    print(f"geometric mean     {prod(ratios) ** (1 / len(ratios)):.2f} times as long")


if __name__ == "__main__":
    main()
