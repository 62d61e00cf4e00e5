"""Which programs read the ONNX files that ``export`` writes: the recorded forwards of a corpus, by readers.

    GRAPHSHARE_CORPUS=DIR python -m benchmarks.readers --cache DIR [--only TEXT] [--reader NAME ...]
                                                       [--again [KIND ...]] [--limit SECONDS] [--markdown FILE]

Each graph is exported with the parameters and inputs of ``tests/corpus``. Each reader has an
environment of its own in the cache and reads each file in a process of its own
(``reader_side.py``); its outputs are compared with those that MXNet recorded. onnxruntime, after
ONNX's checker, is the control. Graphs with inputs that are indices are exported with int64 for them
as well, and with open sizes. The cache keeps models, verdicts and outputs; a model with other bytes
is read again.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import venv
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphshare as gs
from benchmarks.reader_side import READERS
from benchmarks.rewrites import escape, find_message, format_head, run_limited
from graphshare.execute.prepare.variable_values import index_limits
from tests.corpus.test_export import seeded_model
from tests.corpus.test_forward import STEMS, distance, graph_of, recorded_outputs
from tests.surroundings import NONE, corpus_directory

SIDE = Path(__file__).with_name("reader_side.py")
ENVIRONMENTS = {
    "openvino": ("openvino==2026.4.1",),
    "onnx2torch": ("torch==2.14.1", "torchvision==0.29.1", "onnx2torch==1.5.15"),
    "reference": ("onnx==1.23.2",),
    "onnxruntime": ("onnx==1.23.2", "onnxruntime==1.32.0"),
}
TOLERANCE = 1e-4
"""That of ``export``'s proof, of an output's largest number."""
KINDS = ("right", "differs", "stops", "too slow")


REASONS = (
    (
        "onnx2torch",
        r"Converter is not implemented .*operation_type='(\w+)', version=(\d+)",
        r"no converter for \1 \2",
    ),
    (
        "onnx2torch",
        r"shapes \[",
        "an output that is one of several of a node is returned as the list of them all",
    ),
    (
        "openvino",
        r"yolo",
        "Exp is infinite above 88.38, in float32 above 88.72; the random weights of this graph give such exponents",
    ),
    (
        "openvino",
        r"int8-symbol",
        "float64 is computed as float32, which rounds int8 weights halfway between two steps to the other",
    ),
    (
        "openvino",
        r"hand_binary_scalar_ops",
        "Mod of floats is not exact: 0 where the remainder is 0.09999998",
    ),
    ("openvino", r"hand_creation_ops", "float16 is computed as float32 where the precision is f32"),
    (
        "reference",
        r"No implementation for operator 'DequantizeLinear'",
        "no DequantizeLinear before opset 19: `--opset 20`",
    ),
    (
        "reference",
        r"GridSample interpolation",
        "GridSample does not know `bilinear`, its name before opset 20: `--opset 20`",
    ),
    ("reference", r"cannot reshape array of size", "ConvTranspose of groups fails"),
    (
        "reference",
        r"alexnet",
        "LRN is wrong: one node with random numbers is apart from onnxruntime by more than its largest",
    ),
)
"""Reasons of misses: a reader, what is in the graph's name or the message, and the reason, which may cite it."""


class Cell(NamedTuple):
    """What became of a model in a reader: one of ``KINDS``, how far its outputs are from the
    recorded ones, what was said.
    """

    kind: str
    apart: float = -1.0
    note: str = ""

    def explain(self, reader: str, label: str) -> str:
        """Return why the reader, by name, misses a graph; empty where that is not known."""
        if self.kind == "too slow":
            return self.note
        for name, pattern, reason in REASONS:
            found = re.search(pattern, f"{label}: {self.note}") if name == reader else None
            if found:
                return found.expand(reason)
        return ""


def export_model(corpus: Path, stem: str, folder: Path, variant: str) -> Path | None:
    """Export a graph and write its inputs beside it; None where there is no such variant of the graph.

    ``int64`` has that dtype for indices, ``open`` leaves batch and length of them to the caller as well.
    """
    model, feeds = seeded_model(corpus, stem)
    indices = {node.name for node in index_limits(model.graph.nodes) if node.name in feeds}
    if variant and not indices:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    stated = dict.fromkeys(indices if variant else (), "int64")
    options: dict[str, Any] = {
        "feeds": feeds,
        "as_input": tuple(feeds),
        "input_dtypes": stated,
        "verify": False,
    }
    exported = gs.export(model, path, **options)
    values = {
        name: feeds[name].astype(stated.get(name, feeds[name].dtype))
        for name in exported.report.inputs
    }
    if variant == "open":
        try:
            gs.export(
                model,
                path,
                shapes={name: ("batch", "length")[: x.ndim] for name, x in values.items()},
                **options,
            )
        except gs.RefusedError:
            path.unlink()
            return None
    np.savez(folder / "inputs.part.npz", **values)
    (folder / "inputs.part.npz").replace(folder / "inputs.npz")
    return path


def install_reader(cache: Path, reader: str) -> str:
    """Return the Python of a reader's environment, which is made where it is not there."""
    python = cache / f"env-{reader}" / "bin" / "python"
    if not python.exists():
        venv.create(python.parents[1], with_pip=True)
        _, _, messages = run_limited(
            [str(python), "-m", "pip", "install", "-q", *ENVIRONMENTS[reader], "numpy"], 3600
        )
        code, _, messages = run_limited(
            [str(python), "-c", f"import {reader.replace('reference', 'onnx.reference')}"], 60
        )
        if code:
            raise SystemExit(messages)
    return str(python)


class Reader:
    """A process that reads one model after the other."""

    def __init__(self, cache: Path, name: str, limit: float) -> None:
        self.name = name
        self._limit = limit
        words = [install_reader(cache.absolute(), name), str(SIDE), name, str(limit)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, model: Path) -> tuple[list[Any], Cell]:
        """Return the outputs of a model, and a cell that says why there are none."""
        out = model.with_name(f"{self.name}.npz")
        out.unlink(missing_ok=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(model.absolute(), file=self._process.stdin, flush=True)
        code = self._process.stdout.readline().strip()
        if code == "late":
            return [], Cell("too slow", note=f"takes more than {self._limit:.0f} s")
        if code != "0":
            messages = out.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
            return [], Cell("stops", note=find_message(messages) or f"exit code {code}")
        with np.load(out) as arrays:
            return [arrays[str(index)] for index in range(len(arrays.files))], Cell("right")

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def judge(corpus: Path, stem: str, outputs: Sequence[Any]) -> Cell:
    """Return whether outputs are those that were recorded."""
    wanted = recorded_outputs(corpus, stem)
    if [x.shape for x in outputs] != [x.shape for x in wanted]:
        return Cell(
            "differs",
            note=f"shapes {[x.shape for x in outputs]}, expected {[x.shape for x in wanted]}"[:300],
        )
    apart, how = distance(stem, graph_of(corpus, stem), outputs, wanted)
    return Cell("right" if apart <= TOLERANCE else "differs", apart, how)


def run_cell(reader: Reader, corpus: Path, stem: str, model: Path, again: Collection[str]) -> Cell:
    """Return the outcome of a model in a reader; it is kept beside the model, with the hash of the model's bytes."""
    kept = model.with_name(f"{reader.name}.json")
    digest = sha256(model.read_bytes()).hexdigest()
    if kept.exists():
        last, *fields = json.loads(kept.read_text())
        if last == digest and fields[0] not in again:
            return Cell(*fields)
    outputs, cell = reader.read(model)
    if cell.kind == "right":
        cell = judge(corpus, stem, outputs)
    kept.write_text(json.dumps([digest, *cell]))
    return cell


def list_models(corpus: Path, cache: Path, only: str, keep: bool) -> Iterator[tuple[str, Path]]:
    """Yield each graph and its models."""
    for stem in STEMS:
        for variant in ("", "int64", "open"):
            folder = cache / "models" / (f"{stem}+{variant}" if variant else stem)
            if stem == NONE or only not in folder.name:
                continue
            path: Path | None = folder / "model.onnx"
            if not (keep and (folder / "inputs.npz").exists()):
                path = export_model(corpus, stem, folder, variant)
            if path is not None:
                yield stem, path


def format_table(table: dict[str, dict[str, Cell]], readers: Sequence[str]) -> str:
    """Return counts by reader, and what is not right, in Markdown."""
    lines = format_head("", *readers)
    for kind in KINDS:
        counts = Counter(
            reader
            for cells in table.values()
            for reader, cell in cells.items()
            if cell.kind == kind
        )
        lines.append(f"| {kind} | " + " | ".join(str(counts[reader]) for reader in readers) + " |")
    lines += ["", *format_head("reader", "kind", "reason", "graphs")]
    reasons: Counter[tuple[str, str, str]] = Counter()
    for label, cells in table.items():
        missed = [(reader, cell) for reader, cell in cells.items() if cell.kind != "right"]
        reasons.update(
            (reader, cell.kind, cell.explain(reader, label) or f"UNEXPLAINED: {cell.note}")
            for reader, cell in missed
        )
    lines += [
        f"| {reader} | {kind} | {escape(reason)} | {count} |"
        for (reader, kind, reason), count in reasons.most_common()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Export, read and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--cache", type=Path, default=Path("readers"), metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="graphs with this in their name")
    parser.add_argument("--reader", choices=READERS, action="append", help="these readers alone")
    parser.add_argument(
        "--again", nargs="*", choices=KINDS, metavar="KIND", help="read these again, or all"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="read the models in the cache, and export none that is there",
    )
    parser.add_argument(
        "--limit", type=float, default=300, metavar="SECONDS", help="for each model and reader"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here")
    options = parser.parse_args()
    corpus = corpus_directory()
    if corpus is None:
        raise SystemExit("no corpus: GRAPHSHARE_CORPUS names its folder")
    again = () if options.again is None else options.again or KINDS
    sides = [Reader(options.cache, name, options.limit) for name in options.reader or READERS]
    table: dict[str, dict[str, Cell]] = {}
    for stem, model in list_models(corpus, options.cache, options.only, options.keep):
        row = table.setdefault(model.parent.name, {})
        for side in sides:
            cell = row[side.name] = run_cell(side, corpus, stem, model, again)
            print(
                f"{model.parent.name:70} {side.name:12} {cell.kind:8} {cell.apart:9.1e} {cell.note[:200]}",
                flush=True,
            )
    for side in sides:
        side.end()
    if options.markdown:
        options.markdown.write_text(format_table(table, [side.name for side in sides]))


if __name__ == "__main__":
    main()
