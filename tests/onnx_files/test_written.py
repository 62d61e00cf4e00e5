"""Every file that a command writes passes ONNX's full check where its source does, and ``check``
says the same of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.reports.model import Level
from tests.onnx_files import made
from tests.onnx_files.running import Session
from tests.onnx_files.test_check import make, tensor, value
from tests.surroundings import ROOT, mark_everyday

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def numbers(*shape: int, dtype: type = np.float32, name: str = "") -> TensorProto:
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape) * 9
    return numpy_helper.from_array(drawn.astype(dtype), name)


def whole(*values: int, name: str = "") -> TensorProto:
    return numpy_helper.from_array(
        np.array(values if len(values) > 1 else values[0], np.int64), name
    )


def _model(
    nodes: list[NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    tensors: tuple[TensorProto, ...] = (),
) -> ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def constants() -> ModelProto:
    """Weights and a shape in Constants."""
    nodes = [
        helper.make_node("Constant", [], ["k"], "first constant", value=numbers(4, 4)),
        helper.make_node("MatMul", ["x", "k"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Constant", [], ["k2"], value=numbers(4, 4)),
        helper.make_node("MatMul", ["b", "k2"], ["y"], "second"),
        helper.make_node("Constant", [], ["sizes"], value=whole(-1, 2, 2)),
        helper.make_node("Reshape", ["y", "sizes"], ["z"], "reshape"),
    ]
    return _model(nodes, [value("x", ("N", 4))], [value("y", ("N", 4)), value("z", ("N", 2, 2))])


def _branch(output: str, label: str, weights: TensorProto, read: str = "h") -> GraphProto:
    steps = [
        helper.make_node("Constant", [], ["kernel"], value=weights),
        helper.make_node("MatMul", [read, "kernel"], ["product"], label),
        helper.make_node("Add", ["product", "bias"], [output], "sum"),
    ]
    return helper.make_graph(steps, output, [], [value(output, None)], [numbers(3, 3, name="bias")])


def bodies() -> ModelProto:
    """Branches with equal weights under equal names."""
    branches = {
        "then_branch": _branch("one", "same", numbers(3, 3)),
        "else_branch": _branch("two", "same", numbers(3, 3)),
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], "relu"),
        helper.make_node("If", ["flag"], ["o"], "if", **branches),
        helper.make_node("Neg", ["o"], ["y"], "neg"),
    ]
    return _model(nodes, [value("x", (3, 3)), value("flag", (), BOOL)], [value("y", (3, 3))])


def nested() -> ModelProto:
    """An If in a Loop, whose branches have weights, one of which nothing reads, and capture one."""
    branches = {
        key: _branch(key[:4], "product", numbers(3, 3), "state")
        for key in ("then_branch", "else_branch")
    }
    for branch in branches.values():
        branch.node[1].input[1] = "outer"
    steps = [
        helper.make_node("Identity", ["going"], ["on"], "identity"),
        helper.make_node("If", ["going"], ["next"], "if", **branches),
    ]
    ends = [value("i", (), INT), value("going", (), BOOL), value("state", (3, 3))]
    body = helper.make_graph(steps, "body", ends, [value("on", (), BOOL), value("next", (3, 3))])
    nodes = [
        helper.make_node("Loop", ["count", "", "x"], ["last"], "loop", body=body),
        helper.make_node("Relu", ["last"], ["y"], "relu"),
    ]
    return _model(
        nodes,
        [value("x", (3, 3))],
        [value("y", (3, 3))],
        (whole(2, name="count"), numbers(3, 3, name="outer")),
    )


def scan() -> ModelProto:
    """A Scan with a weight in its body."""
    steps = [
        helper.make_node("Add", ["state", "element"], ["next"], "add"),
        helper.make_node("Mul", ["next", "scale"], ["row"], "mul"),
    ]
    ends = [
        [value(name, (8,)) for name in names] for names in (("state", "element"), ("next", "row"))
    ]
    body = helper.make_graph(steps, "body", *ends, [numbers(8, name="scale")])
    nodes = [
        helper.make_node(
            "Scan", ["first", "x"], ["last", "rows"], "scan", body=body, num_scan_inputs=1
        )
    ]
    return _model(
        nodes,
        [value("x", ("T", 8))],
        [value("last", (8,)), value("rows", ("T", 8))],
        (numbers(8, name="first"),),
    )


def sequence() -> ModelProto:
    """Values that are not tensors."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "w"], ["both"], "construct"),
        helper.make_node("SequenceAt", ["both", "i"], ["y"], "at"),
        helper.make_node("ConcatFromSequence", ["both"], ["joint"], "concat", axis=0),
    ]
    return _model(
        nodes,
        [value("x"), value("i", (), INT)],
        [value("y"), value("joint", (4, 2))],
        (numbers(2, 2, name="w"),),
    )


def several() -> ModelProto:
    """Operators of several outputs, outputs that are weights, and absent outputs."""
    nodes = [
        helper.make_node("Split", ["x"], ["p", "q"], "split", axis=1),
        helper.make_node("Add", ["p", "w"], ["a"], "add"),
        helper.make_node("TopK", ["a", "k"], ["best", "where"], "top"),
        helper.make_node("Identity", ["w"], ["copy"], "identity"),
        helper.make_node("Dropout", ["q"], ["y", ""], "dropout"),
    ]
    outputs = [value("y", ("N", 2)), value("best", ("N", 1)), value("where", ("N", 1), INT), value("copy", (1, 2)),
               value("w", (1, 2))]  # fmt: skip
    return _model(
        nodes,
        [value("x", ("N", 4))],
        outputs,
        (numbers(1, 2, name="w"), numpy_helper.from_array(np.int64([1]), "k")),
    )


def quantized() -> ModelProto:
    """A weight of int8."""
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["d"], "dequantize"),
        helper.make_node("MatMul", ["x", "d"], ["y"], "product"),
    ]
    zero = numpy_helper.from_array(np.int8(0), "zero")
    tensors = (numbers(8, 8, dtype=np.int8, name="w"), tensor("scale", 0.1, ()), zero)
    return _model(nodes, [value("x", ("N", 8))], [value("y", ("N", 8))], tensors)


def normalized() -> ModelProto:
    """BatchNormalization after a Conv, a ConvTranspose and a Gemm, one weight in a Constant."""
    scales = tuple(
        tensor(f"{kind}{i}", 0.5 + i, (3,))
        for i in range(3)
        for kind in ("scale", "shift", "mean", "variance")
    )
    norms = [[f"{kind}{i}" for kind in ("scale", "shift", "mean", "variance")] for i in range(3)]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
        helper.make_node("BatchNormalization", ["c", *norms[0]], ["cn"], "norm of conv"),
        helper.make_node("Constant", [], ["k"], "kernel", value=numbers(3, 3, 2, 2)),
        helper.make_node("ConvTranspose", ["cn", "k"], ["t"], "transpose"),
        helper.make_node("BatchNormalization", ["t", *norms[1]], ["tn"], "norm of transpose"),
        helper.make_node("GlobalAveragePool", ["tn"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "g"], ["d"], "gemm", transB=1),
        helper.make_node("BatchNormalization", ["d", *norms[2]], ["y"], "norm of gemm"),
    ]
    tensors = (
        numbers(3, 2, 3, 3, name="w"),
        numbers(3, name="b"),
        numbers(3, 3, name="g"),
        *scales,
    )
    return _model(nodes, [value("x", ("N", 2, 8, 8))], [value("y", ("N", 3))], tensors)


SOURCES: dict[str, Callable[[], ModelProto]] = {
    **made.MADE,
    **{
        each.__name__: each
        for each in (
            make,
            constants,
            bodies,
            nested,
            scan,
            sequence,
            several,
            quantized,
            normalized,
        )
    },
}
Write = Callable[[], gs.Checkpoint]


def list_outputs(path: Path) -> list[str]:
    model = onnx.load(str(path), load_external_data=False)
    return [f"={declared.name}" for declared in model.graph.output]


def list_rewrites(path: Path) -> Iterator[tuple[str, Write]]:
    """Yield what writes a model anew, and its name."""
    outputs = list_outputs(path)
    prefixed = [f"=b_{name[1:]}" for name in outputs]
    for mode in ("copy", "tie"):
        yield mode, lambda mode=mode: gs.duplicate(path, ["b_", "c_"], mode=mode)
        yield (
            f"{mode}, common inputs",
            lambda mode=mode: gs.duplicate(path, "b_", mode=mode, share_inputs="*"),
        )
        yield (
            f"{mode}, dropped",
            lambda mode=mode: gs.duplicate(path, ["b_", "c_"], mode=mode, drop_original=True),
        )
        yield (
            f"part of {mode}",
            lambda mode=mode: gs.extract(gs.duplicate(path, "b_", mode=mode), prefixed),
        )
        yield (
            f"{mode} renamed",
            lambda mode=mode: gs.rename(gs.duplicate(path, "b_", mode=mode), prefix="n_"),
        )
        yield (
            f"{mode} untied",
            lambda mode=mode: gs.share(gs.duplicate(path, "b_", mode=mode), untie="*"),
        )
    yield "rename", lambda: gs.rename(path, prefix="n_")
    yield "rename operators", lambda: gs.rename(path, prefix="n_", only="ops")
    yield "untie", lambda: gs.share(path, untie="*")
    yield "fold", lambda: gs.fold(path)
    yield "fold of tie", lambda: gs.fold(gs.duplicate(path, "b_", mode="tie"))
    for found in gs.detect(path):
        yield (
            f"alias {found.names}",
            lambda found=found: gs.share(
                path, aliases=dict.fromkeys(found.names[1:], found.names[0])
            ),
        )
    yield "group", lambda: gs.group([path, path], prefixes=["", "g_"])
    yield (
        "group, common inputs",
        lambda: gs.group([path, path], prefixes=["", "g_"], share_inputs="*"),
    )
    yield (
        "group, equal",
        lambda: gs.group([path, gs.duplicate(path, "b_", drop_original=True)], share_inputs=()),
    )
    for node in gs.load(path).graph.nodes:
        if node.op:
            yield f"extract {node.name}", lambda node=node: gs.extract(path, f"={node.name}")
            yield (
                f"cut at {node.name}",
                lambda node=node: gs.extract(path, outputs, cuts=f"={node.name}"),
            )


REFUSALS = ("nothing would be tied", "matches no parameter that several", "is not needed by any target", "is itself a target",
            "needs no cut", "`share_inputs` '*' matches no input")  # fmt: skip
"""What a rewrite may say that has nothing to do on a model."""


def is_sound(path: Path) -> bool:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception:  # errors of the checker, of inference and of protobuf
        return False
    return True


def require_sound(path: Path, what: str, *, loads: bool = True) -> None:
    """Fail where ONNX's full check, onnxruntime or ``check`` finds a fault in a file."""
    onnx.checker.check_model(str(path), full_check=True)
    if loads:
        Session(path.read_bytes(), str(path.parent))
    assert [
        finding.message for finding in gs.check(path).findings if finding.level is Level.ERROR
    ] == [], what


@pytest.mark.parametrize("name", mark_everyday(SOURCES, 4))
def test_every_rewrite_of_a_sound_model_is_sound(name: str, tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    path.write_bytes(SOURCES[name]().SerializeToString())
    (tmp_path / "w.bin").write_bytes(np.arange(16, dtype=np.float32).tobytes())
    loads = name != "kinds"  # its operators are unknown to onnxruntime
    require_sound(path, "the source", loads=loads)
    count = 0
    for what, write in list_rewrites(path):
        try:
            model = write()
        except gs.RefusedError as error:
            if any(reason in str(error) for reason in REFUSALS):
                continue
            raise
        gs.save(model, out)
        require_sound(out, what, loads=loads)
        in_memory = [
            finding.code for finding in gs.check(model).findings if finding.level is Level.ERROR
        ]
        assert in_memory == [], what
        count += 1
    assert count > 12


def test_every_pair_of_models_is_grouped_to_a_sound_one(tmp_path: Path) -> None:
    paths = []
    for name in ("dense", "functions", "branches", "make", "bodies", "nested"):
        paths.append(tmp_path / f"{name}.onnx")
        paths[-1].write_bytes(SOURCES[name]().SerializeToString())
    for left in paths:
        for right in paths:
            gs.save(gs.group([left, right], prefixes=["l_", "r_"]), tmp_path / "out.onnx")
            require_sound(tmp_path / "out.onnx", f"{left.stem} and {right.stem}")


def chain(inputs: str, outputs: str, first: str, second: str) -> ModelProto:
    """Two nodes of these names."""
    nodes = [
        helper.make_node("Constant", [], [f"{outputs}k"], f"{first} weight", value=numbers(3, 3)),
        helper.make_node("MatMul", [inputs, f"{outputs}k"], [f"{outputs}h"], first),
        helper.make_node("Neg", [f"{outputs}h"], [outputs], second),
    ]
    return _model(nodes, [value(inputs, (3, 3))], [value(outputs, (3, 3))])


def test_no_two_nodes_get_one_name(tmp_path: Path) -> None:
    """Onnxruntime refuses them."""
    left, right, out = tmp_path / "left.onnx", tmp_path / "right.onnx", tmp_path / "out.onnx"
    onnx.save(chain("x", "y", "a", "b_a"), left)
    onnx.save(chain("u", "w", "a", "b_a"), right)
    writes = {
        "group": lambda: gs.group([left, right]),
        "connected": lambda: gs.group([left, right], connect={"y": "u"}),
        "copy": lambda: gs.duplicate(left, "b_"),
        "stripped": lambda: gs.rename(left, strip_prefix="b_"),
    }
    for what, write in writes.items():
        gs.save(write(), out)
        require_sound(out, what)
    gs.save(gs.group([left, right]), out)
    labels = [node.name for node in onnx.load(out).graph.node]
    assert labels == ["a weight", "a", "b_a", "a weight", "a_1", "b_a_1"]
    onnx.save(chain("x", "y", "a", "a"), left)  # two of one name that a file has stay as they are
    gs.save(gs.rename(left, prefix="n_"), out)
    assert [node.name for node in onnx.load(out).graph.node] == ["n_a weight", "n_a", "n_a"]
    assert [finding.code for finding in gs.check(out).findings] == ["GS605"]


LENET, BLOG = ROOT / "fixtures" / "lenet", ROOT / "fixtures" / "blog"
SHAPE = {"data": (1, 1, 28, 28)}


def export_beside(out: Path) -> gs.Checkpoint:
    for suffix in ("-symbol.json", "-0000.params"):
        shutil.copy(f"{LENET}{suffix}", out.parent)
    return gs.export(out.parent / "lenet", out, shapes=SHAPE, weights="params")


EXPORTS: dict[str, Callable[[Path], gs.Checkpoint]] = {
    "plain": lambda out: gs.export(LENET, out, shapes=SHAPE),
    "folded": lambda out: gs.export(LENET, out, shapes=SHAPE, fold=True),
    "external": lambda out: gs.export(LENET, out, shapes=SHAPE, weights="external"),
    "with its weights in the parameter file": export_beside,
    "of float16": lambda out: gs.export(LENET, out, shapes=SHAPE, dtype="float16"),
    "of float16 within": lambda out: gs.export(
        LENET, out, shapes=SHAPE, dtype="float16", keep_io=True
    ),
    "of an open batch": lambda out: gs.export(LENET, out, shapes=SHAPE, dynamic_batch=True),
    "of opset 13": lambda out: gs.export(LENET, out, shapes=SHAPE, opset=13),
    "of opset 21": lambda out: gs.export(LENET, out, shapes=SHAPE, opset=21),
    "copied": lambda out: gs.export(gs.duplicate(LENET, "b_"), out, shapes=SHAPE),
    "tied": lambda out: gs.export(gs.duplicate(LENET, "b_", mode="tie"), out, shapes=SHAPE),
    "as one batch": lambda out: gs.export(
        gs.duplicate(BLOG, "b_", mode="batch"), out, shapes={"*data": (1, 1, 3, 3)}
    ),
}


@pytest.mark.parametrize("name", mark_everyday(EXPORTS, 3))
def test_every_export_and_what_is_made_of_it_is_sound(name: str, tmp_path: Path) -> None:
    path = tmp_path / "lenet.onnx"
    EXPORTS[name](path)
    require_sound(path, name)
    for what, model in {
        "tied": gs.duplicate(path, "t_", mode="tie"),
        "renamed": gs.rename(path, prefix="n_"),
    }.items():
        gs.save(model, tmp_path / "out.onnx")
        require_sound(tmp_path / "out.onnx", what)
