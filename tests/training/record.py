"""Trains the nets of ``nets.py`` with MXNet's Module and keeps what came of it in ``recorded/steps.npz``.

ORACLE_PYTHON tests/training/record.py [CORPUS]        all nets, in summaries; zoo symbols where they are missing
ORACLE_PYTHON tests/training/record.py CORPUS NET OUT.npz STEPS    every array of one net after STEPS steps
"""

import gzip
import json
import os
import sys
from pathlib import Path

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

import mxnet as mx
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.training.nets import NETS, first_value, inputs, settings, summary, symbol_text  # noqa: E402

ZOO = {"resnet18_v1": "resnet18_v1", "mobilenetv2_0.25": "mobilenet_v2_0_25"}


def zoo_symbols():
    """Writes the graphs that come from Gluon's model zoo."""
    for name, function in ZOO.items():
        path = HERE / "recorded" / (name + ".json.gz")
        if not path.exists():
            net = getattr(mx.gluon.model_zoo.vision, function)(prefix="net_")
            text = net(mx.sym.Variable("data")).tojson()
            path.write_bytes(gzip.compress(text.encode(), mtime=0))


def module_of(name, corpus):
    """A Module with its first values, and these."""
    symbol = mx.sym.load_json(symbol_text(name, corpus))
    fed = inputs(name)
    data, labels = NETS[name]["data"], NETS[name]["labels"]
    shapes = {key: value.shape for key, value in fed.items()}
    argument_shapes, _, state_shapes = symbol.infer_shape(**shapes)
    arguments = dict(zip(symbol.list_arguments(), argument_shapes))
    states = dict(zip(symbol.list_auxiliary_states(), state_shapes))
    first = {n: first_value(name, n, s, False) for n, s in arguments.items() if n not in fed}
    first_states = {n: first_value(name, n, s, True) for n, s in states.items()}
    module = mx.mod.Module(symbol, data_names=list(data), label_names=list(labels))
    module.bind([(n, shapes[n]) for n in data], [(n, shapes[n]) for n in labels])
    as_arrays = lambda values: {n: mx.nd.array(v) for n, v in values.items()}  # noqa: E731
    module.init_params(arg_params=as_arrays(first), aux_params=as_arrays(first_states))
    module.init_optimizer(optimizer="sgd", optimizer_params=tuple(settings(name).items()))
    batch = mx.io.DataBatch([mx.nd.array(fed[n]) for n in data], [mx.nd.array(fed[n]) for n in labels])
    return module, batch, {**first, **first_states}


def train(module, batch, steps):
    """All parameters and states after so many steps."""
    for _ in range(steps):
        module.forward_backward(batch)
        module.update()
    mx.nd.waitall()
    arguments, states = module.get_params()
    return {name: value.asnumpy() for name, value in {**arguments, **states}.items()}


def record(corpus):
    """All nets: a summary of every array after one step and after ten."""
    kept = {}
    for name in NETS:
        module, batch, first = module_of(name, corpus)
        done = 0
        for steps in (1, 10):
            values = train(module, batch, steps - done)
            done = steps
            kept[f"{name}/{steps}"] = np.stack([summary(key, first[key], values[key]) for key in sorted(first)])
        kept[name] = np.array(json.dumps({"sgd": settings(name), "arrays": sorted(first)}))
        print(name, len(first), "arrays")
    np.savez_compressed(str(HERE / "recorded" / "steps.npz"), **kept)


if __name__ == "__main__":
    zoo_symbols()
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2] / "shared" / "corpus"
    if len(sys.argv) > 2:
        trained, fed_batch, _ = module_of(sys.argv[2], where)
        np.savez(sys.argv[3], **train(trained, fed_batch, int(sys.argv[4])))
    else:
        record(where)
