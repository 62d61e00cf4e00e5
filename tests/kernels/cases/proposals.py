"""Cases for region proposals. Plain data."""

import random

from tests.kernels.rounding import sum_rounding, with_atol


def _case(op, seed, batch=1, anchors=12, size=4, **attrs):
    stream = random.Random(seed)
    scores = [round(stream.uniform(0, 1), 6) for _ in range(batch * 2 * anchors * size * size)]
    return {
        "op": op,
        "attrs": {"feature_stride": "16", **attrs},
        "inputs": [
            {"shape": [batch, 2 * anchors, size, size], "values": scores},
            {"shape": [batch, 4 * anchors, size, size], "scale": 0.3},
            {"shape": [batch, 3], "values": [16.0 * size, 16.0 * size - 8, 1.0] * batch},
        ],
        "outputs": 2 if attrs.get("output_score") == "True" else 1,
    }


CASES = [
    _case("_contrib_Proposal", 1, rpn_post_nms_top_n="8", rpn_pre_nms_top_n="40"),
    _case(
        "_contrib_Proposal",
        2,
        rpn_post_nms_top_n="12",
        output_score="True",
        threshold="0.5",
        rpn_pre_nms_top_n="60",
    ),
    _case("_contrib_Proposal", 3, rpn_post_nms_top_n="6", iou_loss="True", rpn_pre_nms_top_n="40"),
    _case(
        "_contrib_Proposal",
        4,
        anchors=4,
        rpn_post_nms_top_n="6",
        scales="(1, 2)",
        ratios="(0.5, 2)",
        rpn_min_size="4",
        rpn_pre_nms_top_n="30",
    ),
    _case("_contrib_MultiProposal", 5, batch=2, rpn_post_nms_top_n="8", rpn_pre_nms_top_n="40"),
    _case(
        "_contrib_MultiProposal",
        6,
        batch=2,
        rpn_post_nms_top_n="20",
        rpn_pre_nms_top_n="16",
        output_score="True",
    ),
]
# Corners, which are a centre and half a width, of images of 64 pixels
CASES = with_atol(CASES, sum_rounding(2, 64.0))
