"""What MXNet 1.9.1 gives as gradients of PReLU's slopes. Runs under a Python that has it.

    ORACLE_PYTHON tests/oracle/prelu_process.py OUT.npz

One PReLU of (2, 3, 4, 4): of a variable, whose gradient has memory of its own; of an operator's
output, whose gradient may be written over another; and the same function of the latter by other
operators.
"""

import os
import sys

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

import mxnet as mx
import numpy as np


def prelu(x, slopes):
    return mx.sym.LeakyReLU(x, gamma=slopes, act_type="prelu")


def others(x, slopes):
    return mx.sym.relu(x) - mx.sym.broadcast_mul(
        mx.sym.reshape(slopes, shape=(1, -1, 1, 1)), mx.sym.relu(-x)
    )


def gradient_of_slopes(function, values):
    """The gradient of a sum of the outputs."""
    symbol = mx.sym.MakeLoss(function(mx.sym.Variable("x"), mx.sym.Variable("slopes", shape=(3,))))
    bound = symbol.simple_bind(mx.cpu(), x=values["x"].shape)
    for name, value in values.items():
        bound.arg_dict[name][:] = mx.nd.array(value)
    bound.forward(is_train=True)
    bound.backward()
    return bound.grad_dict["slopes"].asnumpy()


FUNCTIONS = {
    "of_variable": prelu,
    "of_operator": lambda x, slopes: prelu(x * 1, slopes),
    "by_others": lambda x, slopes: others(x * 1, slopes),
}

if __name__ == "__main__":
    drawn = np.random.RandomState(0).standard_normal((2, 3, 4, 4)).astype("float32")
    given = {"x": drawn, "slopes": np.array([0.1, 0.2, 0.3], "float32")}
    np.savez(
        sys.argv[1],
        **given,
        **{name: gradient_of_slopes(function, given) for name, function in FUNCTIONS.items()},
    )
