"""Cases for normalization within a sample. Plain data."""

from tests.kernels.rounding import EPS, sum_rounding, with_atol


def case(op, attrs, *shapes, **more):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [dict({"shape": shape}, **more) for shape in shapes],
    }


CASES = [
    case("InstanceNorm", attrs, shape, [3], [3])
    for attrs in ({}, {"eps": "0.5"})
    for shape in ([2, 3, 5], [2, 3, 4, 5], [1, 3, 2, 3, 4])
]
CASES += [
    case("LayerNorm", dict(attrs, axis=axis), [2, 3, 4], [length], [length])
    for attrs in ({}, {"output_mean_var": "True"}, {"eps": "1e-12"})
    for axis, length in (("-1", 4), ("1", 3), ("0", 2))
]
CASES += [
    case("GroupNorm", dict(attrs, num_groups=str(groups)), shape, [groups], [groups])
    for attrs in ({}, {"output_mean_var": "True", "eps": "0.1"})
    for groups, shape in ((1, [2, 4, 3]), (2, [2, 4, 3, 5]), (4, [1, 4, 2, 3, 2]))
]
CASES += [
    case(
        op, attrs, [2, 4, 5], [4 if "Group" in op else 5], [4 if "Group" in op else 5], dtype=dtype
    )
    for op, attrs in (("LayerNorm", {}), ("GroupNorm", {"num_groups": "4"}))
    for dtype in ("float16", "float64")
]
CASES += [
    case("LRN", attrs, [2, 7, 3, 4], scale=3.0)
    for attrs in (
        {"nsize": "5"},
        {"nsize": "1"},
        {"nsize": "3", "alpha": "0.1", "beta": "0.5", "knorm": "1"},
        {"nsize": "9", "alpha": "0.1"},
        {"nsize": "21", "alpha": "0.1"},
    )
]
CASES += [
    case("L2Normalization", {"mode": mode, "eps": eps}, shape)
    for mode in ("instance", "channel", "spatial")
    for eps in ("1e-10", "0.5")
    for shape in ([2, 4, 3], [2, 4, 3, 5])
]
CASES += [case("L2Normalization", {}, [2, 3])]
CASES += [
    case("L2Normalization", {"mode": "channel"}, [2, 4, 3, 5], dtype=dtype)
    for dtype in ("float16", "float64")
]
CASES += [
    case("Dropout", {"p": "0.3", "axes": "(1,)"}, [2, 3, 4], dtype=dtype)
    for dtype in ("float32", "float16", "float64")
]
CASES += [
    dict(case("Dropout", {"p": "0"}, [2, 3, 4]), train=True),
    case("Dropout", {"p": "0.0", "mode": "always"}, [2, 3, 4]),
]
CASES += [
    dict(case("IdentityAttachKLSparseReg", {}, [2, 3], [3], shift=0.5, scale=0.1), train=train)
    for train in (True, False)
]
CASES += [
    {
        "op": "LRN",
        "attrs": {"nsize": size, "alpha": "0.1", "beta": "0.5", "knorm": "1"},
        "inputs": [{"shape": [2, 7, 2, 3], "scale": 3.0}],
    }
    for size in ("2", "4", "20")
]


def rounding(case):
    """(x - mean) / deviation * gamma + beta has three terms about 2; of float16 MXNet rounds the
    mean and the deviation too.
    """
    dtype = case["inputs"][0].get("dtype", "float32")
    if case["op"] not in ("InstanceNorm", "LayerNorm", "GroupNorm"):
        return None
    return EPS["float16"] if dtype == "float16" else sum_rounding(3, 2.0, dtype)


CASES = with_atol(CASES, rounding)
