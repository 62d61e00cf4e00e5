"""What is built here beside the library that does it: the ONNX codec, remote headers, graph layout,
the progress bar, JSON.

    python -m benchmarks.libraries [--nodes N] [--rounds N]

Prints processors' seconds and peak of memory of whole processes, the least of the rounds. Needs the packages ``onnx``,
``fsspec`` and ``aiohttp``, and ``dot`` of Graphviz.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.measure import run_once
from benchmarks.sources import chain

_CODEC = {
    "onnx": "import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])",
    "graphshare": "import graphshare as gs, sys; gs.save(gs.load(sys.argv[1]), sys.argv[2])",
}
_REMOTE = {
    "fsspec": "import fsspec, sys; f = fsspec.open(sys.argv[1]).open(); f.read(int.from_bytes(f.read(8), 'little'))",
    "graphshare": "import graphshare as gs, sys; gs.list_params(sys.argv[1])",
}
_BAR = {
    "rich": "import graphshare.cli.console, rich.progress",
    "graphshare": "import graphshare.cli.console",
}
_JSON = {
    "json": "import json, sys; json.dump(json.load(open(sys.argv[1])), open(sys.argv[2], 'w'), indent=2)",
    "graphshare": "import graphshare as gs, sys; gs.save(gs.load(sys.argv[1]), sys.argv[2])",
}


def run_python(code: str, *arguments: object, rounds: int) -> str:
    return measure([sys.executable, "-c", code, *map(str, arguments)], rounds)


def measure(command: list[str], rounds: int) -> str:
    """Return the processors' seconds and the peak of memory of a command, the least of several rounds."""
    runs = [run_once(command) for _ in range(rounds)]
    return f"{min(run.processor for run in runs):6.2f} s {min(run.peak for run in runs) / 1024:5.0f} MiB"


def write_chain(path: Path, nodes: int, size: int) -> None:
    """Write an ONNX model: a chain of ``nodes`` Adds, each with a vector of ``size`` float32 numbers."""
    content = np.ones(size, np.float32).tobytes()
    vectors = [
        helper.make_tensor(f"w{i}", TensorProto.FLOAT, [size], content, raw=True)
        for i in range(nodes)
    ]
    adds = [
        helper.make_node("Add", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"add{i}")
        for i in range(nodes)
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
        for name in ("x0", f"x{nodes}")
    )
    onnx.save(helper.make_model(helper.make_graph(adds, "chain", [x], [y], vectors)), path)


def write_weights(path: Path, size: int) -> None:
    """Write a ``.safetensors`` file with one float32 array of ``size`` bytes."""
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


class _Ranges(BaseHTTPRequestHandler):
    """Serves ranges of one file, and counts the bytes."""

    body = b""
    sent = 0

    def do_HEAD(self) -> None:
        self._answer(b"", len(self.body), 200)

    def do_GET(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, end = (
            (int(match[1]), int(match[2] or len(self.body) - 1))
            if match
            else (0, len(self.body) - 1)
        )
        part = self.body[start : end + 1]
        type(self).sent += len(part)
        self._answer(part, len(part), 206 if match else 200, start)

    def _answer(self, part: bytes, length: int, status: int, start: int = 0) -> None:
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(length))
        if status == 206:
            self.send_header(
                "Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(self.body)}"
            )
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


@contextmanager
def serve(path: Path) -> Iterator[str]:
    """Serve a file on this machine; yield its URL."""
    _Ranges.body = path.read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Ranges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{path.name}"
    finally:
        server.shutdown()


def compare(folder: Path, nodes: int, rounds: int) -> Iterator[str]:
    """Yield a line for each library and for graphshare on the same task."""
    write_chain(nodes_only := folder / "nodes.onnx", nodes, 4)
    write_chain(heavy := folder / "heavy.onnx", 4, 8 << 20)
    for model, what in ((nodes_only, f"{nodes:,} nodes"), (heavy, "128 MiB of weights")):
        for name, code in _CODEC.items():
            yield (
                f"{name:11} read and write ONNX, {what}  "
                f"{run_python(code, model, folder / 'out.onnx', rounds=rounds)}"
            )
    write_weights(weights := folder / "w.safetensors", 64 << 20)
    with serve(weights) as url:
        for name, code in _REMOTE.items():
            _Ranges.sent = 0
            cost = run_python(code, url, rounds=1)
            yield f"{name:11} header of 64 MiB at a URL, {_Ranges.sent:,} bytes  {cost}"
    symbol = chain(nodes, folder / "chain-symbol.json")
    for name, code in _JSON.items():
        yield (
            f"{name:11} read and write JSON, {nodes:,} nodes  "
            f"{run_python(code, symbol, folder / 'out.json', rounds=rounds)}"
        )
    draw = [sys.executable, "-m", "graphshare", "draw", str(symbol), "-o"]
    subprocess.run([*draw, str(folder / "chain.dot")], check=True, stderr=subprocess.DEVNULL)
    yield f"dot         place and draw {nodes:,} nodes  {measure(['dot', '-Tsvg', str(folder / 'chain.dot')], rounds)}"
    yield f"graphshare  read, place and draw {nodes:,} nodes  {measure([*draw, str(folder / 'chain.svg')], rounds)}"
    for name, code in _BAR.items():
        yield f"{name:11} import of the progress bar  {run_python(code, rounds=rounds)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"numpy {np.__version__}, onnx {onnx.__version__}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        for line in compare(Path(folder), options.nodes, options.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
