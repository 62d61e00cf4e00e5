"""``fold`` of ONNX models: they compute the same, the checker accepts them, and what cannot be folded is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphshare as gs
from graphshare import confined_process, resources
from graphshare.errors import DisprovedError
from graphshare.execute.backends import session_computation
from tests.processes import graphshare, refused

FORMALS = ("scale", "B", "mean", "var")
CHANNELS = 8


class Net:
    """A model under construction: nodes, and arrays that are initializers or Constants."""

    def __init__(self, dtype: str = "f4", *, constants: bool = False) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.random = np.random.default_rng(3)
        self.dtype, self.constants = dtype, constants

    def array(self, name: str, *shape: int) -> str:
        low = 0.5 if name.endswith(("var", "scale")) else -1.0
        self.arrays[name] = self.random.uniform(low, 1.5, shape).astype(self.dtype)
        return name

    def op(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], f"node of {output}", **attrs))
        return output

    def norm(self, source: str, name: str = "bn", channels: int = CHANNELS, **attrs: Any) -> str:
        inputs = [self.array(f"{name}.{formal}", channels) for formal in FORMALS]
        return self.op(
            "BatchNormalization", [source, *inputs], f"{name}_out", **{"epsilon": 1e-3, **attrs}
        )

    def model(
        self,
        data: Sequence[int | str],
        *outputs: str,
        opset: int = 15,
        ir: int = 8,
        inputs: Sequence[str] = (),
        infos: Sequence[onnx.ValueInfoProto] = (),
        checked: bool = True,
    ) -> onnx.ModelProto:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        tensors = [numpy_helper.from_array(array, name) for name, array in self.arrays.items()]
        nodes, held = self.nodes, tensors
        if self.constants:
            nodes = [
                helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors
            ] + nodes
            held = []
        ends = [helper.make_tensor_value_info("x", code, data)]
        ends += [
            helper.make_tensor_value_info(name, code, self.arrays[name].shape) for name in inputs
        ]
        heads = [helper.make_tensor_value_info(name, code, None) for name in outputs]
        graph = helper.make_graph(nodes, "net", ends, heads, held, value_info=infos)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir
        )
        model = onnx.shape_inference.infer_shapes(model)
        del model.graph.value_info[:]
        model.graph.value_info.extend(infos)
        if checked:
            onnx.checker.check_model(model, full_check=True)
        return model


def run(path: Path, data: Sequence[int], dtype: str = "f4") -> dict[str, np.ndarray]:
    """Compute a file as it is written: without the fusions of onnxruntime, which folds as well."""
    feeds = {"x": np.random.default_rng(1).standard_normal(data).astype(dtype)}
    if dtype == "f8":  # onnxruntime has no such convolution
        reference = ReferenceEvaluator(str(path))
        return dict(zip(reference.output_names, reference.run(None, feeds), strict=True))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def fold(
    model: onnx.ModelProto, folder: Path, **options: Any
) -> tuple[gs.Checkpoint, onnx.ModelProto]:
    """Fold a model, save it and read it back; the checker accepts it."""
    onnx.save(model, folder / "model.onnx")
    folded = gs.fold(folder / "model.onnx", **options)
    gs.save(folded, folder / "folded.onnx")
    onnx.checker.check_model(str(folder / "folded.onnx"), full_check=True)
    return folded, onnx.load(folder / "folded.onnx")


def assert_same(folder: Path, data: Sequence[int], dtype: str = "f4", limit: float = 1e-5) -> None:
    before, after = (run(folder / name, data, dtype) for name in ("model.onnx", "folded.onnx"))
    assert list(before) == list(after)
    for name, wanted in before.items():
        assert after[name].dtype == wanted.dtype
        assert np.abs(after[name].astype("f8") - wanted).max() <= limit * np.abs(wanted).max()


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


def reasons(folded: gs.Checkpoint) -> dict[str, str]:
    return {one.norm: one.reason for one in folded.report.left}


LAYERS: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "Conv": ("Conv", (8, 3, 3, 2), (2, 3, 5, 6), {}),
    "Conv, strides and pads": (
        "Conv",
        (8, 3, 3, 3),
        (1, 3, 7, 6),
        {"strides": [2, 2], "pads": [1, 1, 0, 1], "dilations": [1, 2]},
    ),
    "Conv in groups": ("Conv", (8, 2, 3, 2), (2, 4, 5, 6), {"group": 2}),
    "Conv, depthwise": ("Conv", (8, 1, 3, 3), (2, 8, 5, 6), {"group": 8}),
    "Conv, one axis": ("Conv", (8, 3, 3), (2, 3, 5), {}),
    "Conv, three axes": ("Conv", (8, 2, 1, 2, 2), (1, 2, 3, 3, 3), {}),
    "ConvTranspose": ("ConvTranspose", (3, 8, 3, 2), (2, 3, 5, 6), {"strides": [2, 2]}),
    "ConvTranspose in groups": ("ConvTranspose", (6, 4, 3, 2), (2, 6, 5, 6), {"group": 2}),
    "ConvTranspose, one axis": (
        "ConvTranspose",
        (3, 8, 3),
        (2, 3, 5),
        {"output_padding": [1], "strides": [2]},
    ),
    "Gemm": ("Gemm", (6, 8), (3, 6), {}),
    "Gemm, transB": ("Gemm", (8, 6), (3, 6), {"transB": 1}),
    "Gemm, square": ("Gemm", (8, 8), (3, 8), {"transB": 1}),
    "Gemm, transA": ("Gemm", (6, 8), (6, 3), {"transA": 1}),
    "Gemm, alpha and beta": ("Gemm", (6, 8), (3, 6), {"alpha": 0.5, "beta": -0.25}),
}


@pytest.mark.parametrize("where", ["initializers", "Constants"])
@pytest.mark.parametrize("bias", ["no bias", "bias"])
@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_takes_in_the_norm_after_it(
    case: str, bias: str, where: str, tmp_path: Path
) -> None:
    op, weight, data, attrs = LAYERS[case]
    net = Net(constants=where == "Constants")
    inputs = [
        "x",
        net.array("w.weight", *weight),
        *([net.array("w.bias", CHANNELS)] if bias == "bias" else []),
    ]
    net.op("Tanh", [net.norm(net.op(op, inputs, "h", **attrs))], "y")
    folded, written = fold(net.model(data, "y", "bn_out"), tmp_path)
    assert operators(written) == [op, "Tanh"]
    assert list(written.graph.node[-2].output) == ["bn_out"]
    assert sorted(folded.params) == ["w.bias", "w.weight"]
    assert folded.report.count == 1
    assert not folded.report.left
    assert (folded.report.proof.outputs, folded.report.proof.layers) == (2, 1)
    assert_same(tmp_path, data)
    onnx_bytes = (tmp_path / "folded.onnx").read_bytes()
    gs.save(gs.load(tmp_path / "folded.onnx"), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == onnx_bytes
    assert gs.compare(
        tmp_path / "folded.onnx",
        tmp_path / "model.onnx",
        tolerance=gs.Tolerance(atol=1e-5, rtol=1e-5),
    )


@pytest.mark.parametrize(("dtype", "limit"), [("f2", 1e-2), ("f4", 1e-5), ("f8", 1e-12)])
def test_dtypes_stay(dtype: str, limit: float, tmp_path: Path) -> None:
    net = Net(dtype)
    net.norm(net.op("Conv", ["x", net.array("w", 8, 3, 3, 3)], "h"))
    folded, _ = fold(net.model((2, 3, 5, 6), "bn_out"), tmp_path)
    assert {str(array.dtype) for array in folded.params.values()} == {np.dtype(dtype).name}
    assert sorted(folded.params) == ["w", "w_bias"]
    assert_same(tmp_path, (2, 3, 5, 6), dtype, limit)


@pytest.mark.parametrize(
    ("opset", "ir", "attrs"),
    [(7, 3, {"momentum": 0.5}), (9, 4, {}), (14, 7, {"training_mode": 0}), (21, 10, {})],
)
def test_operator_sets(opset: int, ir: int, attrs: dict[str, Any], tmp_path: Path) -> None:
    net = Net()
    net.norm(net.op("Conv", ["x", net.array("w", 8, 3, 3, 3)], "h"), **attrs)
    held = list(net.arrays) if ir < 4 else []
    folded, written = fold(
        net.model((2, 3, 5, 6), "bn_out", opset=opset, ir=ir, inputs=held), tmp_path
    )
    assert [value.name for value in written.graph.input] == [
        "x",
        *(["w", "w_bias"] if ir < 4 else []),
    ]
    assert folded.report.proof is not None
    assert_same(tmp_path, (2, 3, 5, 6))


def test_what_is_not_folded_keeps_its_bytes(tmp_path: Path) -> None:
    """The other initializers, nodes, texts and types are as they were; the output of the norm keeps its type."""
    net = Net()
    net.op("Conv", ["x", net.array("first", 3, 3, 1, 1)], "c")
    net.norm(net.op("Conv", ["c", net.array("w", 8, 3, 3, 3)], "h"))
    net.op("Mul", ["bn_out", net.array("factor", 8, 1, 1)], "y")
    infos = [
        helper.make_tensor_value_info(
            "bn_out", TensorProto.FLOAT, ["n", 8, None, None], "the norm's"
        )
    ]
    model = net.model(("n", 3, 5, 6), "y", infos=infos)
    model.doc_string = "a text"
    _, written = fold(model, tmp_path)
    tensors = {tensor.name: tensor.SerializeToString() for tensor in model.graph.initializer}
    kept = {tensor.name: tensor.SerializeToString() for tensor in written.graph.initializer}
    assert list(kept) == ["first", "w", "factor", "w_bias"]
    assert all(kept[name] == tensors[name] for name in ("first", "factor"))
    assert [
        node.SerializeToString()
        for node in written.graph.node
        if node.op_type != "Conv" or node.output[0] == "c"
    ] == [node.SerializeToString() for node in (model.graph.node[0], model.graph.node[3])]
    assert list(written.graph.value_info) == infos
    assert (written.doc_string, written.graph.node[1].name) == ("a text", "node of h")
    assert list(written.graph.output) == list(model.graph.output)
    assert_same(tmp_path, (1, 3, 5, 6))


def test_external_data(tmp_path: Path) -> None:
    """Weights in another file are read there; what is folded is in the model, and all else stays where it is."""
    net = Net()
    net.op("Conv", ["x", net.array("first", 3, 3, 1, 1)], "c")
    net.norm(net.op("Conv", ["c", net.array("w", 8, 3, 3, 3)], "h"))
    model = net.model((1, 3, 5, 6), "bn_out")
    onnx.save(
        model,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="data.bin",
        size_threshold=0,
    )
    gs.save(gs.fold(tmp_path / "model.onnx"), tmp_path / "folded.onnx")
    onnx.checker.check_model(str(tmp_path / "folded.onnx"), full_check=True)
    written = onnx.load(tmp_path / "folded.onnx", load_external_data=False)
    assert {tensor.name for tensor in written.graph.initializer if tensor.data_location} == {
        "first"
    }
    assert_same(tmp_path, (1, 3, 5, 6))


def test_a_shared_weight_is_folded_once_or_not_at_all(tmp_path: Path) -> None:
    """A tied siamese has one weight before and after; where the norms differ, both stay."""
    net = Net()
    net.norm(net.op("Conv", ["x", net.array("w", 8, 3, 3, 3)], "h"))
    onnx.save(net.model((1, 3, 5, 6), "bn_out"), tmp_path / "one.onnx")
    siamese = gs.duplicate(tmp_path / "one.onnx", "b_", mode="tie")
    folded = gs.fold(siamese)
    assert [(one.weight, one.norms) for one in folded.report.folded] == [
        ("w", ("bn_out", "b_bn_out"))
    ]
    assert sorted(folded.params) == ["w", "w_bias"]
    assert gs.verify(folded, prefixes="b_")
    other = gs.fold(_with_another_norm(tmp_path))
    assert set(reasons(other)) == {"bn_out", "other_out"}
    assert all(
        "shares its weight 'w'" in reason and "differ" in reason
        for reason in reasons(other).values()
    )


def _with_another_norm(folder: Path) -> Path:
    net = Net()
    net.norm(net.op("Conv", ["x", net.array("w", 8, 3, 3, 3)], "h"))
    net.norm(net.op("Conv", ["x", "w"], "h2"), "other")
    onnx.save(net.model((1, 3, 5, 6), "bn_out", "other_out"), folder / "two.onnx")
    return folder / "two.onnx"


def _norm_in_a_body(net: Net) -> tuple[str, ...]:
    net.op("Conv", ["x", net.array("w", 8, 3, 3, 3)], "h")
    inputs = [net.array(f"bn.{formal}", 8) for formal in FORMALS]
    branches = [
        helper.make_graph(
            [node],
            node.output[0],
            [],
            [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)],
        )
        for node in (
            helper.make_node("BatchNormalization", ["h", *inputs], ["inner"]),
            helper.make_node("Identity", ["h"], ["plain"]),
        )
    ]
    net.arrays["flag"] = np.array(True)
    net.nodes.append(
        helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1])
    )
    return ("y",)


def _conv(net: Net, output: str = "h") -> str:
    return net.op("Conv", ["x", net.array("w", 8, 3, 3, 3)], output)


def _other_use(net: Net) -> tuple[str, ...]:
    net.norm(_conv(net))
    net.op("Relu", ["h"], "y")
    return "bn_out", "y"


def _head(net: Net) -> tuple[str, ...]:
    net.norm(_conv(net))
    return "bn_out", "h"


def _after_relu(net: Net) -> tuple[str, ...]:
    net.norm(net.op("Relu", [_conv(net)], "r"))
    return ("bn_out",)


def _weight_elsewhere(net: Net) -> tuple[str, ...]:
    net.norm(_conv(net))
    net.op("Tanh", ["w"], "y")
    return "bn_out", "y"


def _computed(net: Net) -> tuple[str, ...]:
    net.op("Tanh", [net.array("raw", 8, 3, 3, 3)], "w")
    net.norm(net.op("Conv", ["x", "w"], "h"))
    return ("bn_out",)


def _small(net: Net) -> tuple[str, ...]:
    net.norm(net.op("Conv", ["x", net.array("w", 4, 3, 3, 3)], "h"), channels=4)
    for name in [name for name in net.arrays if name != "w"]:
        net.nodes.insert(
            0,
            helper.make_node(
                "Constant", [], [name], value=numpy_helper.from_array(net.arrays.pop(name))
            ),
        )
    return ("bn_out",)


def _zero_beta(net: Net) -> tuple[str, ...]:
    net.op("Flatten", ["x"], "f")
    net.norm(net.op("Gemm", ["f", net.array("w", 90, 8), net.array("c", 8)], "h", beta=0.0))
    return ("bn_out",)


def _broadcast(net: Net) -> tuple[str, ...]:
    net.op("Flatten", ["x"], "f")
    net.norm(net.op("Gemm", ["f", net.array("w", 90, 8), net.array("c", 1, 8)], "h"))
    return ("bn_out",)


def _infinite(net: Net) -> tuple[str, ...]:
    net.norm(_conv(net), epsilon=0.0)
    net.arrays["bn.var"][3] = 0
    return ("bn_out",)


LEFT = {
    "a body": (_norm_in_a_body, "inner", "is in a body of 'y'"),
    "another use": (_other_use, "bn_out", "is not the only use of the output of 'h'"),
    "an output": (_head, "bn_out", "is not the only use of the output of 'h'"),
    "another operator": (_after_relu, "bn_out", "is after Relu"),
    "a weight with another use": (
        _weight_elsewhere,
        "bn_out",
        "is after a layer whose weight 'w' is also used by 'y'",
    ),
    "a weight that is computed": (_computed, "bn_out", "depends on 'w', which is computed"),
    "small constants": (
        _small,
        "bn_out",
        "depends on 'bn.scale', a constant that is too small for a weight",
    ),
    "beta 0": (_zero_beta, "bn_out", "is after a layer that multiplies its bias by 0"),
    "a bias of two axes": (_broadcast, "bn_out", "the bias before it has shape (1,8)"),
    "a variance of 0": (_infinite, "bn_out", "infinite or NaN in float32"),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_is_named_and_stays_as_it_is(case: str, tmp_path: Path) -> None:
    build, norm, reason = LEFT[case]
    net = Net()
    model = net.model((1, 3, 5, 6), *build(net), checked=False)
    folded, _ = fold(model, tmp_path)
    assert list(reasons(folded)) == [norm]
    assert reason in reasons(folded)[norm]
    assert "no BatchNorm was folded" in folded.notes
    assert (tmp_path / "folded.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


@pytest.mark.parametrize(
    ("opset", "outputs", "attrs"),
    [(15, 3, {"training_mode": 1}), (9, 5, {}), (6, 1, {}), (1, 1, {})],
)
def test_a_norm_in_training_mode_stays(
    opset: int, outputs: int, attrs: dict[str, Any], tmp_path: Path
) -> None:
    net = Net()
    net.norm(_conv(net), **attrs)
    net.nodes[-1].output.extend([f"more {i}" for i in range(1, outputs)])
    onnx.save(
        net.model((1, 3, 5, 6), "bn_out", opset=opset, checked=False), tmp_path / "model.onnx"
    )
    folded = gs.fold(tmp_path / "model.onnx")
    assert "is in training mode" in reasons(folded)["bn_out"]


def test_inference_of_old_operator_sets_is_folded_without_a_proof(tmp_path: Path) -> None:
    """onnxruntime computes operator sets from 7 on."""
    net = Net()
    net.norm(_conv(net), is_test=1)
    onnx.save(
        net.model((1, 3, 5, 6), "bn_out", opset=6, ir=3, inputs=list(net.arrays), checked=False),
        tmp_path / "model.onnx",
    )
    folded = gs.fold(tmp_path / "model.onnx")
    assert folded.report.count == 1
    assert folded.report.proof is None
    assert any(note.startswith("not proved") for note in folded.notes)


def test_defaults_of_inputs_are_not_folded(tmp_path: Path) -> None:
    """From IR version 4 on a caller may give other values to initializers that are inputs."""
    net = Net()
    net.norm(_conv(net))
    folded, _ = fold(net.model((1, 3, 5, 6), "bn_out", inputs=["w"]), tmp_path)
    assert reasons(folded) == {
        "bn_out": "depends on 'w', an input, to which the caller of the model gives a value"
    }


@pytest.mark.parametrize("name", ["w", "w_bias"])
def test_a_wrong_fold_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof is not blind, not even where the output is: one filter that is off by one part in a thousand shows."""
    import graphshare.rewrite.folding.weights as weights

    def fold_wrongly(*arguments: Any) -> tuple[Any, Any]:
        arrays = dict(zip(("w", "w_bias"), correct(*arguments), strict=True))
        arrays[name] = arrays[name].copy()
        arrays[name][0] *= 1.001
        return arrays["w"], arrays["w_bias"]

    correct = weights.fold_scaling
    monkeypatch.setattr(weights, "fold_scaling", fold_wrongly)
    net = Net()
    net.norm(_conv(net))
    net.arrays["zero"] = np.zeros(1, np.float32)
    net.op("Mul", ["bn_out", "zero"], "y")
    onnx.save(net.model((1, 3, 5, 6), "y"), tmp_path / "model.onnx")
    with pytest.raises(
        DisprovedError, match=f"bn_out: (weight|bias) '{name}' is .* steps of float32"
    ):
        gs.fold(tmp_path / "model.onnx")
    assert gs.fold(tmp_path / "model.onnx", verify=False).report.proof is None
    allowed = gs.fold(tmp_path / "model.onnx", tolerance=0.01)
    assert allowed.report.proof.of_largest > 1e-5
    (note,) = allowed.notes
    assert note.startswith("more than rounding, which `tolerance` allows: bn_out: ")
    assert f"'{name}'" in note
    assert allowed.report.by_weights is None


def test_the_command(tmp_path: Path) -> None:
    net = Net()
    net.norm(_conv(net))
    net.norm(net.op("Relu", ["bn_out"], "r"), "left")
    onnx.save(net.model((1, 3, 5, 6), "left_out"), tmp_path / "model.onnx")
    done = graphshare("fold", "model.onnx", "-o", "folded.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = done.stderr.decode()
    assert (
        "folded: 1 BatchNorm into 1 weight (bn_out)\nnot folded: left_out (is after Relu)\nproved by weights, for every"
        in text
    )
    assert "\nproved: 1 output and 1 layer" in text
    disproved = graphshare(
        "fold", "model.onnx", "-o", "none.onnx", "--tolerance", "0", cwd=tmp_path
    )
    assert (disproved.returncode, (tmp_path / "none.onnx").exists()) == (1, False)
    assert "--tolerance" in disproved.stderr.decode()
    words = ("compare", "folded.onnx", "model.onnx", "--atol", "1e-5")
    assert graphshare(*words, cwd=tmp_path).returncode == 0


# Limits of memory and time, of the proof and of what is folded.


def squares(folder: Path, side: int) -> Path:
    """A model to fold whose last value but one has ``side`` times ``side`` numbers."""
    net = Net()
    net.norm(_conv(net))
    net.op("ReduceSum", ["bn_out"], "sum", keepdims=0)
    net.arrays["side"] = np.array([side, side])
    net.op("ReduceSum", [net.op("Expand", ["sum", "side"], "big")], "y", keepdims=0)
    onnx.save(net.model((1, 3, 5, 6), "y"), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.skipif(
    sys.platform != "linux", reason="a process keeps a limit of memory on Linux alone"
)
def test_a_proof_that_takes_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    squares(tmp_path, 40_000)
    words = ("fold", "model.onnx", "-o", "folded.onnx", "--max-memory", "500M")
    refused(
        graphshare(*words, cwd=tmp_path),
        "takes more memory in onnxruntime than the limit of 500.0 MB",
        "--max-memory SIZE",
    )
    assert os.listdir(tmp_path) == ["model.onnx"]
    squares(tmp_path, 400)
    done = graphshare(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"proved: 1 output" in done.stderr


def test_a_proof_beyond_what_is_available_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No limit was chosen, so that the fold is not refused."""
    monkeypatch.setattr(confined_process, "can_limit_process", lambda: False)
    monkeypatch.setattr(session_computation, "can_limit_process", lambda: False)
    monkeypatch.setattr(resources, "available_memory", lambda: 10**9)
    (*_, note) = gs.fold(squares(tmp_path, 40_000)).notes
    assert (
        "proved by weights alone, as the models were not computed: the outputs of Expand (40000,40000) take 6.4 GB"
        in note
    )


def test_where_a_process_has_no_limit_a_proof_is_refused_by_inferred_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined_process, "can_limit_process", lambda: False)
    monkeypatch.setattr(session_computation, "can_limit_process", lambda: False)
    with pytest.raises(
        gs.RefusedError,
        match=r"outputs of Expand \(40000,40000\) take 6\.4 GB.* the limit is 500\.0 MB",
    ):
        gs.fold(squares(tmp_path, 40_000), max_memory="500M")
    assert gs.fold(squares(tmp_path, 400), max_memory="500M").report.proof.outputs == 1


def test_a_proof_ends_at_its_time_limit(tmp_path: Path) -> None:
    net = Net()
    net.norm(_conv(net))
    net.arrays |= {"times": np.array(1 << 40), "yes": np.array(True)}
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Sin", ["s"], ["t"])],
        *(
            "body",
            [value("i", 7, []), value("c", 9, []), value("s", 1, None)],
            [value("d", 9, []), value("t", 1, None)],
        ),
    )
    net.op("Loop", ["times", "yes", "bn_out"], "y", body=body)
    onnx.save(net.model((1, 3, 5, 6), "y", checked=False), tmp_path / "model.onnx")
    words = ("fold", "model.onnx", "-o", "folded.onnx", "--time-limit", "1")
    refused(
        graphshare(*words, cwd=tmp_path),
        "the time limit of 1 s has passed; nothing was written",
        "--time-limit S",
    )
    assert os.listdir(tmp_path) == ["model.onnx"]
    with pytest.raises(gs.RefusedError, match="the time limit of 1 s has passed"):
        gs.fold(tmp_path / "model.onnx", time_limit=1)
