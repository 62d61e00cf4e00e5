"""Cases for stacks, splits and borders of the numpy interface. Plain data."""


def case(op, attrs, *shapes):
    return {"op": op, "attrs": attrs, "inputs": [{"shape": list(shape)} for shape in shapes]}


CASES = [
    case(op, {"num_args": "2"}, a, b)
    for op, pairs in (
        ("_npi_vstack", (((3,), (3,)), ((2, 3), (1, 3)), ((2, 3, 2), (1, 3, 2)))),
        ("_npi_hstack", (((3,), (2,)), ((2, 3), (2, 1)), ((2, 3, 2), (2, 1, 2)))),
        ("_npi_dstack", (((3,), (3,)), ((2, 3), (2, 3)), ((2, 3, 2), (2, 3, 1)))),
        ("_npi_column_stack", (((3,), (3,)), ((2, 3), (2, 1)), ((2,), (2, 3)))),
    )
    for a, b in pairs
]
CASES += [
    case("_npi_stack", {"num_args": "2", "axis": axis}, (2, 3), (2, 3)) for axis in ("0", "1", "-1")
]
CASES += [
    case(op, attrs, shape)
    for op, shape in (("_npi_hsplit", (6,)), ("_npi_hsplit", (2, 6)))
    for attrs in ({"indices": "()", "sections": "3"}, {"indices": "(0, 1, 4)"})
]
WIDTHS = "((1, 2), (2, 1))"
CASES += [
    case("_npi_pad", {"pad_width": WIDTHS, "mode": mode, "constant_value": "2"}, (3, 4))
    for mode in ("constant", "edge", "maximum", "minimum", "reflect", "symmetric")
]
CASES += [
    case("_npi_pad", {"pad_width": "((1,), (2,))", "mode": mode}, (4,))
    for mode in ("constant", "edge")
]
