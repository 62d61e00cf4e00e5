"""Cases for what joins arrays and splits them. Plain data."""


def _case(op, shapes, attrs, dtype="float32", **more):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": shape, "dtype": dtype} for shape in shapes],
        **more,
    }


CASES = [
    _case("Concat", [[2, 3], [2, 1]], {"num_args": "2"}),
    _case("Concat", [[2, 3, 4], [1, 3, 4], [3, 3, 4]], {"num_args": "3", "dim": "0"}),
    _case("Concat", [[2, 3, 4], [2, 1, 4]], {"num_args": "2", "dim": "-2"}, "float64"),
    _case("Concat", [[2, 3], [2, 3]], {"num_args": "2", "dim": "-1"}, "int32"),
    _case("Concat", [[2, 3]], {"num_args": "1"}),
    _case("_rnn_param_concat", [[3], [4], [2]], {"num_args": "3", "dim": "0"}),
    _case("_npi_concatenate", [[2, 3], [2, 3]], {"num_args": "2", "axis": "-1"}),
    _case("_npi_concatenate", [[2, 3], [1, 3]], {"num_args": "2"}),
    _case("_npi_concatenate", [[2, 3], [4]], {"num_args": "2", "axis": "None"}),
    _case("stack", [[2, 3], [2, 3]], {"num_args": "2"}),
    _case("stack", [[2, 3], [2, 3], [2, 3]], {"num_args": "3", "axis": "1"}, "int32"),
    _case("stack", [[2, 3], [2, 3]], {"num_args": "2", "axis": "-1"}),
    _case("SliceChannel", [[2, 6, 4]], {"num_outputs": "3"}),
    _case("SliceChannel", [[2, 3, 4]], {"num_outputs": "3", "squeeze_axis": "True"}),
    _case("SliceChannel", [[4, 3]], {"num_outputs": "2", "axis": "0"}),
    _case(
        "SliceChannel",
        [[2, 3, 4]],
        {"num_outputs": "4", "axis": "-1", "squeeze_axis": "1"},
        "float64",
    ),
    _case("SliceChannel", [[3, 4]], {"num_outputs": "1", "axis": "0", "squeeze_axis": "False"}),
    _case("_split_v2", [[2, 7]], {"indices": "(0, 2, 3)", "axis": "1"}),
    _case("_split_v2", [[6, 2]], {"indices": "()", "axis": "0", "sections": "3"}),
    _case("_split_v2", [[2, 3]], {"indices": "(0, 1, 2)", "axis": "-1", "squeeze_axis": "True"}),
    _case("_split_v2", [[2, 3, 2]], {"indices": "(0,)", "axis": "1"}, "int32"),
    _case("Crop", [[2, 3, 5, 6]], {"num_args": "1", "h_w": "(2, 3)", "offset": "(1, 2)"}),
    _case("Crop", [[2, 3, 5, 6]], {"num_args": "1", "h_w": "(2, 3)", "center_crop": "True"}),
    _case("Crop", [[2, 3, 5, 6], [1, 1, 3, 3]], {"num_args": "2"}),
    _case("Crop", [[2, 3, 5, 6], [1, 1, 4, 3]], {"num_args": "2", "center_crop": "True"}),
    _case("Crop", [[2, 3, 5, 6], [2, 4, 3, 3]], {"num_args": "2", "offset": "(2, 1)"}),
]
