"""Signatures of the operators of family ``detection``."""

from __future__ import annotations

from graphshare.ops.signature import define

OPERATORS = (
    *define(
        "_contrib_MultiBoxDetection(_npx_multibox_detection)",
        "cls_prob loc_pred anchor",
        "clip:bool=True; threshold:float=0.00999999978; background_id:int=0; nms_threshold:float=0.5; "
        "force_suppress:bool=False; variances:floats=[0.1,0.1,0.2,0.2]; nms_topk:int=-1",
        couples_batch="never",
        is_operator_property=True,
    ),
    *define(
        "_contrib_MultiBoxTarget(_npx_multibox_target)",
        "anchor label cls_pred",
        "overlap_threshold:float=0.5; ignore_label:float=-1; negative_mining_ratio:float=-1; "
        "negative_mining_thresh:float=0.5; minimum_negative_samples:int=0; variances:floats=[0.1,0.1,0.2,0.2]",
        results="loc_target loc_mask cls_target",
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
)
