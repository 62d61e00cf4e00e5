"""Signatures of ``pooling``."""

from __future__ import annotations

from graphshare.ops.batch_axis import Rule, window_rule
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import pooling_outputs, require_kernel_rank, require_nonzero

POOLING = (
    "kernel:shape=[]; pool_type:{avg/lp/max/sum}=max; global_pool:bool=False; cudnn_off:bool=False; "
    "pooling_convention:{full/same/valid}=valid; stride:shape=[]; pad:shape=[]; p_value:int?=None; "
    "count_include_pad:bool?=None; layout:{None/NCDHW/NCHW/NCW/NDHWC/NHWC/NWC}=None"
)

POOLING_CHECKS = (require_nonzero("kernel", "stride"), require_kernel_rank(1, 2, 3))

OPERATORS = (
    *define(
        "Pooling(_npx_pooling)",
        "data",
        POOLING,
        results=pooling_outputs,
        load_checks=POOLING_CHECKS,
        couples_batch="never",
    ),
    *define(
        "Pooling_v1",
        "data",
        "kernel:shape=[]; pool_type:{avg/max/sum}=max; global_pool:bool=False; pooling_convention:{full/valid}=valid; "
        "stride:shape=[]; pad:shape=[]",
        load_checks=POOLING_CHECKS,
        couples_batch="never",
        is_operator_property=True,
    ),
)

RULES: dict[str, Rule] = {"Pooling": window_rule}
