"""What the backend says of models of Paddle, in a Python that has graphshare, paddlepaddle, onnx and onnxruntime.

python paddle_backend_process.py FOLDER    prints a JSON object: for each question its answer
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import graphshare as gs
from graphshare.errors import MemoryLimitError
from tests.paddle_programs import dense, floats, record

WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
BIAS = np.array([1, -1], np.float32)


def main(folder: Path) -> None:
    """Ask each question once: a process that imports paddle takes seconds to start."""
    answers: dict[str, Any] = {}
    for name in ("cnn", "lstm", "conditional", "transformer", "dtypes"):
        model = folder / name
        feeds, known = dict(np.load(model / "feeds.npz")), dict(np.load(model / "same-out.npz"))
        outputs = gs.run(model / "inference", feeds=feeds).outputs
        answers[f"run {name}"] = {key: bool(np.array_equal(outputs[key], value)) for key, value in known.items()}
        bound = gs.bind(model / "inference")(**feeds)
        answers[f"bind {name}"] = all(np.array_equal(bound[key], value) for key, value in known.items())
        for mode in ("tied", "copied"):
            report = gs.verify(model / mode, prefixes="b.", layers=True)
            layers = [stage.summary for branch in report.branches for stage in branch.stages if stage.name == "layers"]
            answers[f"verify {name} {mode}"] = report.verdict, layers
    cnn = gs.load(folder / "cnn" / "inference")
    key = next(record.key for record in cnn.parameter_file.records if record.key.startswith("conv"))
    moved = cnn.params[key].copy()
    moved.flat[0] += 1
    answers["moved"] = gs.compare(cnn, cnn.with_params({key: moved})).outcome
    answers |= compare_with_onnx(folder)
    try:
        gs.run(gs.load(folder / "cnn" / "inference").graph, seed=0)
    except gs.GraphshareError as error:
        answers["no parameters"] = str(error)
    answers["refused"] = refuse(folder)
    try:
        gs.run(folder / "cnn" / "inference", shapes={"x": (100_000, 1, 8, 8)}, seed=0, max_memory="64M")
    except MemoryLimitError as error:
        answers["limited"] = str(error)
    print(json.dumps(answers))


def compare_with_onnx(folder: Path) -> dict[str, str]:
    """Return the outcomes of a program beside its ONNX twin, in both orders, and beside one with another weight."""
    program, _ = dense()
    arrays = {"fc.b": record((2,), data=floats(*BIAS)), "fc.w": record((3, 2), data=floats(*WEIGHT.ravel()))}
    stem = Path(program.save(folder / "dense", arrays))
    twin, other = (write_twin(folder / f"{name}.onnx", WEIGHT + shift) for name, shift in (("twin", 0), ("other", 0.5)))
    graph = stem.with_suffix(".json")  # a path leads to the parameters beside it
    pairs = {"twin": (graph, twin), "twin first": (twin, graph), "other": (graph, other)}
    return {f"compare {name}": gs.compare(*pair).outcome for name, pair in pairs.items()}


def write_twin(path: Path, weight: Any) -> Path:
    """Write the ONNX model of the program that :func:`dense` makes."""
    make = onnx.helper
    nodes = [make.make_node("MatMul", ["x", "w"], ["p"]), make.make_node("Add", ["p", "b"], ["out"])]
    ends = [make.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 3), ("out", 2))]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (("w", weight.astype("f4")), ("b", BIAS))]
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


def refuse(folder: Path) -> str:
    """Return what is said of an operator that Paddle does not know."""
    text = (folder / "dense" / "inference.json").read_bytes().replace(b"1.matmul", b"1.matmuk")
    (folder / "dense" / "odd.json").write_bytes(text)
    (folder / "dense" / "odd.pdiparams").write_bytes((folder / "dense" / "inference.pdiparams").read_bytes())
    try:
        gs.run(folder / "dense" / "odd", shapes={"x": (1, 3)}, seed=0)
    except gs.GraphshareError as error:
        return str(error)
    return "computed"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
