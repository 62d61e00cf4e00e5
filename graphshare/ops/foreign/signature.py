"""Signatures and batch-axis rules of the operators of family ``foreign``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, without_samples
from graphshare.ops.convolution.signature import CONVOLUTION
from graphshare.ops.signature import define

_BIASED = "data weight bias[!no_bias]"

OPERATORS = (
    *define("ChannelwiseConvolution", _BIASED, CONVOLUTION, registered=False, checks_attributes=False, couples_batch="never"),
    *define(
        "MultiBoxPrior",
        "data",
        "sizes:floats=[1]; ratios:floats=[1]; clip:bool=False; steps:floats=[-1,-1]; offsets:floats=[0.5,0.5]",
        registered=False,
        checks_attributes=False,
    ),
    *define(
        "MultiBoxTarget",
        "anchor label cls_pred",
        "overlap_threshold:float=0.5; ignore_label:float=-1; negative_mining_ratio:float=-1; negative_mining_thresh:float=0.5; "
        "minimum_negative_samples:int=0; variances:floats=[0.1,0.1,0.2,0.2]",
        results="loc_target loc_mask cls_target",
        registered=False,
        checks_attributes=False,
        couples_batch="never",
    ),
    *define(
        "MultiBoxDetection",
        "cls_prob loc_pred anchor",
        "clip:bool=True; threshold:float=0.01; background_id:int=0; nms_threshold:float=0.5; force_suppress:bool=False; "
        "variances:floats=[0.1,0.1,0.2,0.2]; nms_topk:int=-1",
        registered=False,
        checks_attributes=False,
        couples_batch="never",
    ),
    *define(
        "QActivation",
        "data",
        "act_bit:int=1; backward_only:bool=False",
        registered=False,
        checks_attributes=False,
        couples_batch="never",
    ),
    *define(
        "QConvolution QConvolution_v1",
        _BIASED,
        CONVOLUTION + "; act_bit:int=1; binarized_weights_only:bool=False; scaling_factor:bool=False",
        registered=False,
        checks_attributes=False,
        couples_batch="never",
    ),
    *define(
        "QFullyConnected",
        _BIASED,
        "num_hidden:int=!; no_bias:bool=False; flatten:bool=True; act_bit:int=1; binarized_weights_only:bool=False",
        registered=False,
        checks_attributes=False,
        couples_batch="never",
    ),
    *define(
        "WarpCTC",
        "data label",
        "label_length:int=0; input_length:int=0",
        registered=False,
        checks_attributes=False,
        couples_batch="always",
    ),
)

RULES: dict[str, Rule] = {
    "MultiBoxPrior": without_samples,
}
