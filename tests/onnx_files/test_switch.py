"""``group --switch``: two models as the branches of one If compute what each computes alone, and come out again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from tests.onnx_files import made, odd
from tests.onnx_files.running import Session, Unrunnable, are_same, run_somehow
from tests.surroundings import ROOT

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make for make in (made.dense, made.old, made.branches, made.loop, made.functions, made.kinds)
} | odd.ODD
WIDTH = 64
RNG = np.random.default_rng(0)
WEIGHT, HEAD = (RNG.standard_normal(shape).astype(np.float32) for shape in ((WIDTH, WIDTH), (WIDTH, 16)))


def write_decoder(path: Path, *, past: bool, weight: str = "weight", head: np.ndarray = HEAD, **changes: Any) -> Path:
    """A decoder step: x times a weight, plus what is cached where there is a cache, times a head."""
    size, dtype = changes.get("size", WIDTH), changes.get("dtype", TensorProto.FLOAT)
    inputs = [helper.make_tensor_value_info("x", dtype, ["batch", size])]
    nodes = [helper.make_node("MatMul", ["x", weight], ["hidden"], "product")]
    if past:
        inputs.append(helper.make_tensor_value_info("past", dtype, ["batch", size]))
        nodes.append(helper.make_node("Add", ["hidden", "past"], ["sum"], "sum"))
    nodes.append(helper.make_node("MatMul", ["sum" if past else "hidden", "head"], ["logits"], "head"))
    nodes += changes.get("nodes", ())
    outputs = [helper.make_tensor_value_info(name, dtype, ["batch", 16]) for name in changes.get("outputs", ("logits",))]
    as_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    weights = [numpy_helper.from_array(WEIGHT.astype(as_dtype), weight), numpy_helper.from_array(head.astype(as_dtype), "head")]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", changes.get("opset", 17))], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def compute(path: Path, **feeds: Any) -> list[np.ndarray]:
    session = Session(path.read_bytes(), str(path.parent), optimize=False)
    return list(session.run(feeds).values())


@pytest.fixture
def decoders(tmp_path: Path) -> tuple[Path, Path]:
    return write_decoder(tmp_path / "past.onnx", past=True), write_decoder(tmp_path / "first.onnx", past=False, weight="kernel")


def test_each_value_of_the_switch_computes_its_model(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    """Weights of equal bytes are one, whatever their names: the file is half of both."""
    out = tmp_path / "both.onnx"
    model = gs.group(decoders, switch="use_cache")
    gs.save(model, out)
    onnx.checker.check_model(str(out), full_check=True)
    assert [value.name for value in onnx.load(out).graph.input] == ["x", "past", "use_cache"]
    assert {tensor.name for tensor in onnx.load(out).graph.initializer} == {"weight", "head"}
    assert out.stat().st_size < 0.55 * sum(path.stat().st_size for path in decoders)
    x, past = (RNG.standard_normal((3, WIDTH)).astype(np.float32) for _ in range(2))
    for value, wanted in ((True, compute(decoders[0], x=x, past=past)), (False, compute(decoders[1], x=x))):
        assert are_same(compute(out, x=x, past=past, use_cache=np.array([value])), wanted)


def test_unequal_weights_of_one_name_stay_two(tmp_path: Path) -> None:
    paths = [write_decoder(tmp_path / f"{i}.onnx", past=False, head=HEAD * (i + 1)) for i in range(2)]
    out = tmp_path / "both.onnx"
    gs.save(gs.group(paths, switch="second"), out)
    assert {tensor.name for tensor in onnx.load(out).graph.initializer} == {"weight", "head", "head_1"}
    x = RNG.standard_normal((2, WIDTH)).astype(np.float32)
    for value, path in ((True, paths[0]), (False, paths[1])):
        assert are_same(compute(out, x=x, second=np.array([value])), compute(path, x=x))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix", ["", "q-"])
def test_models_of_every_kind(name: str, prefix: str, tmp_path: Path) -> None:
    """A model beside itself, and beside itself under other names: bodies, functions, Constants, sequences, sparse tensors."""
    first, second, out = (tmp_path / f"{name}.onnx" for name in ("first", "second", "both"))
    first.write_bytes(MODELS[name]().SerializeToString())
    gs.save(gs.rename(first, prefix=prefix), second) if prefix else second.write_bytes(first.read_bytes())
    if any(head.node.is_variable for head in gs.load(first).graph.heads):
        with pytest.raises(RefusedError, match="is an input or a parameter itself"):
            gs.group([first, second], switch="which")
        return
    gs.save(gs.group([first, second], switch="which"), out)
    try:
        session = Session(first.read_bytes(), optimize=False)
        feeds = run_somehow(session)
    except Unrunnable:
        return
    wanted = [*session.run(feeds).values()]
    both = Session(out.read_bytes(), optimize=False)
    for value in (True, False):
        fed = {**feeds, **{prefix + key: array for key, array in feeds.items()}, "which": np.array([value])}
        assert name == "randomness" or are_same([*both.run(fed).values()], wanted)
    for value, source in ((True, first), (False, second)):
        taken = tmp_path / "taken.onnx"
        gs.save(gs.extract(out, branch=("which", value)), taken)
        report = gs.verify(taken, against=source)
        assert report, report.verdict


def test_the_same_bytes_on_every_run(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    """Nothing depends on the order of a set: hashes of texts differ from process to process."""
    outputs = set()
    for seed in range(4):
        out = tmp_path / f"{seed}.onnx"
        command = [sys.executable, "-m", "graphshare", "group", *map(str, decoders), "--switch", "use_cache", "-o", str(out)]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.add(out.read_bytes())
    assert len(outputs) == 1


def test_data_in_another_file(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    """External data of either model is found from the result."""
    for path in decoders:
        folder = tmp_path / path.stem
        folder.mkdir()
        onnx.save(
            onnx.load(path), folder / path.name, save_as_external_data=True, location=f"{path.stem}.bin", size_threshold=0
        )
    out = tmp_path / "both.onnx"
    gs.save(gs.group([tmp_path / path.stem / path.name for path in decoders], switch="use_cache"), out)
    x = RNG.standard_normal((2, WIDTH)).astype(np.float32)
    assert are_same(compute(out, x=x, past=x, use_cache=np.array([False])), compute(decoders[1], x=x))
    assert are_same(compute(out, x=x, past=x, use_cache=np.array([True])), compute(decoders[0], x=x, past=x))


def test_what_cannot_be_one_model_is_refused_with_all_reasons(tmp_path: Path) -> None:
    """Names, dtypes, sizes, numbers of outputs, opsets: each is named."""
    first = write_decoder(tmp_path / "first.onnx", past=True)
    identity = [helper.make_node("Identity", ["logits"], ["more"])]
    cases: dict[str, tuple[Path, str]] = {
        "is already the name of a value of": (write_decoder(tmp_path / "a.onnx", past=False), "past"),
        "is float32 ('batch'": (write_decoder(tmp_path / "b.onnx", past=False, dtype=TensorProto.DOUBLE), "use_cache"),
        "has 1 output, and": (
            write_decoder(tmp_path / "c.onnx", past=False, nodes=identity, outputs=("logits", "more")),
            "use_cache",
        ),
        "operator set": (write_decoder(tmp_path / "d.onnx", past=False, opset=13), "use_cache"),
        "is an input of": (write_decoder(tmp_path / "e.onnx", past=False, weight="past"), "use_cache"),
    }
    for reason, (second, name) in cases.items():
        with pytest.raises(RefusedError) as error:
            gs.group([first, second], switch=name)
        assert reason.replace("('batch'", "(batch") in str(error.value), (reason, str(error.value))
    with pytest.raises(RefusedError, match="takes two graphs"):
        gs.group([first, first, first], switch="use_cache")
    with pytest.raises(UsageError, match="has no effect") as wrong:
        gs.group([first, first], switch="use_cache", share_inputs=["x"], on_collision="prefix", as_parameter=["weight"])
    assert len(wrong.value.faults) == 3
    with pytest.raises(RefusedError, match="is for ONNX models"):
        gs.group([ROOT / "fixtures" / "lenet", ROOT / "fixtures" / "lenet"], switch="use_cache")


def test_a_branch_that_is_not_there_is_refused(decoders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "both.onnx"
    gs.save(gs.group(decoders, switch="use_cache"), out)
    with pytest.raises(RefusedError, match="not an input that an If switches on") as error:
        gs.extract(out, branch=("x", True))
    assert error.value.faults[0].hint == "inputs that an If switches on: use_cache"
    with pytest.raises(RefusedError, match="no target is given"):
        gs.extract(out)


def test_a_changed_body_is_noticed(decoders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-check compares each body with its graph."""
    from graphshare.errors import SelfCheckError
    from graphshare.rewrite.group import switch

    enclose = switch._enclose

    def exchange(graph: Any, variables: Any) -> Any:
        names = list(variables)
        swapped = {**variables, names[-1]: variables[names[-2]], names[-2]: variables[names[-1]]}
        return enclose(graph, swapped)

    monkeypatch.setattr(switch, "_enclose", exchange)
    with pytest.raises(SelfCheckError):
        gs.group(decoders, switch="use_cache")


def test_a_body_that_returns_a_value_around_it(tmp_path: Path) -> None:
    """The output of an If becomes that very output of the node around it, whatever its index."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (bool flag, float[4] x) => (float[2] y) {
            a, b = Split (x)
            y = If (flag) <then_branch = t () => (float[2] b) {}, else_branch = e () => (float[2] n) { n = Neg (a) }>
        }""")
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    (head,) = gs.extract(path, branch=("flag", True)).graph.heads
    assert (head.node.op, head.index) == ("Split", 1)
