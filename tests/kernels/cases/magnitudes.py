"""Cases for functions of one or two arrays, element by element, on numbers of all sizes. Plain data."""

from tests.kernels.cases.unary import ALL
from tests.kernels.rounding import EPS, with_atol

SIZES = [sign * 1.37 * 10.0**power for power in range(-7, 5) for sign in (1, -1)] + [
    0.9999,
    -0.9999,
    1.0001,
    0.5,
    -0.5,
    300.5,
]
ACTIVATIONS = [
    ("Activation", {"act_type": kind})
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
]
ACTIVATIONS += [("LeakyReLU", {"act_type": kind}) for kind in ("leaky", "elu", "selu", "gelu")]
ACTIVATIONS += [(op, {}) for op in ("relu", "sigmoid", "softsign", "tanh")]
OF_TWO = "elemwise_add elemwise_sub elemwise_mul elemwise_div _maximum _minimum _hypot _power _mod add_n".split()
NUMBERS = [
    ("_rdiv_scalar", "2.5"),
    ("_power_scalar", "1.5"),
    ("_hypot_scalar", "0.3"),
    ("_mod_scalar", "0.7"),
]


def case(op, attrs, dtype, *orders):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": [len(x)], "dtype": dtype, "values": x} for x in orders],
    }


def tolerance(case):
    """Small numbers have to be as right as large ones: the absolute part is twice float16's
    smallest number, and 0 in float32.

    But below 0 oneDNN takes 1 from an exponential, 1 + erf(x / sqrt 2) cancels, and softrelu is exact to 8 eps of 1.
    """
    if case["inputs"][0]["dtype"] == "float16":
        return 2.0**-23
    return {"elu": 1, "gelu": 3, "softrelu": 8}.get(case["attrs"].get("act_type"), 0) * EPS[
        "float32"
    ]


TYPES = ("float32", "float16")
CASES = [case(op, {}, dtype, SIZES) for op in ALL for dtype in TYPES]
CASES += [case(op, attrs, dtype, SIZES) for op, attrs in ACTIVATIONS for dtype in TYPES]
CASES += [case(op, {"scalar": number}, dtype, SIZES) for op, number in NUMBERS for dtype in TYPES]
CASES += [
    case(op, {"num_args": "2"} if op == "add_n" else {}, dtype, SIZES, SIZES[7:] + SIZES[:7])
    for op in OF_TWO
    for dtype in TYPES
]
CASES += [
    case(
        "add_n",
        {"num_args": str(count)},
        dtype,
        *(SIZES[i:] + SIZES[:i] for i in (0, 3, 11, 20)[:count]),
    )
    for dtype in TYPES
    for count in (3, 4)
]
CASES = with_atol(CASES, tolerance)
