"""Cases for im2col and col2im. Plain data."""

WINDOWS = [
    ({"kernel": "(3, 2)"}, (6, 7), 24),
    ({"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)"}, (6, 7), 12),
    ({"kernel": "(2, 2)", "dilate": "(2, 3)", "stride": "(1, 2)"}, (6, 7), 8),
]


def taps(attrs):
    count = 1
    for k in attrs["kernel"].strip("()").split(","):
        count *= int(k)
    return count


CASES = [
    {"op": "im2col", "attrs": attrs, "inputs": [{"shape": [2, 3, *size]}]}
    for attrs, size, _ in WINDOWS
]
CASES += [
    {
        "op": "col2im",
        "attrs": dict(attrs, output_size=str(size)),
        "inputs": [{"shape": [2, 3 * taps(attrs), count]}],
    }
    for attrs, size, count in WINDOWS
]
