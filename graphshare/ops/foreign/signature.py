"""Signatures of operators in real files that no MXNet release registers: from forks and plugins.

Those with a Q are from BMXNet, with binary weights and activations; WarpCTC is a plugin.
"""

from __future__ import annotations

from functools import partial

from graphshare.ops.convolution.signature import CONVOLUTION
from graphshare.ops.signature import define

_BIASED = "data weight bias[!no_bias]"

_foreign = partial(define, registered=False, checks_attributes=False, couples_batch="never")

OPERATORS = (
    *_foreign("ChannelwiseConvolution", _BIASED, CONVOLUTION),
    *_foreign("QActivation", "data", "act_bit:int=1; backward_only:bool=False"),
    *_foreign(
        "QConvolution QConvolution_v1",
        _BIASED,
        CONVOLUTION
        + "; act_bit:int=1; binarized_weights_only:bool=False; scaling_factor:bool=False",
    ),
    *_foreign(
        "QFullyConnected",
        _BIASED,
        "num_hidden:int=!; no_bias:bool=False; flatten:bool=True; act_bit:int=1; binarized_weights_only:bool=False",
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
