"""Signatures and batch-axis rules of the operators of family ``onednn``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Rule, require_axes
from graphshare.ops.onednn.inputs import convolution_inputs, dense_inputs, inner_slots
from graphshare.ops.quantization.signature import calibrated_rule
from graphshare.ops.signature import define

OPERATORS = (
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

RULES: dict[str, Rule] = {
    "_sg_mkldnn_selfatt_qk": require_axes(1, out=At(0, 3)),
    "_sg_mkldnn_selfatt_valatt": require_axes(1, 0, out=At(1, 3)),
    "_sg_mkldnn_conv": calibrated_rule,
    "_sg_mkldnn_fully_connected": calibrated_rule,
}
