"""Cases for operators between arrays and numbers of the numpy interface. Plain data."""

VALUES = [
    -2.5,
    -1.0,
    -0.5,
    0.0,
    0.5,
    1.0,
    1.5,
    3.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    0.125,
]
REAL = {"shape": [12], "values": VALUES}
WHOLE = {"shape": [6], "values": [-2, -1, 0, 1, 2, 5], "dtype": "int32"}


def case(op, attrs, *inputs):
    return {"op": "_npi_" + op, "attrs": attrs, "inputs": list(inputs)}


CASES = [
    case(f"{op}_scalar", {"scalar": number, "is_int": "True"}, x)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")
    for number in ("6", "-3")
    for x in (WHOLE, dict(WHOLE, dtype="int64"))
]
CASES += [
    case(f"{op}_scalar", {"scalar": number, "is_int": "False"}, x)
    for op in ("arctan2", "rarctan2", "copysign", "rcopysign", "ldexp", "rldexp")
    for number in ("1.5", "-3")
    for x in (REAL, WHOLE, dict(REAL, dtype="float64"))
]
CASES += [case(op, {}, {"shape": [2, 3]}, {"shape": [3]}) for op in ("copysign", "ldexp")]
CASES += [case("bitwise_not", {}, x) for x in (WHOLE, dict(WHOLE, dtype="bool"))]
CASES += [case("around", {"decimals": n}, {"shape": [40], "scale": 20.0}) for n in ("0", "1", "-1")]
CASES += [case("around", {}, REAL)]
CASES += [
    case("nan_to_num", attrs, REAL) for attrs in ({}, {"nan": "2.5", "posinf": "9", "neginf": "-8"})
]
CASES += [case("polyval", {}, {"shape": [4]}, {"shape": [2, 3]})]
CASES += [
    case(op, {"scalar": "2.5"}, WHOLE, {"shape": [2, 6]})
    for op in ("where_lscalar", "where_rscalar")
]
CASES += [case("where_scalar2", {"x": "2.5", "y": "-1"}, WHOLE)]
CASES += [
    {
        "op": f"_npi_{op}_scalar",
        "attrs": {"scalar": "1.5", "is_int": whole},
        "inputs": [{"shape": [6], "dtype": dtype, "values": [2, 1, 0, 1, 2, 5]}],
    }
    for op in ("arctan2", "rarctan2", "copysign", "rcopysign", "ldexp", "rldexp")
    for whole in ("True", "False")
    for dtype in ("int32", "uint8", "bool")
]
CASES += [
    {
        "op": op,
        "attrs": {},
        "inputs": [{"shape": [2, 3], "dtype": dtype, "values": [2, 1, 0, 1, 2, 5]}] * 2,
    }
    for op in ("_npi_copysign", "_npi_ldexp")
    for dtype in ("int32", "uint8")
]
