"""Constants, padding and outputs that files spell in several ways: what is exact, and what looks alike and is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from tests.onnx_files.alike import Pair, assert_exact, assert_unlike

pytest.importorskip("onnxruntime")

_X = "(float[N,4] x) => (float[N,4] y)"
_IMAGE = "(float[1,2,6,6] x) => (float[A,B,C,D] y)"
_ODD = "(float[1,2,7,5] x) => (float[A,B,C,D] y)"
_OPEN = "(float[N,2,H,W] x) => (float[A,B,C,D] y)"


def _weight(height: int, width: int) -> str:
    numbers = ", ".join(str(i * 0.25 - 4) for i in range(4 * height * width))
    return f"<float[2,2,{height},{width}] w = {{{numbers}}}>"


def _pad(
    op: str, auto: str, *pads: int, more: str = "", weight: str = "", head: str = _IMAGE
) -> Pair:
    """An operator that states ``auto_pad``, and one with these pads."""
    operands = "x, w" if weight else "x"
    bodies = (
        f"{weight} {{y = {op} <{each}{more}> ({operands})}}"
        for each in (f'auto_pad = "{auto}"', f"pads = {list(pads)}")
    )
    return Pair(head, *(body if weight else body.strip(" {}") for body in bodies))


_W3, _W2 = _weight(3, 3), _weight(2, 2)
_POOL3, _POOL2 = ", kernel_shape = [3, 3]", ", kernel_shape = [2, 2]"

PADS = {
    "VALID": _pad("Conv", "VALID", 0, 0, 0, 0, weight=_W3),
    "VALID of a pool": _pad("MaxPool", "VALID", 0, 0, 0, 0, more=_POOL3),
    "VALID in steps": _pad(
        "AveragePool", "VALID", 0, 0, 0, 0, more=_POOL3 + ", strides = [2, 2]", head=_OPEN
    ),
    "VALID and NOTSET": Pair(
        _IMAGE, f'{_W3} {{y = Conv <auto_pad = "VALID"> (x, w)}}', f"{_W3} {{y = Conv(x, w)}}"
    ),
    "VALID of ConvTranspose": _pad("ConvTranspose", "VALID", 0, 0, 0, 0, weight=_W3),
    "SAME_UPPER of any size": _pad("Conv", "SAME_UPPER", 1, 1, 1, 1, weight=_W3, head=_OPEN),
    "SAME_LOWER of any size": _pad("Conv", "SAME_LOWER", 1, 1, 1, 1, weight=_W3, head=_OPEN),
    "SAME_UPPER of an even window": _pad("Conv", "SAME_UPPER", 0, 0, 1, 1, weight=_W2, head=_OPEN),
    "SAME_LOWER of an even window": _pad("Conv", "SAME_LOWER", 1, 1, 0, 0, weight=_W2, head=_OPEN),
    "SAME_UPPER in steps": _pad(
        "Conv", "SAME_UPPER", 0, 0, 1, 1, more=", strides = [2, 2]", weight=_W3
    ),
    "SAME_LOWER in steps": _pad(
        "Conv", "SAME_LOWER", 1, 1, 0, 0, more=", strides = [2, 2]", weight=_W3
    ),
    "SAME_UPPER in steps, odd": _pad(
        "Conv", "SAME_UPPER", 1, 1, 1, 1, more=", strides = [2, 2]", weight=_W3, head=_ODD
    ),
    "SAME_UPPER in other steps": _pad(
        "Conv", "SAME_UPPER", 1, 1, 1, 1, more=", strides = [3, 2]", weight=_W3, head=_ODD
    ),
    "SAME_LOWER of a pool": _pad("MaxPool", "SAME_LOWER", 1, 1, 0, 0, more=_POOL2, head=_OPEN),
    "SAME_UPPER of an average": _pad(
        "AveragePool", "SAME_UPPER", 0, 0, 1, 1, more=_POOL2, head=_OPEN
    ),
    "SAME_UPPER of an average with its pads": _pad(
        "AveragePool",
        "SAME_UPPER",
        0,
        0,
        1,
        1,
        more=_POOL3 + ", strides = [2, 2], count_include_pad = 1",
    ),
    "SAME_UPPER of LpPool": _pad("LpPool", "SAME_UPPER", 1, 1, 1, 1, more=_POOL3, head=_OPEN),
    "SAME_UPPER and SAME_LOWER of an odd window": Pair(
        _OPEN,
        *(f'{_W3} {{y = Conv <auto_pad = "SAME_{side}"> (x, w)}}' for side in ("UPPER", "LOWER")),
    ),
    "SAME_UPPER that pads nothing": Pair(
        _IMAGE,
        'y = MaxPool <auto_pad = "SAME_UPPER", kernel_shape = [2, 2], strides = [2, 2]> (x)',
        "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)",
    ),
    "kernel_shape": Pair(
        _IMAGE, f"{_W3} {{y = Conv <kernel_shape = [3, 3]> (x, w)}}", f"{_W3} {{y = Conv(x, w)}}"
    ),
    "kernel_shape of an input": Pair(
        "(float[1,2,6,6] x, float[2,2,3,3] w) => (float[A,B,C,D] y)",
        "y = Conv <kernel_shape = [3, 3]> (x, w)",
        "y = Conv(x, w)",
    ),
}
OTHER_PADS = {
    "SAME_UPPER and SAME_LOWER of an even window": Pair(
        _OPEN,
        *(f'{_W2} {{y = Conv <auto_pad = "SAME_{side}"> (x, w)}}' for side in ("UPPER", "LOWER")),
    ),
    "SAME_UPPER and SAME_LOWER in steps": Pair(
        _IMAGE,
        *(
            f'{_W3} {{y = Conv <auto_pad = "SAME_{side}", strides = [2, 2]> (x, w)}}'
            for side in ("UPPER", "LOWER")
        ),
    ),
    "SAME_UPPER and pads at the other end": _pad("Conv", "SAME_UPPER", 1, 1, 0, 0, weight=_W2),
    "SAME_UPPER in steps of any size": _pad(
        "MaxPool", "SAME_UPPER", 0, 0, 1, 1, more=_POOL3 + ", strides = [2, 2]", head=_OPEN
    ),
    "SAME_UPPER in steps of another size": _pad(
        "Conv", "SAME_UPPER", 0, 0, 1, 1, more=", strides = [2, 2]", weight=_W3, head=_ODD
    ),
    "VALID and pads": _pad("Conv", "VALID", 1, 1, 1, 1, weight=_W3),
    "VALID and SAME_UPPER": Pair(
        _IMAGE,
        *(f'{_W3} {{y = Conv <auto_pad = "{auto}"> (x, w)}}' for auto in ("VALID", "SAME_UPPER")),
    ),
    "SAME_UPPER and SAME_LOWER of ConvTranspose": Pair(
        _IMAGE,
        *(
            f'{_W3} {{y = ConvTranspose <auto_pad = "SAME_{side}", strides = [2, 2]> (x, w)}}'
            for side in ("UPPER", "LOWER")
        ),
    ),
    "SAME_UPPER of a dilated window": _pad(
        "MaxPool", "SAME_UPPER", 1, 1, 1, 1, more=_POOL2 + ", dilations = [2, 2]"
    ),
    "a window of another size": _pad("MaxPool", "SAME_UPPER", 1, 1, 1, 1, more=_POOL2),
}


@pytest.mark.parametrize("name", PADS)
def test_padding_is_exact(name: str, tmp_path: Path) -> None:
    assert_exact(PADS[name], tmp_path)


@pytest.mark.parametrize("name", OTHER_PADS)
def test_other_padding_is_not_exact(name: str, tmp_path: Path) -> None:
    assert_unlike(OTHER_PADS[name], tmp_path)


_NORM = "<float[2] s = {1.0, 2.0}, float[2] b = {0.5, -1.0}, float[2] m = {0.25, 0.5}, float[2] v = {1.0, 4.0}>"
_POOLED = "y{} = MaxPool <kernel_shape = [2, 2]{}> (x)"
_INDICES = "(float[1,2,6,6] x) => (float[A,B,C,D] y, int64[A,B,C,D] i)"

OUTPUTS = {
    "indices that nothing reads": Pair(_IMAGE, _POOLED.format(", i", ""), _POOLED.format("", "")),
    "the order of indices that nothing reads": Pair(
        _IMAGE, _POOLED.format(", i", ", storage_order = 1"), _POOLED.format("", "")
    ),
    "a mask that nothing reads": Pair(_X, "a, m = Dropout(x) y = Relu(a)", "y = Relu(x)"),
    "statistics that nothing reads": Pair(
        _IMAGE,
        _NORM + " {y, p, q = BatchNormalization <training_mode = 1> (x, s, b, m, v)}",
        _NORM
        + " {y, p, q = BatchNormalization <training_mode = 1, momentum = 0.5> (x, s, b, m, v)}",
        15,
    ),
    "a state that nothing reads": Pair(
        "(float[3,N,2] x) => (float[A,B,C,D] y)",
        *(
            "<float[1,3,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float[1,3,1] r = {0.5, 0.25, -1.0}> {y"
            f"{more} = GRU <hidden_size = 1> (x, w, r)}}"
            for more in ("", ", h")
        ),
    ),
    "a training Dropout of ratio 0": Pair(
        _X, "<float r = {0.0}, bool t = {1}> {a = Dropout (x, r, t) y = Relu(a)}", "y = Relu(x)", 13
    ),
    "a Dropout of ratio 0 that is told": Pair(
        "(float[N,4] x, bool t) => (float[N,4] y)",
        "<float r = {0.0}> {y = Dropout (x, r, t)}",
        "n = Not(t) y = Identity(x)",
        13,
    ),
    "a Dropout whose training is computed": Pair(
        _X,
        "<bool f = {1}, float r = {0.5}> {t = Not(f) a = Dropout (x, r, t) y = Relu(a)}",
        "y = Relu(x)",
        13,
    ),
    "an integer Pad with 0": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "<int64[4] k = {1, 0, 0, 2}, int64 z = {0}> {y = Pad(x, k, z)}",
        "<int64[4] k = {1, 0, 0, 2}> {y = Pad(x, k)}",
    ),
    "parts of a constant": Pair(
        _X,
        "<float[8] c = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> "
        "{a, b = Split <num_outputs = 2> (c) d = Add(x, b) y = Mul(d, a)}",
        "<float[4] a = {1.0, 2.0, 3.0, 4.0}, float[4] b = {5.0, 6.0, 7.0, 8.0}> {d = Add(x, b) y = Mul(d, a)}",
    ),
    "an output that is computed": Pair(
        "(float[N,4] x) => (float[N,4] y, float[4] z)",
        "<float[4] c = {1.0, 2.0, 3.0, 4.0}> {y = Relu(x) z = Neg(c)}",
        "y = Relu(x) z = Constant <value = float[4] {-1.0, -2.0, -3.0, -4.0}> ()",
    ),
    "an output that is a constant": Pair(
        "(float[N,4] x) => (float[N,4] y, float[4] z)",
        "<float[4] c = {1.0, 2.0, 3.0, 4.0}> {y = Relu(x) z = Identity(c)}",
        "<float[4] z = {1.0, 2.0, 3.0, 4.0}> {y = Relu(x)}",
    ),
    "texts": Pair(
        "(float[N,4] x) => (float[N,4] y, string[A] z)",
        'c = Constant <value_strings = ["abc", "de"]> () y = Relu(x) z = Identity(c)',
        'y = Relu(x) z = Constant <value = string[2] {"abc", "de"}> ()',
    ),
    "a text": Pair(
        "(float[N,4] x) => (float[N,4] y, string z)",
        'c = Constant <value_string = "abc"> () y = Relu(x) z = Identity(c)',
        'y = Relu(x) z = Constant <value = string {"abc"}> ()',
    ),
    "texts that are computed": Pair(
        "(float[N,4] x) => (float[N,4] y, string[A] z)",
        'c = Constant <value_strings = ["abc", "de"]> () y = Relu(x) z = StringConcat(c, c)',
        'y = Relu(x) z = Constant <value = string[2] {"abcabc", "dede"}> ()',
    ),
    "an input that nothing reads": Pair(
        _X,
        "y = Relu(x)",
        "a = Identity(x) y = Relu(a)",
        other_head="(float[N,4] x, float[M] u) => (float[N,4] y)",
    ),
    "an input that nothing that is read needs": Pair(
        _X,
        "y = Relu(x)",
        "a = Identity(x) b = Neg(u) y = Relu(a)",
        other_head="(float[N,4] x, float[M] u) => (float[N,4] y)",
    ),
}
OTHER_OUTPUTS = {
    "a mask that is read": Pair(
        "(float[N,4] x) => (float[N,4] y, bool[N,4] m)",
        "y, m = Dropout(x)",
        "y = Identity(x) n = Less(x, x) m = Identity(n)",
        13,
    ),
    "the order of indices that are read": Pair(
        _INDICES, _POOLED.format(", i", ", storage_order = 1"), _POOLED.format(", i", "")
    ),
    "statistics that one side does not read": Pair(
        _IMAGE.replace("y)", "y, float[2] p)"),
        _NORM + " {y, p, q = BatchNormalization <training_mode = 1> (x, s, b, m, v)}",
        _NORM + " {y, a, q = BatchNormalization <training_mode = 1> (x, s, b, m, v) "
        "z, p, d = BatchNormalization <training_mode = 1, momentum = 0.5> (x, s, b, m, v)}",
        15,
    ),
    "a Dropout that trains": Pair(
        _X,
        "<float r = {0.25}, bool t = {1}> {a = Dropout <seed = 2> (x, r, t) y = Relu(a)}",
        "y = Relu(x)",
        13,
    ),
    "a Dropout that trains with its default": Pair(
        _X, "<bool t = {1}> {a = Dropout <seed = 2> (x, , t) y = Relu(a)}", "y = Relu(x)", 13
    ),
    "an integer Pad with 1": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "<int64[4] k = {1, 0, 0, 2}, int64 z = {1}> {y = Pad(x, k, z)}",
        "<int64[4] k = {1, 0, 0, 2}> {y = Pad(x, k)}",
    ),
    "a Pad with -0": Pair(
        "(float[N,4] x) => (float[A,B] y)",
        "<int64[4] k = {1, 0, 0, 2}, float z = {-0.0}> {a = Pad(x, k, z) y = Reciprocal(a)}",
        "<int64[4] k = {1, 0, 0, 2}> {a = Pad(x, k) y = Reciprocal(a)}",
    ),
    "parts of a constant, exchanged": Pair(
        _X,
        "<float[8] c = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> "
        "{a, b = Split <num_outputs = 2> (c) d = Add(x, b) y = Mul(d, a)}",
        "<float[4] a = {1.0, 2.0, 3.0, 4.0}, float[4] b = {5.0, 6.0, 7.0, 8.0}> {d = Add(x, a) y = Mul(d, b)}",
    ),
    "an output of -0": Pair(
        "(float[N,4] x) => (float[N,4] y, float[1] z)",
        "<float[1] c = {0.0}> {y = Relu(x) n = Neg(c) z = Reciprocal(n)}",
        "<float[1] c = {0.0}> {y = Relu(x) z = Reciprocal(c)}",
    ),
    "an output of another dtype": Pair(
        "(float[N,4] x) => (float[N,4] y, float[1] z)",
        "<float[1] c = {1.0}> {y = Relu(x) z = Identity(c)}",
        "<double[1] z = {1.0}> {y = Relu(x)}",
        other_head="(float[N,4] x) => (float[N,4] y, double[1] z)",
    ),
    "an output of another shape": Pair(
        "(float[N,4] x) => (float[N,4] y, float[A] z)",
        "<float[1] c = {1.0}> {y = Relu(x) z = Identity(c)}",
        "<float z = {1.0}> {y = Relu(x)}",
        other_head="(float[N,4] x) => (float[N,4] y, float z)",
    ),
    "texts that are parted elsewhere": Pair(
        "(float[N,4] x) => (float[N,4] y, string[A] z)",
        'c = Constant <value_strings = ["abc", "de"]> () y = Relu(x) z = Identity(c)',
        'y = Relu(x) z = Constant <value = string[2] {"ab", "cde"}> ()',
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_nothing_reads_and_what_is_computed_is_exact(name: str, tmp_path: Path) -> None:
    assert_exact(OUTPUTS[name], tmp_path)


@pytest.mark.parametrize("name", OTHER_OUTPUTS)
def test_what_is_read_and_what_has_other_bits_is_not_exact(name: str, tmp_path: Path) -> None:
    assert_unlike(OTHER_OUTPUTS[name], tmp_path)


_QUANTIZED = "(uint8[N,4] x) => (float[N,4] y)"

DEFAULTS = {
    "all axes": Pair(
        _X.replace("(float[N,4] y)", "(float[A,B] y)"),
        "y = ReduceSum(x)",
        "<int64[2] k = {-1, 0}> {y = ReduceSum(x, k)}",
    ),
    "all axes by opset": Pair(
        _X.replace("[N,4] y", "[A,B] y"),
        "y = ReduceMax <axes = [0, 1]> (x)",
        "y = ReduceMax(x)",
        11,
        18,
    ),
    "the first axes of Slice": Pair(
        "(float[N,4] x) => (float[A,B] y)",
        "<int64[2] s = {0, 1}, int64[2] e = {9, 3}, int64[2] k = {0, 1}> {y = Slice(x, s, e, k)}",
        "<int64[2] s = {0, 1}, int64[2] e = {9, 3}> {y = Slice(x, s, e)}",
    ),
    "the first axes of a Slice in steps": Pair(
        "(float[N,4] x) => (float[A,B] y)",
        "<int64[2] s = {0, 1}, int64[2] e = {9, 3}, int64[2] k = {0, 1}, int64[2] t = {1, 2}> {y "
        "= Slice(x, s, e, k, t)}",
        "<int64[2] s = {0, 1}, int64[2] e = {9, 3}, int64[2] t = {1, 2}> {y = Slice(x, s, e, , t)}",
    ),
    "a zero point": Pair(
        _QUANTIZED,
        "<float s = {0.5}, uint8 z = {0}> {y = DequantizeLinear(x, s, z)}",
        "<float s = {0.5}> {y = DequantizeLinear(x, s)}",
    ),
    "a zero point of uint8": Pair(
        "(float[N,4] x) => (uint8[N,4] y)",
        "<float s = {0.5}, uint8 z = {0}> {y = QuantizeLinear(x, s, z)}",
        "<float s = {0.5}> {y = QuantizeLinear(x, s)}",
        13,
        21,
    ),
}
OTHER_DEFAULTS = {
    "all axes but one": Pair(
        "(float[A,B,C] x) => (float[D,E,F] y)",
        "y = ReduceSum(x)",
        "<int64[2] k = {-1, 0}> {y = ReduceSum(x, k)}",
    ),
    "all axes and none": Pair(
        _X.replace("[N,4] y", "[A,B] y"),
        "y = ReduceSum <noop_with_empty_axes = 1> (x)",
        "<int64[2] k = {-1, 0}> {y = ReduceSum <noop_with_empty_axes = 1> (x, k)}",
    ),
    "axes of Slice in another order": Pair(
        "(float[N,4] x) => (float[A,B] y)",
        "<int64[2] s = {0, 1}, int64[2] e = {9, 3}, int64[2] k = {1, 0}> {y = Slice(x, s, e, k)}",
        "<int64[2] s = {0, 1}, int64[2] e = {9, 3}> {y = Slice(x, s, e)}",
    ),
    "another zero point": Pair(
        _QUANTIZED,
        "<float s = {0.5}, uint8 z = {1}> {y = DequantizeLinear(x, s, z)}",
        "<float s = {0.5}> {y = DequantizeLinear(x, s)}",
    ),
    "a zero point of int8": Pair(
        "(float[N,4] x) => (int8[N,4] y)",
        "<float s = {0.5}, int8 z = {0}> {y = QuantizeLinear(x, s, z)}",
        "<float s = {0.5}> {y = QuantizeLinear(x, s)}",
        other_head="(float[N,4] x) => (uint8[N,4] y)",
    ),
    "a dtype in place of a zero point": Pair(
        "(float[N,4] x) => (uint8[N,4] y)",
        "<float s = {0.5}> {y = QuantizeLinear <output_dtype = 3> (x, s)}",
        "<float s = {0.5}, uint8 z = {0}> {y = QuantizeLinear(x, s, z)}",
        21,
    ),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_of_operands_are_exact(name: str, tmp_path: Path) -> None:
    assert_exact(DEFAULTS[name], tmp_path)


@pytest.mark.parametrize("name", OTHER_DEFAULTS)
def test_what_is_no_default_is_not_exact(name: str, tmp_path: Path) -> None:
    assert_unlike(OTHER_DEFAULTS[name], tmp_path)


_DENSE = np.array([[0, 0, 1.5, 0], [0, -0.0, 0, -2]], np.float32)
_PLACES = [(0, 2), (1, 1), (1, 3)]
_LISTED = np.array([1.5, -0.0, -2], np.float32)


def _save(
    value: TensorProto | onnx.SparseTensorProto, path: Path, *, is_constant: bool = False
) -> gs.Checkpoint:
    """Save a model that divides by a constant, so that the sign of a zero counts."""
    value = type(value).FromString(value.SerializeToString())
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Div", ["r", "w"], ["y"])]
    is_sparse = isinstance(value, onnx.SparseTensorProto)
    if is_constant:
        nodes.insert(
            0,
            helper.make_node(
                "Constant", [], ["w"], **{"sparse_value" if is_sparse else "value": value}
            ),
        )
    (value.values if is_sparse else value).name = "w"
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    types[0].type.tensor_type.shape.dim.add().dim_value = 4
    lists = {} if is_constant else {"sparse_initializer" if is_sparse else "initializer": [value]}
    graph = helper.make_graph(nodes, "g", types[:1], types[1:], **lists)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return gs.load(path)


def _sparse(
    values: np.ndarray,
    indices: list[object],
    dtype: object = np.int64,
    shape: tuple[int, ...] = (2, 4),
) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values),
        numpy_helper.from_array(np.array(indices, dtype)),
        list(shape),
    )


_LINEAR = [2, 5, 7]
SPARSE = {
    "dense": numpy_helper.from_array(_DENSE),
    "linear": _sparse(_LISTED, [*_LINEAR]),
    "coordinates": _sparse(_LISTED, [*_PLACES]),
    "int32": _sparse(_LISTED, [*_LINEAR], np.int32),
    "int8 coordinates": _sparse(_LISTED, [*_PLACES], np.int8),
    "zeros among them": _sparse(np.array([0, 1.5, -0.0, -2], np.float32), [0, *_LINEAR]),
}
OTHER_SPARSE = {
    "another sign of 0": _sparse(np.array([1.5, 0, -2], np.float32), [*_LINEAR]),
    "without -0": _sparse(np.array([1.5, -2], np.float32), [2, 7]),
    "another place": _sparse(_LISTED, [2, 5, 6]),
    "another shape": _sparse(_LISTED, [*_LINEAR], shape=(1, 8)),
    "another dtype": _sparse(_LISTED.astype(np.float64), [*_LINEAR]),
    "a place twice": _sparse(_LISTED, [2, 7, 7]),
    "a place outside": _sparse(_LISTED, [2, 5, 8]),
    "a coordinate outside": _sparse(_LISTED, [(0, 2), (0, 5), (1, 3)]),
}


def _is_exact(left: gs.Checkpoint, right: gs.Checkpoint) -> bool:
    return make_judge(pair_models(left, right, (), {})).find_exact() is not None


@pytest.mark.parametrize("is_constant", [False, True], ids=["initializer", "Constant"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_constants_are_dense_ones(name: str, is_constant: bool, tmp_path: Path) -> None:
    sparse = _save(SPARSE[name], tmp_path / "sparse.onnx", is_constant=is_constant)
    for other in SPARSE.values():
        dense = _save(other, tmp_path / "dense.onnx")
        assert _is_exact(sparse, dense)
        assert _is_exact(dense, sparse)


@pytest.mark.parametrize("name", OTHER_SPARSE)
def test_other_sparse_constants_are_not_exact(name: str, tmp_path: Path) -> None:
    other = _save(OTHER_SPARSE[name], tmp_path / "other.onnx")
    for kind in SPARSE.values():
        assert not _is_exact(other, _save(kind, tmp_path / "sparse.onnx"))
