"""Equal weights of bodies tied: one copy at the top, which bodies of If, Loop and Scan capture however deep they are.

Every model applies products with a weight one after the other, each in a place of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import graphshare as gs
from tests.onnx_files.mutable import BOOL, INT64, body, build, declare, node
from tests.processes import done, graphshare, in_process, refused

onnxruntime = pytest.importorskip("onnxruntime")
WEIGHT = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) / 4
DATA = WEIGHT.tobytes()
NESTED = [
    ("If",),
    ("Loop",),
    ("Scan",),
    *itertools.product(("If", "Loop", "Scan"), repeat=2),
    ("Loop", "If", "Scan"),
]
Part = tuple[list[NodeProto], list[TensorProto]]


def multiply(
    name: str, kind: str, where: Sequence[str], x: str, y: str, values: np.ndarray = WEIGHT
) -> Part:
    """Return operators that make ``y`` of ``x`` by a product with a weight ``{name}_w``, in the
    nested bodies ``where``.
    """
    if not where:
        tensor = numpy_helper.from_array(values, f"{name}_w")
        nodes = [node("MatMul", f"{x} {name}_w", f"{name}_z"), node("Tanh", f"{name}_z", y)]
        if kind == "Constant":
            return [node("Constant", "", f"{name}_w", value=tensor), *nodes], []
        return nodes, [tensor]
    around, level = where[0], f"{name}{len(where)}"
    start = x if around == "If" else f"{level}_x"
    nodes, tensors = multiply(name, kind, where[1:], start, f"{level}_y", values)
    state, out = declare(start, ("N", 16)), declare(f"{level}_y", ("N", 16))
    if around == "If":
        other = body(
            f"{level}_no", [node("Neg", x, f"{level}_n")], [], [declare(f"{level}_n", ("N", 16))]
        )
        return [
            node(
                "If",
                "flag",
                y,
                then_branch=body(level, nodes, [], [out], tensors),
                else_branch=other,
            )
        ], []
    if around == "Loop":
        inputs = [declare(f"{level}_i", (), INT64), declare(f"{level}_c", (), BOOL), state]
        nodes = [node("Identity", f"{level}_c", f"{level}_d"), *nodes]
        turn = body(level, nodes, inputs, [declare(f"{level}_d", (), BOOL), out], tensors)
        return [node("Loop", f"count - {x}", y, body=turn)], []
    row, kept = declare(f"{level}_r", ()), declare(f"{level}_s", ())
    turn = body(
        level, [*nodes, node("Neg", f"{level}_r", f"{level}_s")], [state, row], [out, kept], tensors
    )
    return [node("Scan", f"{x} rows", f"{y} {level}_all", body=turn, num_scan_inputs=1)], []


def chain(*parts: tuple[str, Sequence[str]], arrays: Sequence[np.ndarray] = ()) -> ModelProto:
    """Return a model that multiplies by weights ``a_w``, ``b_w`` and so on, each of a kind and in its place."""
    nodes: list[NodeProto] = []
    tensors = [
        numpy_helper.from_array(np.array(2), "count"),
        numpy_helper.from_array(np.zeros(2, np.float32), "rows"),
    ]
    value = "x"
    for name, (kind, where), values in zip(
        "abcd", parts, arrays or [WEIGHT] * len(parts), strict=False
    ):
        part = multiply(name, kind, where, value, f"{name}_out", values)
        nodes, tensors, value = nodes + part[0], tensors + part[1], f"{name}_out"
    return build(
        nodes,
        [declare("x", ("N", 16)), declare("flag", (), BOOL)],
        [declare(value, ("N", 16))],
        tensors,
    )


def write(path: Path, model: ModelProto) -> Path:
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    return path


def list_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and its bodies."""
    yield graph
    for operator in graph.node:
        for attribute in operator.attribute:
            if attribute.HasField("g"):
                yield from list_graphs(attribute.g)


def compute(path: Path, rows: int, *, prepacking: bool, optimize: bool = True) -> list[bytes]:
    """Return the bits of the outputs on either branch of an If."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_prepacking", str(int(not prepacking)))
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
    results = [session.run(None, {"x": x, "flag": np.array(flag)})[0] for flag in (True, False)]
    assert all(np.isfinite(result).all() and np.any(result) for result in results)
    return [result.tobytes() for result in results]


def check_bits(
    source: Path, tied: Path, depth: int, *, optimizations: Sequence[bool] = (True, False)
) -> None:
    """Compare a model with its source. onnxruntime prepacks no weight that stands two bodies or more above its product.

    Without prepacking one row is multiplied in another order, so that such a model has its source's
    bits at one row only where no weight is prepacked.
    """
    for rows, prepacking, optimize in itertools.product((1, 2, 65), (True, False), optimizations):
        if rows == 1 and prepacking and depth > 1:
            continue
        left, right = (
            compute(path, rows, prepacking=prepacking, optimize=optimize) for path in (source, tied)
        )
        assert left == right, (rows, prepacking, optimize)


@pytest.mark.parametrize(
    "kinds", [("initializer", "Constant"), ("Constant", "initializer")], ids="-".join
)
@pytest.mark.parametrize("where", NESTED, ids=" in ".join)
@pytest.mark.parametrize(
    "other", [(), ("If",), ("Scan", "Loop")], ids=lambda where: " in ".join(where) or "top"
)
def test_one_copy_is_at_the_top(
    kinds: tuple[str, str], where: Sequence[str], other: Sequence[str], tmp_path: Path
) -> None:
    source, tied = (
        write(tmp_path / "a.onnx", chain((kinds[0], where), (kinds[1], other))),
        tmp_path / "b.onnx",
    )
    assert source.read_bytes().count(DATA) == 2
    done(in_process("share", source, "--alias", "b_w=a_w", "-o", tied))
    model = onnx.load(tied)
    onnx.checker.check_model(model, full_check=True)
    assert tied.read_bytes().count(DATA) == 1
    assert "a_w" in {tensor.name for tensor in model.graph.initializer}
    _, *bodies = list_graphs(model.graph)
    assert not any(
        graph.initializer or any(one.op_type == "Constant" for one in graph.node)
        for graph in bodies
    )
    check_bits(source, tied, max(len(where), len(other)))


def test_weights_of_one_name_in_bodies_side_by_side(tmp_path: Path) -> None:
    model = chain(("initializer", ("Loop",)), ("initializer", ("Scan",)), ("initializer", ("If",)))
    for graph in list_graphs(model.graph):
        for tensor in graph.initializer:
            tensor.name = "w" if tensor.name.endswith("_w") else tensor.name
        for operator in graph.node:
            operator.input[:] = ["w" if name.endswith("_w") else name for name in operator.input]
    source, tied = write(tmp_path / "a.onnx", model), tmp_path / "b.onnx"
    (group,) = gs.detect(source)
    assert (group.why, group.names) == ("values", ["w", "w_1", "w_2"])
    gs.save(gs.share(source, aliases={"w_1": "w", "w_2": "w"}), tied)
    onnx.checker.check_model(tied, full_check=True)
    assert tied.read_bytes().count(DATA) == 1
    check_bits(source, tied, 1)


@pytest.mark.parametrize("alias", ["flat=a_w", "a_w=flat"])
@pytest.mark.parametrize("where", ["If", "Loop", "Scan"])
def test_another_shape_of_a_bodys_weight(where: str, alias: str, tmp_path: Path) -> None:
    model = chain(("Constant", (where,)))
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT.reshape(8, 32), "flat"))
    model.graph.node.append(node("ReduceMax", "flat", "peak", keepdims=0))
    model.graph.output.append(declare("peak", ()))
    source, tied = write(tmp_path / "a.onnx", model), tmp_path / "b.onnx"
    done(graphshare("share", source, "--alias", alias, "-o", tied))
    onnx.checker.check_model(tied, full_check=True)
    assert tied.read_bytes().count(DATA) == 1
    # Which fold the Reshape, so that the product has a constant again
    check_bits(source, tied, 1, optimizations=[True])


def test_a_weight_of_a_function_stays_there(tmp_path: Path) -> None:
    """A function sees its inputs alone, so that nothing above it can be captured."""
    nodes, _ = multiply("f", "Constant", (), "x", "y")
    imports = [helper.make_opsetid("", 18)]
    model = chain(("initializer", ("Loop",)))
    model.functions.append(helper.make_function("own", "Product", ["x"], ["y"], nodes, imports))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.append(node("Product", "a_out", "result", domain="own"))
    model.graph.output[0].name = "result"
    source = write(tmp_path / "a.onnx", model)
    assert source.read_bytes().count(DATA) == 2
    assert gs.detect(source) == []
    refused(in_process("share", source, "--alias", "f_w=a_w", "-o", tmp_path / "b.onnx"), "f_w")
    assert not (tmp_path / "b.onnx").exists()
