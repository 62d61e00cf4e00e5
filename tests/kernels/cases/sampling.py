"""Cases for sampling of feature maps. Plain data."""

from math import prod

from tests.kernels.rounding import sum_rounding, with_atol


def _case(op, shapes, attrs, dtype="float32", scale=1.0, **more):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": s, "dtype": dtype, "scale": scale} for s in shapes],
        **more,
    }


TO = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(3, 5)"}
CASES = [
    _case("GridGenerator", [[2, 6]], {"transform_type": "affine", "target_shape": "(3, 4)"}),
    _case("GridGenerator", [[2, 2, 3, 4]], {"transform_type": "warp"}),
    _case("BilinearSampler", [[2, 3, 4, 5], [2, 2, 3, 3]], {}, scale=0.6),
    _case("BilinearSampler", [[1, 2, 4, 4], [1, 2, 5, 6]], {}, scale=1.5),
    _case("SpatialTransformer", [[2, 3, 4, 5], [2, 6]], TO, scale=0.5),
    _case("SpatialTransformer", [[1, 1, 6, 6], [1, 6]], TO, scale=1.2),
]
CASES += [
    _case("Correlation", [[2, 3, 7, 8], [2, 3, 7, 8]], attrs)
    for attrs in (
        {},
        {
            "kernel_size": "1",
            "max_displacement": "2",
            "pad_size": "2",
            "stride1": "1",
            "stride2": "1",
        },
        {
            "kernel_size": "3",
            "max_displacement": "2",
            "pad_size": "4",
            "stride1": "2",
            "stride2": "2",
        },
        {
            "kernel_size": "1",
            "max_displacement": "3",
            "pad_size": "3",
            "stride2": "2",
            "is_multiply": "False",
        },
        {"kernel_size": "3", "max_displacement": "1", "pad_size": "1", "is_multiply": "False"},
    )
]
CASES += [
    _case("_contrib_DeformableConvolution", [[2, 4, 5, 6], [2, 18, 5, 6], [2, 4, 3, 3], [2]], attrs)
    for attrs in (
        {"kernel": "(3, 3)", "num_filter": "2", "pad": "(1, 1)", "num_deformable_group": "1"},
    )
]
CASES += [
    _case(
        "_contrib_DeformableConvolution",
        [[1, 4, 7, 6], [1, 24, 4, 3], [4, 2, 3, 2]],
        {
            "kernel": "(3, 2)",
            "num_filter": "4",
            "num_group": "2",
            "num_deformable_group": "2",
            "pad": "(2, 0)",
            "stride": "(2, 2)",
            "dilate": "(2, 1)",
            "no_bias": "True",
        },
        scale=0.7,
    )
]
CASES += [
    {
        "op": "_contrib_ModulatedDeformableConvolution",
        "attrs": dict(attrs, kernel="(3, 3)", num_filter="4"),
        "inputs": [
            {"shape": [2, 4, 6, 7]},
            {"shape": [2, 18 * groups, *size]},
            {"shape": [2, 9 * groups, *size]},
            {"shape": [4, 4 // int(attrs.get("num_group", "1")), 3, 3]},
            *([] if attrs.get("no_bias") else [{"shape": [4]}]),
        ],
    }
    for attrs, groups, size in (
        ({}, 1, (4, 5)),
        (
            {"stride": "(2, 2)", "pad": "(1, 1)", "no_bias": "True", "num_deformable_group": "2"},
            2,
            (3, 4),
        ),
        ({"dilate": "(2, 2)", "pad": "(2, 2)", "num_group": "2"}, 1, (6, 7)),
    )
]
NOWHERE = {
    "shape": [1, 2, 2, 2],
    "values": [0.5, float("nan"), 0, 0.25, 0.5, 0, float("nan"), -0.25],
}
CASES += [
    {
        "op": "GridGenerator",
        "attrs": {"transform_type": "affine", "target_shape": size},
        "inputs": [{"shape": [2, 6]}],
    }
    for size in ("(1, 4)", "(3, 1)")
]
CASES += [{"op": "BilinearSampler", "attrs": {}, "inputs": [{"shape": [1, 2, 4, 5]}, NOWHERE]}]
CASES += [
    {
        "op": "SpatialTransformer",
        "attrs": {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(1, 3)"},
        "inputs": [{"shape": [1, 2, 4, 5]}, {"shape": [1, 6]}],
    }
]


def rounding(case):
    """By operator: 9 products for each of the channels and a bias, a mean of products, the three
    terms of an affine map.
    """
    if case["op"].endswith("DeformableConvolution"):
        return sum_rounding(
            prod(case["inputs"][-2 if case["attrs"].get("no_bias") is None else -1]["shape"][1:])
            + 1
        )
    return sum_rounding(2, 0.5) if case["op"] == "Correlation" else sum_rounding(3)


CASES = with_atol(CASES, rounding)
