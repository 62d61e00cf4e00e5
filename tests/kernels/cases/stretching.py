"""Cases for borders, repetition and stretching. Plain data."""


def _case(op, shapes, attrs, dtype="float32", **more):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": shape, "dtype": dtype} for shape in shapes],
        **more,
    }


FLAT = "(0, 0, 0, 0, 1, 2, 0, 1)"
DEEP = "(0, 0, 0, 0, 1, 1, 0, 1, 2, 0)"
CASES = [
    _case("Pad", [shape], {"mode": mode, "pad_width": width, **more}, dtype)
    for shape, width, dtype in (
        ([2, 2, 3, 4], FLAT, "float32"),
        ([1, 2, 2, 3, 4], DEEP, "float32"),
        ([1, 1, 3, 4], FLAT, "float64"),
    )
    for mode, more in (("constant", {"constant_value": "1.5"}), ("edge", {}), ("reflect", {}))
]
CASES += [
    _case("Pad", [[1, 2, 3, 4]], {"mode": "constant", "pad_width": FLAT, "constant_value": "-inf"}),
    _case("Pad", [[1, 2, 3, 4]], {"mode": "constant", "pad_width": FLAT}),
    _case("tile", [[2, 3]], {"reps": "(2, 3)"}),
    _case("tile", [[2, 3]], {"reps": "(2,)"}, "int32"),
    _case("tile", [[2, 3]], {"reps": "(2, 1, 2)"}),
    _case("tile", [[2, 3]], {"reps": "(1, 1, 1, 1, 1)"}),
    _case("repeat", [[2, 3]], {"repeats": "2"}),
    _case("repeat", [[2, 3]], {"repeats": "3", "axis": "-2"}),
    _case("repeat", [[2, 3]], {"repeats": "2", "axis": "1"}, "int64"),
    _case("broadcast_to", [[1, 3, 1]], {"shape": "(2, 0, 4)"}),
    _case("broadcast_to", [[2, 1]], {"shape": "(2, 3)"}, "int32"),
    _case("broadcast_axis", [[1, 3, 1]], {"axis": "(0, 2)", "size": "(2, 4)"}),
    _case("broadcast_axis", [[2, 1]], {"axis": "1", "size": "3"}),
    _case("broadcast_like", [[1, 3, 1], [2, 3, 4]], {}),
    _case("broadcast_like", [[1, 3], [4, 2, 5]], {"lhs_axes": "(0,)", "rhs_axes": "(-1,)"}),
]
