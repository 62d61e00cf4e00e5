"""How long whole processes of ``verify`` take with another engine, against numpy: a siamese
ResNet-50, one proof and more.

    PYTHON benchmarks/engines.py --oracle ORACLE_PYTHON [--network resnet50_v1] [--engines
    onnxruntime auto] [--rounds 5]

The network comes from MXNet with random weights; its branches have copies of them. The processes
run in turn, A B A B, so that a machine that slows down slows both. A proof of N rounds computes 2 N
forward passes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

if __package__:
    from benchmarks.measure import side_by_side
else:
    from measure import side_by_side

PROOFS = (1, 5)
"""How many rounds a proof has."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--oracle", default=os.environ.get("GRAPHSHARE_ORACLE"), help="a Python with MXNet 1.9.1"
    )
    parser.add_argument("--network", default="resnet50_v1")
    parser.add_argument("--engines", nargs="+", default=["onnxruntime", "auto"], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, help="how often each process runs [5]")
    options = parser.parse_args()
    if not options.oracle:
        parser.error("--oracle (or GRAPHSHARE_ORACLE) names a Python with MXNet 1.9.1")
    ours = [sys.executable, "-m", "graphshare"]
    print(
        f"{'proof':24}{'engine':14}{'seconds':>9}{'MiB':>6}{'numpy s':>9}{'MiB':>6}{'engine/numpy':>14}"
    )
    with tempfile.TemporaryDirectory() as directory:
        net, siamese = f"{directory}/net", f"{directory}/siamese"
        command = [
            options.oracle,
            str(Path(__file__).with_name("mxnet_nets.py")),
            options.network,
            net,
        ]
        shape = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[
            -1
        ]
        subprocess.run(
            [*ours, "duplicate", net, "--prefix", "b-", "-o", siamese],
            check=True,
            capture_output=True,
        )
        for proof in PROOFS:
            verify = [
                *ours,
                "verify",
                siamese,
                "--shape",
                f"data={shape}",
                "--rounds",
                str(proof),
                "--engine",
            ]
            for engine in options.engines:
                pair = side_by_side([*verify, engine], [*verify, "numpy"], rounds=options.rounds)
                sides = "".join(
                    f"{side.seconds:9.2f}{side.peak / 1024:6.0f}"
                    for side in (pair.ours, pair.theirs)
                )
                print(
                    f"{f'{2 * proof} forward passes':24}{engine:14}{sides}{1 / pair.ratio:14.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
