"""Signatures of the operators of family ``concat``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphshare.ops.signature import Outputs, define
from graphshare.ops.slot_rules import read_count, split

if TYPE_CHECKING:
    from graphshare.ops.signature import Attributes, Signature

SPLIT = "indices:shape=!; axis:int=1; squeeze_axis:bool=False; sections:int=0"


def slice_outputs(signature: Signature, attrs: Attributes) -> Outputs:
    """SliceChannel numbers its outputs even when there is only one."""
    count = read_count(signature, attrs, "num_outputs")
    return Outputs(count, count, ())


OPERATORS = (
    *define(
        "Crop",
        "arg*num_args",
        "num_args:int[1:3]=!; offset:shape=[0,0]; h_w:shape=[0,0]; center_crop:bool=False",
        couples_batch="never",
        is_operator_property=True,
    ),
    *define("_npi_concatenate", "data*num_args", "num_args:int[1:]=!; axis:int?=0", results="out"),
    *define("_rnn_param_concat(_npi_rnn_param_concat)", "arg*num_args", "num_args:int[1:]=!; dim:int=1"),
    *define("_split_v2(_npi_split)", "data", SPLIT, results=split, couples_batch="axis"),
    *define("Concat(_sparse_concat,concat)", "arg*num_args", "num_args:int[1:]=!; dim:int=1", couples_batch="axis"),
    *define(
        "SliceChannel(split)",
        "data",
        "num_outputs:int[1:]=!; axis:int=1; squeeze_axis:bool=False",
        results=slice_outputs,
        couples_batch="axis",
        is_operator_property=True,
    ),
    *define("stack", "arg*num_args", "axis:int=0; num_args:int[1:]=!", couples_batch="axis"),
)
