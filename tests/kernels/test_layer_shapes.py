"""What the layers' shape and type rules find out backwards, and what they say to contradictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context, Kernel, KernelError, KernelResult
from graphshare.ops.registry import find_kernel, lookup


def kernel(operator: str, **attrs: Any) -> tuple[Kernel, dict[str, Any]]:
    found, signature = find_kernel(operator), lookup(operator)
    assert found is not None
    assert signature is not None
    values, faults = signature.parse({key: str(value) for key, value in attrs.items()})
    assert not faults
    return found, values


def shapes(
    operator: str, inputs: list[Any], outputs: list[Any], **attrs: Any
) -> tuple[list[Any], list[Any]]:
    found, values = kernel(operator, **attrs)
    ins, outs = found.shapes(values, inputs, outputs)
    return list(ins), list(outs)


BACKWARD = [
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, [(2, 3, 8, 7), None, None], [None],
     [(2, 3, 8, 7), (4, 3, 3, 3), (4,)], [(2, 4, 6, 5)]),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)}, [None, (4, 3, 3, 3), None], [(2, 4, 6, 5)],
     [(2, 3, 6, 5), (4, 3, 3, 3), (4,)], [(2, 4, 6, 5)]),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4, "stride": (2, 1)}, [None, None, None], [(2, 4, 6, 5)],
     [(2, None, None, 7), (4, None, 3, 3), (4,)], [(2, 4, 6, 5)]),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4, "num_group": 2, "no_bias": True}, [(None, 6, None, 9), None], [None],
     [(None, 6, None, 9), (4, 3, 3, 3)], [(None, 4, None, 7)]),
    ("Convolution", {"kernel": (3, 2), "num_filter": 4, "layout": "NHWC", "no_bias": True}, [(2, 8, 7, 3), None], [None],
     [(2, 8, 7, 3), (4, 3, 2, 3)], [(2, 6, 6, 4)]),
    ("Convolution", {"kernel": (3,), "num_filter": 4, "num_group": 2}, [None, (4, 3, 3), None], [None],
     [(None, 6, None), (4, 3, 3), (4,)], [(None, 4, None)]),
    ("Deconvolution", {"kernel": (4, 4), "num_filter": 4, "stride": (2, 2), "pad": (1, 1)}, [(2, 3, 5, 6), None], [None],
     [(2, 3, 5, 6), (3, 4, 4, 4)], [(2, 4, 10, 12)]),
    ("Deconvolution", {"kernel": (4, 4), "num_filter": 4, "stride": (2, 2), "pad": (1, 1)}, [None, (3, 4, 4, 4)],
     [(2, 4, 10, 12)], [(2, 3, 5, 6), (3, 4, 4, 4)], [(2, 4, 10, 12)]),
    ("Deconvolution", {"kernel": (3, 3), "num_filter": 4, "stride": (2, 2), "target_shape": (12, 12)}, [(2, 3, 6, 6), None],
     [None], [(2, 3, 6, 6), (3, 4, 3, 3)], [(2, 4, 12, 12)]),
    ("FullyConnected", {"num_hidden": 4}, [(2, 3, 5), None, None], [None], [(2, 3, 5), (4, 15), (4,)], [(2, 4)]),
    ("FullyConnected", {"num_hidden": 4}, [(None, 3, None), (4, 15), None], [(2, 4)], [(2, 3, 5), (4, 15), (4,)], [(2, 4)]),
    ("FullyConnected", {"num_hidden": 4}, [None, (None, 15), None], [(2, None)], [None, (4, 15), (4,)], [(2, 4)]),
    ("FullyConnected", {"num_hidden": 4, "flatten": False}, [None, (4, 15), None], [(2, 3, 4)],
     [(2, 3, 15), (4, 15), (4,)], [(2, 3, 4)]),
    ("FullyConnected", {"num_hidden": 4, "flatten": False, "no_bias": True}, [(2, None, 5), None], [(None, 3, None)],
     [(2, 3, 5), (4, 5)], [(2, 3, 4)]),
    ("BatchNorm", {}, [(2, 3, 5, 5), None, None, None, None], [None],
     [(2, 3, 5, 5), (3,), (3,), (3,), (3,)], [(2, 3, 5, 5)]),
    ("BatchNorm", {"axis": -1}, [None, (3,), None, None, None], [(2, 5, None)],
     [(2, 5, 3), (3,), (3,), (3,), (3,)], [(2, 5, 3)]),
    ("BatchNorm", {"output_mean_var": True}, [(2, 3), None, None, None, None], [None, None, None],
     [(2, 3), (3,), (3,), (3,), (3,)], [(2, 3), (3,), (3,)]),
    ("LayerNorm", {"output_mean_var": True}, [(2, 3, None), (4,), None], [None, None, None],
     [(2, 3, 4), (4,), (4,)], [(2, 3, 4), (2, 3, 1), (2, 3, 1)]),
    ("GroupNorm", {"num_groups": 2}, [None, None, None], [(2, 4, 3)], [(2, 4, 3), (2,), (2,)], [(2, 4, 3)]),
    ("InstanceNorm", {}, [None, None, None], [(2, 4, 3)], [(2, 4, 3), (4,), (4,)], [(2, 4, 3)]),
    ("Pooling", {"kernel": (2, 2), "stride": (2, 2)},
     [(None, None, 7, 8)], [(2, 3, None, None)], [(2, 3, 7, 8)], [(2, 3, 3, 4)]),
    ("Pooling", {"global_pool": True}, [None], [(2, 3, 1, 1)], [(2, 3, None, None)], [(2, 3, 1, 1)]),
    ("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 2}, [(2, 3, 4, 5), (None, 1, 8, 10)], [None],
     [(2, 3, 4, 5), (2, 1, 8, 10)], [(2, 4, 8, 10)]),
    ("UpSampling", {"scale": 2, "sample_type": "bilinear", "num_args": 2, "num_filter": 3}, [(2, 3, 4, 5), None], [None],
     [(2, 3, 4, 5), (3, 1, 4, 4)], [(2, 3, 8, 10)]),
    ("dot", {}, [(2, None), (5, 4)], [None], [(2, 5), (5, 4)], [(2, 4)]),
    ("batch_dot", {"transpose_b": True}, [(2, 3, 5), (None, 4, None)], [None], [(2, 3, 5), (2, 4, 5)], [(2, 3, 4)]),
    ("_linalg_gemm", {}, [(3, None), (5, None), (None, 4)], [None], [(3, 5), (5, 4), (3, 4)], [(3, 4)]),
    ("_contrib_interleaved_matmul_encdec_qk", {"heads": 2}, [(3, 2, 8), (5, None, None)], [None],
     [(3, 2, 8), (5, 2, 16)], [(4, 3, 5)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "attrs", "inputs", "outputs", "all_inputs", "all_outputs"), BACKWARD
)
def test_rule_finds_what_is_determined(
    operator: str,
    attrs: Any,
    inputs: list[Any],
    outputs: list[Any],
    all_inputs: list[Any],
    all_outputs: list[Any],
) -> None:
    found = shapes(operator, inputs, outputs, **attrs)
    assert found == (all_inputs, all_outputs)
    assert shapes(operator, *found, **attrs) == found, "once more gives nothing new"


CONTRADICTIONS = [
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, [(2, 3, 8), None, None], [None], "3 axes, expected 4"),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, [(2, 3, 8, 2), None, None], [None], "does not fit into 2"),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4},
     [(2, 3, 8, 8), (4, 2, 3, 3), None], [None], "channels of weight: 2 where 3"),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, [(2, 3, 8, 8), None, (5,)], [None], "bias.*5 where 4 would fit"),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4, "num_group": 3}, [None, None, None], [None], "multiple of num_group"),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4, "num_group": 2}, [(2, 3, 8, 8), None, None], [None], "cannot be split"),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, [(2, 3, 8, 8), None, None], [(2, 4, 8, 8)], "8 where 6 would fit"),
    ("Convolution_v1", {"kernel": (3, 3), "num_filter": 4, "stride": (1,)}, [None, None, None], [None], "has 1 number where"),
    ("Deconvolution", {"kernel": (3, 3), "num_filter": 4}, [(2, 3, 8, 8), (2, 4, 3, 3)], [None], "3 where 2 would fit"),
    ("Deconvolution", {"kernel": (3, 3), "num_filter": 4, "target_shape": (30, 30)},
     [(2, 3, 8, 8), None], [None], "at most .10, 10"),
    ("FullyConnected", {"num_hidden": 4}, [(2, 3, 5), (4, 14), None], [None], "14 where 15 would fit"),
    ("FullyConnected", {"num_hidden": 4}, [(2, 3, None), (4, 14), None], [None], "cannot have the 14 elements"),
    ("FullyConnected", {"num_hidden": 4}, [(2, 3), (5, 3), None], [None], "5 where 4 would fit"),
    ("BatchNorm", {}, [(2, 3, 5), (4,), None, None, None], [None], "4 where 3 would fit"),
    ("BatchNorm", {"axis": 3}, [(2, 3, 5), None, None, None, None], [None], "channel axis is 3"),
    ("GroupNorm", {"num_groups": 2}, [(2, 3, 5), None, None], [None], "cannot be split"),
    ("GroupNorm", {"num_groups": 3}, [(2, 6, 5), (6,), None], [None], "6 where 3 would fit"),
    ("LayerNorm", {}, [(2, 3, 5), (4,), None], [None], "4 where 5 would fit"),
    ("Pooling", {"kernel": (2, 2)}, [(2, 3, 5)], [None], "does not fit data with 1 spatial"),
    ("Pooling", {"kernel": (5, 5)}, [(2, 3, 4, 4)], [None], "does not fit into 4"),
    ("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 2},
     [(1, 1, 4, 4), (1, 1, 3, 4)], [None], "does not divide 8"),
    ("dot", {}, [(2, 3), (4, 5)], [None], "3 where 4 would fit"),
    ("batch_dot", {}, [(2, 3, 4), (3, 4, 5)], [None], "batch axes"),
    ("_linalg_gemm2", {"axis": 2}, [(2, 3, 4), (2, 4, 5)], [None], "cannot be the last axis"),
    ("_contrib_interleaved_matmul_selfatt_qk", {"heads": 5}, [(2, 3, 24)], [None], "not a multiple of 15"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "attrs", "inputs", "outputs", "words"), CONTRADICTIONS)
def test_contradiction_is_told_in_words(
    operator: str, attrs: Any, inputs: list[Any], outputs: list[Any], words: str
) -> None:
    with pytest.raises(KernelError, match=words):
        shapes(operator, inputs, outputs, **attrs)


def test_batch_norm_keeps_float32_statistics_beside_float16_data() -> None:
    found, values = kernel("BatchNorm")
    assert found.types(values, ["float16", *[None] * 4], [None]) == (
        ["float16", *["float32"] * 4],
        ["float16"],
    )
    assert found.types(values, [None] * 5, ["float64"]) == (["float64"] * 5, ["float64"])
    with pytest.raises(KernelError, match="expected float32 for data of float16"):
        found.types(values, ["float16", "float16", None, None, None], [None])


def test_batch_norm_gathers_statistics_while_training() -> None:
    found, values = kernel("BatchNorm", momentum=0.5)
    x = np.random.default_rng(0).standard_normal((4, 3, 5)).astype("float32")
    vectors = [
        np.ones(3, "float32"),
        np.zeros(3, "float32"),
        np.full(3, 2, "float32"),
        np.full(3, 4, "float32"),
    ]
    result = found.forward(Context(training=True, num_outputs=1), values, x, *vectors)
    assert isinstance(result, KernelResult)
    np.testing.assert_allclose(result.updates[3], 1 + x.mean((0, 2)) / 2, rtol=1e-6)
    np.testing.assert_allclose(result.updates[4], 2 + x.var((0, 2)) / 2, rtol=1e-6)
    quiet = found.forward(Context(training=False), values, x, *vectors)
    assert not isinstance(quiet, KernelResult)


def test_batch_norm_loses_nothing_far_from_zero() -> None:
    found, values = kernel("BatchNorm", eps=1e-5)
    x = (np.random.default_rng(0).standard_normal((4, 3, 5)) + 1e4).astype("float32")
    mean, variance = x.astype("float64").mean((0, 2)), x.astype("float64").var((0, 2))
    vectors = [np.ones(3), np.zeros(3), mean, variance]
    got = found.forward(Context(), values, x, *(v.astype("float32") for v in vectors))
    mean = mean.astype("float32").reshape(-1, 1)
    np.testing.assert_allclose(
        got, (x.astype("float64") - mean) / np.sqrt(variance + 1e-5).reshape(-1, 1), atol=1e-5
    )


def test_channels_last_convolution_is_the_other_one_with_axes_moved() -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (
        rng.standard_normal((2, 4, 7, 6)),
        rng.standard_normal((6, 2, 3, 2)),
        rng.standard_normal(6),
    )
    attrs = {"kernel": (3, 2), "num_filter": 6, "num_group": 2, "stride": (2, 1), "pad": (1, 1)}
    first, plain = kernel("Convolution", **attrs)
    wanted = first.forward(Context(), plain, x, weight, bias)
    _, values = kernel("Convolution", layout="NHWC", **attrs)
    got = first.forward(Context(), values, np.moveaxis(x, 1, -1), np.moveaxis(weight, 1, -1), bias)
    np.testing.assert_allclose(np.moveaxis(np.asarray(got), -1, 1), wanted, atol=1e-12)


def test_transposed_convolution_is_the_transpose() -> None:
    rng = np.random.default_rng(0)
    attrs = {
        "kernel": (3, 3),
        "stride": (2, 2),
        "pad": (1, 1),
        "dilate": (2, 1),
        "num_group": 2,
        "no_bias": True,
    }
    forth, values = kernel("Convolution", num_filter=4, **attrs)
    back, reverse = kernel("Deconvolution", num_filter=6, **attrs, target_shape=(9, 9))
    x, weight = rng.standard_normal((1, 6, 9, 9)), rng.standard_normal((4, 3, 3, 3))
    y = np.asarray(forth.forward(Context(), values, x, weight))
    g = rng.standard_normal(y.shape)
    assert np.isclose(
        (y * g).sum(), (x * np.asarray(back.forward(Context(), reverse, g, weight))).sum()
    )


def test_float16_products_are_formed_in_float32() -> None:
    found, values = kernel("FullyConnected", num_hidden=2, no_bias=True)
    x, weight = np.full((1, 4096), 1, "float16"), np.full((2, 4096), 0.5, "float16")
    got = np.asarray(found.forward(Context(), values, x, weight))
    assert got.dtype == np.float16
    assert got.tolist() == [[2048.0, 2048.0]]


def test_dropout_draws_from_the_run_and_keeps_the_mean() -> None:
    found, values = kernel("Dropout", p=0.25, axes=(1,))
    x = np.ones((2000, 3), "float32")
    assert found.forward(Context(), values, x) is x
    with pytest.raises(KernelError, match="random numbers"):
        found.forward(Context(training=True), values, x)
    result = found.forward(Context(training=True, rng=np.random.default_rng(0)), values, x)
    assert isinstance(result, KernelResult)
    out = result.outputs[0]
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (out == out[:, :1]).all(), "axes share their draw"
    assert abs(float(out.mean()) - 1) < 0.05
