"""Forward passes of well-known networks against MXNet's executor, batch 1, both warmed up: one row each, and the mean ratio.

    PYTHON benchmarks/zoo.py --oracle ORACLE_PYTHON [NAME ...] [--rounds 6] [--threads 2] [--backend NONE]

The networks come from MXNet with random weights, about 1 GB in a temporary directory; how each is timed stands in
``forward.py``. ``--backend`` is MXNET_SUBGRAPH_BACKEND, MXNet's own default without it.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

if __package__:
    from benchmarks.forward import Side, image_for
else:
    from forward import Side, image_for

VISION = ("resnet18_v1", "resnet50_v1", "mobilenet1.0", "mobilenetv2_1.0", "densenet121", "inceptionv3", "vgg11_bn",
          "squeezenet1.1", "alexnet")  # fmt: skip
OTHERS = ("bert_base", "lstm")


def row(name: str, options: argparse.Namespace, directory: str) -> tuple[float, float, float]:
    """Median milliseconds of ours and theirs, and the median ratio."""
    stem = f"{directory}/{name}"
    made = subprocess.run(
        [options.oracle, str(Path(__file__).with_name("mxnet_nets.py")), name, stem], check=True, capture_output=True, text=True
    )
    shape = tuple(map(int, made.stdout.split()[-1].split(",")))
    image_for(shape, directory)
    environment = {"MXNET_SUBGRAPH_BACKEND": options.backend} if options.backend else {}
    sides = (
        Side("graphshare", sys.executable, options.threads, directory, stem),
        Side("MXNet", options.oracle, options.threads, directory, stem, **environment),
    )
    for _ in range(options.rounds):
        for side in sides:
            side.once()
    for side in sides:
        side.end()
    for file in Path(directory).iterdir():
        file.unlink()
    ours, theirs = (side.times for side in sides)
    return median(ours), median(theirs), median(a / b for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks [all]")
    parser.add_argument("--oracle", required=True, help="a Python with MXNet 1.9.1")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--backend", default="")
    options = parser.parse_args()
    print(f"{'network':18}{'ours ms':>9}{'MXNet ms':>10}{'ours/MXNet':>12}")
    ratios = []
    for name in options.names or (*VISION, *OTHERS):
        with tempfile.TemporaryDirectory() as directory:
            ours, theirs, ratio = row(name, options, directory)
        if name in VISION:
            ratios.append(ratio)
        print(f"{name:18}{ours:9.1f}{theirs:10.1f}{ratio:12.2f}", flush=True)
    if ratios:
        print(f"{'geometric mean of the image networks':37}{math.prod(ratios) ** (1 / len(ratios)):12.2f}")


if __name__ == "__main__":
    main()
