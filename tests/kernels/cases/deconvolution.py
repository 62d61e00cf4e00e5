"""Cases for transposed convolutions and upsampling. Plain data."""

from math import prod

from tests.kernels.rounding import sum_rounding


def deconv(data, filters, kernel, groups=1, bias=False, dtype="float32", **attrs):
    """A transposed convolution of ``data`` (N, C, ...)."""
    attrs = {
        key: str(tuple(value)) if isinstance(value, list) else value for key, value in attrs.items()
    }
    attrs.update(
        kernel=str(tuple(kernel)),
        num_filter=str(filters),
        no_bias=str(not bias),
        num_group=str(groups),
    )
    shapes = [data, [data[1], filters // groups, *kernel]] + ([[filters]] if bias else [])
    terms = data[1] // groups * prod(kernel) + bias
    inputs = [{"shape": shape, "dtype": dtype} for shape in shapes]
    return {
        "op": "Deconvolution",
        "attrs": attrs,
        "inputs": inputs,
        "atol": sum_rounding(terms, dtype=dtype),
    }


def up(*shapes, dtype="float32", **attrs):
    """An upsampling."""
    inputs = [{"shape": shape, "dtype": dtype} for shape in shapes]
    return {
        "op": "UpSampling",
        "attrs": {key: str(value) for key, value in attrs.items()},
        "inputs": inputs,
    }


CASES = [
    deconv([2, 3, 4, 5], 4, [kernel, kernel], stride=[stride, stride], pad=[pad, pad], bias=bias)
    for kernel, pad in ((2, 0), (3, 1), (4, 1))
    for stride in (1, 2, 3)
    for bias in (True, False)
]
CASES += [
    deconv([2, 3, 4, 5], 4, [3, 3], stride=[2, 2], pad=[1, 1], adj=[1, 1]),
    deconv([2, 3, 4, 5], 4, [3, 2], stride=[2, 3], adj=[1, 2]),
    deconv([2, 3, 4, 5], 4, [3, 3], stride=[2, 2], target_shape=[9, 11]),
    deconv([2, 3, 4, 5], 4, [2, 2], stride=[2, 2], target_shape=[0, 0], adj=[0, 0], pad=[0, 0]),
    deconv([2, 3, 4, 5], 4, [3, 3], dilate=[2, 2]),
    deconv([2, 3, 4, 5], 4, [3, 2], dilate=[2, 3], stride=[2, 1], pad=[1, 1], bias=True),
    deconv([2, 4, 4, 5], 4, [3, 3], groups=2),
    deconv([2, 4, 4, 5], 6, [3, 3], groups=2, stride=[2, 2], pad=[1, 1], bias=True),
    deconv([2, 4, 4, 5], 4, [4, 4], groups=4, stride=[2, 2], pad=[1, 1]),
    deconv([2, 3, 6], 4, [3]),
    deconv([2, 3, 6], 4, [4], stride=[2], pad=[1], adj=[1], layout="NCW", bias=True),
    deconv([2, 4, 6], 4, [3], groups=2, stride=[3]),
    deconv([1, 3, 3, 4, 2], 2, [3, 3, 3], stride=[2, 2, 2]),
    deconv([1, 3, 3, 4, 2], 2, [2, 3, 2], stride=[2, 1, 2], pad=[1, 1, 0], layout="NCDHW"),
    deconv([1, 3, 4, 5], 4, [3, 3], stride=[2, 2], dtype="float64", bias=True),
    deconv(
        [1, 3, 4, 5], 4, [1, 1], layout="NCHW", workspace="512", cudnn_tune="off", cudnn_off="True"
    ),
]
CASES += [up([2, 3, 4, 5], scale=scale, sample_type="nearest", num_args=1) for scale in (1, 2, 3)]
CASES += [
    up([1, 2, 4, 4], second, scale=2, sample_type="nearest", num_args=2, multi_input_mode=mode)
    for second in ([1, 2, 4, 4], [1, 2, 2, 2], [1, 2, 8, 8])
    for mode in ("concat", "sum")
]
CASES += [up([1, 2, 4, 4], [1, 3, 2, 2], scale=2, sample_type="nearest", num_args=2)]
CASES += [
    up(
        [2, 2, 4, 5],
        [2, 1, size, size],
        scale=scale,
        sample_type="bilinear",
        num_filter=2,
        num_args=2,
    )
    for scale, size in ((1, 1), (2, 4), (3, 5), (4, 8))
]
CASES += [
    up([1, 2, 4, 5], scale=2, sample_type="nearest", num_args=1, dtype=dtype)
    for dtype in ("float16", "float64")
]
