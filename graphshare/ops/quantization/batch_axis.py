"""Batch-axis rules of the operators of family ``quantization``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Outcome, Rule, Use, default_rule
from graphshare.ops.concat.batch_axis import concat


def calibrated_rule(use: Use) -> Outcome:
    """Quantizing operators: the range is an attribute or an input, or that of all samples."""
    if use.first.axis and use.signature.name.startswith("_sg_"):
        return f"takes axis 0 for the samples, which are on axis {use.first.axis}"
    quantizes = not use.signature.name.startswith("_sg_") or use.value("quantized")
    if quantizes and use.value("min_calib_range") is None and use.signature.parameter("min_calib_range") is not None:
        return "takes the range of all samples for each (it is not calibrated)"
    return [use.first, None, None]


def _quantized_rule(use: Use) -> Outcome:
    """Keep the samples of the data; a range belongs to all samples together, so no range may have samples."""
    ranges = [name for name in use.formals_with_samples() if name.startswith(("min_", "max_"))]
    if ranges:
        return f"has a range for each sample in {' and '.join(ranges)}, but computes with one range for all"
    outcome = default_rule(use)
    return [outcome, None, None] if isinstance(outcome, At) else outcome


RULES: dict[str, Rule] = {
    "_contrib_quantize_v2": calibrated_rule,
    "_contrib_requantize": calibrated_rule,
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
        _quantized_rule,
    ),
    "_contrib_quantized_concat": concat,
}
