"""Signatures of ``resize``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, Signature


def up_sampling_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return data and weight if bilinear (regardless of ``num_args``), else ``num_args`` images."""
    if signature.value(attrs, "sample_type") == "bilinear":
        return ("data", "weight")
    return tuple(f"arg{i}" for i in range(read_count(signature, attrs, "num_args")))


OPERATORS = (
    *define(
        "_contrib_BilinearResize2D",
        "data like[mode=like]",
        "height:int[1:]=1; width:int[1:]=1; scale_height:float?=None; scale_width:float?=None; "
        "mode:{like/odd_scale/size/to_even_down/to_even_up/to_odd_down/to_odd_up}=size; align_corners:bool=True",
        couples_batch="never",
    ),
    *define(
        "UpSampling",
        up_sampling_inputs,
        "scale:int[1:]=!; num_filter:int=0; sample_type:{bilinear/nearest}=!; multi_input_mode:{concat/sum}=concat; "
        "num_args:int[1:]=!; workspace:uint64=512",
        initializers={1: '["bilinear", {}]'},
        couples_batch="never",
    ),
    *define(
        "_contrib_AdaptiveAvgPooling2D",
        "data",
        "output_size:tuple32=[]",
        registers_inputs=False,
        couples_batch="never",
    ),
)
