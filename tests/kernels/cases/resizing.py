"""Cases for images brought to another size. Plain data."""


def case(op, attrs, *shapes, dtype="float32"):
    return {
        "op": op,
        "attrs": attrs,
        "inputs": [{"shape": shape, "dtype": dtype} for shape in shapes],
    }


CASES = [
    case("_contrib_AdaptiveAvgPooling2D", attrs, [2, 3, height, width])
    for attrs in ({}, {"output_size": "2"}, {"output_size": "(3, 5)"}, {"output_size": "(7, 1)"})
    for height, width in ((4, 5), (7, 9))
]
CASES += [
    case("_contrib_BilinearResize2D", dict(attrs, align_corners=corners), [2, 2, 4, 5])
    for corners in ("True", "False")
    for attrs in (
        {},
        {"height": "7", "width": "3"},
        {"height": "1", "width": "10"},
        {"height": "4", "width": "5"},
        {"scale_height": "1.5", "scale_width": "2.7"},
    )
]
CASES += [
    case(
        "_contrib_BilinearResize2D",
        {"mode": mode, "scale_height": "0.7", "scale_width": "2"},
        [1, 1, height, width],
    )
    for mode in ("odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
    for height, width in ((4, 5), (7, 8))
]
CASES += [case("_contrib_BilinearResize2D", {"mode": "like"}, [1, 2, 4, 5], [1, 1, 7, 3])]
CASES += [
    case(op, attrs, [1, 2, 4, 5], dtype=dtype)
    for op, attrs in (
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": "3"}),
        ("_contrib_BilinearResize2D", {"height": "7", "width": "3"}),
    )
    for dtype in ("float16", "float64")
]
