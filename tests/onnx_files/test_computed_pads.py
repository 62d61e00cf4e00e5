"""``reshape --dynamic-batch`` of a Pad whose widths are computed from a length that the caller chooses."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

import graphshare as gs
from graphshare.errors import RefusedError

_LACK = "s = Shape<start = 1, end = 2>(x) r = Mod(s, eight) l = Sub(eight, r) "
_PADS = {
    "a row": "p = Concat<axis = 0>(zero, zero, zero, l)",
    "a row that is moved": "o = Concat<axis = 0>(zero, one, zero, l) p = Add(o, row)",
    "a row that starts with no number": """q = Add(none, l) d = Sub(one, none) o = Concat<axis = 0>(zero, q, one, zero, l)
        p = Concat<axis = 0>(d, o)""",
    # As an exporter of PyTorch writes them: from the last axis on, a pair for each, which are turned round.
    "pairs from the last axis on": """c = ConstantOfShape<value = int64[1] {0}>(two) n = Concat<axis = 0>(l, zero, c)
        m = Reshape(n, pairs) v = Slice(m, back, end, zero, back) t = Transpose<perm = [1, 0]>(v) w = Reshape(t, flat)
        p = Cast<to = 7>(w)""",
}
_WEIGHTS = """int64[0] none = {}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] eight = {8}, int64[1] back = {-1},
    int64[1] end = {-9223372036854775807}, int64[2] pairs = {-1, 2}, int64[1] flat = {-1}, int64[4] row = {0, 2, 0, 1}"""


def write(path: Path, pads: str) -> Path:
    text = (
        f"g (float[1,length] x) => (float[?,?] y) <{_WEIGHTS}> {{ {_LACK} {pads} y = Pad(x, p) }}"
    )
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
    return path


@pytest.mark.parametrize("name", _PADS)
def test_a_pad_of_another_axis_leaves_the_samples(name: str, tmp_path: Path) -> None:
    report = gs.reshape(write(tmp_path / "model.onnx", _PADS[name]), dynamic_batch=True).report
    assert report.inputs == {"x": ("batch", "length")}
    assert report.proof.batches


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("a row", "zero, zero, zero, l", "zero, zero, l, zero"),
        ("a row", "zero, zero, zero, l", "l, zero, zero, zero"),
        ("a row that is moved", "zero, one", "one, zero"),
        ("pairs from the last axis on", "(l, zero, c)", "(c, l, zero)"),
        ("pairs from the last axis on", "(l, zero, c)", "(c, zero, l)"),
        (
            "pairs from the last axis on",
            "Slice(m, back, end, zero, back)",
            "Slice(m, zero, two, zero, one)",
        ),
        ("pairs from the last axis on", "Transpose<perm = [1, 0]>(v)", "Identity(v)"),
    ],
)
def test_a_pad_that_may_add_samples_is_refused(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    assert old in _PADS[name]
    with pytest.raises(RefusedError, match="Pad changes the number of samples"):
        gs.reshape(
            write(tmp_path / "model.onnx", _PADS[name].replace(old, new)), dynamic_batch=True
        )
