"""MXNet 1.9.1 as a process that answers questions: a line of JSON in, a line of JSON out. Runs
under a Python that has it.

Every question has an ``ask`` (a function of ``ANSWERS``). Its symbol comes from ``path``, ``text``
or ``build`` (see :func:`siamese`); ``np_shape`` says under which shape semantics. What goes wrong
in MXNet comes back as ``{"error": ...}``.
"""

import hashlib
import json
import os
import sys
from unittest import mock

import mxnet as mx
import numpy as np


def siamese(build):
    """data -> Convolution -> MakeLoss for each of ``prefixes``, written with MXNet's own API.

    ``tied``: one weight node, ``weight``, for all branches; ``shared``: one node of that name as the input of all.
    """
    tied = mx.sym.Variable(build["tied"]) if build.get("tied") else None
    shared = mx.sym.Variable(build["shared"]) if build.get("shared") else None
    heads = []
    for prefix in build["prefixes"]:
        data = shared if shared is not None else mx.sym.Variable(prefix + "data")
        weight = tied if tied is not None else mx.sym.Variable(prefix + "conv_weight")
        conv = mx.sym.Convolution(
            data, weight=weight, kernel=(3, 3), num_filter=1, no_bias=True, name=prefix + "conv"
        )
        heads.append(mx.sym.MakeLoss(conv, name=prefix + "loss"))
    return mx.sym.Group(heads) if len(heads) > 1 else heads[0]


def symbol_of(question):
    if "build" in question:
        return siamese(question["build"])
    return (
        mx.sym.load_json(question["text"]) if "text" in question else mx.sym.load(question["path"])
    )


def value(array):
    """An array that numpy can hash, whatever MXNet stores."""
    return (
        array.asnumpy()
        if np.dtype(array.dtype).names is None
        else mx.nd.amp_cast(array, dtype="float32").asnumpy()
    )


def said(array):
    return [list(array.shape), array.dtype.name, hashlib.sha256(array.tobytes()).hexdigest()]


def lists(question):
    """The four lists; ``internal`` asks about one of ``get_internals()`` instead."""
    symbol = symbol_of(question)
    if "internal" in question:
        symbol = symbol.get_internals()[question["internal"]]
    return {
        "arguments": symbol.list_arguments(),
        "auxiliary_states": symbol.list_auxiliary_states(),
        "outputs": symbol.list_outputs(),
        "inputs": symbol.list_inputs(),
    }


def tojson(question):
    return {
        "text": symbol_of(question).tojson(remove_amp_cast=not question.get("keep_amp_cast", False))
    }


def attributes(question):
    return symbol_of(question).attr_dict()


def save(question):
    """Writes the symbol to ``out``, and ``values`` (name to nested list) as its parameters to ``params_out``."""
    symbol_of(question).save(question["out"])
    if "params_out" in question:
        mx.nd.save(
            question["params_out"],
            {"arg:" + k: mx.nd.array(v) for k, v in question["values"].items()},
        )
    return {}


def nd_load(question):
    loaded = mx.nd.load(question["path"])
    items = loaded.items() if isinstance(loaded, dict) else enumerate(loaded)
    return {str(name): [array.stype, *said(value(array))] for name, array in items}


def forward(question):
    """The outputs of one run, is_train=False; ``values`` names .npz and .params files that hold the inputs by name.

    ``keep`` is an .npz file for the outputs themselves. With ``internals`` every operator's outputs are there.
    """
    symbol = symbol_of(question)
    if question.get("internals"):
        inner, variables = symbol.get_internals(), set(symbol.list_inputs())
        symbol = mx.sym.Group(
            [inner[i] for i, name in enumerate(inner.list_outputs()) if name not in variables]
        )
    found = {}
    for path in question["values"]:
        if path.endswith(".npz"):
            arrays = np.load(path)
            pairs = {k: mx.nd.array(arrays[k], dtype=arrays[k].dtype) for k in arrays.files}
        else:
            pairs = mx.nd.load(path) or {}  # an empty file is an empty list
        found.update(
            {
                name.split(":", 1)[-1] if name[:4] in ("arg:", "aux:") else name: a
                for name, a in pairs.items()
            }
        )
    arguments = [found[name] for name in symbol.list_arguments()]
    states = [found[name].copy() for name in symbol.list_auxiliary_states()]
    # Its fusion gives wrong inner outputs
    backend = {"MXNET_SUBGRAPH_BACKEND": "NONE"} if question.get("internals") else {}
    with mock.patch.dict(os.environ, backend):
        bound = symbol.bind(mx.cpu(), args=arguments, aux_states=states, grad_req="null")
    outputs = bound.forward(is_train=False)
    names = symbol.list_outputs()
    if "keep" in question:
        np.savez(question["keep"], **{names[i]: array.asnumpy() for i, array in enumerate(outputs)})
    return {"outputs": [said(value(a)) for a in outputs], "names": names}


def module(question):
    """Module's outputs before and after its ``steps``, one by default, and the parameters afterwards.

    ``feed`` are the data (name to nested list), ``params`` a parameter file or ``values`` the parameters themselves,
    ``optimizer`` the settings of SGD that are not Module's defaults, ``heads`` the gradients of all outputs.
    """
    symbol = symbol_of(question)
    data = {name: mx.nd.array(question["feed"][name]) for name in question["data_names"]}
    labels = {name: mx.nd.array(question["feed"][name]) for name in question["label_names"]}
    trained = mx.mod.Module(symbol, data_names=list(data), label_names=list(labels) or None)
    trained.bind(
        [(n, a.shape) for n, a in data.items()], [(n, a.shape) for n, a in labels.items()] or None
    )
    if "params" in question:
        loaded = mx.nd.load(question["params"])
    else:
        loaded = {"arg:" + name: mx.nd.array(v) for name, v in question["values"].items()}
    arguments = {name[4:]: array for name, array in loaded.items() if name.startswith("arg:")}
    states = {name[4:]: array for name, array in loaded.items() if name.startswith("aux:")}
    trained.init_params(arg_params=arguments, aux_params=states, allow_missing=False)
    trained.init_optimizer(
        optimizer_params=tuple({"learning_rate": 0.01, **question.get("optimizer", {})}.items())
    )
    heads = [mx.nd.array(head) for head in question["heads"]] if "heads" in question else None
    batch = mx.io.DataBatch(list(data.values()), list(labels.values()) or None)
    trained.forward(batch, is_train=False)
    before = [a.asnumpy().ravel().tolist() for a in trained.get_outputs()]
    for _ in range(question.get("steps", 1)):
        trained.forward(batch, is_train=True)
        trained.backward(heads)
        trained.update()
    mx.nd.waitall()  # reading a state that two operators write is not ordered after both
    arguments, states = trained.get_params()  # before the pass forward, which may overwrite some
    values = {
        name: array.asnumpy().ravel().tolist()
        for name, array in sorted({**arguments, **states}.items())
    }
    trained.forward(batch, is_train=False)
    after = [a.asnumpy().ravel().tolist() for a in trained.get_outputs()]
    return {"before": before, "after": after, "values": values, "outputs": symbol.list_outputs()}


def author(question):
    """Runs ``code``, which finds ``mx``, MXNet's operators as ``op`` and inputs as ``var``, and sets ``result``."""
    names = {
        "mx": mx,
        "op": mx.sym,
        "var": mx.sym.var,
        "constant": mx.sym.full,
        "Prefix": mx.name.Prefix,
    }
    with mx.name.NameManager():
        exec(question["code"], names)
    result = names["result"]
    return (
        {"text": mx.sym.Group(result).tojson()}
        if isinstance(result[0], mx.sym.Symbol)
        else {"result": result}
    )


def first_values(question):
    """What Module.init_params gives the parameters of ``path``; ``shapes`` are those of data and labels."""
    symbol = symbol_of(question)
    names = list(question["shapes"])
    made = mx.mod.Module(symbol, data_names=names, label_names=None)
    made.bind([(name, tuple(shape)) for name, shape in question["shapes"].items()])
    made.init_params()
    arguments, states = made.get_params()
    return {
        name: array.asnumpy().ravel().tolist() for name, array in {**arguments, **states}.items()
    }


ANSWERS = {
    f.__name__: f
    for f in (lists, tojson, attributes, save, nd_load, forward, module, author, first_values)
}


def main():
    for line in sys.stdin:
        question = json.loads(line)
        try:
            with mx.util.np_shape(bool(question.get("np_shape"))):
                answer = ANSWERS[question["ask"]](question)
        except (mx.MXNetError, ValueError, KeyError, RuntimeError, UnicodeDecodeError) as error:
            answer = {"error": str(error) or type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
