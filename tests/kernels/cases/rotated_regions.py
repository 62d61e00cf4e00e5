"""Cases for regions that are turned. Plain data."""

ROIS = [0, 6, 5, 6, 4, 30, 1, 3, 3, 8, 8, -75, 0, 10, 9, 4, 9, 0, 1, 6, 6, 0.5, 0.5, 200]
CASES = [
    {
        "op": "_contrib_RROIAlign",
        "attrs": dict(attrs, pooled_size=size),
        "inputs": [{"shape": [2, 3, 10, 11]}, {"shape": [4, 6], "values": ROIS}],
    }
    for attrs in ({"spatial_scale": "1.0", "sampling_ratio": "2"}, {"spatial_scale": "0.5"})
    for size in ("(2, 3)", "(4, 4)")
]
