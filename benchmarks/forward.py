"""How long a forward pass of a network takes, warmed up, against MXNet's bound executor.

    PYTHON benchmarks/forward.py STEM [--shape 1,3,224,224] [--engine NAME] [--oracle PYTHON] [--rounds 8] [--threads 2]

STEM names ``STEM-symbol.json`` and ``STEM-0000.params``; the input is called ``data``. Each side is
a process that has loaded the network and ran it before; they are timed in turn, A B C A B C, so
that a machine that slows down slows all: a few passes after one that does not count and a pause, in
which the threads of the one before go to sleep. MXNet runs both with its default backend and with
``MXNET_SUBGRAPH_BACKEND=NONE``. The largest difference between the outputs is given relative to the
largest output.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

_PAUSE = 0.4
_PASSES = 5


def ours(stem: str, image: Any, engine: str = "numpy") -> Callable[[], Any]:
    """The network by this package: bound once."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import graphshare

    source = graphshare.load(stem)
    net = graphshare.bind(source, engine=engine)
    return lambda: net(data=image)[net.outputs[0]]


def theirs(stem: str, image: Any, engine: str = "") -> Callable[[], Any]:
    """The network by MXNet: bound once."""
    import mxnet as mx  # type: ignore[import-not-found,unused-ignore]

    symbol, arguments, auxiliary = mx.model.load_checkpoint(stem, 0)
    executor = symbol.simple_bind(mx.cpu(), data=image.shape, grad_req="null")
    executor.copy_params_from(arguments, auxiliary)
    executor.arg_dict["data"][:] = image

    def run() -> Any:
        output = executor.forward(is_train=False)[0]
        output.wait_to_read()
        return output

    return run


def serve(side: str, stem: str, directory: str, engine: str) -> None:
    """Times a pass for every line that comes in."""
    import numpy as np

    run = {"ours": ours, "theirs": theirs}[side](stem, np.load(f"{directory}/image.npy"), engine)
    for _ in range(5):
        output = run()
    np.save(f"{directory}/{os.getpid()}.npy", output.asnumpy() if side == "theirs" else output)
    print("ready", flush=True)
    for _ in sys.stdin:
        time.sleep(_PAUSE)
        run()
        times = []
        for _ in range(_PASSES):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        print(*times, flush=True)


class Side:
    """One process that runs the network when asked."""

    def __init__(
        self,
        name: str,
        python: str,
        threads: str,
        directory: str,
        stem: str,
        engine: str = "numpy",
        **environment: str,
    ) -> None:
        self.name, self.times = name, list[float]()
        self.environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            **environment,
        }
        command = [
            python,
            __file__,
            stem,
            "--serve",
            "theirs" if environment or name.startswith("MXNet") else "ours",
        ]
        self.process = subprocess.Popen(
            [*command, "--directory", directory, "--engine", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.output = Path(directory) / f"{self.process.pid}.npy"
        while self._answer() != "ready":
            pass

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended")
        return line.strip()

    def once(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times += [float(seconds) * 1e3 for seconds in self._answer().split()]

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def image_for(shape: tuple[int, ...], directory: str) -> None:
    """Writes what both are fed: noise, or for an input of two axes numbers of words."""
    import numpy as np

    rng = np.random.default_rng(0)
    image = (
        rng.integers(0, 30_000, shape).astype(np.float32)
        if len(shape) == 2
        else rng.standard_normal(shape, np.float32)
    )
    np.save(f"{directory}/image.npy", image)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("stem")
    parser.add_argument("--shape", default="1,3,224,224")
    parser.add_argument("--oracle", help="a Python with MXNet 1.9.1")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--engine", default="numpy", help="what computes our side [numpy]")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.stem, options.directory, options.engine)
        return
    import numpy as np

    with tempfile.TemporaryDirectory() as directory:
        image_for(tuple(map(int, options.shape.split(","))), directory)
        common = (options.threads, directory, options.stem)
        sides = [Side("graphshare", sys.executable, *common, options.engine)]
        if options.oracle:
            sides.append(Side("MXNet", options.oracle, *common))
            sides.append(
                Side("MXNet, backend NONE", options.oracle, *common, MXNET_SUBGRAPH_BACKEND="NONE")
            )
        for _ in range(options.rounds):
            for side in sides:
                side.once()
        print(f"{'':22}{'best ms':>9}{'median ms':>11}{'ours/it':>9}{'difference':>12}")
        first = np.load(sides[0].output)
        for side in sides:
            side.end()
            ratio = median(a / b for a, b in zip(sides[0].times, side.times, strict=True))
            output = np.load(side.output)
            far = float(np.abs(first - output).max() / np.abs(output).max())
            print(
                f"{side.name:22}{min(side.times):9.1f}{median(side.times):11.1f}{ratio:9.2f}{far:12.1e}"
            )


if __name__ == "__main__":
    main()
