"""What MXNet 1.9.1 gives as gradients of the recorded cases of one family. Runs under a Python that has it.

    ORACLE_PYTHON tests/oracle/gradient_process.py RECORDED.npz OUT.npz

Every case is run in training mode on its recorded inputs and gone back from seeded gradients of its
outputs, the same that ``tests/gradients/one_operator.py`` draws.
"""

import json
import os
import sys

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

import mxnet as mx
import numpy as np

NOT_ASKED = {"_contrib_hawkesll": (4, 6, 7)}
"""Inputs for whose gradients MXNet ends with an error."""


def graph_of(case, count, heads):
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
    version = {"mxnet_version": ["int", 10901]}
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(count)),
        "heads": [[count, i, 0] for i in range(heads)],
        "attrs": version,
    }
    return mx.sym.load_json(json.dumps(graph))


def ask(case, arrays, outputs, number):
    """The gradients of the inputs that have one, by position."""
    symbol = graph_of(case, len(arrays), outputs)
    values = {f"in{i}": mx.nd.array(x, dtype=x.dtype) for i, x in enumerate(arrays)}
    states = {name: values[name] for name in symbol.list_auxiliary_states()}
    arguments = {name: values[name] for name in symbol.list_arguments()}
    left = [f"in{i}" for i in NOT_ASKED.get(case["op"], ())]
    wanted = [n for n, v in arguments.items() if np.dtype(v.dtype).kind == "f" and n not in left]
    kept = {n: mx.nd.zeros(arguments[n].shape, dtype=arguments[n].dtype) for n in wanted}
    requests = {n: "write" if n in kept else "null" for n in arguments}
    bound = symbol.bind(
        mx.cpu(), args=arguments, args_grad=kept, aux_states=states, grad_req=requests
    )
    results = bound.forward(is_train=True)
    stream = np.random.RandomState(1000 + number)
    heads = [mx.nd.array(stream.standard_normal(r.shape), dtype=r.dtype) for r in results]
    bound.backward(heads)
    mx.nd.waitall()
    found = {int(n[2:]): kept[n].asnumpy() for n in wanted}
    found.update({int(n[2:]): v.asnumpy() for n, v in states.items()})
    return found


def main(recorded, out):
    kept = dict(np.load(recorded))
    answers = {}
    for number, case in enumerate(json.loads(str(kept["cases"]))):
        arrays = [kept[f"{number}_in{i}"] for i in range(len(case["inputs"]))]
        if case["attrs"].get("act_type") == "rrelu":
            continue  # what it drew in training is not told, and reading it has ended the process
        if case["op"] == "gather_nd" and (arrays[1] < 0).any():
            # backward takes indices below 0 as they are and writes before its array, which has
            # ended the process
            continue
        outputs = sum(key.startswith(f"{number}_out") for key in kept)
        try:
            # only so do numbers without axes, and axes of 0, mean what they say
            with mx.util.np_shape(any(0 in x.shape or not x.ndim for x in arrays)):
                found = ask(case, arrays, outputs, number)
        except (mx.MXNetError, ValueError) as error:
            answers[f"{number}_error"] = np.array(str(error)[:2000])
            continue
        answers.update({f"{number}_grad{i}": g for i, g in found.items()})
    np.savez(out, **answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
