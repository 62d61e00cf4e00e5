"""What `reshape` knows of freed sizes, beside files that have these sizes: exports of PyTorch, and models of packages.

    python -m benchmarks.free_sizes exports --torch PYTHON --cache DIR [--only TEXT]
    python -m benchmarks.free_sizes models --cache DIR [--only TEXT]

``exports`` frees a length of small networks (``torch_nets.py``, under a PYTHON that has torch),
with ``--witness`` the same network exported at another length, and without, and compares the freed
file with that export in onnxruntime. A constant that is listed is innocent if it has the same
numbers in both exports.

``models`` frees the batch of each model that packages on PyPI ship, of those with a free one after
it was fixed at 1, and compares each row in onnxruntime with the original's run on that sample
alone, at batches of 2, 3 and 5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import graphshare as gs
from benchmarks.rewrites import read_models, write_original
from graphshare.errors import DisprovedError, GraphshareError, RefusedError

NETS = Path(__file__).with_name("torch_nets.py")
EXPORTERS, OLD, NEW = ("dynamo", "script"), 6, 9
BATCHES = (2, 3, 5)
LARGEST = 100_000_000
SHAPES = {"ch_PP-OCRv4_rec_infer": {"x": ("batch", 3, 48, 320)}}
"""Shapes of models, by a part of their label, that are not computed at the sizes which are assumed for open ones."""


class Finding(NamedTuple):
    """What became of an export: ``without`` and ``with`` a witness, the nodes listed and those of
    them that are innocent.

    ``truth`` is whether the freed file agrees with the export at the other size: same, different, or not computed.
    """

    name: str
    without: str
    witness: str = ""
    truth: str = ""
    listed: tuple[str, ...] = ()
    innocent: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether a proof says what is not so, or a file differs and nothing is listed to blame."""
        is_blamed = len(self.innocent) < len(self.listed)
        return (self.witness == "EQUAL") != (self.truth == "same") or (
            self.truth == "different" and not is_blamed
        )


def make_exports(python: str, folder: Path) -> dict[str, Mapping[str, Sequence[Any]]]:
    """Export the networks where they are not there yet, and return the shapes of their inputs by name."""
    if not (folder / "nets.json").exists():
        subprocess.run([python, str(NETS), str(folder)], check=True)
    found: dict[str, Mapping[str, Sequence[Any]]] = json.loads((folder / "nets.json").read_text())
    return found


def judge_export(folder: Path, name: str, shapes: Mapping[str, Sequence[Any]]) -> Finding:
    """Free the export of one size, and compare it with the other."""
    old, new = (folder / f"{name}.{size}.onnx" for size in (OLD, NEW))
    wanted = {key: shape for key, shape in shapes.items() if "t" in shape}
    try:
        freed = gs.reshape(old, shapes=wanted)
    except (RefusedError, DisprovedError) as error:
        return Finding(name, f"refused: {error}", "refused", "refused")
    path = folder / f"{name}.free.onnx"
    gs.save(freed, path)
    listed = tuple(
        dict.fromkeys(
            note.partition("'")[2].partition("'")[0] for note in freed.notes if "witness" in note
        )
    )
    innocent = tuple(
        node for node in listed if not is_changed(onnx.load(old), onnx.load(new), node)
    )
    try:
        gs.reshape(old, shapes=wanted, witness=str(new))
        witness = "EQUAL"
    except DisprovedError:
        witness = "differs"
    except RefusedError as error:
        witness = f"refused: {error}"
    return Finding(name, "freed", witness, compare_files(path, new), listed, innocent)


def is_changed(old: onnx.ModelProto, new: onnx.ModelProto, name: str) -> bool:
    """Return whether a node has other constants, or attributes, in another export."""
    return _list_constants(old, name) != _list_constants(new, name)


def _list_constants(model: onnx.ModelProto, name: str) -> list[Any]:
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {output: node for node in model.graph.node for output in node.output}
    inputs = {value.name for value in model.graph.input} - values.keys()
    (node,) = [each for each in model.graph.node if name in (each.name, *each.output)] or [None]
    if node is None:
        return []

    def read(value: str) -> Any:
        if value in values:
            return numpy_helper.to_array(values[value]).tolist()
        if value not in made:
            return None if value in inputs else ""
        operands = [read(each) for each in made[value].input]
        return (
            None
            if None in operands
            else [made[value].op_type, *map(str, made[value].attribute), *operands]
        )

    return [*map(str, node.attribute), *map(read, node.input)]


def compare_files(freed: Path, other: Path) -> str:
    """Return whether two files agree on inputs of the shapes that the second one states."""
    sessions = [onnxruntime.InferenceSession(str(path)) for path in (freed, other)]
    for seed in range(2):
        feeds = draw(sessions[1], np.random.default_rng(seed), {})
        try:
            got, expected = (session.run(None, feeds) for session in sessions)
        except Exception as error:  # onnxruntime has no common class of errors
            return f"not computed: {str(error).splitlines()[0]}"
        if not all(
            x.shape == y.shape and np.allclose(x, y, rtol=1e-4, atol=1e-5)
            for x, y in zip(got, expected, strict=True)
        ):
            return "different"
    return "same"


def draw(
    session: onnxruntime.InferenceSession, rng: np.random.Generator, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Return inputs of a session; a size that is no number is one of ``sizes``."""
    feeds: dict[str, Any] = {}
    for each in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes[size] for size in each.shape]
        if "float" in each.type:
            feeds[each.name] = rng.standard_normal(shape).astype(
                "f2" if "16" in each.type else "f4"
            )
        else:
            feeds[each.name] = rng.integers(0, 6, shape).astype(each.type[len("tensor(") : -1])
    return feeds


def judge_model(folder: Path, source: Any) -> tuple[str, str]:
    """Free the batch of a model, and compare rows of batches with runs on each sample alone; return
    the kind and a note.
    """
    path, note = write_original(folder, source), ""
    shapes = next((shapes for part, shapes in SHAPES.items() if part in folder.name), None)
    options: dict[str, Any] = {"dynamic_batch": True} if shapes is None else {"shapes": shapes}
    try:
        freed = gs.reshape(path, dynamic_batch=True)
    except (RefusedError, DisprovedError) as error:
        if "is free already" not in str(error):
            return "refused", str(error)
        path, note = folder / "fixed.onnx", "fixed at 1 before"
        try:
            gs.save(gs.reshape(folder / "original.onnx", fix_batch=1), path)
            freed = gs.reshape(path, **options)
        except GraphshareError as further:
            return "refused", f"{note}: {further}"
    gs.save(freed, folder / "free.onnx")
    return _compare_rows(path, folder / "free.onnx", freed.report), note


def _compare_rows(original: Path, freed: Path, report: Any) -> str:
    """Return whether each row of batches is what the original computes of it."""
    single, many = (onnxruntime.InferenceSession(str(path)) for path in (original, freed))
    axes = {
        name: shape.index("batch")
        for name, shape in report.inputs.items()
        if "batch" in (shape or ())
    }
    outputs = {
        name: shape.index("batch") if "batch" in (shape or ()) else None
        for name, shape in report.outputs.items()
    }
    rng = np.random.default_rng(0)
    own = {each.name: each.shape for each in single.get_inputs()}
    # Sizes of the freed file: some that the original leaves open are fixed there, as the model needs them.
    shapes = {each.name: each.shape for each in many.get_inputs()}
    sizes = {size: 64 for shape in shapes.values() for size in shape if not isinstance(size, int)}
    sizes["batch"] = next(own[name][axis] for name, axis in axes.items())
    compared = 0
    for count in BATCHES:
        first = draw(many, rng, sizes)
        sets = [
            {**first, **{name: draw(many, rng, sizes)[name] for name in axes}} for _ in range(count)
        ]
        feeds = {
            **first,
            **{
                name: np.concatenate([each[name] for each in sets], axis)
                for name, axis in axes.items()
            },
        }
        try:
            got = dict(zip(outputs, many.run([*outputs], feeds), strict=True))
            rows = [dict(zip(outputs, single.run([*outputs], each), strict=True)) for each in sets]
        except Exception as error:  # onnxruntime has no common class of errors
            return f"not computed on drawn inputs: {str(error).splitlines()[0][:200]}"
        for name, axis in outputs.items():
            if axis is not None:
                wanted = np.concatenate([row[name] for row in rows], axis).astype(float)
                scale = max(1e-6, float(np.abs(wanted).max(initial=0)))
                if (
                    got[name].shape != wanted.shape
                    or np.abs(got[name].astype(float) - wanted).max(initial=0) > 1e-4 * scale
                ):
                    return f"WRONG: {name} at batch {count}"
                compared += 1
    return "freed, right" if compared else "freed, no output has the batch as an axis"


def run_exports(python: str, cache: Path, only: str) -> int:
    """Judge all exports, and print each; return 1 where a proof is wrong, or most of what is listed is innocent."""
    findings = []
    for net, shapes in make_exports(python, cache / "torch").items():
        for name in (f"{net}.{exporter}" for exporter in EXPORTERS):
            if only in name and all(
                (cache / "torch" / f"{name}.{size}.onnx").exists() for size in (OLD, NEW)
            ):
                findings.append(finding := judge_export(cache / "torch", name, shapes))
                marks = [
                    f"{node} (innocent)" if node in finding.innocent else node
                    for node in finding.listed
                ]
                words = (
                    "WRONG" if finding.is_wrong else "",
                    finding.without,
                    finding.witness,
                    finding.truth,
                    *marks,
                )
                print(f"{name}: {'; '.join(word for word in words if word)}", flush=True)
    wrong = sum(finding.is_wrong for finding in findings)
    listed, innocent = (
        sum(map(len, each))
        for each in zip(*((f.listed, f.innocent) for f in findings), strict=True)
    )
    print(
        f"{len(findings)} exports: {dict(Counter(finding.truth.partition(':')[0] for finding in findings))}"
    )
    print(f"{wrong} wrong; {listed} nodes listed, {innocent} innocent")
    return int(wrong > 0 or 2 * innocent > listed)


def run_models(cache: Path, only: str) -> int:
    """Judge all models, and print each; return 1 where a row is wrong."""
    kinds: Counter[str] = Counter()
    for label, source in _choose(cache, only):
        kind, note = judge_model(cache / "sizes" / label, source)
        kinds[kind.partition(":")[0]] += 1
        print(f"{label}: {kind}{note and '; '}{note}", flush=True)
    print(dict(kinds))
    return int(kinds["WRONG"] > 0)


def _choose(cache: Path, only: str) -> Iterator[tuple[str, Any]]:
    return (
        (label, source)
        for label, source in read_models(cache)
        if only in label and len(source.data) <= LARGEST
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("exports", "models"))
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT")
    options = parser.parse_args()
    if options.what == "exports":
        raise SystemExit(run_exports(options.torch, options.cache, options.only))
    raise SystemExit(run_models(options.cache, options.only))


if __name__ == "__main__":
    main()
