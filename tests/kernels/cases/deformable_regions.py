"""Cases for regions whose parts are moved. Plain data."""

ROIS = {"shape": [3, 5], "values": [0, 1, 2, 7, 8, 1, 0, 0, 3.5, 9.5, 0, 8, 8, 12, 12]}
CASES = [
    {
        "op": "_contrib_DeformablePSROIPooling",
        "attrs": dict(
            attrs, output_dim="2", group_size=group, pooled_size="3", sample_per_part="2"
        ),
        "inputs": [{"shape": [2, 2 * int(group) ** 2, 9, 10]}, ROIS, *trans],
        "outputs": 1,
    }
    for group in ("1", "3")
    for attrs, trans in (
        ({"spatial_scale": "1.0", "no_trans": "True"}, []),
        ({"spatial_scale": "0.5", "trans_std": "0.1", "part_size": "3"}, [{"shape": [3, 2, 3, 3]}]),
        ({"spatial_scale": "1.0", "trans_std": "0.2", "part_size": "2"}, [{"shape": [3, 4, 2, 2]}]),
    )
]
