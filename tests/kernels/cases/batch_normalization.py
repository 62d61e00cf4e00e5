"""Cases for normalization by channel. Plain data."""

from tests.kernels.rounding import EPS, sum_rounding


def norm(op, shape, channels, dtype="float32", train=False, scale=1.0, shift=0.0, **attrs):
    """One case; the variance is positive."""
    if op == "_contrib_SyncBatchNorm":
        attrs["key"] = "k"
    vector = {"shape": [channels], "dtype": "float32" if dtype == "float16" else dtype}
    variance = dict(vector, values=[0.5 + i for i in range(channels)])
    inputs = [
        {"shape": shape, "dtype": dtype, "scale": scale, "shift": shift},
        vector,
        vector,
        vector,
        variance,
    ]
    # (x - mean) * scale + beta has three terms; that much of them is lost where they cancel.
    atol = sum_rounding(3, max(2.0, shift), dtype)
    return {"op": op, "attrs": attrs, "inputs": inputs, "train": train, "atol": atol}


OPERATORS = ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
CASES = [
    norm(op, [2, 3, 4, 5], 3, train=train, use_global_stats=fixed, fix_gamma=gamma)
    for op in OPERATORS
    for train in (True, False)
    for fixed in ("True", "False")
    for gamma in ("True", "False")
]
CASES += [
    norm(op, [2, 3, 4, 5], 3, train=train, output_mean_var="True", eps="1e-05")
    for op in OPERATORS
    for train in (True, False)
    if train or op != "_contrib_SyncBatchNorm"
]
CASES += [
    norm("BatchNorm", shape, 3, axis=axis, train=train, fix_gamma="False")
    for shape, axis in (
        ([2, 4, 3], "-1"),
        ([2, 4, 5, 3], "3"),
        ([3, 5], "0"),
        ([2, 4, 3, 5], "2"),
        ([4, 3], "1"),
        ([2, 3, 5], "1"),
    )
    for train in (True, False)
]
CASES += [norm("BatchNorm", [1, 3, 2, 4, 3], 3, train=train) for train in (True, False)]
# MXNet rounds the variance of float16 data to float16 on the way, although it gives float32.
CASES += [
    dict(
        norm(
            "BatchNorm",
            [2, 3, 4, 5],
            3,
            dtype=dtype,
            train=train,
            output_mean_var="True",
            fix_gamma="False",
        ),
        **more,
    )
    for dtype, more in (("float16", {"atol": EPS["float16"]}), ("float64", {}))
    for train in (True, False)
]
CASES += [
    norm(
        "BatchNorm",
        [2, 3, 4, 5],
        3,
        scale=1.0,
        shift=100.0,
        train=True,
        cudnn_off="True",
        momentum="0.5",
    ),
    norm("BatchNorm", [1, 3, 40, 40], 3, eps="0.001", min_calib_range="0.0", max_calib_range="1.0"),
]
CASES += [
    {
        "op": "_contrib_BatchNormWithReLU",
        "attrs": {"use_global_stats": "True", "fix_gamma": "False"},
        "inputs": [
            {
                "shape": [1, 3, 2, 1],
                "values": [float("nan"), 1, -2, 3, float("inf"), float("-inf")],
            },
            *({"shape": [3], "values": [1, 2, 0.5]} for _ in range(4)),
        ],
    }
]
