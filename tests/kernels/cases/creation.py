"""Cases for arrays from nothing. Plain data."""

from tests.kernels.rounding import sum_rounding, with_atol


def _case(op, attrs, shapes=(), dtype="float32"):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": shape, "dtype": dtype} for shape in shapes],
    }


CASES = [
    _case(op, {"shape": "(2, 3)", "dtype": dtype})
    for op in ("_zeros", "_ones", "_npi_zeros", "_npi_ones")
    for dtype in ("float32", "int32", "bool")
]
CASES += [
    _case("_zeros", {"shape": "3"}),
    _case("_full", {"shape": "(2, 2)", "value": "3.5", "dtype": "float32"}),
    _case("_full", {"shape": "(2,)", "value": "2.7", "dtype": "int32"}),
    _case("_full", {"shape": "(2,)", "value": "2.7", "dtype": "bool"}),
    _case("_full", {"shape": "(2,)", "value": "0.1", "dtype": "float64"}),
    _case("_npi_identity", {"shape": "(3, 3)"}),
    _case("_npi_eye", {"N": "3", "M": "None", "k": "1"}),
    _case("_npi_eye", {"N": "2", "M": "3", "dtype": "int64"}),
    _case("_eye", {"N": "3", "M": "4", "k": "1"}),
    _case("_eye", {"N": "3"}),
    _case("_eye", {"N": "4", "M": "2", "k": "-1", "dtype": "int32"}),
    _case(
        "_arange", {"start": "1", "stop": "7", "step": "2", "repeat": "1", "infer_range": "False"}
    ),
    _case("_arange", {"start": "20", "stop": "None", "step": "1.0"}),
    _case("_arange", {"start": "2.5"}),
    _case("_arange", {"start": "0", "stop": "3", "repeat": "2"}),
    _case("_arange", {"start": "5", "stop": "0", "step": "-2"}),
    _case("_arange", {"start": "0", "stop": "1", "step": "0.1"}),
    _case(
        "_arange", {"start": "1", "stop": "3.3", "step": "0.5", "repeat": "3", "dtype": "float64"}
    ),
    _case("_arange", {"start": "0.5", "stop": "5", "dtype": "int32"}),
    _case("_arange", {"start": "1.5", "stop": "9", "step": "2.5", "dtype": "int64"}),
    _case("_npi_arange", {"start": "0", "stop": "3"}),
    _case("_npi_arange", {"start": "4", "stop": "10", "step": "3", "dtype": "int8"}),
    _case("_linspace", {"start": "0", "stop": "1", "num": "5", "endpoint": "True"}),
    _case("_linspace", {"start": "0", "stop": "1", "num": "5", "endpoint": "False"}),
    _case("_linspace", {"start": "0", "stop": "7", "num": "4", "dtype": "int32"}),
    _case("_linspace", {"start": "3", "stop": "-7", "num": "1", "dtype": "float64"}),
    _case("_contrib_arange_like", {}, [[2, 3]]),
    _case("_contrib_arange_like", {"start": "1", "step": "2", "repeat": "2"}, [[2, 3, 2]]),
    _case("_contrib_arange_like", {"axis": "-1", "repeat": "2"}, [[2, 3, 4]]),
    _case("_contrib_arange_like", {"axis": "1", "start": "3"}, [[2, 3]], "int32"),
    _case("_npi_full_like", {"fill_value": "2.5"}, [[2, 3]]),
    _case("_npi_full_like", {"fill_value": "2.5"}, [[2, 3]], "int32"),
    _case("_npi_full_like", {"fill_value": "2.5", "dtype": "int64"}, [[2, 3]]),
]
CASES += [
    _case("_npi_logspace", {"start": "0", "stop": "2", "num": "5", **more})
    for more in ({}, {"base": "2", "endpoint": "0"})
]
# At the ends cosines cancel.
CASES += with_atol(
    [_case(f"_npi_{name}", {"M": "7"}) for name in ("blackman", "hamming", "hanning")],
    sum_rounding(3, 0.5),
)
CASES += [
    _case("_npi_indices", {"dimensions": "(2, 3)"}),
    _case("_npi_diag_indices_from", {}, [[3, 3, 3]]),
]
CASES += [
    _case("_zeros_without_dtype", {"shape": "(2, 3)", "dtype": dtype}) for dtype in ("0", "1", "4")
]
