"""Cases for regions of feature maps. Plain data."""

ROIS = [0, 0, 0, 3, 3, 1, 1.2, 1.6, 5.5, 4.4, 0, 2.5, 0.4, 2.9, 5.7, 1, 3, 2, 9, 8]
LARGE = [0, 0, 0, 48, 48, 1, 16.5, 20.25, 88, 70.4, 0, 40, 6.4, 46, 91, 1, 48, 32, 95, 95]


def _case(op, channels, attrs, rois=None, **more):
    rois = rois or ROIS
    inputs = [{"shape": [2, channels, 6, 7]}, {"shape": [len(rois) // 5, 5], "values": rois}]
    return {"op": op, "attrs": attrs, "inputs": inputs, **more}


CASES = [
    _case("ROIPooling", 3, {"pooled_size": "(2, 2)", "spatial_scale": "1.0"}),
    _case("ROIPooling", 2, {"pooled_size": "(3, 4)", "spatial_scale": "0.0625"}, LARGE),
    _case("ROIPooling", 2, {"pooled_size": "(2, 3)", "spatial_scale": "0.5"}, [1, 0, 1, 7, 9]),
    _case(
        "_contrib_PSROIPooling", 8, {"pooled_size": "2", "spatial_scale": "1.0", "output_dim": "2"}
    ),
    _case(
        "_contrib_PSROIPooling",
        9,
        {"pooled_size": "3", "spatial_scale": "0.0625", "output_dim": "1"},
        LARGE,
    ),
    _case(
        "_contrib_PSROIPooling",
        8,
        {"pooled_size": "4", "spatial_scale": "1.0", "output_dim": "2", "group_size": "2"},
    ),
    _case("_contrib_ROIAlign", 3, {"pooled_size": "(2, 2)", "spatial_scale": "1.0"}),
    _case(
        "_contrib_ROIAlign",
        2,
        {"pooled_size": "(3, 4)", "spatial_scale": "0.0625", "sample_ratio": "2"},
        LARGE,
    ),
    _case("_contrib_ROIAlign", 2, {"pooled_size": "(3, 2)", "spatial_scale": "0.0625"}, LARGE),
    _case(
        "_contrib_ROIAlign",
        8,
        {"pooled_size": "(2, 2)", "spatial_scale": "1.0", "position_sensitive": "True"},
    ),
    _case(
        "_contrib_ROIAlign",
        2,
        {"pooled_size": "(2, 3)", "spatial_scale": "0.9", "aligned": "True", "sample_ratio": "3"},
    ),
    # MXNet leaves the cells of the first region, which is of no image, as the memory was: 0 in a new process.
    _case(
        "_contrib_ROIAlign",
        2,
        {"pooled_size": "(2, 2)", "spatial_scale": "1.0"},
        [-1, 0, 0, 3, 3, 0, -4, -3, 2, 2],
        alone=True,
    ),
]
