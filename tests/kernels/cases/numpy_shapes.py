"""Cases for operators of the numpy interface that only move numbers. Plain data."""


def case(op, attrs, *shapes, **more):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [dict({"shape": list(shape)}, **more) for shape in shapes],
    }


CUBE = (2, 3, 4)
CASES = [
    case("_np_moveaxis", {"source": "(0,)", "destination": "(2,)"}, CUBE),
    case("_np_moveaxis", {"source": "(0, 1)", "destination": "(2, 0)"}, CUBE),
    case("_np_squeeze", {}, (1, 3, 1, 2)),
    case("_np_squeeze", {"axis": "(0,)"}, (1, 3, 1, 2)),
    case("_npi_broadcast_to", {"shape": "(2, 3, 4)"}, (3, 1)),
    case("_npi_flip", {"axis": "(0, 2)"}, CUBE),
    case("_npi_flip", {"axis": "(1,)"}, CUBE, dtype="int32", low=0, high=9),
    case("_np_copy", {}, CUBE),
    case("_np_roll", {"shift": "(2,)"}, CUBE),
    case("_np_roll", {"shift": "(1, -1)", "axis": "(0, 2)"}, CUBE),
    case("_npi_tril", {"k": "-1"}, (4, 3)),
    case("_npi_tril", {"k": "1"}, CUBE),
    case("_npi_tril", {}, (4,)),
    case("_np_reshape", {"newshape": "(4, -1)"}, CUBE),
    case("_npx_reshape", {"newshape": "(-2, -1)"}, CUBE),
    case("_npx_reshape", {"newshape": "(-5, -4)"}, CUBE),
    case("_npx_reshape", {"newshape": "(-6, 1, 2, -4)"}, CUBE),
    case("_npx_reshape", {"newshape": "(-6, -1, 2, -5)"}, (4, 3, 4)),
    case("_npx_reshape", {"newshape": "(-3, -2, 2, 2)"}, (1, 3, 4)),
    case("_npx_reshape", {"newshape": "(-1, -2)", "reverse": "True"}, CUBE),
]
CASES += [case("_npi_rot90", {"k": k, "axes": "(0, 1)"}, CUBE) for k in ("0", "1", "2", "3", "-1")]
CASES += [case("_npi_rot90", {"k": "1", "axes": "(2, 1)"}, CUBE)]
CASES += [
    case("_np_diagonal", {"offset": k, "axis1": "0", "axis2": "2"}, CUBE) for k in ("0", "1", "-1")
]
CASES += [
    case("_np_trace", {"offset": k, "axis1": "0", "axis2": "2"}, CUBE) for k in ("0", "1", "-1")
]
CASES += [
    case(op, {"k": k}, shape)
    for op in ("_np_diag", "diag")
    for k in ("0", "1", "-2")
    for shape in ((4,), (4, 5))
]
CASES += [case("diag", {"k": "1", "axis1": "2", "axis2": "0"}, CUBE)]
CASES += [case("_np_diagflat", {"k": k}, (2, 2)) for k in ("0", "1", "-2")]
CASES += [case(f"_np_atleast_{n}d", {"num_args": "3"}, (2,), (2, 3), CUBE) for n in (1, 2, 3)]
