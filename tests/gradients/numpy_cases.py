"""Cases for gradients of the numpy interface: against MXNet, against a central difference, and what is refused."""

from __future__ import annotations

from typing import Any

Input = tuple[int, ...] | dict[str, Any]


def case(op: str, attrs: dict[str, Any], *inputs: Input) -> dict[str, Any]:
    specs = [spec if isinstance(spec, dict) else {"shape": list(spec)} for spec in inputs]
    return {"op": op, "attrs": {key: str(value) for key, value in attrs.items()}, "inputs": specs}


def einsum(text: str, *shapes: Input, optimize: int = 0) -> dict[str, Any]:
    return case(
        "_npi_einsum", {"num_args": len(shapes), "subscripts": text, "optimize": optimize}, *shapes
    )


def given(shape: tuple[int, ...], *values: float) -> dict[str, Any]:
    return {"shape": list(shape), "values": list(values)}


def bits(*shape: int) -> dict[str, Any]:
    return {"shape": list(shape), "low": 0, "high": 2}


# --- products
NUMPY = [
    case("_np_dot", {}, a, b)
    for a, b in (
        ((3,), (3,)),
        ((3,), (2, 3, 4)),
        ((2, 2, 3), (3,)),
        ((2, 3), (4, 3, 2)),
        ((), ()),
        ((), (2, 3)),
        ((2, 3), ()),
    )
]
NUMPY += [
    case("_npi_tensordot", {"a_axes_summed": left, "b_axes_summed": right}, a, b)
    for a, b, left, right in (
        ((2, 3, 4), (4, 2, 5), "(0, 2)", "(1, 0)"),
        ((2, 3, 4), (4, 2, 5), "(-1, 0)", "(-3, -2)"),
        ((2, 3, 4), (4, 2, 3), "(2, 0, 1)", "(0, 1, 2)"),
        ((2, 3), (4,), "()", "()"),
    )
]
NUMPY += [
    case("_npi_tensordot_int_axes", {"axes": n}, a, b)
    for a, b, n in (((3, 2), (3, 2), 2), ((2,), (3, 2), 0), ((), (2, 3), 0), ((2, 2, 3), (3, 4), 1))
]
EINSUMS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
    ("ij,jk,kl,lm->im", ((2, 3), (3, 4), (4, 2), (2, 3))),
    ("bij,bjk,bk->bi", ((2, 3, 4), (2, 4, 5), (2, 5))),
    ("ii->i", ((3, 3),)),
    ("iij->j", ((3, 3, 2),)),
    ("ii,ij->j", ((3, 3), (3, 2))),
    ("ijj,ik->jk", ((2, 3, 3), (2, 4))),
    ("ij->i", ((2, 3),)),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ba", ((2, 3),)),
    ("i,j->ij", ((2,), (3,))),
    ("ij,kl->i", ((2, 3), (2, 4))),
    ("ij,ij->j", ((4, 3), (4, 3))),
    ("i j , j k -> i k", ((2, 3), (3, 4))),
    ("...ij,...jk->...ik", ((2, 2, 3), (2, 3, 4))),
    ("...ij,jk->...ik", ((2, 2, 3), (3, 4))),
    ("...a,...a->...", ((4, 2, 3), (2, 3))),
    ("...,...", ((2, 3), (3,))),
    ("ij,jk->ik", ((2, 1), (3, 4))),  # stretched, and summed over
    (",i->i", ((), (3,))),
)
NUMPY += [einsum(text, *shapes, optimize=n) for text, shapes in EINSUMS for n in (0, 1)]

# --- matrices: their sides differ much, so that float32 tells the values apart
APART = given(
    (2, 3, 4),
    5,
    0.5,
    -0.25,
    0.3,
    0.1,
    2,
    0.4,
    -0.2,
    0.2,
    -0.3,
    0.8,
    0.1,
    1,
    0.2,
    0.1,
    -3,
    7,
    -0.5,
    0.3,
    0.6,
    0,
    0,
    2,
    1,
)
NUMPY += [
    case("_npi_tensorinv", {"ind": n}, shape)
    for n, shape in (
        (2, (2, 3, 6)),
        (1, given((4, 2, 2), *(5 * (i % 5 == 0) + i % 3 for i in range(16)))),
    )
]
NUMPY += [
    case(
        "_npi_tensorsolve",
        {"a_axes": axes},
        given(shape, *(7 * (i % 7 == 0) + i % 5 for i in range(36))),
        right,
    )
    for axes, shape, right in (
        ("(0,)", (6, 2, 3), (2, 3)),
        ("(0, 2)", (2, 6, 3), (6,)),
        ("(-1,)", (6, 6), (6,)),
    )
]
NUMPY += [case("_npi_svd", {}, shape) for shape in (APART, (2, 4), (3, 3), (1, 3))]
NUMPY += [case("_npi_pinv", {"hermitian": "False"}, APART, given((2,), 0.01, 0.01))]

# --- norms
CUBE = (2, 3, 4)
ZEROS = given((2, 3), 0, 1, 2, 3, 0, -1)
NORMS: list[tuple[dict[str, Any], Input]] = [
    ({"flag": -2}, CUBE),
    ({"flag": -2, "keepdims": True}, (2, 3)),
    ({"flag": -2}, (5,)),
    ({"flag": -2}, {"shape": [3], "value": 0.0}),
    ({"flag": 1, "axis": "(1,)"}, CUBE),
    ({"flag": -1, "axis": "(1,)", "ord": 2}, CUBE),
    ({"flag": -1, "axis": "(0,)", "ord": 3}, (4,)),
    ({"flag": -1, "ord": 3, "keepdims": True}, (4,)),
    *(({"flag": -1, "axis": "(1,)", "ord": n}, (2, 3)) for n in (0, -1, -2, 0.5, 1)),
    *(({"flag": -1, "axis": "(1,)", "ord": n}, ZEROS) for n in (0, -1, 0.5, 1, 3)),
    ({"flag": 1}, (3, 4)),
    ({"flag": 1}, CUBE),
    ({"flag": 1, "axis": "(2, 0)"}, CUBE),
    ({"flag": 1, "axis": "(-1, -2)", "keepdims": True}, CUBE),
    *(
        ({"flag": 0, "axis": axes, "ord": n}, CUBE)
        for n in (1, -1, 3, 0)
        for axes in ("(0, 1)", "(1, 2)", "(2, 1)")
    ),
    ({"flag": 0, "axis": "(1, 2)", "ord": "-inf", "keepdims": True}, CUBE),
    ({"flag": 0, "ord": "inf"}, (3, 4)),
    ({"flag": 0, "ord": 1}, given((2, 3), 0, 1, 2, 3, -2, -1)),  # all columns are the greatest
    *(({"flag": flag, "ord": 2}, (3, 4)) for flag in (0, -1, 2)),
    *(({"flag": -1, "axis": "(1, 2)", "ord": n}, APART) for n in (2, -2)),
    *(
        ({"flag": flag, "axis": axes, "ord": 2}, CUBE)
        for flag in (0, 2)
        for axes in ("(0, 1)", "(0, 2)", "(1, 2)")
    ),
    *(({"flag": flag, "axis": "(0, 1)", "ord": 2, "keepdims": True}, CUBE) for flag in (0, 2)),
    ({"flag": 2, "ord": 1}, (3, 4)),
]
NUMPY += [case("_npi_norm", attrs, x) for attrs, x in NORMS]

# --- averages and differences
POSITIVE = {"shape": [2, 3, 4], "low": 1, "high": 9}
NUMPY += [
    case("_npi_average", attrs, x, *weights)
    for attrs, x, *weights in (
        ({}, (2, 3), {"shape": [2, 3], "low": 1, "high": 9}),
        ({}, (3,), given((3,), 1, 2, 5)),
        ({"axis": "(0, 2)"}, CUBE, POSITIVE),
        ({"axis": "(-1,)"}, CUBE, given((4,), 1, 2, 5, 3)),
        ({"axis": "(0,)"}, CUBE, given((2,), 4, 3)),
        ({"weighted": False}, CUBE),
        ({"weighted": False, "returned": True}, CUBE),
        ({"weighted": False, "axis": "(1,)"}, CUBE),
    )
]
NUMPY += [
    case("_npi_diff", {"n": n, "axis": 0}, (size, 3))
    for n, size in ((0, 2), (1, 5), (3, 5), (3, 3), (4, 3))
]
NUMPY += [
    case("_npi_ediff1d", attrs, x, *ends)
    for attrs, x, *ends in (
        ({}, (1,)),
        ({}, (2,)),
        ({"to_begin_scalar": 1, "to_end_arr_given": True}, (2, 2), (2, 2)),
        ({"to_begin_arr_given": True}, (1,), (2,)),
        ({"to_begin_arr_given": True, "to_end_scalar": 2}, (5,), (3,)),
        ({"to_end_arr_given": True}, (5,), ()),
    )
]

# --- numbers and choices
NUMPY += [
    case(f"_npi_{op}_scalar", {"scalar": 1.5}, (3, 4))
    for op in ("arctan2", "rarctan2", "ldexp", "rldexp")
]
SIGNS = {"shape": [2, 6], "low": -1, "high": 2}
NUMPY += [
    case("_npi_copysign", {}, SIGNS, spec)
    for spec in (dict(SIGNS, shape=[6]), dict(SIGNS, shape=[3, 1, 1]))
]
NUMPY += [
    case("_npi_ldexp", {}, (1, 6), (3, 1)),
    case("_npi_polyval", {}, (1,), (3,)),
    case("_npi_polyval", {}, (4,), ()),
]
NUMPY += [
    case(f"_npi_where_{side}scalar", {"scalar": 2.5}, condition, x)
    for side in ("l", "r")
    for condition, x in (
        (given((3, 1), 1, 0, 0), (4,)),
        (given((3, 1), 1, 0, 0), (1, 4)),
        (given((4,), 1, 0, 0, 1), (3, 4)),
        (given((4,), 1, 0, 0, 1), (3, 1)),
        (bits(3, 4), (3, 4)),
        (bits(3, 4), (1,)),
        (given((1,), 0), (3, 4)),
        (bits(2, 3, 4), (3, 1)),
    )
]

# --- diagonals and borders
NUMPY += [
    case("_np_trace", {"offset": n, "axis1": i, "axis2": j}, shape)
    for shape, n, i, j in (
        ((3, 4), 1, 1, 0),
        ((3, 4, 2), -1, -1, 0),
        ((3, 4), 9, 0, 1),
        ((2, 3, 4), 0, 1, 2),
    )
]
NUMPY += [
    case("_npi_pad", {"pad_width": widths}, shape)
    for widths, shape in (("((1,), (2,))", (4,)), ("((0, 0), (2, 1), (1, 0))", CUBE))
]

# --- smooth, for a central difference
INNER = given((3, 4), 0.13, 0.87, 0.29, 0.41, 0.62, 0.73, 0.35, 0.91, 0.22, 0.57, 0.68, 0.81)
SMOOTH = [
    case(f"_npi_{op}_scalar", {"scalar": 0.45}, INNER) for op in ("arctan2", "ldexp", "rldexp")
]
SMOOTH += [case("_npi_nan_to_num", {}, INNER)]
SMOOTH += [case("_npi_where_rscalar", {"scalar": 2.5}, given((3, 1), 1, 0, 1), (4,))]
SMOOTH += [case("_npi_average", {"axis": "(1,)"}, CUBE, given((3,), 1, 2, 5))]
SMOOTH += [case("_npi_average", {"axis": "(0, 2)"}, CUBE, POSITIVE)]
SMOOTH += [
    case("_npi_norm", {"flag": -1, "axis": "(1,)", "ord": n}, INNER) for n in (1, 2, 3, 0.5, -1)
]
SMOOTH += [
    case("_npi_norm", attrs, APART)
    for attrs in ({"flag": -2}, {"flag": 1, "axis": "(0, 2)"}, {"flag": 2, "axis": "(1, 2)"})
]
SMOOTH += [case("_npi_svd", {}, APART), case("_npi_pad", {"pad_width": "((1,), (2,))"}, (4,))]
SMOOTH += [einsum(text, *shapes) for text, shapes in EINSUMS]
SMOOTH += [
    case(
        "_npi_tensorsolve",
        {"a_axes": "(0, 2)"},
        given((2, 6, 3), *(7 * (i % 7 == 0) + i % 5 for i in range(36))),
        (6,),
    )
]

# --- refused
PAIR = ("_npi_copysign_scalar", "_npi_rcopysign_scalar")
UNDEFINED = [
    einsum(text, *shapes)
    for text, *shapes in (("ij,ij->ij", (2, 3), (1, 3)), ("...i,...i->...", (2, 3), (1, 3)))
]
"""What MXNet answers with numbers that mean nothing."""
REFUSED = [
    *(case(op, {"scalar": 1.5}, (3, 4)) for op in PAIR),
    case("_npi_delete", {"int_ind": 1, "axis": 0}, (3, 4)),
    case("_npi_insert_scalar", {"int_ind": 1, "axis": 0}, (3, 4), (1, 4)),
    case("_npi_insert_slice", {"start": 0, "stop": 2, "step": 1, "axis": 0}, (3, 4), (2, 4)),
    case(
        "_npi_insert_tensor",
        {"axis": 0},
        (3, 4),
        (2, 4),
        {"shape": [2], "values": [0, 2], "dtype": "int64"},
    ),
    *(
        case("_npi_pad", {"pad_width": "((1, 2), (2, 1))", "mode": mode}, (3, 4))
        for mode in ("edge", "maximum", "minimum", "reflect", "symmetric")
    ),
    case("_npi_tensorinv", {"ind": 1}, (1, 1, 1, 1, 1, 1, 1)),
    *(case("_npi_norm", {"flag": -1, "axis": "(1,)", "ord": n}, (3, 4)) for n in ("inf", "-inf")),
    case("_npi_norm", {"flag": 0, "ord": 2}, (4, 3)),
    case("_npi_norm", {"flag": 2, "axis": "(2, 1)", "ord": 2}, CUBE),
    case("_npi_norm", {"flag": 0, "ord": 2}, {"shape": [3, 4], "dtype": "float16"}),
    *UNDEFINED,
]
