"""What MXNet itself says of operators. Runs under a Python with MXNet 1.9.1: questions in, one JSON
line per answer out.

Standard input holds one JSON list of questions. A question is a node (``op``, ``attrs``,
``inputs``: how many variables feed it, ``subgraphs``) with ``version`` (null for a file of the
oldest generation), or ``{"registry": true}``. Answers are flushed one by one, so that the caller
can see which question ended the process.
"""

import ctypes
import json
import sys

import mxnet as mx
from mxnet.base import _LIB, c_str, check_call, mx_uint, py_str


def registry():
    """Every registered name with its canonical name."""
    size, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    copied = [py_str(names[i]) for i in range(size.value)]  # the next call reuses the buffer
    return {name: canonical(name) for name in copied}


def canonical(name):
    handle, real, text, key, kind = ctypes.c_void_p(), *(ctypes.c_char_p() for _ in range(4))
    check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    count = mx_uint()
    lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    refs = [ctypes.byref(item) for item in (real, text, count, *lists, key, kind)]
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *refs))
    return py_str(real.value)


def load(question, head=0):
    """The symbol of a graph that holds the node and its variables."""
    count = question.get("inputs", 0)
    nodes = [{"op": "null", "name": f"v{i}", "inputs": []} for i in range(count)]
    node = {
        "op": question["op"],
        "name": "n",
        "attrs": question.get("attrs", {}),
        "inputs": [[i, 0, 0] for i in range(count)],
    }
    if question.get("subgraphs"):
        node["subgraphs"] = question["subgraphs"]
    graph = {"nodes": [*nodes, node], "arg_nodes": list(range(count)), "heads": [[count, head, 0]]}
    if question.get("version"):
        graph["attrs"] = {"mxnet_version": ["int", question["version"]]}
    # It reads these as they are, not escaped
    text = json.dumps(graph).replace("\\u000b", "\v").replace("\\f", "\f")
    return mx.sym.load_json(text)


def answer(question):
    """Lists, counts and labels of the loaded node, or the error that loading gave."""
    if question.get("registry"):
        return registry()
    try:
        symbol = load(question)
    except mx.MXNetError as error:
        return {"error": str(error)}
    if question.get("accept_only"):
        return {}
    try:
        return facts(question, symbol)
    except mx.MXNetError as error:
        return {"failed": str(error)}


def facts(question, symbol):
    """What can be asked of a loaded symbol."""
    written = json.loads(symbol.tojson(remove_amp_cast=False))
    total = written["node_row_ptr"][-1] - written["node_row_ptr"][-2]
    known = {"inputs": symbol.list_inputs(), "total": total}
    known["attrs"] = written["nodes"][-1].get("attrs", {})
    known["initializers"] = {
        node["name"]: node["attrs"]["__init__"]
        for node in written["nodes"][:-1]
        if "__init__" in node.get("attrs", {})
    }
    known["visible"] = sum(name.startswith("n_") for name in symbol.get_internals().list_outputs())
    if not question.get("version"):
        return known
    known["auxiliary"] = symbol.list_auxiliary_states()
    known["labels"] = [load(question, head).list_outputs()[0] for head in range(total)]
    return known


def main():
    for question in json.load(sys.stdin):
        print(json.dumps(answer(question)), flush=True)


if __name__ == "__main__":
    main()
