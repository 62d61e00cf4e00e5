"""The readers of ``readers.py``, called as their documentation does. Runs under a Python with them, without graphshare.

python benchmarks/reader_side.py READER SECONDS

Each line of stdin names a model; ``inputs.npz`` beside it has the inputs by name. A process reads
the model and writes ``READER.npz``, the outputs by position, and ``READER.log``. stdout gets a line
with its exit code, or ``late`` after SECONDS.
"""

import importlib
import multiprocessing
import os
import sys

import numpy as np


def read_openvino(model, inputs):
    """OpenVINO on the CPU in float32; by default it takes bfloat16 where the processor has it."""
    import openvino

    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(inputs)
    return [found[output] for output in compiled.outputs]


def read_reference(model, inputs):
    """The evaluator in onnx's wheel, which is written in numpy."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, inputs)


def read_onnx2torch(model, inputs):
    """onnx2torch, which makes a module of PyTorch."""
    import onnx
    import onnx2torch
    import torch

    loaded = onnx.load(model)
    module = onnx2torch.convert(loaded).eval()
    with torch.no_grad():
        found = module(*(torch.from_numpy(inputs[value.name]) for value in loaded.graph.input))
    return [found] if isinstance(found, torch.Tensor) else found


def tie_again(graph, net):
    """Tie the parameters of a module of onnx2torch that are one initializer of the ONNX graph."""
    first, held = {}, {tensor.name for tensor in graph.initializer}
    layers = [layer for name, layer in net.named_children() if name != "initializers"]
    for node, layer in zip(graph.node, layers, strict=True):
        weights = filter(held.__contains__, node.input)
        for weight, key in zip(weights, layer.state_dict(), strict=False):
            setattr(layer, key, first.setdefault(weight, getattr(layer, key)))


def read_onnxruntime(model, inputs):
    """ONNX's checker, with the shapes that it infers, then onnxruntime."""
    import onnx
    import onnxruntime

    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)


READERS = {
    "openvino": read_openvino,
    "onnx2torch": read_onnx2torch,
    "reference": read_reference,
    "onnxruntime": read_onnxruntime,
}
MODULES = {"reference": "onnx.reference"}


def read(name, model):
    """Compute a model and write what it gives."""
    folder = os.path.dirname(model)
    with open(os.path.join(folder, f"{name}.log"), "w", encoding="utf-8") as log:
        os.dup2(log.fileno(), 2)
        os.dup2(log.fileno(), 1)
        outputs = READERS[name](model, dict(np.load(os.path.join(folder, "inputs.npz"))))
        np.savez(
            os.path.join(folder, f"{name}.npz"),
            **{str(index): np.asarray(x) for index, x in enumerate(outputs)},
        )


def main(name, limit):
    """Read models until stdin ends; the reader is imported once, and each model has a process of its own."""
    importlib.import_module(MODULES.get(name, name))
    fork = multiprocessing.get_context("fork")
    for line in sys.stdin:
        process = fork.Process(target=read, args=(name, line.strip()))
        process.start()
        process.join(float(limit))
        late = process.is_alive()
        if late:
            process.kill()
            process.join()
        print("late" if late else process.exitcode, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
