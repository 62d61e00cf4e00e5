"""Signatures of the operators of family ``foreign``."""

from __future__ import annotations

from graphshare.ops.convolution.signature import CONVOLUTION
from graphshare.ops.signature import define

_BIASED = "data weight bias[!no_bias]"

OPERATORS = (
    *define("ChannelwiseConvolution", _BIASED, CONVOLUTION, registered=False, checks_attributes=False, couples_batch="never"),
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
