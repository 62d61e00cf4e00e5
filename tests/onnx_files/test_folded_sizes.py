"""``reshape`` and values that operators compute from constants: folded on request, and known where sizes are freed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import graphshare as gs
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.ir.onnx import Tensor
from graphshare.verification import measured_types
from tests.onnx_files.test_sizes import write
from tests.processes import done, graphshare

# A Reshape by sizes of its input, angles of places as a transformer has them (a weight by their
# number), and a large table.
CHAINS = """g (float[n,s,6] x) => (float[u,v] y, float[n,s,6] z, float[m] t, int64[3] sizes)
<int64 i0 = {0}, int64 i1 = {1}, int64[1] a0 = {0}, int64[1] six = {6}, float rate = {0.3}, int64[1] minus = {-1},
 int64[1] many = {20000}> {
    sizes = Shape(x) n = Gather(sizes, i0) s = Gather(sizes, i1)
    rows = Mul(n, s) row = Unsqueeze(rows, a0) target = Concat<axis = 0>(row, six) y = Reshape(x, target)
    places = Range(i0, s, i1) real = Cast<to = 1>(places) turned = Mul(real, rate) angles = Sin(turned)
    one = Unsqueeze(i1, a0) column = Concat<axis = 0>(minus, one) angle = Reshape(angles, column) z = Add(x, angle)
    large = ConstantOfShape(many) sum = ReduceSum<keepdims = 0>(x) t = Add(large, sum) }"""


def list_operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("ir", [3, 8])
def test_chains_of_sizes_are_constants(ir: int, tmp_path: Path) -> None:
    path = write(tmp_path, CHAINS, ir=ir)
    fixed, folded = tmp_path / "fixed10.onnx", tmp_path / "folded.onnx"
    gs.save(gs.reshape(path, shapes={"x": (2, 10, 6)}), fixed)
    model = gs.reshape(path, shapes={"x": (2, 10, 6)}, fold=True)
    gs.save(model, folded)
    onnx.checker.check_model(str(folded), full_check=True)
    assert list_operators(fixed) == list_operators(path)  # without the request nothing is folded
    left = [op for op in list_operators(folded) if op != "Constant"]
    # An output and what is too large stay.
    assert sorted(left) == sorted(
        ["Shape", "Reshape", "Add", "ConstantOfShape", "ReduceSum", "Add"]
    )
    assert [*model.params] == [*gs.load(folded).params] == ["many", "angle"]
    assert model.report.folded == len(list_operators(path)) - len(left)
    assert (model.report.proof.fixed, model.notes) == (4, ())
    assert [value.name for value in onnx.load(folded).graph.input if value.name == "x"] == ["x"]
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 10, 6)).astype("f4")}
    before, after = (gs.run(file, feeds=feeds).outputs for file in (fixed, folded))
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_constants_that_no_operator_reads_are_left_out(tmp_path: Path) -> None:
    gs.save(
        gs.reshape(write(tmp_path, CHAINS), shapes={"x": (2, 10, 6)}, fold=True),
        tmp_path / "folded.onnx",
    )
    model = onnx.load(tmp_path / "folded.onnx").graph
    read = {name for node in model.node for name in node.input}
    assert {tensor.name for tensor in model.initializer} <= read
    (angle,) = [
        numpy_helper.to_array(tensor) for tensor in model.initializer if tensor.name == "angle"
    ]
    np.testing.assert_allclose(angle[:, 0], np.sin(np.arange(10) * 0.3), rtol=1e-6)


def test_the_proof_finds_a_wrong_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = measured_types.measure_constants

    def spoil(*args: object) -> object:
        values = measure(*args)  # type: ignore[arg-type]
        zeros = {
            node: Tensor("float32", x.shape, bytes(len(x.content)))
            for node, x in values.items()
            if x.dtype == "float32"
        }
        return {**values, **zeros}

    monkeypatch.setattr(measured_types, "measure_constants", spoil)
    with pytest.raises(DisprovedError, match="computes different bits at the fixed sizes: z"):
        gs.reshape(write(tmp_path, CHAINS), shapes={"x": (2, 10, 6)}, fold=True)


def test_the_command_counts_what_is_folded_and_refuses_to_fold_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, CHAINS)
    run = done(
        graphshare("reshape", path, "--shape", "x=2,10,6", "--fold", "-o", tmp_path / "out.onnx")
    )
    assert "folded: 12 operators whose values the fixed sizes decide\n" in run.stderr.decode()
    with pytest.raises(
        UsageError, match="`fold` folds what fixed sizes decide, and none gets fixed"
    ):
        gs.reshape(tmp_path / "out.onnx", shapes={"x": ("k", 10, 6)}, fold=True)
    assert gs.reshape(path, shapes={"x": (2, "s", 6)}, fold=True, verify=False).report.folded >= 0


@pytest.mark.parametrize("side", [0, 1])
def test_integers_that_a_file_computes_from_constants_are_known_when_sizes_are_freed(
    side: int, tmp_path: Path
) -> None:
    """The pads of a layer that PyTorch exports: of the last axis, put in ONNX's order by operators;
    a batch that is padded.
    """
    pads = "0, 4" if side else "4, 0"
    text = f"""g (float[1,12] x) => (float[u,v] y)
    <int64[2] pads = {{{pads}}}, int64[1] two = {{2}}, int64[2] pairs = {{-1, 2}}, int64[1] minus = {{-1}},
     int64[1] start = {{-1}}, int64[1] end = {{-9223372036854775807}}, int64[1] axis = {{0}}> {{
        rest = ConstantOfShape<value = int64[1] {{0}}>(two) all = Concat<axis = 0>(pads, rest)
        rows = Reshape(all, pairs) turned = Slice(rows, start, end, axis, minus)
        order = Transpose<perm = [1, 0]>(turned) flat = Reshape(order, minus) y = Pad<mode = "edge">(x, flat) }}"""
    model = gs.reshape(write(tmp_path, text), dynamic_batch=True)
    assert model.report.inputs == {"x": ("batch", 12)}
    assert (model.report.proof.batches, model.report.proof.of_largest) == ((2, 3, 5), 0.0)
    wrong = text.replace("all = Concat<axis = 0>(pads, rest)", "all = Concat<axis = 0>(rest, pads)")
    with pytest.raises(RefusedError, match="Pad changes the number of samples"):
        gs.reshape(write(tmp_path, wrong), dynamic_batch=True)
