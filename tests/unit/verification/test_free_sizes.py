"""The proof of ``reshape``: what it computes and reports, and what each part finds in a model that
was freed wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.analysis.free_sizes import choose_symbols
from graphshare.errors import DisprovedError, Fault, MemoryLimitError, RefusedError
from graphshare.ir.graph import Entry
from graphshare.resources import resource_limits
from graphshare.rewrite.free_sizes import find_batch, find_batch_axes, free_sizes, list_inputs
from graphshare.verification.free_sizes import SizesProof, measure_shapes, prove_sizes

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def load(folder: Path, name: str, text: str) -> gs.Checkpoint:
    path = folder / f"{name}.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), path)
    return gs.load(path)


def prove(
    folder: Path,
    fixed: str,
    free: str,
    sizes: Any = None,
    tolerance: float | None = None,
    like: str = "",
) -> SizesProof:
    """Prove that the model ``free`` computes what ``fixed`` does whose ``sizes``, else whose batch, were freed.

    ``like`` has its inputs and outputs, where it is refused itself.
    """
    source = load(folder, "fixed", fixed)
    graph = load(folder, "like", like).graph if like else source.graph
    inputs = list_inputs(graph)
    symbols = choose_symbols(
        sizes or {},
        sizes is None,
        inputs,
        lambda: find_batch(inputs, find_batch_axes(graph, inputs)),
    )
    rewrite = free_sizes(graph, symbols, lambda *_: {}, lambda _: {})
    return prove_sizes(load(folder, "free", free), rewrite, source, tolerance=tolerance)


@pytest.mark.parametrize(
    ("size", "batches"), [(1, (2, 3, 5)), (2, (1, 3, 6)), (3, (1, 2, 4, 6)), (4, (1, 2, 3, 5, 8))]
)
def test_samples_of_at_least_two_runs_are_computed_in_batches(
    size: int, batches: tuple[int, ...], tmp_path: Path
) -> None:
    """Of one sample, of two, of three, of one more than the file has, and of all of them: five or more."""
    text = "(float[{0},4,2] x) => (float[{0},4,2] y) {{ y = Neg(x) }}"
    proof = prove(tmp_path, text.format(size), text.format("n"))
    assert proof == SizesProof(1, batches, (), 0.0, 0.0, optimized=True, tells_apart=True)


def test_samples_behind_and_before_parts_of_their_axis(tmp_path: Path) -> None:
    """Rows of one sample together, samples of one row together, with and without parts behind them, and no samples."""
    text = """(float[{0},3,2] x) => (float[{1},2] y, float[{1},2] z, float[{2}] w, float[2] c)
        <int64[2] s = {{-1, 2}}, int64[1] t = {{-1}}, float[2] v = {{1.0, 2.0}}> {{
            y = Reshape(x, s) a = Transpose<perm = [1, 0, 2]>(x) z = Reshape(a, s) w = Reshape(a, t) c = Neg(v) }}"""
    for size in (1, 2):
        proof = prove(tmp_path, text.format(size, 3 * size, 6 * size), text.format("n", "m", "k"))
        assert (proof.outputs, proof.max_abs, proof.tells_apart) == (4, 0.0, True)


def test_samples_between_another_free_size_and_a_number(tmp_path: Path) -> None:
    text = """(float[{0},{1},2] x) => (float[{2}] y) <int64[1] t = {{-1}}> {{
        a = Transpose<perm = [1, 0, 2]>(x) y = Reshape(a, t) }}"""
    proof = prove(tmp_path, text.format(2, 3, 12), text.format("n", "w", "m"), {"x": ("n", "w", 2)})
    assert (proof.batches, [each["w"] for each in proof.sizes], proof.max_abs) == (
        (1, 3, 6),
        [37, 73, 107],
        0.0,
    )


def test_nan_is_equal_to_itself(tmp_path: Path) -> None:
    text = "(float[{0},16] x) => (float[{0},16] y, bool[{0},16] z) {{ y = Log(x) z = IsNaN(y) }}"
    assert prove(tmp_path, text.format(1), text.format("n")).max_abs == 0.0


_GROWS = """(float[n,4] x) => (float[n,4] y)
    <int64 zero = {{0}}, int64 fixed = {{1}}, float two = {{{factor}}}, float small = {{0.001}}> {{
    s = Shape(x) n = Gather(s, zero) m = Sub(n, fixed) f = Cast<to = 1>(m)
    d = Mul(f, small) p = Abs(x) a = Mul(p, two) y = Add(a, d) }}
"""


def test_the_largest_error_of_a_sample_is_reported(tmp_path: Path) -> None:
    """A batch of five is off by four times as much as one of two; relative to the largest of these
    samples, which are drawn.
    """
    fixed = "(float[1,4] x) => (float[1,4] y) <float two = {2.0}> { p = Abs(x) y = Mul(p, two) }"
    free = _GROWS.format(factor=2.0)
    proof = prove(tmp_path, fixed, free, tolerance=0.01)
    drawn = [gs.run(tmp_path / "fixed.onnx", seed=seed).outputs["y"] for seed in range(5)]
    largest = max(float(np.abs(each).max()) for each in drawn)
    assert proof.max_abs == pytest.approx(0.004, rel=1e-3)
    assert proof.of_largest == pytest.approx(0.004 / largest, rel=1e-3)
    with pytest.raises(
        DisprovedError,
        match=r"'y' of 2 samples differs from the original's: values differ, max abs 0\.001, ",
    ):
        prove(tmp_path, fixed, free)


def test_zeros_count_as_ones(tmp_path: Path) -> None:
    fixed = "(float[1,4] x) => (float[1,4] y) <float two = {0.0}> { p = Abs(x) y = Mul(p, two) }"
    free = _GROWS.format(factor=0.0)
    proof = prove(tmp_path, fixed, free, tolerance=0.01)
    assert [proof.max_abs, proof.of_largest] == pytest.approx([0.004, 0.004])
    assert not proof.tells_apart


_OTHER: Mapping[str, tuple[str, str]] = {
    "the first sample reads the last": (
        "a = Slice(x, last, end) b = Mul(a, small) y = Add(x, b)",
        "depends on the other samples",
    ),
    "other bits at the size of the file": (
        "b = Add(x, small) y = Identity(b)",
        "computes different bits at the sizes of the file: y",
    ),
    "samples in another order": (
        "y = Slice(x, last, before, axis, back)",
        "'y' of 2 samples differs from the original's: values",
    ),
    "a sample is lost": ("b = Slice(x, zero, last) y = Concat<axis = 0>(b, w)", "of the file: y"),
}


@pytest.mark.parametrize("name", _OTHER)
def test_a_wrong_model_is_disproved(name: str, tmp_path: Path) -> None:
    body, message = _OTHER[name]
    tensors = (
        "<float small = {0.00001}, int64[1] zero = {0}, int64[1] last = {-1}, int64[1] end = {9999}, "
        "int64[1] before = {-9999}, "
        "int64[1] axis = {0}, int64[1] back = {-1}, float[1,4] w = {1.0, 2.0, 3.0, 4.0}>"
    )
    fixed = "(float[1,4] x) => (float[1,4] y) { y = Identity(x) }"
    if name == "the first sample reads the last":  # by nothing where it is the last itself
        body = "c = Slice(x, last, end) d = Slice(x, zero, one) e = Sub(c, d) f = Mul(e, small) y = Add(x, f)"
        tensors = tensors.replace("int64[1] last", "int64[1] one = {1}, int64[1] last")
    with pytest.raises(DisprovedError) as caught:
        prove(tmp_path, fixed, f"(float[n,4] x) => (float[n,4] y) {tensors} {{ {body} }}")
    (fault,) = caught.value.faults
    assert message in fault.message
    assert (fault.where, fault.hint) == (
        str(tmp_path / "fixed.onnx"),
        "nothing was written; leave these sizes fixed",
    )


def test_sizes_that_are_refused_are_named(tmp_path: Path) -> None:
    fixed = "(float[1,4] x) => (float[1,4] y) { y = Neg(x) }"
    with pytest.raises(DisprovedError, match=r"cannot be computed with n 2: "):
        prove(tmp_path, fixed, "(float[n,4] x) => (float[1,4] y) <int64[2] s = {1, 4}> { a = Neg(x) y = Reshape(a, s) }",
              {"x": ("n", 4)})  # fmt: skip


def test_sizes_that_are_no_multiples_are_tried_and_multiples_on_request(tmp_path: Path) -> None:
    text = "(float[2,8] x) => (float[2,{0}] y) {{ y = Neg(x) }}"
    proof = prove(tmp_path, text.format(8), text.format("w").replace("2,8", "2,w"), {"x": (2, "w")})
    assert proof == SizesProof(
        1, (), ({"w": 41}, {"w": 77}, {"w": 109}), 0.0, 0.0, optimized=True, tells_apart=True
    )
    fixed = "(float[2,8] x) => (float[2,4,2] y) <int64[3] s = {2, -1, 2}> { y = Reshape(x, s) }"
    free = "(float[2,w] x) => (float[2,v,2] y) <int64[3] s = {2, -1, 2}> { y = Reshape(x, s) }"
    with pytest.raises(DisprovedError, match="cannot be computed with w 41") as caught:
        prove(tmp_path, fixed, free, {"x": (2, "w")}, like=text.format(8))
    assert caught.value.faults[0].hint == "name it 2*w in `shapes`: only multiples can be computed"
    proof = prove(tmp_path, fixed, free, {"x": (2, "2*w")}, like=text.format(8))
    assert (proof.batches, proof.sizes) == ((), ({"2*w": 14}, {"2*w": 18}, {"2*w": 26}))


def test_samples_that_mix_at_other_sizes_alone_are_found(tmp_path: Path) -> None:
    """By less than the tolerance: what a sample has is seen to depend on the others when these are exchanged."""
    fixed = "(float[1,8] x) => (float[1,8] y) { y = Identity(x) }"
    free = """(float[n,w] x) => (float[n,w] y) <int64 one = {1}, int64 eight = {8}, float small = {0.0000001}> {
        s = Shape(x) w = Gather(s, one) d = Sub(w, eight) e = Cast<to = 1>(d) f = Mul(e, small)
        a = ReduceMean<axes = [0], keepdims = 1>(x) b = Mul(a, f) y = Add(x, b) }"""
    with pytest.raises(
        DisprovedError, match="'y' of a sample depends on the other samples of the batch"
    ):
        prove(tmp_path, fixed, free, {"x": ("n", "w")}, tolerance=0.01)


def test_only_samples_differ_between_inputs(tmp_path: Path) -> None:
    """A threshold without samples is one number for all of them."""
    text = "(float[{0},4] x, float[4] t) => (float[{0},4] y) {{ y = Add(x, t) }}"
    assert prove(tmp_path, text.format(1), text.format("n"), {"x": ("n", 4)}).max_abs == 0.0


def test_samples_that_give_unlike_shapes_are_not_proved(tmp_path: Path) -> None:
    """The coordinates of what is above 0, of which both runs have other numbers."""
    text = "(float[{0},64] x) => (int64[2,m] y) <float z = {{0.0}}> {{ a = Greater(x, z) y = NonZero(a) }}"
    like = "(float[3,64] x) => (float[3,64] y) { y = Neg(x) }"
    with pytest.raises(RefusedError, match="outputs have different shapes for different samples"):
        prove(tmp_path, text.format(3), text.format("n"), like=like)


def test_shapes_are_measured_of_values_inside(tmp_path: Path) -> None:
    model = load(
        tmp_path,
        "fixed",
        "(float[1,6] x) => (float[2,3] y) <int64[2] s = {2, 3}> { a = Neg(x) y = Reshape(a, s) }",
    )
    nodes = {node.name: node for node in model.graph.nodes}
    entries = [Entry(nodes[name]) for name in ("a", "y")]
    measured = measure_shapes(model, entries, {"x": (1, 6), "other": (1,)})
    assert measured == {(nodes["a"], 0): [1, 6], (nodes["y"], 0): [2, 3]}
    with pytest.raises(gs.GraphshareError, match="declares 1x6"):
        measure_shapes(model, entries, {"x": (1, 5)})


def test_shapes_are_not_measured_beyond_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that the caller chose is an error; one of the machine leaves shapes unknown, and a refusal says so."""
    text = "(float[1,6] x) => (float[2,n] y) <int64[3] s = {2, -1, 1}> { k = Abs(s) m = Neg(s) y = Reshape(x, m) }"
    model = load(tmp_path, "fixed", text)

    def refuse(*_: object, **__: object) -> None:
        raise MemoryLimitError(Fault("too large"))

    monkeypatch.setattr("graphshare.verification.free_sizes.open_computation", refuse)
    with pytest.raises(RefusedError) as caught:
        gs.reshape(model, dynamic_batch=True)
    assert "with x (1,6) no shape is known, because too large" in caught.value.faults[0].hint
    with resource_limits("4 GB", None), pytest.raises(MemoryLimitError):
        gs.reshape(model, dynamic_batch=True)
