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
from tests.paddle_programs import Program, dense, floats, record

WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
BIAS = np.array([1, -1], np.float32)


def main(folder: Path) -> None:
    """Ask each question once: a process that imports paddle takes seconds to start."""
    answers: dict[str, Any] = {}
    for name in ("cnn", "lstm", "conditional", "transformer", "dtypes"):
        model = folder / name
        feeds, known = dict(np.load(model / "feeds.npz")), dict(np.load(model / "same-out.npz"))
        outputs = gs.run(model / "inference", feeds=feeds).outputs
        answers[f"run {name}"] = {
            key: bool(np.array_equal(outputs[key], value)) for key, value in known.items()
        }
        bound = gs.bind(model / "inference")(**feeds)
        answers[f"bind {name}"] = all(
            np.array_equal(bound[key], value) for key, value in known.items()
        )
        for mode in ("tied", "copied"):
            report = gs.verify(model / mode, prefixes="b.", layers=True)
            layers = [
                stage.summary
                for branch in report.branches
                for stage in branch.stages
                if stage.name == "layers"
            ]
            answers[f"verify {name} {mode}"] = report.verdict, layers
    cnn = gs.load(folder / "cnn" / "inference")
    key = next(record.key for record in cnn.parameter_file.records if record.key.startswith("conv"))
    moved = cnn.params[key].copy()
    moved.flat[0] += 1
    answers["moved"] = gs.compare(cnn, cnn.with_params({key: moved})).outcome
    answers |= compare_with_onnx(folder)
    answers |= compare_conversions(folder, cnn)
    try:
        gs.run(gs.load(folder / "cnn" / "inference").graph, seed=0)
    except gs.GraphshareError as error:
        answers["no parameters"] = str(error)
    model = folder / "cnn"
    feeds = dict(np.load(model / "feeds.npz"))
    inner = gs.run(model / "inference", feeds=feeds, all_outputs=True).outputs
    (name,) = gs.inspect(model / "inference").outputs
    twice = [
        key for key, value in inner.items() if key != name and np.array_equal(value, inner[name])
    ]
    answers["all outputs"] = {
        "count": len(inner),
        "twice": len(twice),
        "input": np.array_equal(inner["x"], feeds["x"]),
    }
    answers["passed on"] = pass_input_on(folder)
    answers["refused"] = refuse(folder)
    try:
        gs.run(
            folder / "cnn" / "inference", shapes={"x": (100_000, 1, 8, 8)}, seed=0, max_memory="64M"
        )
    except MemoryLimitError as error:
        answers["limited"] = str(error)
    print(json.dumps(answers))


def pass_input_on(folder: Path) -> bool:
    """Return whether a program whose outputs are its input gives it back."""
    program = Program()
    x = program.data("x", -1, 2)
    program.fetch(x, "first")
    program.fetch(x, "second", 1)
    (folder / "passed.json").write_bytes(program.encode())
    outputs = gs.run(folder / "passed.json", feeds={"x": BIAS[None]}).outputs
    return all(np.array_equal(outputs[name], BIAS[None]) for name in ("first", "second"))


def compare_with_onnx(folder: Path) -> dict[str, str]:
    """Return the outcomes of a program beside its ONNX twin, in both orders, and beside one with another weight."""
    program, _ = dense()
    arrays = {
        "fc.b": record((2,), data=floats(*BIAS)),
        "fc.w": record((3, 2), data=floats(*WEIGHT.ravel())),
    }
    stem = Path(program.save(folder / "dense", arrays))
    twin, other = (
        write_twin(folder / f"{name}.onnx", WEIGHT + shift)
        for name, shift in (("twin", 0), ("other", 0.5))
    )
    graph = stem.with_suffix(".json")  # a path leads to the parameters beside it
    pairs = {"twin": (graph, twin), "twin first": (twin, graph), "other": (graph, other)}
    return {f"compare {name}": gs.compare(*pair).outcome for name, pair in pairs.items()}


def compare_conversions(folder: Path, cnn: gs.Checkpoint) -> dict[str, Any]:
    """Return the outcome, the regions and the first one that departs of a network beside conversions, in both orders.

    They keep the names that paddle2onnx gives to values, or those of the parameters, or neither;
    one has another weight.
    """
    answers: dict[str, Any] = {}
    program = folder / "cnn" / "inference.json"
    for names in ("values", "parameters", "neither"):
        for change in (0.0, 0.5):
            twin = write_conversion(folder / f"{names}{change}.onnx", cnn, names, change)
            for order, pair in (("", (program, twin)), (" first", (twin, program))):
                report = gs.compare(*pair)
                stages = {
                    stage.name: stage for branch in report.branches for stage in branch.stages
                }
                regions = stages["regions"]
                answers[f"conversion {names} {change}{order}"] = (
                    report.outcome,
                    regions.summary,
                    regions.details[:3],
                )
    return answers


def write_conversion(path: Path, cnn: gs.Checkpoint, names: str, change: float) -> Path:
    """Write the ONNX model of the network ``cnn``, with ``change`` added to a weight of its last layer."""
    make, arrays = onnx.helper, {key: np.array(cnn.params[key]) for key in cnn.params}
    arrays["linear_0.w_0"].flat[0] += change
    arrays["shape"] = np.array([1, -1, 1, 1])
    statistics = " ".join(f"batch_norm2d_0.{key}" for key in ("w_0", "b_0", "w_1", "w_2"))
    layers: list[tuple[str, str, str, dict[str, Any]]] = [
        ("Conv", "x conv2d_0.w_0", "conv2d.0.0", {"pads": [1, 1, 1, 1]}),
        ("Reshape", "conv2d_0.b_0 shape", "reshape.0.0", {}),
        ("Add", "conv2d.0.0 reshape.0.0", "add.0.0", {}),
        ("BatchNormalization", f"add.0.0 {statistics}", "batch_norm_.0.0", {}),
        ("Relu", "batch_norm_.0.0", "relu.0.0", {}),
        ("MaxPool", "relu.0.0", "pool2d.0.0", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Flatten", "pool2d.0.0", "flatten.0.0", {}),
        ("MatMul", "flatten.0.0 linear_0.w_0", "matmul.0.0", {}),
        ("Add", "matmul.0.0 linear_0.b_0", "add.1.0", {}),
        ("Softmax", "add.1.0", "fetch_name_0", {}),
    ]
    kept = {"x": "x", "fetch_name_0": "fetch_name_0"}
    values = [output for _, _, output, _ in layers]
    new = {
        key: f"p2o.pd_op.{key}" if names == "values" else f"v{place}"
        for place, key in enumerate(values)
    }
    new |= {key: key if names == "parameters" else f"c{place}" for place, key in enumerate(arrays)}
    new |= kept
    nodes = [
        make.make_node(op, [new[key] for key in reads.split()], [new[out]], **more)
        for op, reads, out, more in layers
    ]
    ends = [
        make.make_tensor_value_info(name, 1, ["n", *size])
        for name, size in (("x", (1, 8, 8)), ("fetch_name_0", (5,)))
    ]
    tensors = [onnx.numpy_helper.from_array(array, new[key]) for key, array in arrays.items()]
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


def write_twin(path: Path, weight: Any) -> Path:
    """Write the ONNX model of the program that :func:`dense` makes."""
    make = onnx.helper
    nodes = [
        make.make_node("MatMul", ["x", "w"], ["p"]),
        make.make_node("Add", ["p", "b"], ["out"]),
    ]
    ends = [
        make.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 3), ("out", 2))
    ]
    tensors = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in (("w", weight.astype("f4")), ("b", BIAS))
    ]
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


def refuse(folder: Path) -> str:
    """Return what is said of an operator that Paddle does not know."""
    text = (folder / "dense" / "inference.json").read_bytes().replace(b"1.matmul", b"1.matmuk")
    (folder / "dense" / "odd.json").write_bytes(text)
    (folder / "dense" / "odd.pdiparams").write_bytes(
        (folder / "dense" / "inference.pdiparams").read_bytes()
    )
    try:
        gs.run(folder / "dense" / "odd", shapes={"x": (1, 3)}, seed=0)
    except gs.GraphshareError as error:
        return str(error)
    return "computed"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
