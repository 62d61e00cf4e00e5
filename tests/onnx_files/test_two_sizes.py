"""Networks as exporters write them for one size, freed from a length of 6 and compared with their own export at 9.

What an exporter folds into numbers stays that of 6: each such network is refused, or the number is
listed with its node.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import graphshare as gs
from graphshare.errors import DisprovedError, RefusedError

OLD, NEW = 6, 9


def _numbers(values: object) -> str:
    return "{" + ", ".join(map(str, np.ravel(values).tolist())) + "}"


def _x(
    body: Callable[[int], str], constants: Callable[[int], str] = lambda s: "", out: str = "?,?,?"
) -> Callable[[int], str]:
    """Return what writes a network of one input (1, s, 4)."""
    return lambda s: f"(float[1,{s},4] x) => (float[{out}] y) <{constants(s)}> {{ {body(s)} }}"


def _cache(
    body: Callable[[int], str], constants: Callable[[int], str] = lambda s: "int64 unused = {0}"
) -> Callable[[int], str]:
    """Return what writes a network of two new tokens behind a past (1, s, 4)."""
    return lambda s: (
        f"(float[1,2,4] q, float[1,{s},4] x) => (float[?,?,?] y) <{constants(s)}> {{ {body(s)} }}"
    )


_TABLE = np.round(np.sin(np.arange(800)), 3).reshape(200, 4)
_WHOLE = f"float[200,4] table = {_numbers(_TABLE)}"
_ROWS = "float[1,{0},4] rows = {1}"
_COUNT = "n = Shape<start = 1, end = 2>(x) k = Squeeze(n) p = Range(zero, k, one) "
_ATTEND = "t = Transpose<perm = [0, 2, 1]>(k) d = MatMul(q, t) {0} e = Softmax<axis = -1>(d{1}) y = MatMul(e, k)"
NETWORKS: dict[str, tuple[Callable[[int], str], str]] = {
    "the last token by its place": (_x(lambda s: "y = Gather<axis = 1>(x, i)", lambda s: f"int64[1] i = {{{s - 1}}}"), "y"),
    "the last token by a Slice": (
        _x(lambda s: "y = Slice(x, b, e, a)", lambda s: f"int64[1] b = {{{s - 1}}}, int64[1] e = {{{s}}}, int64[1] a = {{1}}"),
        "y",
    ),
    "the last token from the end": (_x(lambda s: "y = Gather<axis = 1>(x, i)", lambda s: "int64[1] i = {-1}"), ""),
    "all tokens but the first": (
        _x(lambda s: "y = Slice(x, b, e, a)", lambda s: f"int64[1] b = {{1}}, int64[1] e = {{{s}}}, int64[1] a = {{1}}"),
        "",
    ),
    "a mean by its length": (
        _x(lambda s: "a = ReduceSum(x, one) y = Div(a, n)", lambda s: f"int64[1] one = {{1}}, float n = {{{s}.0}}"),
        "y",
    ),
    "a mean by a factor": (
        _x(lambda s: "a = ReduceSum(x, one) y = Mul(a, n)", lambda s: f"int64[1] one = {{1}}, float n = {{{1 / s}}}"),
        "y",
    ),
    "a mean": (_x(lambda s: "y = ReduceMean<axes = [1]>(x)", lambda s: "int64 unused = {0}"), ""),
    "a variance without bias": (
        _x(
            lambda s: "m = ReduceMean<axes = [1]>(x) c = Sub(x, m) p = Mul(c, c) a = ReduceSum(p, one) y = Div(a, n)",
            lambda s: f"int64[1] one = {{1}}, float n = {{{s - 1}.0}}",
        ),
        "y",
    ),
    "a scale by the root of the length": (_x(lambda s: "y = Div(x, n)", lambda s: f"float n = {{{s**0.5}}}"), "y"),
    "a table that was cut": (
        _x(lambda s: "y = Add(x, rows)", lambda s: _ROWS.format(s, _numbers(_TABLE[:s]))),
        "y",
    ),
    "a table that is cut": (
        _x(
            lambda s: "n = Shape<start = 1, end = 2>(x) r = Slice(table, zero, n, zero) y = Add(x, r)",
            lambda s: f"int64[1] zero = {{0}}, {_WHOLE}",
        ),
        "",
    ),
    "places that were counted": (
        _x(
            lambda s: "r = Gather(table, p) y = Add(x, r)",
            lambda s: f"int64[{s}] p = {_numbers(np.arange(s))}, {_WHOLE}",
        ),
        "y",
    ),
    "places that are counted": (
        _x(
            lambda s: _COUNT + "r = Gather(table, p) y = Add(x, r)",
            lambda s: f"int64 zero = {{0}}, int64 one = {{1}}, {_WHOLE}",
        ),
        "",
    ),
    "places over their number": (
        _x(
            lambda s: _COUNT + "f = Cast<to = 1>(p) g = Div(f, last) h = Unsqueeze(g, end) y = Add(x, h)",
            lambda s: f"int64 zero = {{0}}, int64 one = {{1}}, int64[1] end = {{-1}}, float last = {{{s - 1}.0}}",
        ),
        "g",
    ),
    "heads": (
        _x(
            lambda s: """h = Reshape(x, t) g = Transpose<perm = [0, 2, 1, 3]>(h) r = Transpose<perm = [0, 2, 1, 3]>(g)
                y = Reshape(r, u)""",
            lambda s: f"int64[4] t = {{1, {s}, 2, 2}}, int64[3] u = {{1, {s}, 4}}",
        ),
        "",
    ),
    "a dense layer over all places": (
        _x(
            lambda s: "f = Flatten(x) y = MatMul(f, w)",
            lambda s: f"float[{4 * s},2] w = {_numbers(np.round(np.cos(np.arange(8 * s)), 3))}",
            out="?,?",
        ),
        "y",
    ),
    "a window over all places": (
        _x(
            lambda s: f"t = Transpose<perm = [0, 2, 1]>(x) y = AveragePool<kernel_shape = [{s}]>(t)",
            lambda s: "int64 unused = {0}",
        ),
        "y",
    ),
    "all places in order": (
        _x(lambda s: "y, i = TopK<axis = 1>(x, k)", lambda s: f"int64[1] k = {{{s}}}"),
        "y",
    ),
    "an upsampling to a size": (
        _x(
            lambda s: "t = Transpose<perm = [0, 2, 1]>(x) y = Resize<mode = \"nearest\">(t, , , z)",
            lambda s: f"int64[3] z = {{1, 4, {2 * s}}}",
        ),
        "",
    ),
    "a cache": (_cache(lambda s: "k = Concat<axis = 1>(x, q) " + _ATTEND.format("", "")), ""),
    "a cache whose mask was folded": (
        _cache(
            lambda s: "k = Concat<axis = 1>(x, q) " + _ATTEND.format("m = Add(d, mask)", "").replace("(d)", "(m)"),
            lambda s: f"float[1,2,{s + 2}] mask = {_numbers(np.triu(np.full((2, s + 2), -9.0), s + 1))}",
        ),
        "m",
    ),
    "a cache whose places were folded": (
        _cache(
            lambda s: "f = Cast<to = 1>(p) a = Mul(f, w) c = Cos(a) r = Mul(q, c) y = Concat<axis = 1>(x, r)",
            lambda s: f"int64[1,2,1] p = {{{s}, {s + 1}}}, float[4] w = {{1.0, 0.3, 0.1, 0.03}}",
        ),
        "f",
    ),
    "a cache whose place was folded": (
        _cache(
            lambda s: "r = Gather(table, p) a = Add(q, r) y = Concat<axis = 1>(x, a)",
            lambda s: f"int64[1] p = {{{s}}}, {_WHOLE}",
        ),
        "r",
    ),
    "a mask by the number of places": (
        _x(
            lambda s: _COUNT + "b = Less(p, last) f = Cast<to = 1>(b) h = Unsqueeze(f, end) y = Mul(x, h)",
            lambda s: f"int64 zero = {{0}}, int64 one = {{1}}, int64[1] end = {{-1}}, int64 last = {{{s - 1}}}",
        ),
        "b",
    ),
    "activations": (
        _x(
            lambda s: "a = Mul(x, c) b = Sigmoid(a) d = Pow(b, e) f = Mul(d, h) y = Div(f, g)",
            lambda s: "float c = {1.702}, float e = {2.0}, float h = {0.5}, float g = {4.0}",
        ),
        "",
    ),
}  # fmt: skip
"""Each network with the node whose constant comes from the size, empty where none does."""


def write(path: Path, network: str, size: int) -> Path:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {NETWORKS[network][0](size)}'
    onnx.save(parser.parse_model(text), path)
    return path


def is_same(free: Path, other: Path) -> bool:
    """Return whether a freed network computes what its own export at another size does."""
    sessions = [onnxruntime.InferenceSession(str(path)) for path in (free, other)]
    rng = np.random.default_rng(0)
    feeds = {
        each.name: rng.standard_normal(each.shape).astype("f4") for each in sessions[1].get_inputs()
    }
    got, wanted = (session.run(None, feeds)[0] for session in sessions)
    return got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-4, atol=1e-5)


def find_blame(folder: Path, network: str) -> tuple[str, list[str], str]:
    """Return whether a network is refused, the same or different at the other size; the nodes that
    are listed; the refusal.
    """
    old, new = write(folder / "old.onnx", network, OLD), write(folder / "new.onnx", network, NEW)
    try:
        freed = gs.reshape(old, shapes={"x": (1, "t", 4)})
    except (RefusedError, DisprovedError) as error:
        return "refused", [], str(error)
    gs.save(freed, folder / "free.onnx")
    listed = [note.partition("'")[2].partition("'")[0] for note in freed.notes]
    same = is_same(folder / "free.onnx", new)
    try:
        report = gs.reshape(old, shapes={"x": (1, "t", 4)}, witness=str(new)).report
    except DisprovedError:
        assert not same
    else:
        assert same
        assert report.proof.witnesses[0][1].startswith("EQUAL")
    return ("same" if same else "different"), listed, ""


def test_what_differs_at_another_size_is_listed_or_refused_and_little_else(tmp_path: Path) -> None:
    assert len(NETWORKS) >= 20
    listed, innocent = 0, 0
    for network, (_, blamed) in NETWORKS.items():
        outcome, nodes, refusal = find_blame(tmp_path, network)
        if outcome == "different":
            assert blamed in nodes, network
        if outcome == "refused":
            assert blamed, f"{network}: {refusal}"
        listed += len(nodes)
        innocent += sum(node != blamed for node in nodes)
    assert innocent <= listed // 2


@pytest.mark.parametrize("network", [name for name, (_, blamed) in NETWORKS.items() if not blamed])
def test_networks_that_follow_their_size_are_proved_against_a_witness(
    network: str, tmp_path: Path
) -> None:
    assert find_blame(tmp_path, network)[0] == "same"
