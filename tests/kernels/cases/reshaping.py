"""Cases for what gives an array another shape or order. Plain data."""


def _case(op, shape, attrs, dtype="float32", **more):
    return {"op": op, "attrs": attrs, "inputs": [{"shape": shape, "dtype": dtype}], **more}


CASES = [
    _case("Reshape", shape, {"shape": codes, "reverse": reverse})
    for shape, codes, reverse in (
        ([2, 3, 4], "(4, 0, 2)", "False"),
        ([2, 3, 4], "(6, 1, -1)", "False"),
        ([2, 3, 4], "-1", "False"),
        ([2, 3, 4], "(-2,)", "False"),
        ([2, 3, 4], "(2, -2)", "False"),
        ([2, 3, 4], "(-2, 1, 1)", "False"),
        ([2, 3, 4], "(-3, 4)", "False"),
        ([2, 3, 4, 5], "(-3, -3)", "False"),
        ([2, 3, 4], "(0, -3)", "False"),
        ([2, 3, 4], "(-3, -2)", "False"),
        ([2, 3, 4], "(-4, 1, 2, -2)", "False"),
        ([2, 3, 4], "(2, -4, -1, 3, -2)", "False"),
        ([2, 3, 4], "(0, 0, -4, 2, -1)", "False"),
        ([2, 4, 3, 6], "(0, -1, 6)", "False"),
        ([2, 4, 3, 6], "(0, -1, 6)", "True"),
        ([10, 5, 4], "(-1, 0)", "True"),
        ([10, 5, 4], "(-1, 0)", "False"),
        ([8, 3, 3, 3, 4, 4], "(4, -1, 0)", "True"),
        ([2, 3, 4], "(-1, -3)", "True"),
        ([2, 3, 4], "(6, 4)", "True"),
    )
]
CASES += [
    _case("Reshape", [2, 3, 4], {"target_shape": "(2, 0)"}),
    _case("Reshape", [2, 3, 4], {"target_shape": "(0, 0)", "keep_highest": "True"}),
    _case("Reshape", [2, 3, 4], {"target_shape": "(0, 12)", "keep_highest": "True"}),
    _case("Reshape", [2, 3, 4], {"target_shape": "(4, 6)", "shape": "(3, 8)"}),
    _case("Reshape", [2, 3, 4], {"shape": "(4, 6)"}, "int64"),
    _case("Flatten", [2, 3, 4], {}),
    _case("Flatten", [3], {}),
    _case("Flatten", [2, 3], {}, "float64"),
    _case("transpose", [2, 3, 4], {}),
    _case("transpose", [2, 3, 4], {"axes": "(1, 0, 2)"}, "int32"),
    _case("transpose", [2, 3, 4, 5], {"axes": "(0, 2, 3, 1)"}),
    _case("transpose", [2, 3, 2, 2, 2, 3], {"axes": "(5, 0, 3, 1, 2, 4)"}),
    _case("_np_transpose", [2, 3, 4], {"axes": "(2, 0, 1)"}),
    _case("_np_transpose", [2, 3, 4], {}),
    _case("expand_dims", [2, 3], {"axis": "0"}),
    _case("expand_dims", [2, 3], {"axis": "2"}),
    _case("expand_dims", [2, 3], {"axis": "-1"}, "float16"),
    _case("expand_dims", [2, 3], {"axis": "-3"}),
    _case("squeeze", [1, 2, 1, 3, 1], {}),
    _case("squeeze", [1, 2, 1, 3, 1], {"axis": "2"}),
    _case("squeeze", [1, 2, 1, 3, 1], {"axis": "(0, -1)"}),
    _case("squeeze", [1, 1], {}),
    _case("squeeze", [1, 1], {"axis": "(0, 1)"}),
    _case("SwapAxis", [2, 3, 4], {"dim1": "0", "dim2": "2"}),
    _case("SwapAxis", [2, 3, 4], {}),
    _case("SwapAxis", [2, 3, 4], {"dim1": "2", "dim2": "1"}),
    _case("reverse", [2, 3, 4], {"axis": "1"}),
    _case("reverse", [2, 3, 4], {"axis": "(0, 2)"}, "int32"),
    _case("depth_to_space", [2, 8, 2, 3], {"block_size": "2"}),
    _case("depth_to_space", [1, 9, 1, 2], {"block_size": "3"}, "float64"),
    _case("space_to_depth", [2, 2, 4, 6], {"block_size": "2"}),
    _case("space_to_depth", [1, 1, 6, 3], {"block_size": "3"}),
]
CASES += [
    {"op": "reshape_like", "attrs": attrs, "inputs": [{"shape": x}, {"shape": y}]}
    for x, y, attrs in (
        ([2, 3, 4], [4, 6], {}),
        ([30, 7], [15, 2, 4], {"lhs_begin": "0", "lhs_end": "1", "rhs_begin": "0", "rhs_end": "2"}),
        (
            [30, 12],
            [4, 2, 2, 3],
            {"lhs_begin": "-1", "lhs_end": "None", "rhs_begin": "-3", "rhs_end": "None"},
        ),
        (
            [6, 5],
            [2, 3, 9],
            {"lhs_begin": "None", "lhs_end": "-1", "rhs_begin": "None", "rhs_end": "-1"},
        ),
    )
]
