"""Quantized operators and what oneDNN fuses."""

from __future__ import annotations

from graphshare.operators.activation import ACTIVATION
from graphshare.operators.convolution import CONVOLUTION
from graphshare.operators.fused import convolution_inputs, dense_inputs, inner_slots
from graphshare.operators.indexing import EMBEDDING
from graphshare.operators.linear import FULLY_CONNECTED
from graphshare.operators.normalization import BATCH_NORM
from graphshare.operators.pooling import POOLING
from graphshare.operators.rules import kernel_rank, paired_ranges, ranks_agree, without_zeros
from graphshare.operators.sequence import RECURRENT
from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_contrib_calibrate_entropy",
        "hist hist_edges",
        "num_quantized_bins:int=255",
        results="threshold divergence",
        couples_batch="always",
    ),
    *define("_contrib_dequantize", "data min_range max_range", "out_type:{float32}=float32"),
    *define(
        "_contrib_quantize",
        "data min_range max_range",
        "out_type:{int8/uint8}=uint8",
        results="output0 output1 output2",
    ),
    *define(
        "_contrib_quantize_asym",
        "data",
        "min_calib_range:float?=None; max_calib_range:float?=None",
        results="output scale shift",
    ),
    *define(
        "_contrib_quantize_v2",
        "data",
        "out_type:{auto/int8/uint8}=int8; min_calib_range:float?=None; max_calib_range:float?=None",
        results="output0 output1 output2",
    ),
    *define(
        "_contrib_quantized_act",
        "data min_data max_data",
        ACTIVATION,
        results="output min_output max_output",
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_batch_norm",
        "data gamma beta moving_mean moving_var min_data max_data",
        BATCH_NORM,
        results="output min_output max_output",
        mutable=(3, 4),
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_concat",
        paired_ranges,
        "num_args:int[1:]=!; dim:int=1",
        results="output min_output max_output",
        couples_batch="axis",
    ),
    *define(
        "_contrib_quantized_conv",
        "data weight bias[!no_bias] min_data max_data min_weight max_weight min_bias[!no_bias] max_bias[!no_bias]",
        CONVOLUTION,
        results="output min_output max_output",
        load_checks=(kernel_rank(1, 2, 3), ranks_agree("stride", "dilate", "pad")),
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_elemwise_add",
        "lhs rhs lhs_min lhs_max rhs_min rhs_max",
        "min_calib_range:float?=None; max_calib_range:float?=None",
        results="output min_output max_output",
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_elemwise_mul",
        "lhs rhs lhs_min lhs_max rhs_min rhs_max",
        "min_calib_range:float?=None; max_calib_range:float?=None; enable_float_output:bool=False",
        results="output min_output[!enable_float_output] max_output[!enable_float_output]",
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_embedding",
        "data weight min_weight max_weight",
        EMBEDDING,
        results="output min_output max_output",
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_flatten",
        "data min_data max_data",
        results="output min_output max_output",
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_fully_connected",
        "data weight bias[!no_bias] min_data max_data min_weight max_weight min_bias[!no_bias] max_bias[!no_bias]",
        FULLY_CONNECTED,
        results="output min_output max_output",
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_pooling",
        "data min_data max_data",
        POOLING,
        results="output min_output max_output",
        load_checks=(without_zeros("kernel", "stride"), kernel_rank(1, 2, 3)),
        couples_batch="never",
    ),
    *define(
        "_contrib_quantized_rnn",
        "data parameters state state_cell[mode=lstm] min_data max_data",
        RECURRENT,
        results="output state_output[state_outputs] statecell_ouput[state_outputs&mode=lstm]",
        couples_batch="always",
    ),
    *define(
        "_contrib_requantize",
        "data min_range max_range",
        "out_type:{auto/int8/uint8}=int8; min_calib_range:float?=None; max_calib_range:float?=None",
        results="output0 output1 output2",
    ),
    *define(
        "_sg_mkldnn_conv",
        convolution_inputs,
        "with_bn:bool=False; with_act:bool=False; with_sum:bool=False; with_postsum_act:bool=False; quantized:bool=False; "
        "min_calib_range:float?=None; max_calib_range:float?=None",
        results="output output_min[quantized] output_max[quantized]",
        mutable=inner_slots,
        renamed_attributes={"with_relu": "with_act", "with_postsum_relu": "with_postsum_act"},
    ),
    *define(
        "_sg_mkldnn_fully_connected",
        dense_inputs,
        "quantized:bool=False; enable_float_output:bool=False; with_eltwise:bool=False; min_calib_range:float?=None; "
        "max_calib_range:float?=None; channel_wise_quantize:bool?=None",
        results="output min_output[quantized&!enable_float_output] max_output[quantized&!enable_float_output]",
        mutable=inner_slots,
        renamed_attributes={"with_relu": "with_eltwise"},
    ),
    *define(
        "_sg_mkldnn_selfatt_qk",
        "queries_keys_values min_qkv[quantized] max_qkv[quantized]",
        "heads:int=!; quantized:bool=False; enable_float_output:bool=False; min_calib_range:float?=None; "
        "max_calib_range:float?=None",
        results="output min_output[quantized&!enable_float_output] max_output[quantized&!enable_float_output]",
    ),
    *define(
        "_sg_mkldnn_selfatt_valatt",
        "queries_keys_values attention min_qkv[quantized] max_qkv[quantized] min_attention[quantized] max_attention[quantized]",
        "heads:int=!; quantized:bool=False; enable_float_output:bool=False; min_calib_range:float?=None; "
        "max_calib_range:float?=None",
        results="output min_output[quantized&!enable_float_output] max_output[quantized&!enable_float_output]",
    ),
)
