"""Cases for convolutions. Plain data."""

from math import prod

from tests.kernels.rounding import sum_rounding


def conv(data, filters, kernel, op="Convolution", groups=1, bias=True, dtype="float32", **attrs):
    """A convolution of ``data`` (N, C, ...)."""
    attrs = {
        key: str(tuple(value)) if isinstance(value, list) else value for key, value in attrs.items()
    }
    attrs.update(
        kernel=str(tuple(kernel)),
        num_filter=str(filters),
        no_bias=str(not bias),
        num_group=str(groups),
    )
    shapes = [data, [filters, data[1] // groups, *kernel]] + ([[filters]] if bias else [])
    terms = data[1] // groups * prod(kernel) + bias
    inputs = [{"shape": shape, "dtype": dtype} for shape in shapes]
    return {"op": op, "attrs": attrs, "inputs": inputs, "atol": sum_rounding(terms, dtype=dtype)}


CASES = [
    conv([batch, 3, 7, 6], 4, [3, 3], stride=[stride, stride], pad=[pad, pad], bias=bias)
    for batch, bias in ((1, True), (2, False))
    for stride in (1, 2)
    for pad in (0, 1)
]
CASES += [
    conv([2, 3, 9, 8], 4, kernel, stride=stride, pad=pad, dilate=dilate)
    for kernel, stride, pad, dilate in (
        ([1, 7], [1, 1], [0, 3], [1, 1]),
        ([7, 1], [1, 1], [3, 0], [1, 1]),
        ([5, 5], [3, 2], [2, 4], [1, 1]),
        ([3, 3], [1, 1], [2, 2], [2, 2]),
        ([3, 2], [2, 1], [2, 3], [2, 3]),
        ([2, 2], [2, 2], [0, 0], [1, 1]),
        ([1, 1], [1, 1], [1, 1], [1, 1]),
        ([1, 1], [2, 3], [0, 0], [1, 1]),
        ([3, 3], [1, 2], [0, 1], [1, 2]),
    )
]
CASES += [
    conv([2, 3, 5, 6], 4, [1, 1], bias=bias, stride=[s, s])
    for bias in (True, False)
    for s in (1, 2)
]
CASES += [
    conv([2, 4, 6, 7], filters, [3, 3], groups=groups, stride=[stride, stride], pad=[1, 1])
    for groups, filters in ((2, 4), (2, 6), (4, 4), (4, 8))
    for stride in (1, 2)
]
CASES += [
    conv([2, 4, 6, 7], filters, [1, 1], groups=groups)
    for groups, filters in ((2, 6), (4, 4), (4, 8))
]
CASES += [
    conv([2, 4, 6, 7], 4, [3, 3], groups=4, dilate=[2, 2], pad=[2, 2], bias=False),
    conv([2, 3, 8], 4, [3]),
    conv([2, 3, 8], 4, [3], stride=[2], pad=[1], dilate=[2], layout="NCW"),
    conv([2, 4, 8], 4, [5], groups=2, pad=[2]),
    conv([1, 3, 5, 6, 4], 4, [3, 3, 3]),
    conv([1, 3, 5, 6, 4], 4, [3, 3, 2], stride=[2, 1, 2], pad=[1, 1, 0], layout="NCDHW"),
    conv([1, 3, 5, 6, 4], 4, [1, 3, 3], pad=[0, 1, 1], bias=False),
    conv([1, 3, 5, 6, 4], 4, [3, 1, 1], pad=[1, 0, 0], bias=False),
    conv([1, 4, 5, 6, 4], 4, [2, 2, 2], dilate=[2, 2, 1], groups=2),
    conv([1, 4, 5, 6, 4], 4, [3, 3, 3], groups=4, pad=[1, 1, 1]),
    conv([1, 4, 5, 6, 4], 6, [1, 1, 1], stride=[2, 2, 2]),
    conv([1, 2, 5, 5], 3, [3, 3], dtype="float64"),
    conv(
        [1, 2, 5, 5], 3, [3, 3], layout="NCHW", workspace="512", cudnn_tune="off", cudnn_off="True"
    ),
    conv([2, 4, 6, 7], 4, [3, 3], op="Convolution_v1", stride=[2, 2], pad=[1, 1]),
    conv([2, 4, 6, 7], 4, [3, 3], op="Convolution_v1", dilate=[2, 2], bias=False),
    conv([2, 4, 6, 7], 4, [3, 3], op="Convolution_v1", groups=2),
    conv([2, 4, 6, 7], 4, [1, 1], op="Convolution_v1", dtype="float64"),
]
