"""Surgery on ONNX files beside onnx.compose, onnx-graphsurgeon, onnx-ir and PINTO's tools: whole processes, in turn.

    python -m benchmarks.onnx_peers [--peers PYTHON] [--rounds N] [--only MODEL] [--markdown]

PYTHON has the other tools (``pip install onnx onnx-graphsurgeon onnx-ir onnxsim sne4onnx snc4onnx
sor4onnx``). The models are generated: ``dense`` has its weights in the file, ``long`` many nodes
and small weights, ``large`` 2 GiB of external data. A task ends with files that onnx.checker
accepts and that have the names that were asked for; what a tool cannot do is printed as its own
message.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.measure import Run, try_once
from benchmarks.onnx_peer_side import MIDDLE, NEW, OLD, PREFIX, TOOLS

HERE = Path(__file__).parent
TASKS = ("prefix", "copy", "tie", "rename", "extract", "untie")
OURS = "graphshare"
_LONG = 5.0
PACKAGES = ("onnx", "onnx-graphsurgeon", "onnx-ir", "onnxsim", "sne4onnx", "snc4onnx", "sor4onnx")


class Size(NamedTuple):
    """A chain of ``layers`` dense layers of ``width`` units; ``external`` where the weights are in
    a file of their own.
    """

    layers: int
    width: int
    external: bool


MODELS = {
    "dense": Size(100, 512, False),
    "long": Size(10_000, 4, False),
    "large": Size(8, 8192, True),
}


class Cell(NamedTuple):
    """What a tool made of a task: its runs, and the bytes of its files; or why it could not, in its own words."""

    runs: tuple[Run, ...]
    size: int
    refusal: str = ""

    @property
    def seconds(self) -> float:
        """The median of the wall clock."""
        return median(run.seconds for run in self.runs)

    @property
    def processor(self) -> float:
        """The median of the time of processors, which other programs on the machine change little."""
        return median(run.processor for run in self.runs)

    @property
    def peak(self) -> float:
        """The highest peak of memory, in MiB."""
        return max(run.peak for run in self.runs) / 1024


def write_model(folder: Path, name: str, size: Size) -> Path:
    """Write the model ``name``, and its weights beside it where they are external; return its path."""
    path = folder / f"{name}.onnx"
    length = size.width * size.width * 4
    nodes, weights, value = [], [], "data"
    content = (
        np.random.default_rng(0).standard_normal((size.width, size.width), np.float32).tobytes()
    )
    with open(folder / f"{name}.data", "wb") as data:
        for number in range(size.layers):
            weight = TensorProto(
                name=f"fc{number}_weight",
                data_type=TensorProto.FLOAT,
                dims=[size.width, size.width],
            )
            if size.external:
                weight.data_location = TensorProto.EXTERNAL
                place = {
                    "location": f"{name}.data",
                    "offset": str(number * length),
                    "length": str(length),
                }
                for key, text in place.items():
                    weight.external_data.add(key=key, value=text)
                data.write(content)
            else:
                weight.raw_data = content
            weights.append(weight)
            nodes.append(
                helper.make_node(
                    "MatMul", [value, weight.name], [f"fc{number}"], f"fc{number}_node"
                )
            )
            nodes.append(
                helper.make_node("Relu", [f"fc{number}"], [f"relu{number}"], f"relu{number}_node")
            )
            value = f"relu{number}"
    shape = ["N", size.width]
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end in ("data", value)]
    inner = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for node in nodes
        for name in node.output
    ]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights, value_info=inner[:-1])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    if not size.external:
        (folder / f"{name}.data").unlink()
    return path


def our_command(task: str, source: Path, out: Path) -> list[str]:
    """Return the command of graphshare for a task."""
    words = {
        "prefix": ["rename", "--prefix", PREFIX],
        "copy": ["duplicate", "--prefix", PREFIX],
        "tie": ["duplicate", "--prefix", PREFIX, "--mode", "tie"],
        "rename": ["rename", "--match", f"{OLD}*", "--to", f"{NEW}*"],
        "extract": ["extract", "--target", MIDDLE],
        "untie": ["share", "--untie", "*"],
    }[task]
    return [
        sys.executable,
        "-m",
        "graphshare",
        words[0],
        str(source),
        *words[1:],
        "-q",
        "-o",
        str(out),
    ]


def measure_task(
    task: str,
    source: Path,
    external: str,
    peers: str,
    rounds: int,
    *,
    tools: Sequence[str] = tuple(TOOLS),
) -> dict[str, Cell]:
    """Run a task with every one of ``tools`` in turn, ``rounds`` times after a first time that does
    not count (with 0 it does).

    A tool that takes more than ``_LONG`` seconds runs once.
    """
    side = str(HERE / "onnx_peer_side.py")
    commands = {OURS: our_command(task, source, source.parent / f"out-{OURS}.onnx")}
    if peers:
        for tool in tools:
            commands[tool] = [
                peers,
                side,
                tool,
                task,
                str(source),
                str(source.parent / f"out-{tool}.onnx"),
                external,
            ]
    runs: dict[str, list[Run]] = {tool: [] for tool in commands}
    sizes, refusals = dict.fromkeys(commands, 0), {}
    for number in range(rounds + 1):
        for tool, command in commands.items():
            if tool in refusals or any(run.seconds > _LONG for run in runs[tool]):
                continue
            before = _list_files(source.parent)
            found = try_once(command)
            written = [path for path in source.parent.iterdir() if path.name not in before]
            if isinstance(found, str):
                refusals[tool] = _find_message(found)
            else:
                sizes[tool] = sum(path.stat().st_size for path in written)
                runs[tool] += [found] if number or not rounds or found.seconds > _LONG else []
                if fault := _find_fault(task, source, written):
                    refusals[tool] = fault
            for path in written:
                path.unlink()
    return {tool: Cell(tuple(runs[tool]), sizes[tool], refusals.get(tool, "")) for tool in commands}


def _list_files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _find_message(text: str) -> str:
    """Return the line of a message that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if line.partition(":")[0].split(".")[-1].endswith(("Error", "error", "Exception"))
    ]
    return (errors or lines or ["failed without a message"])[-1][:160]


def _find_fault(task: str, source: Path, written: Sequence[Path]) -> str:
    """Return what is wrong with the files of a task; empty where nothing is."""
    models = [path for path in written if path.suffix == ".onnx"]
    if len(models) != 1:
        return f"wrote {len(models)} models"
    try:
        onnx.checker.check_model(str(models[0]))
    except Exception as error:  # the checker's errors, protobuf's, and those of reading
        return f"onnx.checker refuses the result: {_find_message(str(error))}"
    before, after = (
        onnx.load(path, load_external_data=False).graph for path in (source, models[0])
    )
    weights, nodes = len(before.initializer), len(before.node)
    users = {name for node in after.node for name in node.input}
    live = sum(weight.name in users for weight in after.initializer)
    wanted = {
        "prefix": (weights, nodes),
        "copy": (2 * weights, 2 * nodes),
        "tie": (weights, 2 * nodes),
        "rename": (weights, nodes),
        "extract": (4, 8),
        "untie": (weights * 2, nodes),
    }[task]
    if (live, len(after.node)) != wanted:
        return f"the result has {live} weights and {len(after.node)} nodes, not {wanted[0]} and {wanted[1]}"
    if task == "rename" and any(
        OLD in name for node in after.node for name in (node.name, *node.input, *node.output)
    ):
        return f"the result still has names with {OLD!r}"
    return ""


def make_tied(source: Path) -> Path:
    """Write the tied siamese of a model beside it, and return its path."""
    tied = source.parent / "tied.onnx"
    subprocess.run(our_command("tie", source, tied), check=True)
    return tied


def measure_model(name: str, folder: Path, peers: str, rounds: int) -> dict[str, dict[str, Cell]]:
    """Run all tasks on a model; that of untying starts from its tied siamese."""
    source = write_model(folder, name, MODELS[name])
    external = f"{name}.data" if MODELS[name].external else ""
    found = {}
    for task in TASKS:
        start = source
        if task == "untie":
            start = make_tied(source)
        found[task] = measure_task(task, start, external, peers, rounds)
        _print(name, task, found[task])
    for path in folder.iterdir():
        path.unlink()
    return found


def _print(model: str, task: str, cells: dict[str, Cell]) -> None:
    for tool, cell in cells.items():
        if cell.refusal:
            print(f"{model:6} {task:8} {tool:18} refused: {cell.refusal}", flush=True)
        else:
            times = (
                f" {cell.processor / cells[OURS].processor:5.1f} times our processor time"
                if cells[OURS].runs
                else ""
            )
            size = f"{cell.size / (1 << 20):8.1f} MiB"
            print(
                f"{model:6} {task:8} {tool:18} {cell.seconds:7.2f} s {cell.peak:6.0f} MiB peak {size} written{times}",
                flush=True,
            )


def _format_markdown(model: str, found: dict[str, dict[str, Cell]]) -> str:
    tools = list(next(iter(found.values())))
    lines = [f"| {model} | {' | '.join(tools)} |", f"| --- |{' --- |' * len(tools)}"]
    for task, cells in found.items():
        texts = [
            "cannot"
            if cell.refusal
            else f"{cell.processor:.2f} s, {cell.peak:.0f} MiB, {_format_size(cell.size)}"
            for cell in cells.values()
        ]
        lines.append(f"| {task} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _format_size(size: int) -> str:
    return f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"


def list_versions(peers: str) -> str:
    """Return the names and versions of the tools that a Python has."""
    code = (
        f"import importlib.metadata as m\nfor d in m.distributions():\n if d.name in "
        f"{PACKAGES!r}: print(d.name, d.version)"
    )
    done = subprocess.run([peers, "-c", code], capture_output=True, text=True, check=True)
    return ", ".join(done.stdout.splitlines())


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
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--only", choices=MODELS, metavar="MODEL")
    parser.add_argument(
        "--markdown", action="store_true", help="print tables for the documentation too"
    )
    options = parser.parse_args()
    print(
        f"graphshare {importlib.metadata.version('graphshare')}; "
        f"{list_versions(options.peers) if options.peers else ''}"
    )
    for name in [options.only] if options.only else MODELS:
        with tempfile.TemporaryDirectory() as folder:
            found = measure_model(name, Path(folder), options.peers, options.rounds)
        if options.markdown:
            print(_format_markdown(name, found))


if __name__ == "__main__":
    main()
