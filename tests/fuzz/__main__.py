"""Run campaigns, and print what each has counted; the exit code is 1 if one has found a failure.

    python -m tests.fuzz --minutes 20 --seed 0              all of them, the time shared equally
    python -m tests.fuzz NAME --minutes 20 --seed 0         one of them
    python -m tests.fuzz --list                             their names

A campaign is a module in this folder, named in ``CAMPAIGNS``, with the function

    run(minutes: float, seed: int, keep: Path) -> Totals

It works for about ``minutes`` minutes of time (and at least one round, however short that is),
draws everything it chooses from ``random.Random(seed)``, so that a seed attacks the same way again,
and returns :class:`tests.fuzz.totals.Totals`. Each failure has a reproduction under ``keep``: a
folder with the input and a text that says how to run it. It prints nothing but a progress line now
and then on stderr, leaves no process behind, and writes only under ``keep`` and in temporary
folders. A campaign that cannot run here raises :class:`Unavailable` with the reason; that is a
failure too, unless ``--skip`` is given.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from tests.fuzz.totals import Failure, Totals, Unavailable

CAMPAIGNS: dict[str, str] = {
    "reads": "bytes for every reader of files, guided by coverage where atheris is installed",
    "graphs": "changed graphs for every command",
    "onnx_models": "changed ONNX models for every command, with onnxruntime behind it, under limits",
    "servers": "servers that lie, pages of links and manifests, for every command that takes a URL",
    "faults": "errors, short writes and signals at every call of every command that writes",
    "races": "signals, changed files, links, full disks and other commands in the middle of a command, and sessions in threads",
    "messages": "one message of an ONNX model changed at a time, for every rewrite: nothing is lost without a word",
    "shards": "checkpoint folders with changed indexes, configurations and headers, for every command that takes one",
    "operators": "attributes, shapes, dtypes and values for every kernel",
}
"""The name of a module in this folder, and what it attacks, in one line."""


def main(arguments: list[str] | None = None) -> int:
    """Run the campaigns of a command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(CAMPAIGNS)} [all]"
    )
    parser.add_argument(
        "--minutes", type=float, default=2.0, metavar="N", help="time for all of them together [2]"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the seed of everything that is drawn [0]"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("fuzz-failures"),
        metavar="DIR",
        help="where reproductions go",
    )
    parser.add_argument(
        "--skip", action="store_true", help="leave out a campaign that cannot run here"
    )
    parser.add_argument("--list", action="store_true", help="list the campaigns")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in CAMPAIGNS]:
        parser.error(f"no campaign {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}")
    if given.list:
        print("\n".join(f"{name:12} {text}" for name, text in CAMPAIGNS.items()))
        return 0
    names = given.names or list(CAMPAIGNS)
    total = Totals()
    for name in names:
        total.add(_run(name, given.minutes / len(names), given.seed, given.keep, given.skip))
    if len(names) > 1:
        print(f"in all: {total}")
    return int(bool(total.failures))


def _run(name: str, minutes: float, seed: int, keep: Path, skip: bool) -> Totals:
    start = time.monotonic()
    try:
        totals: Totals = importlib.import_module(f"tests.fuzz.{name}").run(
            minutes, seed, keep / name
        )
    except Unavailable as error:
        print(f"{name}: cannot run here: {error}", flush=True)
        return Totals(failures=[] if skip else [Failure(f"{name} cannot run here: {error}")])
    print(f"{name}, seed {seed}, {time.monotonic() - start:.0f} s: {totals}")
    for failure in totals.failures:
        print(
            f"  failed: {failure.message}"
            + (f" ({failure.reproduction})" if failure.reproduction else "")
        )
    sys.stdout.flush()
    return totals


if __name__ == "__main__":
    sys.exit(main())
