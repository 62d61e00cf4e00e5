"""What MXNet 1.9.1 answers to probes, forward and backward. Runs under a Python that has it.

    ORACLE_PYTHON tests/oracle/probing_process.py PROBES.npz ANSWERS

Each answer is a pickled ``(number, pass, answer)``: for the forward pass the outputs, for the
backward pass the gradients by position, both as ``(dtype, shape, bytes)``; or ``{"error": ...}``. A
probe that ends the process, or does not end itself, has ``{"crash": status}``: a process of its own
works through the list, and the next one begins behind it.
"""

import json
import os
import pickle
import resource
import signal
import sys

os.environ.update(
    MXNET_SUBGRAPH_BACKEND="NONE", MXNET_ENGINE_TYPE="NaiveEngine", OMP_NUM_THREADS="1"
)

import mxnet as mx
import numpy as np

PASSES = ("forward", "backward")
SECONDS = 20
MEMORY = 8 << 30


def load(case, count, heads):
    nodes = [{"op": "null", "name": f"in{i}", "inputs": []} for i in range(count)]
    nodes.append(
        {
            "op": case["op"],
            "name": "node",
            "attrs": case["attrs"],
            "inputs": [[i, 0, 0] for i in range(count)],
        }
    )
    if "subgraphs" in case:
        nodes[-1]["subgraphs"] = case["subgraphs"]
    attrs = {"mxnet_version": ["int", 10901]}
    if case.get("np_shape"):
        attrs["is_np_shape"] = ["int", 1]
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(count)),
        "heads": [[count, i, 0] for i in range(heads)],
        "attrs": attrs,
    }
    return mx.sym.load_json(json.dumps(graph))


def told(array):
    array = array.asnumpy()
    return array.dtype.name, array.shape, array.tobytes()


def forward(case, arrays, number):
    symbol = load(case, len(arrays), 1)
    outputs = case.get("outputs") or len(list(symbol.get_internals())) - len(arrays)
    symbol = load(case, len(arrays), outputs)
    values = {f"in{i}": mx.nd.array(x, dtype=x.dtype) for i, x in enumerate(arrays)}
    states = {name: values[name] for name in symbol.list_auxiliary_states()}
    arguments = {name: values[name] for name in symbol.list_arguments()}
    bound = symbol.bind(mx.cpu(), args=arguments, aux_states=states, grad_req="null")
    return [told(out) for out in bound.forward(is_train=False)]


def backward(case, arrays, number):
    symbol = load(case, len(arrays), 1)
    outputs = case.get("outputs") or len(list(symbol.get_internals())) - len(arrays)
    symbol = load(case, len(arrays), outputs)
    values = {f"in{i}": mx.nd.array(x, dtype=x.dtype) for i, x in enumerate(arrays)}
    states = {name: values[name] for name in symbol.list_auxiliary_states()}
    arguments = {name: values[name] for name in symbol.list_arguments()}
    kept = {
        n: mx.nd.zeros(v.shape, dtype=v.dtype)
        for n, v in arguments.items()
        if np.dtype(v.dtype).kind == "f"
    }
    requests = {n: "write" if n in kept else "null" for n in arguments}
    bound = symbol.bind(
        mx.cpu(), args=arguments, args_grad=kept, aux_states=states, grad_req=requests
    )
    results = bound.forward(is_train=True)
    stream = np.random.RandomState(1000 + number)
    bound.backward([mx.nd.array(stream.standard_normal(r.shape), dtype=r.dtype) for r in results])
    mx.nd.waitall()
    return {int(n[2:]): told(v) for n, v in kept.items()}


def answer(case, arrays, number, which):
    try:
        with mx.util.np_shape(bool(case.get("np_shape"))):
            return (forward if which == "forward" else backward)(case, arrays, number)
    except (mx.MXNetError, ValueError, TypeError, IndexError, AssertionError) as error:
        return {"error": str(error)[:600]}


def work(probes, begin, out):
    """Answers from ``begin`` on, a number of the list of all passes of all probes."""
    cases = json.loads(str(probes["cases"]))
    with open(out, "ab") as file:
        for place in range(begin, len(cases) * len(PASSES)):
            number, which = place // len(PASSES), PASSES[place % len(PASSES)]
            case = cases[number]
            signal.alarm(SECONDS)
            if which == "forward" or case.get("backward", True):
                arrays = [probes[f"{number}_in{i}"] for i in range(case["count"])]
                pickle.dump((number, which, answer(case, arrays, number, which)), file, 4)
            else:
                pickle.dump((number, which, {"error": "not asked"}), file, 4)
            file.flush()


def count(out):
    """How many answers there are."""
    found = 0
    with open(out, "rb") as file:
        while True:
            try:
                pickle.load(file)
            except EOFError:
                return found
            found += 1


def main(source, out):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    probes = dict(np.load(source))
    open(out, "wb").close()
    total = len(json.loads(str(probes["cases"]))) * len(PASSES)
    begin = 0
    while begin < total:
        child = os.fork()
        if not child:
            work(probes, begin, out)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        begin = count(out)
        if begin < total:
            with open(out, "ab") as file:
                pickle.dump(
                    (begin // len(PASSES), PASSES[begin % len(PASSES)], {"crash": status}), file, 4
                )
            begin += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
