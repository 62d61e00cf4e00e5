"""Every recorded forward of a corpus of real graphs against MXNet's executor, both warmed up: one
table, sorted by ratio.

    PYTHON -m benchmarks.corpus --oracle ORACLE_PYTHON [--corpus DIRECTORY] [NET ...]
                                [--over 10] [--rounds 5] [--nodes 0]

NET is a part of a graph's name. The inputs and parameters are those of
``tests/corpus/test_forward.py``. Each side is a process that binds one graph after the other; they
are timed in turn, after a pause in which the threads of the other go to sleep and as many passes
that are not timed. ``--over`` leaves out graphs that take us less than so many milliseconds;
``--nodes`` lists the slowest nodes of each graph, each timed by itself.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

_PAUSE = 0.1
_SPAN = 0.1
"""Seconds that the passes of a round take together, where one pass is shorter."""


class Row(NamedTuple):
    """Median milliseconds of both sides, and the median ratio."""

    name: str
    ours: float
    theirs: float
    ratio: float


def ours(graph: Path, params: str, feeds: dict[str, Any], nodes: int) -> Callable[[], Any]:
    """The graph bound by this package, to parameters that are in no file too; prints its slowest ``nodes``."""
    import graphshare as gs
    from graphshare.analysis.roles import assign_roles

    model = gs.load(str(graph), params=params or None)
    inputs = {
        node.name
        for node, role in assign_roles(model.graph, held=model.held).items()
        if not role.is_parameter
    }
    inputs &= set(_meta(graph)["input_names"])
    net = gs.bind(
        model.with_params({name: array for name, array in feeds.items() if name not in inputs})
    )
    values = {name: feeds[name] for name in net.inputs if name in feeds}
    timings = gs.run(model, feeds=feeds, profile=True).timings if nodes else []
    for timing in sorted(timings, key=lambda timing: -timing.seconds)[:nodes]:
        print(f"  {timing.seconds * 1e3:9.1f} ms  {timing.node.op} {timing.node.name}", flush=True)
    return lambda: net(values)


def theirs(graph: Path, params: str, feeds: dict[str, Any], nodes: int) -> Callable[[], Any]:
    """The graph bound by MXNet."""
    import mxnet as mx  # type: ignore[import-not-found,unused-ignore]

    mx.util.set_np_shape(bool(_meta(graph).get("is_np_shape")))
    symbol = mx.sym.load(str(graph))
    arrays = {name: mx.nd.array(array, dtype=array.dtype) for name, array in feeds.items()}
    if params:
        arrays.update((key.split(":", 1)[-1], array) for key, array in mx.nd.load(params).items())
    arguments, states = ([arrays[name] for name in names] for names in _variables(symbol))
    executor = symbol.bind(mx.cpu(), arguments, grad_req="null", aux_states=states)

    def call() -> None:
        for output in executor.forward(is_train=False):
            output.wait_to_read()

    return call


def _variables(symbol: Any) -> tuple[list[str], list[str]]:
    return symbol.list_arguments(), symbol.list_auxiliary_states()


def _meta(graph: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(
        (graph.parents[1] / "oracle" / f"{graph.stem}.meta.json").read_text()
    )
    return meta


def serve(side: str, clock: str) -> None:
    """Answer lines of JSON: a graph to bind, or null for the seconds of a round's passes of the last one."""
    import numpy as np

    call: Callable[[], Any] = lambda: None  # noqa: E731
    passes = 1
    for line in sys.stdin:
        request = json.loads(line)
        if request is not None:
            graph, params, feeds, nodes = request
            with np.load(feeds) as arrays:
                call = {"ours": ours, "theirs": theirs}[side](
                    Path(graph), params, dict(arrays), nodes
                )
            call()
            passes = max(1, min(50, int(_SPAN / _seconds(call, clock))))
        else:
            time.sleep(_PAUSE)
            for _ in range(passes):  # its own threads slept too, and its caches are cold
                call()
        print("=", *(_seconds(call, clock) for _ in range(passes)), flush=True)


def _seconds(call: Callable[[], Any], clock: str) -> float:
    now = time.process_time if clock == "processor" else time.perf_counter
    start = now()
    call()
    return now() - start


class Side:
    """A process that binds graphs and times them; one that ended is started again for the next graph."""

    def __init__(self, python: str, name: str, threads: str, clock: str, messages: IO[str]) -> None:
        self._command = [python, __file__, "--serve", name, clock]
        self.environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
        }
        self._process: subprocess.Popen[str] | None = None
        self._messages = messages  # MXNet's on upgrades and backends, and of failures

    def ask(self, request: Any) -> list[float]:
        """Return the milliseconds of each pass, none where the process ended."""
        if self._process is None:
            pipes: dict[str, Any] = {
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": self._messages,
                "text": True,
            }
            self._process = subprocess.Popen(self._command, env=self.environment, **pipes)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("="):
                return [float(seconds) * 1e3 for seconds in line[1:].split()]
            print(line, end="")
        self._messages.seek(0)
        print(*self._messages.read().strip().splitlines()[-1:], file=sys.stderr)
        self.end()
        return []

    def end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def compare(
    stem: str, corpus: Path, sides: tuple[Side, Side], options: argparse.Namespace
) -> Row | None:
    """Both sides in turn; None where ours takes less than ``--over``, or one of them does not compute the graph."""
    import numpy as np

    from graphshare.formats.params.format import read_index
    from graphshare.text.names import split_key
    from tests.corpus.test_forward import seeded_feeds

    meta = json.loads((corpus / "oracle" / f"{stem}.meta.json").read_text())
    params = str(corpus / meta["params_file"]) if meta.get("params_file") else ""
    held = (
        {split_key(record.key or "")[1] for record in read_index(params).records}
        if params
        else set()
    )
    with tempfile.TemporaryDirectory() as directory:
        feeds = f"{directory}/feeds.npz"
        np.savez(feeds, **seeded_feeds(corpus, stem, held))
        request = (str(corpus / "graphs" / f"{stem}.json"), params, feeds, options.nodes)
        first = sides[0].ask(request)
        if first and median(first) < options.over:
            return None
        if not first or not (sides[1].ask(request) or _without_backend(sides[1], request)):
            print(
                f"{stem}: {'MXNet' if first else 'graphshare'} does not compute it", file=sys.stderr
            )
            return None
    rounds = [
        (median(sides[0].ask(None)), median(sides[1].ask(None))) for _ in range(options.rounds)
    ]
    ratio = median(mine / other for mine, other in rounds)
    return Row(
        stem, median(mine for mine, _ in rounds), median(other for _, other in rounds), ratio
    )


def _measure(options: argparse.Namespace, sides: tuple[Side, Side]) -> list[Row]:
    """Return the row of each graph, which is printed to stderr as soon as it is there."""
    rows = []
    stems = list(_stems(options.corpus, options.names))
    if not stems:
        raise SystemExit(f"{options.corpus} has no recorded forward of such a name")
    for stem in stems:
        row = compare(stem, options.corpus, sides, options)
        if row is not None:
            rows.append(row)
            print(
                f"{row.ours:10.2f}{row.theirs:10.2f}{row.ratio:8.2f}  {row.name}",
                file=sys.stderr,
                flush=True,
            )
    for side in sides:
        side.end()
    return rows


def _without_backend(side: Side, request: Any) -> list[float]:
    """Ask MXNet again without the backend that fuses its operators, which fails for a few graphs."""
    side.environment["MXNET_SUBGRAPH_BACKEND"] = "NONE"
    times = side.ask(request)
    del side.environment["MXNET_SUBGRAPH_BACKEND"]
    return times


def _stems(corpus: Path, names: list[str]) -> Iterator[str]:
    for path in sorted((corpus / "graphs").glob("*.json")):
        meta = json.loads((corpus / "oracle" / f"{path.stem}.meta.json").read_text())
        if (
            meta.get("forward")
            and meta.get("deterministic")
            and (not names or any(name in path.stem for name in names))
        ):
            yield path.stem


def main() -> None:
    """The table, and the geometric mean."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NET", help="a part of the names of graphs [all]"
    )
    parser.add_argument("--oracle", required=True, help="a Python with MXNet 1.9.1")
    parser.add_argument(
        "--corpus",
        type=Path,
        default=os.environ.get("GRAPHSHARE_CORPUS", ROOT.parent / "shared" / "corpus"),
    )
    parser.add_argument(
        "--over",
        type=float,
        default=0.0,
        metavar="MS",
        help="only graphs that take us at least so long [all]",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="2")
    parser.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="processor: for a busy machine, 1 thread",
    )
    parser.add_argument("--nodes", type=int, default=0, help="list so many of the slowest nodes")
    options = parser.parse_args()
    with tempfile.TemporaryFile("w+") as messages:
        common = (options.threads, options.clock, messages)
        rows = _measure(
            options,
            (Side(sys.executable, "ours", *common), Side(options.oracle, "theirs", *common)),
        )
    print(f"{'ours ms':>10}{'MXNet ms':>10}{'ratio':>8}  graph")
    for row in sorted(rows, key=lambda row: -row.ratio):
        print(f"{row.ours:10.2f}{row.theirs:10.2f}{row.ratio:8.2f}  {row.name}")
    if rows:
        mean = math.prod(row.ratio for row in rows) ** (1 / len(rows))
        print(f"geometric mean of {len(rows)} graphs: {mean:.2f}")


if __name__ == "__main__":
    main()
