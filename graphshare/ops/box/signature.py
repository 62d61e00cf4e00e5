"""Signatures and batch-axis rules of the operators of family ``box``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, without_samples
from graphshare.ops.signature import define

OPERATORS = (
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
    *define("_contrib_box_encode", "samples matches anchors refs means stds", results="output0 output1"),
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
        "_contrib_MultiBoxPrior(_npx_multibox_prior)",
        "data",
        "sizes:floats=[1]; ratios:floats=[1]; clip:bool=False; steps:floats=[-1,-1]; offsets:floats=[0.5,0.5]",
        is_operator_property=True,
    ),
)

RULES: dict[str, Rule] = {
    "_contrib_MultiBoxPrior": without_samples,
}
