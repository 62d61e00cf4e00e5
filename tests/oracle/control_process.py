"""The gradients that MXNet 1.9.1 gives of graphs with control flow, for head gradients of ones.

ORACLE_PYTHON tests/oracle/control_process.py OUT.npz
"""

import json
import sys
from pathlib import Path

import mxnet as mx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.gradients.control_graphs import GRAPHS


def gradients_of(document, fixed, shapes):
    symbol = mx.sym.load_json(json.dumps(document))
    stream = np.random.RandomState(3)
    values = {key: mx.nd.array(stream.standard_normal(shape)) for key, shape in shapes.items()}
    values.update({key: mx.nd.array(value) for key, value in fixed.items()})
    kept = {key: mx.nd.zeros(value.shape) for key, value in values.items()}
    bound = symbol.bind(mx.cpu(), args=values, args_grad=kept)
    outputs = bound.forward(is_train=True)
    bound.backward([mx.nd.ones(x.shape) for x in outputs])
    return {key: value.asnumpy() for key, value in kept.items()}


def main(out):
    found = {}
    for name, given in GRAPHS.items():
        if name.startswith("while_loop"):
            continue  # its executor cannot bind the backward pass of a loop that is not made by its own API
        found.update({f"{name}/{key}": value for key, value in gradients_of(*given).items()})
    np.savez(out, **found)


if __name__ == "__main__":
    main(sys.argv[1])
