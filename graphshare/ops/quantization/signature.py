"""Signatures of ``quantization``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.ops.activation.signature import ACTIVATION
from graphshare.ops.batch_axis import At, Outcome, Rule, Use, default_rule
from graphshare.ops.concat.signature import concat_rule
from graphshare.ops.convolution.signature import CONVOLUTION, WINDOW_CHECKS
from graphshare.ops.indexing.signature import EMBEDDING
from graphshare.ops.matmul.signature import FULLY_CONNECTED
from graphshare.ops.normalization.signature import BATCH_NORM
from graphshare.ops.pooling.signature import POOLING, POOLING_CHECKS
from graphshare.ops.rnn.signature import RECURRENT
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, Signature


def range_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return all arrays, then the least and greatest value of each."""
    names = [f"arg{i}" for i in range(read_count(signature, attrs, "num_args"))]
    return (*names, *(f"{name}_{end}" for name in names for end in ("min", "max")))


_CALIBRATED = "min_calib_range:float?=None; max_calib_range:float?=None"
_NARROWED = f"out_type:{{auto/int8/uint8}}=int8; {_CALIBRATED}"
_BIASED = "data weight bias[!no_bias] min_data max_data min_weight max_weight min_bias[!no_bias] max_bias[!no_bias]"
_layer = partial(define, results="output min_output max_output", couples_batch="never")

OPERATORS = (
    *define(
        "_contrib_calibrate_entropy",
        "hist hist_edges",
        "num_quantized_bins:int=255",
        results="threshold divergence",
        couples_batch="always",
        no_kernel="it serves calibration, not inference",
    ),
    *define("_contrib_dequantize", "data min_range max_range", "out_type:{float32}=float32"),
    *define(
        "_contrib_quantize",
        "data min_range max_range",
        "out_type:{int8/uint8}=uint8",
        results="output0 output1 output2",
    ),
    *define("_contrib_quantize_asym", "data", _CALIBRATED, results="output scale shift"),
    *define("_contrib_quantize_v2", "data", _NARROWED, results="output0 output1 output2"),
    *_layer("_contrib_quantized_act", "data min_data max_data", ACTIVATION),
    *_layer(
        "_contrib_quantized_batch_norm",
        "data gamma beta moving_mean moving_var min_data max_data",
        BATCH_NORM,
        mutable=(3, 4),
    ),
    *define(
        "_contrib_quantized_concat",
        range_inputs,
        "num_args:int[1:]=!; dim:int=1",
        results="output min_output max_output",
        couples_batch="axis",
    ),
    *_layer("_contrib_quantized_conv", _BIASED, CONVOLUTION, load_checks=WINDOW_CHECKS),
    *_layer(
        "_contrib_quantized_elemwise_add", "lhs rhs lhs_min lhs_max rhs_min rhs_max", _CALIBRATED
    ),
    *define(
        "_contrib_quantized_elemwise_mul",
        "lhs rhs lhs_min lhs_max rhs_min rhs_max",
        f"{_CALIBRATED}; enable_float_output:bool=False",
        results="output min_output[!enable_float_output] max_output[!enable_float_output]",
        couples_batch="never",
    ),
    *_layer("_contrib_quantized_embedding", "data weight min_weight max_weight", EMBEDDING),
    *_layer("_contrib_quantized_flatten", "data min_data max_data"),
    *_layer("_contrib_quantized_fully_connected", _BIASED, FULLY_CONNECTED),
    *_layer(
        "_contrib_quantized_pooling", "data min_data max_data", POOLING, load_checks=POOLING_CHECKS
    ),
    *define(
        "_contrib_quantized_rnn",
        "data parameters state state_cell[mode=lstm] min_data max_data",
        RECURRENT,
        # The third output is misspelled in MXNet.
        results="output state_output[state_outputs] statecell_ouput[state_outputs&mode=lstm]",
        couples_batch="always",
        is_operator_property=True,
    ),
    *define(
        "_contrib_requantize",
        "data min_range max_range",
        _NARROWED,
        results="output0 output1 output2",
    ),
)


def apply_calibrated_rule(use: Use) -> Outcome:
    """Keep the batch axis, unless the range covers all samples."""
    if use.first.axis and use.signature.name.startswith("_sg_"):
        return f"expects the samples on axis 0, but they are on axis {use.first.axis}"
    quantizes = not use.signature.name.startswith("_sg_") or use.value("quantized")
    if (
        quantizes
        and use.value("min_calib_range") is None
        and use.signature.parameter("min_calib_range") is not None
    ):
        return "takes one range for all samples (it is not calibrated)"
    return [use.first, None, None]


def _apply_quantized_rule(use: Use) -> Outcome:
    """Keep the data's batch axis; ranges belong to all samples together and may have none."""
    ranges = [name for name in use.formals_with_samples() if name.startswith(("min_", "max_"))]
    if ranges:
        return f"has a range for each sample in {' and '.join(ranges)}, but computes with one range for all"
    outcome = default_rule(use)
    return [outcome, None, None] if isinstance(outcome, At) else outcome


RULES: dict[str, Rule] = {
    "_contrib_quantize_v2": apply_calibrated_rule,
    "_contrib_requantize": apply_calibrated_rule,
    "_contrib_quantize": lambda use: [use.first, None, None],
    "_contrib_dequantize": lambda use: use.first,
    **dict.fromkeys(
        (
            "_contrib_quantized_conv",
            "_contrib_quantized_fully_connected",
            "_contrib_quantized_pooling",
            "_contrib_quantized_act",
            "_contrib_quantized_flatten",
            "_contrib_quantized_elemwise_add",
        ),
        _apply_quantized_rule,
    ),
    "_contrib_quantized_concat": concat_rule,
}
