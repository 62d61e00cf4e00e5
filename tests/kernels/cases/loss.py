"""Cases for output layers and losses."""

FLOATS = ("float32", "float64", "float16")


def softmax_output(attrs, data, label, dtype="float32", train=False):
    label = {"shape": label, "dtype": dtype, "low": 0, "high": 2}
    # In float16 MXNet rounds the differences that it takes exponentials of, the exponentials and their sum.
    more = {"rtol": 4e-3} if dtype == "float16" else {}
    return {
        "op": "SoftmaxOutput",
        "attrs": attrs,
        "inputs": [{"shape": data, "dtype": dtype}, label],
        "train": train,
        **more,
    }


CASES = [
    softmax_output(attrs, data, label, dtype, train)
    for attrs, data, label in (
        ({}, [3, 4], [3]),
        ({}, [3, 4], [3, 4]),
        ({}, [2, 3, 4], [2, 3]),
        ({}, [2, 3, 2, 2], [2, 3, 2]),
        ({"multi_output": "True"}, [2, 3, 4], [2, 4]),
        ({"multi_output": "True"}, [2, 3, 2, 2], [2, 4]),
        ({"multi_output": "True"}, [2, 3, 2, 2], [2, 2, 2]),
        (
            {"multi_output": "True", "use_ignore": "True", "normalization": "valid"},
            [2, 3, 2, 2],
            [2, 1, 2, 2],
        ),
        ({"preserve_shape": "True"}, [2, 3, 4], [2, 3]),
        (
            {"preserve_shape": "True", "grad_scale": "2", "smooth_alpha": "0.1"},
            [2, 3, 2, 2],
            [2, 3, 2],
        ),
    )
    for dtype in FLOATS
    for train in (False, True)
]
CASES += [
    {
        "op": op,
        "attrs": {"grad_scale": "0.5"},
        "inputs": [{"shape": d, "dtype": t}, {"shape": s, "dtype": t}],
        "train": train,
    }
    for op in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
    for d, s in (([3, 4], [3, 4]), ([3, 1], [3]), ([3, 1], [3, 1]), ([3], [3]))
    for t, train in (("float32", False), ("float64", True))
]
CASES += [
    {
        "op": "SVMOutput",
        "attrs": attrs,
        "inputs": [{"shape": [3, 4]}, {"shape": [3], "low": 0, "high": 4}],
        "train": train,
    }
    for attrs in ({}, {"margin": "0.5", "regularization_coefficient": "2", "use_linear": "True"})
    for train in (False, True)
]
CASES += [
    {
        "op": "MakeLoss",
        "attrs": attrs,
        "inputs": [{"shape": [3, 4], "dtype": dtype}],
        "train": train,
    }
    for attrs in ({}, {"grad_scale": "0.5", "normalization": "valid", "valid_thresh": "0.1"})
    for dtype in ("float32", "float64")
    for train in (False, True)
]
CASES += [
    {
        "op": "softmax_cross_entropy",
        "attrs": {},
        "inputs": [
            {"shape": [4, 3], "dtype": dtype, "scale": scale},
            {"shape": [4], "dtype": dtype, "values": [0, 2, 1, 1]},
        ],
    }
    for dtype in ("float32", "float64")
    for scale in (1.0, 30.0)
]
