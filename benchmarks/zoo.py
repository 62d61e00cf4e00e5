"""Forward passes of well-known networks against MXNet's executor, both warmed up: one row each, and the geometric mean.

    PYTHON benchmarks/zoo.py --oracle ORACLE_PYTHON [NAME ...] [--engine numpy] [--batch 1 8] [--rounds 7] [--threads 2]

The networks come from MXNet with random weights, about 1 GB in a temporary directory; how each is
timed stands in ``forward.py``: both sides are processes of their own, which take turns. A round
gives one ratio of medians; the table has the median of all rounds with the lowest and the highest.
``--backend`` is MXNET_SUBGRAPH_BACKEND, MXNet's own default without it.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

if __package__:
    from benchmarks.forward import Side, image_for
else:
    from forward import Side, image_for

VISION = ("resnet18_v1", "resnet50_v1", "mobilenet1.0", "mobilenetv2_1.0", "densenet121", "inceptionv3", "vgg11_bn",
          "squeezenet1.1", "alexnet")  # fmt: skip
OTHERS = ("bert_base", "lstm", "small_steps")
FIXED = ("lstm",)  # its states have the batch in the graph


class Row(NamedTuple):
    """Median milliseconds of both, the ratio of each round, and the largest difference relative to
    the largest output.
    """

    ours: float
    theirs: float
    ratios: list[float]
    error: float


def measure(stem: str, shape: tuple[int, ...], options: argparse.Namespace, directory: str) -> Row:
    """Both sides in turn on one input."""
    import numpy as np

    image_for(shape, directory)
    environment = {"MXNET_SUBGRAPH_BACKEND": options.backend} if options.backend else {}
    common = (options.threads, directory, stem)
    sides = (
        Side("graphshare", sys.executable, *common, options.engine),
        Side("MXNet", options.oracle, *common, **environment),
    )
    ratios = []
    for _ in range(options.rounds):
        before = [len(side.times) for side in sides]
        for side in sides:
            side.once()
        a, b = (median(side.times[start:]) for side, start in zip(sides, before, strict=True))
        ratios.append(a / b)
    outputs = [np.load(side.output) for side in sides]
    for side in sides:
        side.end()
        side.output.unlink()
    error = float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[1]).max())
    return Row(median(sides[0].times), median(sides[1].times), ratios, error)


def batches_of(name: str, shape: tuple[int, ...], batches: list[int]) -> dict[int, tuple[int, ...]]:
    """The shapes of the input by batch."""
    return {1: shape} if name in FIXED else {batch: (batch, *shape[1:]) for batch in batches}


def measure_all(options: argparse.Namespace) -> dict[int, list[float]]:
    """Print a row for each network and batch; return the ratios of the image networks by batch."""
    means: dict[int, list[float]] = {batch: [] for batch in options.batch}
    for name in options.names or (*VISION, *OTHERS):
        with tempfile.TemporaryDirectory() as directory:
            stem = f"{directory}/{name}"
            command = [options.oracle, str(Path(__file__).with_name("mxnet_nets.py")), name, stem]
            made = subprocess.run(command, check=True, capture_output=True, text=True)
            shape = tuple(map(int, made.stdout.split()[-1].split(",")))
            for batch, wanted in batches_of(name, shape, options.batch).items():
                row = measure(stem, wanted, options, directory)
                ratio = median(row.ratios)
                if name in VISION:
                    means[batch].append(ratio)
                spread = f"{min(row.ratios):.2f} to {max(row.ratios):.2f}"
                figures = (
                    f"{row.ours:9.1f}{row.theirs:10.1f}{ratio:12.2f}   {spread:14}{row.error:9.1e}"
                )
                print(f"{name:18}{batch:6}{figures}", flush=True)
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks [all]")
    parser.add_argument(
        "--oracle", default=os.environ.get("GRAPHSHARE_ORACLE"), help="a Python with MXNet 1.9.1"
    )
    parser.add_argument("--engine", default="numpy", help="what computes our side [numpy]")
    parser.add_argument(
        "--batch", type=int, nargs="+", default=[1], metavar="N", help="samples at a time [1]"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--backend", default="")
    options = parser.parse_args()
    if not options.oracle:
        parser.error("--oracle (or GRAPHSHARE_ORACLE) names a Python with MXNet 1.9.1")
    print(
        f"{'network':18}{'batch':>6}{'ours ms':>9}{'MXNet ms':>10}{'ours/MXNet':>12}   {'of the rounds':14}{'error':>9}"
    )
    for batch, ratios in reversed(measure_all(options).items()):
        if ratios:
            mean = math.prod(ratios) ** (1 / len(ratios))
            print(
                f"{options.engine} over MXNet at batch {batch}, geometric mean of the image networks: {mean:.2f}"
            )


if __name__ == "__main__":
    main()
