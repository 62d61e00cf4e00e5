"""Batch-axis rules of the operators of family ``attention``."""

from __future__ import annotations

from graphshare.ops.batch_axis import At, Rule, require_axes

RULES: dict[str, Rule] = {
    "_contrib_interleaved_matmul_selfatt_qk": require_axes(1, out=At(0, 3)),
    "_contrib_interleaved_matmul_selfatt_valatt": require_axes(1, 0, out=At(1, 3)),
    "_contrib_interleaved_matmul_encdec_qk": require_axes(1, 1, out=At(0, 3)),
    "_contrib_interleaved_matmul_encdec_valatt": require_axes(1, 0, out=At(1, 3)),
}
