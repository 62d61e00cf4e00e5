"""The tools of ``rewrites.py``, as their documentation calls them, and the check of verdicts. Runs
under a Python with them.

python benchmarks/rewrite_side.py rewrite TOOL SOURCE OUT
python benchmarks/rewrite_side.py exchange SOURCE OUT
python benchmarks/rewrite_side.py measure SOURCE OUT

``measure`` shares no code with graphshare: it draws inputs of its own, computes both models in onnxruntime without
optimizations, and prints, as JSON, how far their outputs are apart.
"""

import json
import sys
from collections import Counter
from graphlib import TopologicalSorter

import numpy as np
import onnx

SIZES = (8, 64, 224, 512)
SEEDS = (0, 1, 2)
KNOWN = {"sr": 16000}


def run_onnxslim(source, out):
    """onnxslim."""
    import onnxslim

    onnxslim.slim(source, out)


def run_onnxsim(source, out):
    """onnxsim."""
    import onnxsim

    model, holds = onnxsim.simplify(onnx.load(source))
    if not holds:
        sys.exit("onnxsim's own check does not hold")
    onnx.save(model, out)


def run_onnxoptimizer(source, out):
    """onnxoptimizer with its default passes."""
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), out)


def run_onnxruntime(source, out, level):
    """onnxruntime, which writes the model that it would compute."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
    )
    options.optimized_model_filepath = out
    options.log_severity_level = 3
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_converter(source, out, more=0, opset=0):
    """onnx's version converter, to ``opset`` or ``more`` than the model has."""
    from onnx import version_converter

    model = onnx.load(source)
    present = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    onnx.save(version_converter.convert_version(model, opset or present + more), out)


def run_float16(source, out):
    """onnxconverter-common's conversion to float16, inputs and outputs too."""
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(source)), out)


TOOLS = {
    "onnxslim": run_onnxslim,
    "onnxsim": run_onnxsim,
    "onnxoptimizer": run_onnxoptimizer,
    "onnxruntime basic": lambda source, out: run_onnxruntime(source, out, "BASIC"),
    "onnxruntime extended": lambda source, out: run_onnxruntime(source, out, "EXTENDED"),
    "opset + 2": lambda source, out: run_converter(source, out, more=2),
    "opset 21": lambda source, out: run_converter(source, out, opset=21),
    "float16": run_float16,
}


def list_graphs(nodes):
    """Yield the graphs within nodes, at any depth."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield graph
                yield from list_graphs(graph.node)


def list_reads(node):
    """Return the names that a node and the graphs within it read."""
    graphs = list(list_graphs([node]))
    nodes = [node, *(inner for graph in graphs for inner in graph.node)]
    return [name for each in nodes for name in each.input] + [
        value.name for graph in graphs for value in graph.output
    ]


def exchange(source, out):
    """Write the same function: inner values and nodes have each other's names, nodes have another order, at random."""
    rng = np.random.default_rng(0)
    model = onnx.load(source, load_external_data=False)
    graph, nodes, within = model.graph, list(model.graph.node), list(list_graphs(model.graph.node))
    kept = {
        value.name
        for part in (graph, *within)
        for value in (*part.input, *part.output, *part.initializer)
    }
    kept |= {"", *(name for part in within for node in part.node for name in node.output)}
    inner = [name for node in nodes for name in node.output if name not in kept]
    names = dict(zip(inner, rng.permutation(inner).tolist(), strict=True))
    makers = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    reads = {
        at: {makers[name] for name in list_reads(node) if name in makers}
        for at, node in enumerate(nodes)
    }
    counts = Counter(node.name for node in nodes)
    # onnxruntime lets Constants alone share a name
    unique = [node for node in nodes if counts[node.name] == 1]
    for node, name in zip(
        unique, rng.permutation([node.name for node in unique]).tolist(), strict=True
    ):
        node.name = name
    for part in (graph, *within):
        for node in part.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in part.value_info:
            value.name = names.get(value.name, value.name)
        for note in part.quantization_annotation:
            note.tensor_name = names.get(note.tensor_name, note.tensor_name)
    sorter, ready, order = TopologicalSorter(reads), [], []
    sorter.prepare()
    while sorter.is_active():
        ready += sorter.get_ready()
        order.append(ready.pop(rng.integers(len(ready))))
        sorter.done(order[-1])
    del graph.node[:]
    graph.node.extend(nodes[at] for at in order)
    onnx.save(model, out)


def open_session(path, level="ORT_DISABLE_ALL"):
    """Return a session that computes the file as it is, unless another ``level`` is named."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def draw_inputs(session, size, seed):
    """Return inputs whose open sizes are ``size``, except for one sample."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in session.get_inputs():
        shape = [
            length if isinstance(length, int) and length > 0 else size for length in value.shape
        ]
        samples = next(
            (axis for axis, length in enumerate(value.shape) if length != shape[axis]), None
        )
        if samples is not None and len(shape) > 1 and 1 not in value.shape[:samples]:
            shape[samples] = 1
        dtype = np.dtype(
            {"float": "f4", "float16": "f2", "double": "f8"}.get(value.type[7:-1], value.type[7:-1])
        )
        if value.name in KNOWN:
            feeds[value.name] = np.full(shape, KNOWN[value.name], dtype)
        elif dtype.kind == "f":
            # Equal in either dtype
            feeds[value.name] = rng.standard_normal(shape).astype(np.float16).astype(dtype)
        else:
            feeds[value.name] = (
                rng.integers(0, 4, shape) if dtype.itemsize > 1 else np.ones(shape)
            ).astype(dtype)
    return feeds


def find_size(session):
    """Return the first size that the model computes, and raise its last error where it computes none."""
    for size in SIZES:
        try:
            session.run(None, draw_inputs(session, size, 0))
            return size
        except Exception as error:  # onnxruntime's own errors share no base class
            last = error
    raise last


def run_as(session, feeds):
    """Return the outputs of a session by name, on ``feeds`` in the dtypes of its inputs."""
    names = {"tensor(float16)": np.float16, "tensor(float)": np.float32}
    inputs = {value.name: value for value in session.get_inputs()}
    cast = {
        name: feeds[name].astype(names.get(value.type, feeds[name].dtype))
        for name, value in inputs.items()
    }
    outputs = session.run(None, cast)
    return {
        value.name: np.asarray(output)
        for value, output in zip(session.get_outputs(), outputs, strict=True)
    }


def measure_outputs(one, other):
    """Return how far apart outputs are, relative to the range of ``one``; infinity where shapes or NaN differ."""
    worst = 0.0
    if len(one) != len(other):
        return float("inf")
    values = [other[name] for name in one] if one.keys() == other.keys() else list(other.values())
    for a, b in zip(one.values(), values, strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
            return float("inf")
        same = (a == b) | np.isnan(a)
        if not same.all():
            finite = a[np.isfinite(a)]
            span = float(np.ptp(finite)) if finite.size else 0.0
            worst = max(
                worst,
                float(np.abs(a - b)[~same].max())
                / (span or float(np.abs(finite).max(initial=0)) or 1.0),
            )
    return worst


def measure(source, out):
    """Print how far the outputs are apart at most, and how far those of the original move with optimizations."""
    original, rewrite = open_session(source), open_session(out)
    optimized = open_session(source, "ORT_ENABLE_ALL")
    size = find_size(original)
    apart, spread = [], []
    for seed in SEEDS:
        # Some tools leave inputs of weights
        feeds = {**draw_inputs(rewrite, size, seed), **draw_inputs(original, size, seed)}
        outputs = run_as(original, feeds)
        apart.append(measure_outputs(outputs, run_as(rewrite, feeds)))
        spread.append(measure_outputs(outputs, run_as(optimized, feeds)))
    print(json.dumps({"apart": max(apart), "spread": max(spread)}))


if __name__ == "__main__":
    if sys.argv[1] == "rewrite":
        TOOLS[sys.argv[2]](*sys.argv[3:])
        open_session(sys.argv[4])  # a file that does not load is no rewrite
    elif sys.argv[1] == "exchange":
        exchange(*sys.argv[2:])
        open_session(sys.argv[3])
    else:
        measure(*sys.argv[2:])
