"""Cases for products of matrices. Plain data."""

from tests.kernels.rounding import sum_rounding


def case(op, attrs, *shapes, dtype="float32", terms=0):
    found = {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": shape, "dtype": dtype} for shape in shapes],
    }
    if op.endswith(("dot", "gemm", "gemm2")):
        terms = 6  # at most five products and an addend
    return dict(found, atol=sum_rounding(terms, dtype=dtype)) if terms else found


def dense(data, width, flatten, bias=True, dtype="float32"):
    attrs = {"num_hidden": "4", "flatten": str(flatten), "no_bias": str(not bias)}
    return case(
        "FullyConnected",
        attrs,
        data,
        [4, width],
        *([[4]] if bias else []),
        dtype=dtype,
        terms=width + bias,
    )


CASES = [
    dense(data, width, flatten, bias, dtype)
    for data, width, flatten in (
        ([3, 5], 5, True),
        ([3, 2, 5], 10, True),
        ([3, 2, 5], 5, False),
        ([1, 2, 3, 5], 30, True),
        ([2, 2, 3, 5], 5, False),
        ([5], 1, True),
        ([5], 5, False),
        ([1, 5], 5, True),
    )
    for bias, dtype in ((True, "float32"), (False, "float64"))
]
CASES += [
    case("dot", attrs, a, b)
    for attrs, a, b in (
        ({}, [5], [5]),
        ({}, [3, 5], [5]),
        ({}, [5], [5, 4]),
        ({}, [3, 5], [5, 4]),
        ({"transpose_a": "True"}, [5, 3], [5, 4]),
        ({"transpose_b": "True"}, [3, 5], [4, 5]),
        ({"transpose_a": "True", "transpose_b": "True"}, [5, 3], [4, 5]),
        ({}, [2, 3, 5], [5, 4, 3]),
        ({"transpose_a": "True"}, [5, 2, 3], [5, 4, 3]),
        ({"transpose_b": "True"}, [2, 3, 5], [4, 3, 5]),
    )
]
CASES += [
    case(op, dict(attrs, transpose_a=a, transpose_b=b), [2, 3, 3], [2, 3, 3], *more)
    for op, attrs, more in (
        ("batch_dot", {}, []),
        ("_linalg_gemm2", {"alpha": "0.5"}, []),
        ("_linalg_gemm", {"alpha": "0.5", "beta": "2.0"}, [[2, 3, 3]]),
    )
    for a in ("True", "False")
    for b in ("True", "False")
]
CASES += [
    case("batch_dot", {}, [2, 3, 5], [2, 5, 4]),
    case("batch_dot", {"transpose_b": "True"}, [2, 2, 3, 5], [2, 2, 4, 5], dtype="float64"),
    case("_linalg_gemm2", {"transpose_a": "True"}, [5, 3], [5, 4]),
    case("_linalg_gemm2", {"axis": "0"}, [3, 2, 5], [5, 2, 4]),
    case(
        "_linalg_gemm2",
        {"axis": "-3", "transpose_b": "True"},
        [3, 2, 5],
        [4, 2, 5],
        dtype="float64",
    ),
    case("_linalg_gemm", {"axis": "1"}, [2, 3, 2, 5], [2, 5, 2, 4], [2, 3, 2, 4]),
    case("_linalg_gemm", {}, [3, 5], [5, 4], [3, 4], dtype="float64"),
    case("khatri_rao", {"num_args": "1"}, [3, 5]),
    case("khatri_rao", {"num_args": "2"}, [3, 5], [4, 5]),
    case("khatri_rao", {"num_args": "3"}, [3, 5], [4, 5], [2, 5], dtype="float64"),
]
CASES += [
    case("_contrib_div_sqrt_dim", {}, [2, 3, 5], dtype=dtype)
    for dtype in ("float32", "float64", "float16")
]
