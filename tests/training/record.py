"""Trains the nets of ``nets.py`` with MXNet's Module and keeps what came of it in ``recorded/steps.npz``.

ORACLE_PYTHON tests/training/record.py [CORPUS [OUT.npz]]    all nets, in summaries; zoo symbols where they are missing
ORACLE_PYTHON tests/training/record.py CORPUS NET FOLDER DTYPE    every array of one net after one step and after ten

It runs on one thread, for sums over parts round differently. So do processors: oneDNN and OpenBLAS
choose their kernels by what they can do. Without variables that say otherwise they compute as for a
processor with AVX2.
"""

import gzip
import json
import os
import sys
from pathlib import Path

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DNNL_MAX_CPU_ISA", "AVX2")
os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")

import mxnet as mx
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.provenance import provenance  # noqa: E402
from tests.training.nets import (  # noqa: E402
    NETS,
    SGD,
    STEPS,
    first_value,
    inputs,
    net,
    summary,
    symbol_text,
    without_prelu,
)

ZOO = {"resnet18_v1": "resnet18_v1", "mobilenetv2_0.25": "mobilenet_v2_0_25"}


def zoo_symbols():
    """Writes the graphs that come from Gluon's model zoo."""
    for name, function in ZOO.items():
        path = HERE / "recorded" / (name + ".json.gz")
        if not path.exists():
            block = getattr(mx.gluon.model_zoo.vision, function)(prefix="net_")
            text = block(mx.sym.Variable("data")).tojson()
            path.write_bytes(gzip.compress(text.encode(), mtime=0))


def module_of(name, corpus, dtype="float32"):
    """A Module with its first values, and these."""
    text = symbol_text(name, corpus, dtype)
    symbol = mx.sym.load_json(without_prelu(text) if net(name).get("spelled_out") else text)
    fed = inputs(name)
    data, labels = net(name)["data"], net(name)["labels"]
    shapes = {key: value.shape for key, value in fed.items()}
    argument_shapes, _, state_shapes = symbol.infer_shape(**shapes)
    arguments = dict(zip(symbol.list_arguments(), argument_shapes))
    states = dict(zip(symbol.list_auxiliary_states(), state_shapes))
    first = {n: first_value(name, n, s, False) for n, s in arguments.items() if n not in fed}
    first_states = {n: first_value(name, n, s, True) for n, s in states.items()}
    module = mx.mod.Module(symbol, data_names=list(data), label_names=list(labels))
    described = lambda names: [mx.io.DataDesc(n, shapes[n], dtype) for n in names]  # noqa: E731
    module.bind(described(data), described(labels))
    as_arrays = lambda values: {n: mx.nd.array(v, dtype=dtype) for n, v in values.items()}  # noqa: E731
    module.init_params(arg_params=as_arrays(first), aux_params=as_arrays(first_states))
    module.init_optimizer(optimizer="sgd", optimizer_params=tuple(SGD.items()))
    arrays = as_arrays(fed)
    batch = mx.io.DataBatch([arrays[n] for n in data], [arrays[n] for n in labels])
    return module, batch, {**first, **first_states}


def trained(module, batch):
    """All parameters and states after one step, and after ten."""
    done = 0
    for steps in STEPS:
        for _ in range(steps - done):
            module.forward_backward(batch)
            module.update()
        done = steps
        mx.nd.waitall()
        arguments, states = module.get_params()
        yield steps, {name: value.asnumpy() for name, value in {**arguments, **states}.items()}


def record(corpus, out):
    """All nets: a summary of every array after one step and after ten."""
    kept = {"provenance": np.array(json.dumps(provenance()))}
    for name in NETS:
        module, batch, first = module_of(name, corpus)
        for steps, values in trained(module, batch):
            kept[f"{name}/{steps}"] = np.stack(
                [summary(key, first[key], values[key]) for key in sorted(first)]
            )
        kept[name] = np.array(json.dumps({"sgd": SGD, "arrays": sorted(first)}))
        print(name, len(first), "arrays")
    np.savez_compressed(str(out), **kept)


def record_whole(corpus, name, folder, dtype):
    """One net: ``FOLDER/STEPS.npz``, with every array."""
    module, batch, _ = module_of(name, corpus, dtype)
    for steps, values in trained(module, batch):
        np.savez(str(Path(folder) / f"{steps}.npz"), **values)


if __name__ == "__main__":
    zoo_symbols()
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2] / "shared" / "corpus"
    if len(sys.argv) > 3:
        record_whole(where, *sys.argv[2:])
    else:
        record(where, sys.argv[2] if len(sys.argv) > 2 else HERE / "recorded" / "steps.npz")
