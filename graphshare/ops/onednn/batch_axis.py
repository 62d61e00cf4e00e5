"""Batch-axis rules of the operators of family ``onednn``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Rule, require_axes
from graphshare.ops.quantization.batch_axis import calibrated_rule

RULES: dict[str, Rule] = {
    "_sg_mkldnn_selfatt_qk": require_axes(1, out=At(0, 3)),
    "_sg_mkldnn_selfatt_valatt": require_axes(1, 0, out=At(1, 3)),
    "_sg_mkldnn_conv": calibrated_rule,
    "_sg_mkldnn_fully_connected": calibrated_rule,
}
