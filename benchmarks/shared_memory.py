"""Memory of several sessions of onnxruntime on the same weights: in the models, beside them,
pooled, tied, and handed over.

    python -m benchmarks.shared_memory                    four sessions in one process, a language model of 139 MB
    python -m benchmarks.shared_memory --processes 4      one session in each of four processes

Builds a language model whose embedding and last layer have one matrix, which its file has twice,
the second time transposed. Sessions are opened on each form of it, once with default options and
once with ``session.disable_prepacking``, and compute one pass. The table has what the processes
take with the sessions less what they take without: proportional memory, in which a page that
several share counts in parts, and anonymous memory, which belongs to one process alone. The last
columns have the median time of a pass, and whether all bits are those of the first row.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np

PASSES = 5
OPTIONS = {"default options": {}, "disable_prepacking": {"session.disable_prepacking": "1"}}


def read_memory() -> dict[str, int]:
    """Return the proportional and the anonymous memory of this process, in KiB."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    values = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])
    }
    return {"proportional": values["Pss"], "anonymous": values["Anonymous"]}


def build_model(words: int, width: int) -> Any:
    """Return a language model with one matrix as its embedding and, transposed, as its last layer."""
    from onnx import TensorProto, helper, numpy_helper  # a worker needs none of it

    table = np.random.default_rng(0).standard_normal((words, width)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["embedded"]),
        helper.make_node("Tanh", ["embedded"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "head"], ["logits"]),
    ]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", words])
    ]
    weights = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.ascontiguousarray(table.T), "head"),
    ]
    graph = helper.make_graph(nodes, "language", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_forms(folder: Path, words: int, width: int, count: int) -> dict[str, list[Path]]:
    """Write ``count`` models in each form: models of their own, as a deployment has them, on what they share."""
    import onnx  # a worker needs none of it

    import graphshare as gs

    forms: dict[str, list[Path]] = {}
    model = build_model(words, width)
    for name in ("embedded", "external", "pooled", "tied"):
        (folder / name).mkdir()
        forms[name] = [folder / name / f"{number}.onnx" for number in range(count)]
    for path in forms["embedded"]:
        onnx.save(model, path)
    for path in forms["external"]:
        onnx.save(
            model,
            path,
            save_as_external_data=True,
            location=f"{path.stem}.data",
            size_threshold=1024,
        )
        model = build_model(words, width)  # onnx.save leaves it without its data
    gs.pool(forms["embedded"], folder / "pooled", verify=False)
    (folder / "sources").mkdir()
    sources = [folder / "sources" / path.name for path in forms["tied"]]
    tied = gs.share(forms["embedded"][0], transposed=True)
    for path in sources:
        gs.save(tied, path)
    gs.pool(sources, folder / "tied", verify=False)
    forms["handed over"] = forms["external"]
    return forms


def open_sessions(paths: list[str], options: dict[str, str], *, hands_over: bool) -> list[Any]:
    """Return sessions of models; those that are handed over get one copy of their weights, which the process has."""
    import onnxruntime

    arrays: dict[str, Any] = {}
    if hands_over:
        import onnx

        for tensor in onnx.load(paths[0]).graph.initializer:
            arrays[tensor.name] = onnxruntime.OrtValue.ortvalue_from_numpy(
                onnx.numpy_helper.to_array(tensor)
            )
    sessions = []
    for path in paths:
        chosen = onnxruntime.SessionOptions()
        chosen.intra_op_num_threads = 1
        for key, value in options.items():
            chosen.add_session_config_entry(key, value)
        for name, value in arrays.items():
            chosen.add_initializer(name, value)
        sessions.append(
            (onnxruntime.InferenceSession(path, chosen, providers=["CPUExecutionProvider"]), arrays)
        )
    return sessions


def work() -> None:
    """Open sessions as a line of stdin says, compute, and print memory when another line comes; a third one ends."""
    for name in ("onnx", "onnx.numpy_helper", "onnxruntime"):  # whose own memory does not count
        importlib.import_module(name)
    task = json.loads(sys.stdin.readline())
    before = read_memory()
    sessions = open_sessions(task["paths"], task["options"], hands_over=task["hands_over"])
    ids = np.arange(7)[None] % task["words"]
    digest, seconds = hashlib.sha256(), []
    for session, _ in sessions:
        for rows in (ids[:, :1], ids):
            digest.update(session.run(None, {"ids": rows})[0].tobytes())
        for _ in range(PASSES):
            start = time.perf_counter()
            session.run(None, {"ids": ids})
            seconds.append(time.perf_counter() - start)
    print("open", flush=True)
    sys.stdin.readline()
    after = read_memory()
    result = {name: after[name] - before[name] for name in before}
    print(
        json.dumps({**result, "seconds": median(seconds), "digest": digest.hexdigest()}), flush=True
    )
    sys.stdin.readline()


def ask(processes: list[subprocess.Popen[str]], line: str) -> list[str]:
    """Send a line to each process; return their answers, all of which were given before the first one goes on."""
    streams: list[tuple[IO[str], IO[str]]] = [
        (p.stdin, p.stdout) for p in processes if p.stdin and p.stdout
    ]
    for stream, _ in streams:
        stream.write(line + "\n")
        stream.flush()
    return [stream.readline() for _, stream in streams]


def measure(
    paths: list[Path], options: dict[str, str], words: int, count: int, *, hands_over: bool
) -> dict[str, Any]:
    """Return the memory of sessions in ``count`` processes, in KiB, the time of a pass, and a
    digest of their outputs.
    """
    command = [sys.executable, "-m", "benchmarks.shared_memory", "--work"]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)
    ]
    for number, process in enumerate(processes):
        own = [str(path) for path in paths[number::count]]
        task = {"paths": own, "options": options, "words": words, "hands_over": hands_over}
        if ask([process], json.dumps(task)) != ["open\n"]:
            raise SystemExit(f"no session of {own[0]} could be opened")
    results = [json.loads(line) for line in ask(processes, "")]
    for process in processes:
        process.communicate()
    total = {
        name: sum(result[name] for result in results) for name in ("proportional", "anonymous")
    }
    return {
        **total,
        "seconds": median(result["seconds"] for result in results),
        "digest": results[0]["digest"],
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--sessions", type=int, default=4, help="how many sessions [4]")
    parser.add_argument(
        "--processes", type=int, default=1, help="how many processes these are in [1]"
    )
    parser.add_argument("--words", type=int, default=32_000, help="rows of the embedding [32000]")
    parser.add_argument("--width", type=int, default=512, help="columns of the embedding [512]")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
        return
    if not Path("/proc/self/smaps_rollup").exists():
        raise SystemExit("only Linux says what memory processes share")
    import onnxruntime

    print(
        f"onnxruntime {onnxruntime.__version__}, {given.sessions} sessions in {given.processes} processes, MB"
    )
    print(
        "| weights | options | proportional | anonymous | ms a pass | bits |\n| --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as scratch:
        forms = write_forms(Path(scratch), given.words, given.width, given.sessions)
        first = ""
        for form, paths in forms.items():
            for name, options in OPTIONS.items():
                row = measure(
                    paths, options, given.words, given.processes, hands_over=form == "handed over"
                )
                first = first or row["digest"]
                cells = [f"{row[kind] * 1.024e-3:.0f}" for kind in ("proportional", "anonymous")]
                bits = "the same" if row["digest"] == first else "others"
                print(
                    f"| {form} | {name} | {' | '.join(cells)} | {row['seconds'] * 1e3:.1f} | {bits} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
