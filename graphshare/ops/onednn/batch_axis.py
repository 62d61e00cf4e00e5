"""Batch-axis rules of the operators of family ``onednn``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Rule, fixed_axes_rule
from graphshare.ops.quantization.batch_axis import calibrated_rule

RULES: dict[str, Rule] = {
    "_sg_mkldnn_selfatt_qk": fixed_axes_rule(1, out=At(0, 3)),
    "_sg_mkldnn_selfatt_valatt": fixed_axes_rule(1, 0, out=At(1, 3)),
    "_sg_mkldnn_conv": calibrated_rule,
    "_sg_mkldnn_fully_connected": calibrated_rule,
}
