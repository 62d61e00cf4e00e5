"""Cases for the loss of connectionist temporal classification."""

DATA = {"shape": [5, 2, 4], "scale": 2.0}


def label(*values, dtype="float32"):
    return {"shape": [2, len(values) // 2], "dtype": dtype, "values": values}


def lengths(*values):
    return {"shape": [2], "values": values}


CASES = [
    {"op": "CTCLoss", "attrs": attrs, "inputs": [DATA, *rest]}
    for attrs, rest in (
        ({}, [label(1, 2, 1, 0)]),
        ({}, [label(1, 2, 3, 0, dtype="int32")]),
        ({}, [label(0, 0, 2, 2)]),
        ({}, [label(1, 1, 1, 1, 2, 0, 0, 0)]),
        ({"blank_label": "last"}, [label(0, 1, 1, -1)]),
        ({"blank_label": "last"}, [label(0, 0, 2, 1, dtype="int32")]),
        ({"use_data_lengths": "True"}, [label(1, 2, 1, 0), lengths(3, 5)]),
        ({"use_label_lengths": "True"}, [label(1, 2, 1, 1), lengths(2, 1)]),
        (
            {"use_data_lengths": "True", "use_label_lengths": "True"},
            [label(1, 2, 1, 1), lengths(3, 4), lengths(1, 2)],
        ),
    )
]
CASES += [
    {
        "op": "CTCLoss",
        "attrs": {},
        "inputs": [
            {"shape": [5, 2, 4]},
            {"shape": [2, 5], "values": [1, 2, 1, 0, 1, 2, 1, 0, 1, 2]},
        ],
    }
]
