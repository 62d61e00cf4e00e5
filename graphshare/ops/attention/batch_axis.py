"""Batch-axis rules of the operators of family ``attention``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Rule, fixed_axes_rule

RULES: dict[str, Rule] = {
    "_contrib_interleaved_matmul_selfatt_qk": fixed_axes_rule(1, out=At(0, 3)),
    "_contrib_interleaved_matmul_selfatt_valatt": fixed_axes_rule(1, 0, out=At(1, 3)),
    "_contrib_interleaved_matmul_encdec_qk": fixed_axes_rule(1, 1, out=At(0, 3)),
    "_contrib_interleaved_matmul_encdec_valatt": fixed_axes_rule(1, 0, out=At(1, 3)),
}
