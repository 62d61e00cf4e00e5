"""Cases for LeakyReLU."""

from tests.kernels.rounding import EPS

TYPES = ("float32", "float64", "float16")

CASES = [
    {
        "op": "LeakyReLU",
        "attrs": attrs,
        "inputs": [{"shape": [2, 3, 4], "dtype": dtype, "scale": 2.0}],
    }
    for attrs in (
        {},
        {"act_type": "leaky", "slope": "0.1"},
        {"act_type": "elu"},
        {"act_type": "elu", "slope": "1.5"},
        {"act_type": "selu"},
        {"act_type": "gelu"},
    )
    for dtype in TYPES
]
CASES += [
    {
        "op": "LeakyReLU",
        "attrs": {"act_type": "gelu"},
        "inputs": [{"shape": [5, 40], "dtype": dtype, "scale": 2.0}],
    }
    for dtype in TYPES
]
CASES += [
    {"op": "LeakyReLU", "attrs": attrs, "inputs": [{"shape": [3, 4], "dtype": dtype}], "outputs": 1}
    for attrs in (
        {"act_type": "rrelu"},
        {"act_type": "rrelu", "lower_bound": "0.1", "upper_bound": "0.7"},
    )
    for dtype in TYPES
]
CASES += [
    {
        "op": "LeakyReLU",
        "attrs": {"act_type": "prelu"},
        "inputs": [{"shape": s, "dtype": d}, {"shape": g, "dtype": d}],
    }
    for d in TYPES
    for s, g in (([2, 3, 4], [3]), ([2, 3], [3]), ([2, 3, 2, 2], [1]), ([4], [1]))
]
CASES += [
    {
        "op": "LeakyReLU",
        "attrs": {"slope": "0.5"},
        "inputs": [{"shape": [4], "values": [float("nan"), float("-inf"), -2, 2]}],
    }
]


def tolerance(case):
    """Of float64 MXNet computes the part below 0 in float32; gelu as a whole, where 1 + erf(x /
    sqrt 2) cancels below 0.

    That sum is rounded by half an eps and multiplied by x / 2, which is up to 3.
    """
    dtype = case["inputs"][0].get("dtype", "float32")
    if dtype == "float16":
        return {}
    if case["attrs"].get("act_type") == "gelu":
        return {"atol": 6 * EPS["float32"] if dtype == "float64" else 3 * EPS["float32"]}
    return {"rtol": EPS["float32"]} if dtype == "float64" else {}


CASES = [dict(case, **tolerance(case)) for case in CASES]
