"""Asks MXNet 1.9.1 what an operator computes, case by case, and keeps the answers in ``recorded/FAMILY.npz``.

    ORACLE_PYTHON tests/kernels/record.py FAMILY ...

A case has ``op``, ``attrs`` (texts, as in a symbol file) and ``inputs``: each a ``shape`` with,
optionally, ``dtype`` (float32), ``scale`` and ``shift`` of a standard normal, ``values`` (a flat
list instead), ``low`` and ``high`` for integers, or ``value`` for a constant. Inputs are drawn from
a stream seeded with the case's number and kept beside the outputs. ``train`` True runs the forward
pass in training mode; ``outputs`` limits how many outputs are kept. Each case that has
``subgraphs`` is recorded in a process of its own, because oneDNN's cache would mix them up. So is a
case with ``instructions``, the newest instruction set of the processor that oneDNN may use, and one
with ``alone``, which reads fresh memory. ``atol`` and ``rtol`` are what an element may differ by
(see ``rounding.py``); they are of the comparison and are not recorded.

Beside the answers a file has their ``provenance`` (see ``tests/provenance.py``). oneDNN's int8
convolutions add exactly with ``avx_vnni`` alone, so families with int8 sums need a processor that
has it.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

import mxnet as mx
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.kernels.cases import INT8  # noqa: E402 (the script finds the tests by sys.path alone)
from tests.provenance import provenance  # noqa: E402


def draw(stream, spec):
    """One input."""
    shape, dtype = tuple(spec["shape"]), spec.get("dtype", "float32")
    if "values" in spec:
        return np.array(spec["values"], dtype=dtype).reshape(shape)
    if "value" in spec:
        return np.full(shape, spec["value"], dtype=dtype)
    if "low" in spec:
        return stream.randint(spec["low"], spec["high"], size=shape).astype(dtype)
    return (stream.standard_normal(shape) * spec.get("scale", 1.0) + spec.get("shift", 0.0)).astype(
        dtype
    )


def ask(case, arrays):
    """What MXNet computes for one case."""
    count = len(arrays)
    nodes = [{"op": "null", "name": "in%d" % i, "inputs": []} for i in range(count)]
    inputs = [[i, 0, 0] for i in range(count)]
    nodes.append({"op": case["op"], "name": "node", "attrs": case["attrs"], "inputs": inputs})
    if "subgraphs" in case:
        nodes[-1]["subgraphs"] = case["subgraphs"]
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(count)),
        "heads": [[count, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    symbol = mx.sym.load_json(json.dumps(graph))
    outputs = len(list(mx.sym.load_json(json.dumps(graph)).get_internals())) - count
    graph["heads"] = [[count, i, 0] for i in range(case.get("outputs", outputs))]
    symbol = mx.sym.load_json(json.dumps(graph))
    values = {"in%d" % i: mx.nd.array(x, dtype=x.dtype) for i, x in enumerate(arrays)}
    states = {name: values[name] for name in symbol.list_auxiliary_states()}
    arguments = {name: values[name] for name in symbol.list_arguments()}
    executor = symbol.bind(mx.cpu(), args=arguments, aux_states=states, grad_req="null")
    return [out.asnumpy() for out in executor.forward(is_train=case.get("train", False))]


def ask_alone(family, number, outputs, instructions=None):
    """:func:`ask` in a process of its own, which writes what it got into the file ``outputs``."""
    command = [sys.executable, __file__, "--alone", family, str(number), outputs]
    environment = dict(os.environ)
    if instructions:
        environment["DNNL_MAX_CPU_ISA"] = instructions
    done = subprocess.run(command, stderr=subprocess.PIPE, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-2000:])
    with np.load(outputs) as found:
        return [found["arr_%d" % i] for i in range(len(found.files))]


def recorded_part(case):
    """Return a case without what only the comparison needs."""
    return {key: value for key, value in case.items() if key not in ("atol", "rtol")}


def inputs_of(case, number):
    """The inputs of a case."""
    stream = np.random.RandomState(number)
    return [draw(stream, spec) for spec in case["inputs"]]


def alone(family, number, outputs):
    """What a process of its own does."""
    case = importlib.import_module("tests.kernels.cases." + family).CASES[number]
    np.savez(outputs, *ask(case, inputs_of(case, number)))


def record(family):
    """Asks for all cases of a family."""
    cases = importlib.import_module("tests.kernels.cases." + family).CASES
    kept = {"cases": np.array(json.dumps([recorded_part(case) for case in cases]))}
    origin = provenance()
    if family in INT8 and (
        origin["instructions_limit"] or "avx_vnni" not in origin["instructions_of_processor"]
    ):
        raise SystemExit(
            "%s: int8 sums are exact with avx_vnni and without DNNL_MAX_CPU_ISA only" % family
        )
    kept["provenance"] = np.array(json.dumps(origin))
    for number, case in enumerate(cases):
        arrays = inputs_of(case, number)
        try:
            with tempfile.TemporaryDirectory() as folder:
                one = folder + "/out.npz"
                apart = {"subgraphs", "instructions", "alone"} & set(case)
                outputs = (
                    ask_alone(family, number, one, case.get("instructions"))
                    if apart
                    else ask(case, arrays)
                )
        except Exception as error:
            raise SystemExit(
                "%s case %d %s: %s" % (family, number, case, str(error)[:2000])
            ) from None
        kept.update({"%d_in%d" % (number, i): x for i, x in enumerate(arrays)})
        kept.update({"%d_out%d" % (number, i): x for i, x in enumerate(outputs)})
    np.savez_compressed(str(HERE / "recorded" / (family + ".npz")), **kept)
    print(family, len(cases), "cases")


if __name__ == "__main__":
    if sys.argv[1] == "--alone":
        alone(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        for name in sys.argv[1:]:
            record(name)
