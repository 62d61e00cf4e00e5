"""What MXNet 1.9.1 answers to generated graphs. Runs under a Python that has it.

    ORACLE_PYTHON tests/generate/mxnet_process.py

Each line of standard input names a file of pickled graphs and, after a tab, one for the answers;
each line of standard output says that they are done. An answer is a pickled ``(number, question,
answer)``. A process of its own works through the list; a question that ends it, or that takes more
than ``SECONDS``, has the answer ``{"crash": status}``, and the next process begins with the next
graph. A graph that is ``alone`` has a process of its own: oneDNN's cache would mix its joined
layers up with those of others.
"""

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

SECONDS = 10
MEMORY = 8 << 30
ERRORS = (mx.MXNetError, ValueError, TypeError, IndexError, AssertionError)


def record(array):
    array = array.asnumpy()
    return array.dtype.name, array.shape, array.tobytes()


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except ERRORS as error:
        return {"error": str(error)[:2000]}


def read_values(model):
    arrays = {
        name: np.frombuffer(data, dtype).reshape(shape)
        for name, (dtype, shape, data) in model["feeds"].items()
    }
    return {name: mx.nd.array(x, dtype=x.dtype) for name, x in arrays.items()}


def split(symbol, values):
    return (
        {name: values[name] for name in symbol.list_arguments()},
        {name: values[name].copy() for name in symbol.list_auxiliary_states()},
    )


def infer(symbol, model):
    shapes = symbol.infer_shape_partial(**{k: tuple(v) for k, v in model["shapes"].items()})
    types = symbol.infer_type(**{k: np.dtype(v).type for k, v in model["types"].items()})
    names = symbol.list_arguments() + symbol.list_outputs()
    kinds = [None] * len(names) if types[0] is None else list(types[0]) + list(types[1])
    return {
        "names": names,
        "shapes": list(shapes[0]) + list(shapes[1]),
        "types": [None if t is None else np.dtype(t).name for t in kinds],
    }


def forward_all(symbol, model):
    """Every inner value: by node name and output number, from a run whose heads they all are."""
    inner = symbol.get_internals()
    arguments, states = split(inner, read_values(model))
    bound = inner.bind(mx.cpu(), args=arguments, aux_states=states, grad_req="null")
    return [record(out) for out in bound.forward(is_train=False)]


def forward(symbol, model):
    arguments, states = split(symbol, read_values(model))
    bound = symbol.bind(mx.cpu(), args=arguments, aux_states=states, grad_req="null")
    return [record(out) for out in bound.forward(is_train=False)]


def backward(symbol, model):
    arguments, states = split(symbol, read_values(model))
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
    stream = np.random.RandomState(model["seed"] % 2**32)
    bound.backward([mx.nd.array(stream.standard_normal(r.shape), dtype=r.dtype) for r in results])
    mx.nd.waitall()
    return {n: record(v) for n, v in kept.items()}


ANSWERS = {"infer": infer, "all": forward_all, "forward": forward, "backward": backward}


def answers(model):
    with mx.util.np_shape(model["np_shape"]):
        symbol = attempt(mx.sym.load_json, model["json"])
        if isinstance(symbol, dict):
            yield "load", symbol
            return
        for name in model["asked"]:
            yield name, attempt(ANSWERS[name], symbol, model)


def work(models, begin, out):
    """Answer from ``begin`` on; a graph that is to be alone begins a process and ends it."""
    with open(out, "ab") as file:
        for number in range(begin, len(models)):
            if models[number]["alone"] and number > begin:
                return
            signal.alarm(SECONDS)
            for name, answer in answers(models[number]):
                pickle.dump((number, name, answer), file, 4)
                file.flush()
            pickle.dump((number, "end", None), file, 4)
            file.flush()
            if models[number]["alone"]:
                return


def last_answer(out):
    """The number of the last graph with an answer, and the question; -1 where there is none."""
    number, name = -1, "end"
    with open(out, "rb") as file:
        while True:
            try:
                number, name, _ = pickle.load(file)
            except EOFError:
                return number, name


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        answer_file(*line.rstrip("\n").split("\t"))
        print("done", flush=True)


def answer_file(source, out):
    with open(source, "rb") as file:
        models = pickle.load(file)
    open(out, "wb").close()
    begin = 0
    while begin < len(models):
        child = os.fork()
        if not child:
            work(models, begin, out)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        number, name = last_answer(out)
        if status == 0:
            begin = number + 1
            continue
        crashed = number + 1 if name == "end" else number
        asked = models[crashed]["asked"]
        question = asked[0] if name == "end" else asked[asked.index(name) + 1]
        with open(out, "ab") as file:
            pickle.dump((crashed, question, {"crash": status}), file, 4)
            pickle.dump((crashed, "end", None), file, 4)
        begin = crashed + 1


if __name__ == "__main__":
    main()
