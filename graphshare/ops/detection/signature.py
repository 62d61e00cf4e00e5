"""Signatures of ``detection``."""

from __future__ import annotations

from typing import Any

from graphshare.ops.batch_axis import Rule, without_samples
from graphshare.ops.signature import define

DETECTION = (
    "clip:bool=True; threshold:float=0.00999999978; background_id:int=0; nms_threshold:float=0.5; "
    "force_suppress:bool=False; variances:floats=[0.1,0.1,0.2,0.2]; nms_topk:int=-1"
)
TARGET = (
    "overlap_threshold:float=0.5; ignore_label:float=-1; negative_mining_ratio:float=-1; "
    "negative_mining_thresh:float=0.5; minimum_negative_samples:int=0; variances:floats=[0.1,0.1,0.2,0.2]"
)
TARGETS = "loc_target loc_mask cls_target"
PRIOR = "sizes:floats=[1]; ratios:floats=[1]; clip:bool=False; steps:floats=[-1,-1]; offsets:floats=[0.5,0.5]"

# The names before MXNet 1.0; 1.9.1 does not register them.
_OLD: dict[str, Any] = {"registered": False, "checks_attributes": False}

OPERATORS = (
    *define(
        "_contrib_MultiBoxDetection(_npx_multibox_detection)",
        "cls_prob loc_pred anchor",
        DETECTION,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "_contrib_MultiBoxTarget(_npx_multibox_target)",
        "anchor label cls_pred",
        TARGET,
        results=TARGETS,
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "_contrib_MultiProposal _contrib_Proposal",
        "cls_prob bbox_pred im_info",
        "rpn_pre_nms_top_n:int=6000; rpn_post_nms_top_n:int=300; threshold:float=0.699999988; rpn_min_size:int=16; "
        "scales:floats=[4,8,16,32]; ratios:floats=[0.5,1,2]; feature_stride:int=16; output_score:bool=False; "
        "iou_loss:bool=False",
        results="output score",
        visible=1,
        all_visible_if="output_score",
        is_operator_property=True,
    ),
    *define(
        "_contrib_bipartite_matching",
        "data",
        "is_ascend:bool=False; threshold:float=!; topk:int=-1",
        results="output0 output1",
        registers_inputs=False,
    ),
    *define(
        "_contrib_box_decode",
        "data anchors",
        "std0:float=1; std1:float=1; std2:float=1; std3:float=1; clip:float=-1; format:{center/corner}=center",
        couples_batch="never",
    ),
    *define(
        "_contrib_box_encode", "samples matches anchors refs means stds", results="output0 output1"
    ),
    *define("_contrib_box_iou", "lhs rhs", "format:{center/corner}=corner"),
    *define(
        "_contrib_box_nms(_contrib_box_non_maximum_suppression)",
        "data",
        "overlap_thresh:float=0.5; valid_thresh:float=0; topk:int=-1; coord_start:int=2; score_index:int=1; "
        "id_index:int=-1; background_id:int=-1; force_suppress:bool=False; in_format:{center/corner}=corner; "
        "out_format:{center/corner}=corner",
        results="output0 output1",
        visible=1,
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "_contrib_MultiBoxPrior(_npx_multibox_prior)", "data", PRIOR, is_operator_property=True
    ),
    *define("MultiBoxPrior", "data", PRIOR, **_OLD),
    *define(
        "MultiBoxTarget",
        "anchor label cls_pred",
        TARGET,
        results=TARGETS,
        couples_batch="never",
        **_OLD,
    ),
    *define(
        "MultiBoxDetection", "cls_prob loc_pred anchor", DETECTION, couples_batch="never", **_OLD
    ),
)

RULES: dict[str, Rule] = {
    "_contrib_MultiBoxPrior": without_samples,
    "MultiBoxPrior": without_samples,
}
