"""Cases for images. Plain data."""


def case(op, attrs, spec):
    return {"op": "_image_" + op, "attrs": attrs, "inputs": [spec]}


def bytes_of(*shape):
    return {"shape": list(shape), "dtype": "uint8", "low": 0, "high": 256}


CASES = [
    case("to_tensor", {}, x)
    for x in (bytes_of(4, 5, 3), bytes_of(2, 4, 5, 1), {"shape": [4, 5, 3], "shift": 9.0})
]
CASES += [
    case("normalize", attrs, {"shape": shape})
    for attrs in (
        {"mean": "(0.1, 0.2, 0.3)", "std": "(0.5, 0.6, 2)"},
        {"mean": "(0.5,)", "std": "(0.25,)"},
    )
    for shape in ([3, 4, 5], [2, 3, 4, 5])
]
CASES += [
    case("flip_" + how, {}, x)
    for how in ("left_right", "top_bottom")
    for x in (bytes_of(4, 6, 3), {"shape": [2, 4, 1]})
]
CASES += [
    case("crop", {"x": "1", "y": "2", "width": "3", "height": "2"}, x)
    for x in (bytes_of(4, 5, 3), bytes_of(2, 4, 5, 3))
]
CASES += [
    case("adjust_lighting", {"alpha": "(0.5, -0.5, 2)"}, x)
    for x in (bytes_of(4, 5, 3), {"shape": [4, 5, 3]})
]
