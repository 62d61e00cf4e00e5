"""Benchmarks of graphshare against MXNet, ``cat`` and bare Python: whole processes, side by side, printed as ratios.

    python benchmarks/run.py --oracle PATH [--only NAME] [--rounds N] [--size MIB] [--json FILE]

PATH is a Python with MXNet 1.9.1; without it, what needs it is left out. The graphshare that is
measured is the one installed for the Python that runs this (``python -m graphshare``). Needs five
times ``--size`` on the disk of the temporary directory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

if __package__:
    from benchmarks import sources
    from benchmarks.measure import Pair, settle, side_by_side
else:
    import sources
    from measure import Pair, settle, side_by_side

GRAPHSHARE = [sys.executable, "-m", "graphshare"]
HERE = Path(__file__).parent
PEAK = 60 << 10  # KiB


class Settings(NamedTuple):
    """What the command line says; ``size`` in MiB."""

    oracle: str
    directory: Path
    rounds: int
    size: int
    nodes: tuple[int, ...]


class Row(NamedTuple):
    """``goal`` says what to reach, ``reached`` whether it was."""

    name: str
    pair: Pair
    goal: str
    reached: bool
    note: str = ""


def duplicate(source: Path, out: Path) -> list[str]:
    return [*GRAPHSHARE, "duplicate", str(source), "--prefix", "sha-", "-o", str(out)]


def mxnet(settings: Settings, *arguments: Path | str) -> list[str]:
    return [settings.oracle, str(HERE / "mxnet_side.py"), "duplicate", *map(str, arguments)]


def resnet_graph(settings: Settings) -> list[Row]:
    """The graph of ResNet-50; graphshare reads its result back and checks it."""
    graph = Path(f"{_resnet(settings)}-symbol.json")
    outs = (settings.directory / "ours.json", settings.directory / "theirs.json")
    pair = side_by_side(
        duplicate(graph, outs[0]), mxnet(settings, graph, outs[1]), rounds=settings.rounds
    )
    return [Row("ResNet-50, graph", pair, "8 times faster", pair.ratio >= 8)]


def resnet_params(settings: Settings) -> list[Row]:
    """With its 102 MB of parameters; graphshare syncs them to the disk, MXNet does not."""
    stem = _resnet(settings)
    theirs = (
        settings.directory / "theirs.json",
        f"{stem}-0000.params",
        settings.directory / "theirs.params",
    )
    ours = duplicate(stem, settings.directory / "ours")
    pair = side_by_side(
        ours, mxnet(settings, f"{stem}-symbol.json", *theirs), rounds=settings.rounds, before=settle
    )
    reached = pair.ratio >= 3 and pair.ours.peak < PEAK
    return [Row("ResNet-50, parameters", pair, "3 times faster, below 60 MiB", reached)]


def _resnet(settings: Settings) -> Path:
    stem = settings.directory / "resnet"
    return (
        stem
        if Path(f"{stem}-symbol.json").exists()
        else sources.resnet(settings.oracle, settings.directory)
    )


def large_graphs(settings: Settings) -> list[Row]:
    """Chains of many nodes, read-back included."""
    rows: list[Row] = []
    for nodes in settings.nodes:
        graph = sources.chain(nodes, settings.directory / "chain.json")
        outs = (settings.directory / "ours.json", settings.directory / "theirs.json")
        rounds = settings.rounds if nodes < 1_000_000 else 0  # a minute for MXNet
        pair = side_by_side(
            duplicate(graph, outs[0]), mxnet(settings, graph, outs[1]), rounds=rounds
        )
        each = pair.ours.peak / (2 * nodes)
        note = f"{each:.2f} KiB and {pair.ours.seconds / (2 * nodes) * 1e6:.1f} us per output node"
        goal = "5 times faster, below 0.75 KiB per output node"
        rows.append(Row(f"{nodes:,} nodes", pair, goal, pair.ratio >= 5 and each < 0.75, note))
        for path in (graph, *outs):
            path.unlink()
    return rows


def parameter_file(settings: Settings) -> list[Row]:
    """A large parameter file against ``cat f f > g && sync g``; both end with the data on the disk."""
    stem = sources.checkpoint(settings.size, settings.directory)
    file, copy, out = (
        Path(f"{stem}-0000.params"),
        settings.directory / "copy",
        settings.directory / "twice",
    )

    def clean() -> None:
        for path in (copy, Path(f"{out}-0000.params")):
            path.unlink(missing_ok=True)
        settle()

    cat = ["sh", "-c", 'cat "$1" "$1" > "$2" && sync "$2"', "sh", str(file), str(copy)]
    pair = side_by_side(duplicate(stem, out), cat, rounds=settings.rounds, before=clean)
    clean()
    file.unlink()
    reached = 1 / pair.ratio <= 1.3 and pair.ours.peak < PEAK
    return [
        Row(
            f"{settings.size} MiB of parameters, against cat",
            pair,
            "within 1.3, below 60 MiB",
            reached,
        )
    ]


def start(settings: Settings) -> list[Row]:
    """``--help`` and ``--version`` against the import of two dependencies."""
    bare = [sys.executable, "-c", "import click, msgspec"]
    rows = []
    for option in ("--help", "--version"):
        pair = side_by_side([*GRAPHSHARE, option], bare, rounds=settings.rounds * 3)
        rows.append(
            Row(f"{option}, against two imports", pair, "within 1.5", 1 / pair.ratio <= 1.5)
        )
    return rows


# What each does, and whether it needs MXNet.
BENCHMARKS: dict[str, tuple[Callable[[Settings], list[Row]], bool]] = {
    "start": (start, False),
    "resnet-graph": (resnet_graph, True),
    "resnet-params": (resnet_params, True),
    "large-graphs": (large_graphs, True),
    "parameter-file": (parameter_file, False),
}


def table(rows: list[Row]) -> str:
    """Seconds, the other's time divided by graphshare's, and peak memory in MiB."""
    lines = [
        f"{'work':36} {'ours s':>8} {'other s':>8} {'other/ours':>10} {'ours MiB':>9} {'other MiB':>9}  to reach"
    ]
    for row in rows:
        ours, theirs, ratio = row.pair
        lines.append(
            f"{row.name:36} {ours.seconds:8.3f} {theirs.seconds:8.3f} {ratio:10.2f} {ours.peak / 1024:9.1f} "
            f"{theirs.peak / 1024:9.1f}  {row.goal}: "
            f"{'yes' if row.reached else 'NO'}{'; ' + row.note if row.note else ''}"
        )
    return "\n".join(lines)


def record(row: Row) -> dict[str, Any]:
    """A row as JSON has it; memory in KiB."""
    ours, theirs, ratio = row.pair
    figures = {"ours": ours._asdict(), "other": theirs._asdict(), "other_by_ours": ratio}
    return {"name": row.name, **figures, "goal": row.goal, "reached": row.reached, "note": row.note}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--oracle", default="", help="a Python with MXNet 1.9.1")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="repeat for more")
    parser.add_argument(
        "--rounds", type=int, default=5, help="runs of each command that count; 0 counts the first"
    )
    parser.add_argument(
        "--size",
        type=int,
        default=512,
        help="MiB of the parameter file; 2048 is what the goal speaks of",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        action="append",
        help="of the large graphs; repeatable [100000 and 1000000]",
    )
    parser.add_argument("--directory", help="where to work; the disk matters")
    parser.add_argument("--json", help="write the figures there too")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        nodes = tuple(options.nodes or (100_000, 1_000_000))
        settings = Settings(options.oracle, Path(directory), options.rounds, options.size, nodes)
        for name in options.only or BENCHMARKS:
            work, needs_oracle = BENCHMARKS[name]
            if needs_oracle and not options.oracle:
                print(f"{name}: left out, it needs --oracle", file=sys.stderr)
                continue
            print(f"{name} ...", file=sys.stderr)
            rows += work(settings)
    print(table(rows))
    if options.json:
        Path(options.json).write_text(
            json.dumps([record(row) for row in rows], indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
