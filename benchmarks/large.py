"""Graphs of many nodes beside other libraries: whole processes in turn, ONNX chains and symbol
JSON, printed as one table.

    python -m benchmarks.large [--peers PYTHON] [--oracle PYTHON] [--nodes N ...] [--rounds N]
    [--task NAME ...] [--markdown]

The first PYTHON has onnx, onnx-graphsurgeon and onnx-ir (``benchmarks/onnx_peers.py``), the second
MXNet 1.9.1; what needs either is left out without it. A cell is the median of the processors' time,
and how often ours fits into it, round by round: above 1 graphshare is faster. Results are checked
as in ``onnx_peers.py``. The last lines say how the time of each command grows from 10,000 nodes to
100,000.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.onnx_peers import (
    OURS,
    TASKS,
    Cell,
    Size,
    list_versions,
    make_tied,
    measure_task,
    write_model,
)
from benchmarks.run import Settings, large_graphs

NODES = (1_000, 10_000, 20_000, 100_000)
TOOLS = ("onnx.compose", "onnx-graphsurgeon", "onnx-ir")
SYMBOL = "symbol JSON"
_WIDTH = 4  # units of a layer, whose weights are small
_TEMPLATE = "{:12} {:>9} {:>18} {:>18} {:>18} {:>18} {:>18}"


class Line(NamedTuple):
    """A task on a graph of so many nodes: what each tool made of it, by name."""

    task: str
    nodes: int
    cells: dict[str, str]
    ours: float


def measure_chains(nodes: int, tasks: list[str], peers: str, rounds: int) -> list[Line]:
    """Run the tasks on a chain of ``nodes`` operators with every tool."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        source = write_model(Path(folder), "chain", Size(nodes // 2, _WIDTH, False))
        for task in tasks:
            start = make_tied(source) if task == "untie" else source
            cells = measure_task(task, start, "", peers, rounds, tools=TOOLS)
            lines.append(Line(task, nodes, _format(cells), cells[OURS].processor))
            _print(lines[-1])
    return lines


def measure_symbols(nodes: int, oracle: str, rounds: int) -> Line:
    """Copy a chain of symbol JSON with graphshare and with MXNet's own load and save."""
    with tempfile.TemporaryDirectory() as folder:
        (row,) = large_graphs(Settings(oracle, Path(folder), rounds, 0, (nodes,)))
    ours, theirs, ratio = row.pair
    cells = {OURS: f"{ours.processor:.2f} s", "MXNet": f"{theirs.processor:.2f} s ({ratio:.2f})"}
    line = Line(SYMBOL, nodes, cells, ours.processor)
    _print(line)
    return line


def _format(cells: dict[str, Cell]) -> dict[str, str]:
    """Return the cells of a line; one that takes long has fewer runs than ours."""
    texts = {}
    for tool, cell in cells.items():
        if cell.refusal or not cell.runs:
            texts[tool] = "cannot"
            continue
        pairs = zip(cells[OURS].runs, cell.runs, strict=False)
        ratio = median(theirs.processor / ours.processor for ours, theirs in pairs)
        texts[tool] = f"{cell.processor:.2f} s" + ("" if tool == OURS else f" ({ratio:.2f})")
    return texts


def _print(line: Line) -> None:
    texts = [line.cells.get(tool, "-") for tool in (OURS, *TOOLS, "MXNet")]
    print(_TEMPLATE.format(line.task, f"{line.nodes:,}", *texts), flush=True)


def describe_growth(lines: list[Line]) -> list[str]:
    """Return how the time of each task grows from 10,000 nodes to 100,000."""
    texts = []
    for task in dict.fromkeys(line.task for line in lines):
        times = {line.nodes: line.ours for line in lines if line.task == task}
        if 10_000 in times and 100_000 in times:
            texts.append(
                f"{task}: {times[100_000] / times[10_000]:.1f} times from 10,000 to 100,000 nodes"
            )
    return texts


def _format_markdown(lines: list[Line]) -> str:
    tools = [tool for tool in (OURS, *TOOLS, "MXNet") if any(tool in line.cells for line in lines)]
    rows = [f"| task | nodes | {' | '.join(tools)} |", f"| --- | --- |{' --- |' * len(tools)}"]
    rows += [
        f"| {line.task} | {line.nodes:,} | {' | '.join(line.cells.get(tool, '') for tool in tools)} |"
        for line in lines
    ]
    return "\n".join(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers",
        default="",
        metavar="PYTHON",
        help="a Python that has the other tools; else ours alone",
    )
    parser.add_argument(
        "--oracle",
        default="",
        metavar="PYTHON",
        help="a Python with MXNet 1.9.1; else no symbol JSON",
    )
    parser.add_argument(
        "--nodes", type=int, action="append", metavar="N", help=f"repeat for more {list(NODES)}"
    )
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    parser.add_argument(
        "--task", choices=(*TASKS, SYMBOL), action="append", metavar="NAME", help="repeat for more"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the table for the documentation too"
    )
    options = parser.parse_args()
    tasks = options.task or [*TASKS, SYMBOL]
    print(list_versions(options.peers) if options.peers else "ours alone")
    print(_TEMPLATE.format("task", "nodes", OURS, *TOOLS, "MXNet"))
    lines: list[Line] = []
    for nodes in sorted(options.nodes or NODES):
        lines += measure_chains(
            nodes, [task for task in tasks if task != SYMBOL], options.peers, options.rounds
        )
        if options.oracle and SYMBOL in tasks:
            lines.append(measure_symbols(nodes, options.oracle, options.rounds))
    print("\n".join(describe_growth(lines)))
    if options.markdown:
        print(_format_markdown(lines))


if __name__ == "__main__":
    main()
