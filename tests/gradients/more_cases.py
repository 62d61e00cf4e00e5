"""Cases that matter to gradients alone, beside those that the kernels are recorded on; in the same form."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.cases import densities


def _softmax(
    attrs: dict[str, str], data: list[int], label: list[int], values: list[float]
) -> dict[str, Any]:
    labels = {
        "shape": label,
        "values": [values[i % len(values)] for i in range(int(np.prod(label)))],
    }
    return {"op": "SoftmaxOutput", "attrs": attrs, "inputs": [{"shape": data}, labels]}


_FORMS: tuple[tuple[dict[str, str], list[int], list[int]], ...] = (
    ({}, [4, 3], [4]),
    ({}, [2, 3, 4], [2, 3]),
    ({"preserve_shape": "True"}, [2, 3, 4], [2, 3]),
    ({"multi_output": "True"}, [2, 3, 4], [2, 4]),
    ({"multi_output": "True"}, [2, 3, 2, 2], [2, 2, 2]),
    ({"multi_output": "True"}, [2, 3, 2, 2], [2, 1, 2, 2]),
)
CASES: list[dict[str, Any]] = [
    _softmax({**form, "normalization": how, **extra}, data, label, [0.0, 1.0, -1.0, 2.0, 1.0])
    for form, data, label in _FORMS
    for how in ("null", "batch", "valid")
    for extra in (
        {},
        {"use_ignore": "True"},
        {"use_ignore": "True", "ignore_label": "1", "grad_scale": "0.5"},
        {"smooth_alpha": "0.2"},
        {"out_grad": "True"},
    )
]
CASES += [
    {"op": "MakeLoss", "attrs": attrs, "inputs": [{"shape": [3, 4]}]}
    for attrs in (
        {"normalization": "batch"},
        {"normalization": "valid"},
        {"normalization": "valid", "valid_thresh": "0.3", "grad_scale": "2"},
    )
]
CASES += [
    {"op": op, "attrs": {"grad_scale": "3"}, "inputs": [{"shape": [3, 2, 2]}, {"shape": [3, 2, 2]}]}
    for op in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
]
CASES += [
    {
        "op": "Convolution",
        "attrs": attrs,
        "inputs": [{"shape": data}, {"shape": weight}, {"shape": [weight[0]]}],
    }
    for attrs, data, weight in (
        ({"kernel": "(3, 3)", "num_filter": "4"}, [2, 3, 9, 8], [4, 3, 3, 3]),
        (
            {"kernel": "(3, 3)", "num_filter": "4", "stride": "(2, 2)", "pad": "(1, 1)"},
            [2, 3, 9, 8],
            [4, 3, 3, 3],
        ),
        ({"kernel": "(1, 1)", "num_filter": "4", "stride": "(2, 2)"}, [2, 3, 7, 8], [4, 3, 1, 1]),
        (
            {"kernel": "(3, 3)", "num_filter": "6", "pad": "(1, 1)", "num_group": "6"},
            [2, 6, 7, 8],
            [6, 1, 3, 3],
        ),
        (
            {"kernel": "(3, 3)", "num_filter": "6", "pad": "(1, 1)", "num_group": "3"},
            [2, 6, 7, 8],
            [6, 2, 3, 3],
        ),
        ({"kernel": "(3, 3)", "num_filter": "40", "pad": "(1, 1)"}, [2, 2, 7, 8], [40, 2, 3, 3]),
        (
            {"kernel": "(3, 2)", "num_filter": "4", "dilate": "(2, 3)", "pad": "(3, 1)"},
            [1, 3, 9, 8],
            [4, 3, 3, 2],
        ),
        ({"kernel": "(3, 3)", "num_filter": "4", "pad": "(4, 4)"}, [1, 3, 5, 4], [4, 3, 3, 3]),
        (
            {
                "kernel": "(3, 3)",
                "num_filter": "8",
                "stride": "(2, 2)",
                "pad": "(1, 1)",
                "num_group": "8",
            },
            [2, 8, 9, 8],
            [8, 1, 3, 3],
        ),
    )
]
# Ties: relu gives many equal zeros, and a window's gradient goes to the first.
CASES += [
    {"op": "Pooling", "attrs": attrs, "inputs": [{"shape": [1, 2, 6, 7], "low": 0, "high": 3}]}
    for attrs in (
        {"kernel": "(3, 3)", "stride": "(2, 2)", "pool_type": "max"},
        {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)", "pool_type": "max"},
        {"kernel": "(2, 2)", "stride": "(2, 2)", "pool_type": "max", "pooling_convention": "full"},
        {"kernel": "(1, 1)", "global_pool": "True", "pool_type": "max"},
    )
]
CASES += [
    {
        "op": "_maximum",
        "attrs": {},
        "inputs": [{"shape": [30], "low": 0, "high": 2}, {"shape": [30], "low": 0, "high": 2}],
    },
    {
        "op": "_minimum",
        "attrs": {},
        "inputs": [{"shape": [30], "low": 0, "high": 2}, {"shape": [30], "low": 0, "high": 2}],
    },
    {"op": "max", "attrs": {"axis": "1"}, "inputs": [{"shape": [3, 9], "low": 0, "high": 3}]},
    {"op": "relu", "attrs": {}, "inputs": [{"shape": [30], "low": -1, "high": 2}]},
    {
        "op": "LeakyReLU",
        "attrs": {"act_type": "leaky", "slope": "0.1"},
        "inputs": [{"shape": [30], "low": -1, "high": 2}],
    },
    {
        "op": "LeakyReLU",
        "attrs": {"act_type": "elu", "slope": "0.3"},
        "inputs": [{"shape": [30], "low": -1, "high": 2}],
    },
    {
        "op": "LeakyReLU",
        "attrs": {"act_type": "selu"},
        "inputs": [{"shape": [30], "low": -1, "high": 2}],
    },
    {
        "op": "LeakyReLU",
        "attrs": {"act_type": "prelu"},
        "inputs": [{"shape": [5, 3], "low": -1, "high": 2}, {"shape": [3]}],
    },
    {
        "op": "clip",
        "attrs": {"a_min": "-1", "a_max": "1"},
        "inputs": [{"shape": [30], "low": -2, "high": 3}],
    },
    {
        "op": "smooth_l1",
        "attrs": {"scalar": "1"},
        "inputs": [{"shape": [30], "low": -2, "high": 3}],
    },
    {"op": "abs", "attrs": {}, "inputs": [{"shape": [30], "low": -1, "high": 2}]},
    {
        "op": "Embedding",
        "attrs": {"input_dim": "5", "output_dim": "3"},
        "inputs": [{"shape": [4, 3], "dtype": "int32", "low": 0, "high": 5}, {"shape": [5, 3]}],
    },
    {"op": "norm", "attrs": {}, "inputs": [{"shape": [3, 2], "value": 0.0}]},
]
CASES += [
    {
        "op": "_contrib_index_copy",
        "attrs": {},
        "inputs": [
            {"shape": [4, 2]},
            {"shape": [3], "values": [2, 0, 2], "dtype": "int64"},
            {"shape": [3, 2]},
        ],
    },
    {
        "op": "_image_normalize",
        "attrs": {"std": "(0.5, 2, 4)"},
        "inputs": [{"shape": [2, 3, 2, 2], "dtype": "float64"}],
    },
    {"op": "_image_to_tensor", "attrs": {}, "inputs": [{"shape": [2, 3, 4, 1]}]},
    {
        "op": "_image_adjust_lighting",
        "attrs": {"alpha": "(1, 2, 3)"},
        "inputs": [{"shape": [3, 2, 1]}],
    },
    {
        "op": "col2im",
        "attrs": {"kernel": "(2, 2)", "output_size": "(5, 4)", "pad": "(1, 0)", "stride": "(2, 1)"},
        "inputs": [{"shape": [1, 8, 9], "dtype": "float64"}],
    },
]
# Regions that reach over the border, and bins on it: what is held there moves nothing.
CASES += [
    {
        "op": "_contrib_DeformablePSROIPooling",
        "attrs": {
            "spatial_scale": "1.0",
            "output_dim": "2",
            "group_size": "2",
            "pooled_size": "2",
            "sample_per_part": sample,
            "trans_std": std,
        },
        "inputs": [
            {"shape": [1, 8, 5, 6]},
            {"shape": [2, 5], "values": [0, -3, -1, 9, 7, 0, 1, 1, 1, 1]},
            {"shape": [2, 2, 2, 2]},
        ],
    }
    for sample, std in (("1", "0"), ("4", "0.3"))
]
CASES += [
    {
        "op": case["op"],
        "attrs": case["attrs"],
        "inputs": [dict(spec, dtype="float64") for spec in case["inputs"]],
    }
    for case in densities.CASES
]


# Smooth inputs for operators whose recorded cases have none.
_REGIONS = {"shape": [2, 5], "values": [0, 0, 0, 3, 3, 1, 1, 1, 4, 5]}
CHECKED: list[dict[str, Any]] = [
    {"op": "_npx_relu", "attrs": {}, "inputs": [{"shape": [3, 4]}]},
    {"op": "_copyto", "attrs": {}, "inputs": [{"shape": [3, 4]}]},
    {
        "op": "softmax_cross_entropy",
        "attrs": {},
        "inputs": [{"shape": [3, 4]}, {"shape": [3], "values": [1, 0, 3]}],
    },
    {
        "op": "_contrib_boolean_mask",
        "attrs": {},
        "inputs": [{"shape": [3, 4]}, {"shape": [3], "values": [1, 0, 1]}],
    },
    {
        "op": "ROIPooling",
        "attrs": {"pooled_size": "(2, 2)", "spatial_scale": "1.0"},
        "inputs": [{"shape": [2, 3, 6, 7]}, _REGIONS],
    },
    {
        "op": "_contrib_PSROIPooling",
        "attrs": {"pooled_size": "2", "spatial_scale": "1.0", "output_dim": "2"},
        "inputs": [{"shape": [2, 8, 6, 7]}, _REGIONS],
    },
    {
        "op": "_contrib_ROIAlign",
        "attrs": {"pooled_size": "(2, 2)", "spatial_scale": "1.0", "sample_ratio": "2"},
        "inputs": [{"shape": [2, 3, 6, 7]}, _REGIONS],
    },
    {
        "op": "CTCLoss",
        "attrs": {},
        "inputs": [{"shape": [5, 2, 4]}, {"shape": [2, 2], "values": [1, 2, 3, 3]}],
    },
    {
        "op": "_image_crop",
        "attrs": {"x": "1", "y": "0", "width": "2", "height": "3"},
        "inputs": [{"shape": [4, 4, 3]}],
    },
    {"op": "sort", "attrs": {"axis": "0"}, "inputs": [{"shape": [4, 5]}]},
    {"op": "Cast", "attrs": {"dtype": "float64"}, "inputs": [{"shape": [3, 4]}]},
    {"op": "amp_cast", "attrs": {"dtype": "float64"}, "inputs": [{"shape": [3, 4]}]},
    *(
        {"op": op, "attrs": {"axis": "1"}, "inputs": [{"shape": [3, 4, 2]}]}
        for op in ("_np_sum", "_npi_mean", "_np_prod", "_np_cumsum")
    ),
    *(
        {"op": "_np_cumsum", "attrs": attrs, "inputs": [{"shape": [3, 4]}]}
        for attrs in ({"axis": "0"}, {"axis": "-1"}, {})
    ),
]
_MATRIX = {"shape": [3, 3], "values": [2.1, 0.3, -0.4, 0.5, 1.7, 0.2, -0.6, 0.8, 2.6]}
CHECKED += [
    {"op": op, "attrs": {}, "inputs": [_MATRIX]}
    for op in (
        "_linalg_inverse",
        "_linalg_potri",
        "_linalg_sumlogdiag",
        "_linalg_det",
        "_linalg_slogdet",
    )
]
CHECKED += [
    {
        "op": op,
        "attrs": {"rightside": right, "transpose": turned, "lower": lower},
        "inputs": [_MATRIX, {"shape": [3, 3]}],
    }
    for op in ("_linalg_trmm", "_linalg_trsm")
    for right in ("True", "False")
    for turned in ("True", "False")
    for lower in ("True", "False")
]
CHECKED += [
    {"op": "_npi_solve", "attrs": {}, "inputs": [_MATRIX, {"shape": shape}]}
    for shape in ([3], [3, 2])
]
CHECKED.append(
    {
        "op": "_contrib_SparseEmbedding",
        "attrs": {"input_dim": "5", "output_dim": "3"},
        "inputs": [{"shape": [4], "values": [1, 0, 4, 1]}, {"shape": [5, 3]}],
    }
)
# Within (0, 1), and of arccosh above: where every function of one or two arrays is smooth.
_INNER = {
    "shape": [3, 4],
    "values": [0.13, 0.87, 0.29, 0.41, 0.62, 0.73, 0.35, 0.91, 0.22, 0.57, 0.68, 0.81],
}
_OTHER = {
    "shape": [3, 4],
    "values": [0.52, 0.33, 0.77, 0.19, 0.94, 0.44, 0.61, 0.28, 0.83, 0.36, 0.71, 0.15],
}
_ABOVE = {"shape": [3, 4], "values": [1.3, 2.7, 1.9, 3.1, 1.2, 2.2, 4.5, 1.6, 2.9, 1.1, 3.7, 2.4]}
_UNARY = (
    "arccos arcsin arcsinh arctan arctanh cbrt cos cosh degrees exp expm1 log log10 log1p log2 "
    "negative radians reciprocal "
    "sin sinh sqrt square tan"
).split()
_TWO = (
    *(f"elemwise_{word}" for word in ("add", "sub", "mul", "div")),
    *(f"_{word}" for word in ("mod", "power", "hypot", "maximum", "minimum")),
    *(
        f"_npi_{word}"
        for word in (
            "add",
            "subtract",
            "multiply",
            "mod",
            "power",
            "true_divide",
            "arctan2",
            "hypot",
        )
    ),
    *("_grad_add", "_identity_with_attr_like_rhs", "broadcast_power"),
)
_NUMBER = (
    *(
        f"_{word}_scalar"
        for word in "plus minus mul div mod power hypot maximum minimum rminus rdiv rmod rpower".split()
    ),
    *(f"_npi_{w}_scalar" for w in "add subtract multiply mod power true_divide".split()),
    *(f"_npi_r{w}_scalar" for w in "subtract mod power true_divide".split()),
)
CHECKED += [
    {"op": f"_npi_{name}", "attrs": {}, "inputs": [_INNER]}
    for name in (*_UNARY, "absolute", "tanh")
]
CHECKED += [{"op": op, "attrs": {}, "inputs": [_INNER]} for op in ("_npx_sigmoid", "_copy")]
CHECKED += [{"op": op, "attrs": {}, "inputs": [_ABOVE]} for op in ("arccosh", "_npi_arccosh")]
CHECKED += [{"op": op, "attrs": {}, "inputs": [_INNER, _OTHER]} for op in _TWO]
CHECKED += [{"op": op, "attrs": {"scalar": "0.45"}, "inputs": [_INNER]} for op in _NUMBER]
CHECKED.append(
    {
        "op": "_npi_where",
        "attrs": {},
        "inputs": [{"shape": [4], "values": [1, 0, 0, 1]}, {"shape": [3, 1]}, {"shape": [3, 4]}],
    }
)


def drawn(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The cases in the form of a recording: inputs drawn, and as many outputs as there are heads, empty."""
    kept: dict[str, Any] = {}
    for number, case in enumerate(cases):
        stream = np.random.RandomState(number)
        for i, spec in enumerate(case["inputs"]):
            shape, dtype = tuple(spec["shape"]), spec.get("dtype", "float32")
            if "values" in spec:
                value = np.array(spec["values"], dtype).reshape(shape)
            elif "value" in spec:
                value = np.full(shape, spec["value"], dtype)
            elif "low" in spec:
                value = stream.randint(spec["low"], spec["high"], size=shape).astype(dtype)
            else:
                value = stream.standard_normal(shape).astype(dtype)
            kept[f"{number}_in{i}"] = value
        kept[f"{number}_out0"] = np.zeros(1)
    return kept
