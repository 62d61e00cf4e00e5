"""Cases for parts of arrays. Plain data."""


def _case(op, shapes, attrs, dtype="float32", **more):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": shape, "dtype": dtype} for shape in shapes],
        **more,
    }


CASES = [
    _case("slice", [shape], {"begin": begin, "end": end, **({"step": step} if step else {})}, dtype)
    for shape, begin, end, step, dtype in (
        ([4, 5], "(1, 2)", "(3, 5)", "", "float32"),
        ([4, 5], "(1,)", "(3,)", "", "float64"),
        ([4, 5], "1", "2", "", "float32"),
        ([4, 5, 2], "(0, None)", "(None, -1)", "", "int32"),
        ([4, 5], "(-3, -2)", "(10, None)", "", "float32"),
        ([4, 7], "(0, 0)", "(4, 7)", "(2, 3)", "float32"),
        ([4, 7], "(None, None)", "(None, None)", "(-1, None)", "float32"),
        ([4, 7], "(None, 5)", "(None, 0)", "(1, -2)", "float32"),
        ([4, 7], "(2, 5)", "(None, -7)", "(-1, -3)", "float32"),
        ([1, 3, 4], "(0, 0, 0)", "(None, 1, None)", "", "float32"),
    )
]
CASES += [
    _case("slice_axis", [[2, 5]], {"axis": "1", "begin": "1", "end": "3"}),
    _case("slice_axis", [[2, 5]], {"axis": "-1", "begin": "2", "end": "None"}),
    _case("slice_axis", [[4, 5]], {"axis": "0", "begin": "-3", "end": "-1"}, "int64"),
    _case("slice_like", [[4, 5, 6], [2, 3, 4]], {}),
    _case("slice_like", [[4, 5, 6], [2, 3, 4]], {"axes": "(0, 2)"}),
    _case("slice_like", [[2, 3, 5, 6], [1, 1, 4, 4]], {"axes": "(2, -1)"}),
    _case("slice_like", [[4, 5], [2, 3, 4]], {"axes": "(1,)"}, "float64"),
    {
        "op": "slice_like",
        "attrs": {},
        "inputs": [{"shape": [4, 5]}, {"shape": [2, 3], "dtype": "int32"}],
    },
    _case("_slice_assign", [[4, 5], [2, 3]], {"begin": "(1, 2)", "end": "(3, 5)"}),
    _case(
        "_slice_assign",
        [[4, 5], [4, 2]],
        {"begin": "(None, 4)", "end": "(None, 1)", "step": "(1, -2)"},
        "int32",
    ),
    _case("_slice_assign_scalar", [[4, 5]], {"begin": "(1, 2)", "end": "(3, 5)", "scalar": "2.5"}),
    _case(
        "_slice_assign_scalar",
        [[4, 5]],
        {"begin": "(0,)", "end": "(4,)", "step": "(2,)", "scalar": "7"},
        "int32",
    ),
    _case("_slice_assign_scalar", [[4, 5]], {"begin": "(0,)", "end": "(None,)"}),
]
CASES += [
    _case("slice_like", [[4, 5], [2, 3, 4]], {"axes": "(-2,)"}),
    _case("slice_like", [[2, 4, 5], [3, 2]], {"axes": "(-2,)"}),
]
