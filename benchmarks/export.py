"""How long ``export --no-verify`` takes, and how much memory, beside copying the parameter file.

    python benchmarks/export.py [--size MIB]

A model of dense layers with parameters of that size (2048 MiB by default) is exported with its
weights embedded (where they are below 2 GiB), beside the model, and left in their file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import run_once
from graphshare.formats.params.array_files import write_arrays
from graphshare.formats.params.format import find_format

LAYERS = 8
LARGEST = 2047  # MiB that a model may embed


def write_model(folder: Path, size: int) -> int:
    """Write ``dense-symbol.json`` and ``dense-0000.params`` of about ``size`` MiB; return the width of the layers."""
    width = max(1, int((size * (1 << 20) / 4 / LAYERS) ** 0.5))
    nodes = [{"op": "null", "name": "data", "inputs": []}]
    for number in range(LAYERS):
        before = len(nodes) - 1
        nodes.append({"op": "null", "name": f"fc{number}_weight", "inputs": []})
        dense = {"num_hidden": str(width), "no_bias": "True"}
        inputs = [[before, 0, 0], [before + 1, 0, 0]]
        nodes.append(
            {"op": "FullyConnected", "name": f"fc{number}", "attrs": dense, "inputs": inputs}
        )  # type: ignore[dict-item]
    variables = [place for place, node in enumerate(nodes) if node["op"] == "null"]
    document = {
        "nodes": nodes,
        "arg_nodes": variables,
        "heads": [[len(nodes) - 1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    (folder / "dense-symbol.json").write_text(json.dumps(document))
    array = np.full((width, width), 0.01, np.float32)
    with open(folder / "dense-0000.params", "wb") as out:
        write_arrays(
            {f"arg:fc{number}_weight": array for number in range(LAYERS)},
            out,
            find_format("params"),
        )
    return width


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2048, metavar="MIB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        width = write_model(folder, options.size)
        stem, shape = str(folder / "dense"), f"data=1,{width}"
        copy = run_once(["cp", f"{stem}-0000.params", str(folder / "copy")])
        print(f"{'cp':>16} {copy.seconds:7.2f} s {copy.peak / 1024:7.0f} MiB")
        for weights in ("embed", "external", "params"):
            if weights == "embed" and options.size > LARGEST:
                continue
            words = [
                sys.executable,
                "-m",
                "graphshare",
                "export",
                stem,
                "--shape",
                shape,
                "--no-verify",
                "-q",
            ]
            run = run_once([*words, "--weights", weights, "-o", str(folder / f"{weights}.onnx")])
            print(f"{weights:>16} {run.seconds:7.2f} s {run.peak / 1024:7.0f} MiB")


if __name__ == "__main__":
    main()
