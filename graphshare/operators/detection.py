"""Vision: anchors, proposals, boxes, sampling and resizing of feature maps."""

from __future__ import annotations

from graphshare.operators.rules import up_sampling_inputs
from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_contrib_BilinearResize2D",
        "data like[mode=like]",
        "height:int[1:]=1; width:int[1:]=1; scale_height:float?=None; scale_width:float?=None; "
        "mode:{like/odd_scale/size/to_even_down/to_even_up/to_odd_down/to_odd_up}=size; align_corners:bool=True",
        couples_batch="never",
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
    *define("_contrib_box_encode", "samples matches anchors refs means stds", results="output0 output1"),
    *define("_contrib_box_iou", "lhs rhs", "format:{center/corner}=corner"),
    *define(
        "_contrib_box_nms",
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
        "_contrib_MultiBoxDetection",
        "cls_prob loc_pred anchor",
        "clip:bool=True; threshold:float=0.00999999978; background_id:int=0; nms_threshold:float=0.5; "
        "force_suppress:bool=False; variances:floats=[0.1,0.1,0.2,0.2]; nms_topk:int=-1",
        couples_batch="never",
    ),
    *define(
        "_contrib_MultiBoxPrior",
        "data",
        "sizes:floats=[1]; ratios:floats=[1]; clip:bool=False; steps:floats=[-1,-1]; offsets:floats=[0.5,0.5]",
    ),
    *define(
        "_contrib_MultiBoxTarget",
        "anchor label cls_pred",
        "overlap_threshold:float=0.5; ignore_label:float=-1; negative_mining_ratio:float=-1; "
        "negative_mining_thresh:float=0.5; minimum_negative_samples:int=0; variances:floats=[0.1,0.1,0.2,0.2]",
        results="loc_target loc_mask cls_target",
        couples_batch="never",
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
    ),
    *define("BilinearSampler", "data grid", "cudnn_off:bool?=None", results="output tmp", visible=1, couples_batch="never"),
    *define(
        "Correlation",
        "data1 data2",
        "kernel_size:uint=1; max_displacement:uint=1; stride1:uint=1; stride2:uint=1; pad_size:uint=0; is_multiply:bool=True",
        results="output tmp1 tmp2",
        visible=1,
        couples_batch="never",
    ),
    *define(
        "Crop",
        "arg*num_args",
        "num_args:int[1:3]=!; offset:shape=[0,0]; h_w:shape=[0,0]; center_crop:bool=False",
        couples_batch="never",
    ),
    *define(
        "GridGenerator",
        "data",
        "transform_type:{affine/warp}=!; target_shape:shape=[0,0]",
        results="output grid_dst",
        visible=1,
        couples_batch="never",
    ),
    *define(
        "SpatialTransformer",
        "data loc",
        "target_shape:shape=[0,0]; transform_type:{affine}=!; sampler_type:{bilinear}=!; cudnn_off:bool?=None",
        results="output grid_dst grid_src",
        visible=1,
        couples_batch="never",
    ),
    *define(
        "UpSampling",
        up_sampling_inputs,
        "scale:int[1:]=!; num_filter:int=0; sample_type:{bilinear/nearest}=!; multi_input_mode:{concat/sum}=concat; "
        "num_args:int[1:]=!; workspace:uint64=512",
        initializers={1: '["bilinear", {}]'},
        couples_batch="never",
    ),
)
