"""Signatures of ``sorting``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.batch_axis import Rule, along_axis_rule
from graphshare.ops.signature import OutputList, define
from graphshare.ops.slot_rules import number_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, Signature


def top_k(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> OutputList:
    """Return one output, or values and indices for ``both`` and (indices hidden) ``value``."""
    kind = signature.value(attrs, "ret_typ")
    if kind not in ("both", "value"):
        return number_outputs(1)
    return number_outputs(2, 2 if kind == "both" else 1)


def unique(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> OutputList:
    """Return the values and an output for each set flag."""
    flags = ("return_index", "return_inverse", "return_counts")
    return number_outputs(1 + sum(bool(signature.value(attrs, flag)) for flag in flags))


OPERATORS = (
    *define(
        "_npi_unique",
        "data",
        "return_index:bool=False; return_inverse:bool=False; return_counts:bool=False; axis:int?=None",
        results=unique,
    ),
    *define("_npx_nonzero(_npi_nonzero)", "x"),
    *define(
        "argsort(_npi_argsort)",
        "data",
        "axis:int?=-1; is_ascend:bool=True; dtype:{float16/float32/float64/int32/int64/uint8}=float32",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define(
        "sort(_npi_sort)",
        "data",
        "axis:int?=-1; is_ascend:bool=True",
        results="output0 output1",
        visible=1,
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define(
        "topk(_npx_topk)",
        "data",
        "axis:int?=-1; k:int=1; ret_typ:{both/indices/mask/value}=indices; is_ascend:bool=False; "
        "dtype:{float16/float32/float64/int32/int64/uint8}=float32",
        results=top_k,
        registers_inputs=False,
        couples_batch="axis",
    ),
)

RULES: dict[str, Rule] = dict.fromkeys(("sort", "argsort", "topk"), along_axis_rule)
