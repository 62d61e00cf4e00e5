"""Signatures of ``concat``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.batch_axis import Outcome, Rule, Use
from graphshare.ops.reshape.signature import expand_dims_rule
from graphshare.ops.signature import OutputList, define
from graphshare.ops.slot_rules import read_count, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, Signature


SPLIT = "indices:shape=!; axis:int=1; squeeze_axis:bool=False; sections:int=0"


def slice_outputs(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> OutputList:
    """Number SliceChannel's outputs even if there is only one."""
    count = read_count(signature, attrs, "num_outputs")
    return OutputList(count, count, ())


_INSERTED = "val:double?=None; start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None"
OPERATORS = (
    *define(
        "Crop",
        "arg*num_args",
        "num_args:int[1:3]=!; offset:shape=[0,0]; h_w:shape=[0,0]; center_crop:bool=False",
        couples_batch="never",
        is_operator_property=True,
    ),
    *define("_npi_concatenate", "data*num_args", "num_args:int[1:]=!; axis:int?=0", results="out"),
    *define(
        "_rnn_param_concat(_npi_rnn_param_concat)", "arg*num_args", "num_args:int[1:]=!; dim:int=1"
    ),
    *define("_split_v2(_npi_split)", "data", SPLIT, results=split, couples_batch="axis"),
    *define(
        "Concat(_sparse_concat,concat)",
        "arg*num_args",
        "num_args:int[1:]=!; dim:int=1",
        couples_batch="axis",
    ),
    *define(
        "SliceChannel(split)",
        "data",
        "num_outputs:int[1:]=!; axis:int=1; squeeze_axis:bool=False",
        results=slice_outputs,
        couples_batch="axis",
        is_operator_property=True,
    ),
    *define("stack", "arg*num_args", "axis:int=0; num_args:int[1:]=!", couples_batch="axis"),
    *define("_npi_column_stack _npi_vstack", "arg*num_args", "num_args:int[1:]=!"),
    *define(
        "_npi_delete",
        "arr obj[step=None&int_ind=None]",
        "start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define(
        "_npi_dsplit",
        "data",
        SPLIT,
        results=split,
        no_kernel="MXNet 1.9.1 writes beyond its results",
    ),
    *define("_npi_hsplit", "data", SPLIT, results=split),
    *define(
        "_npi_dstack _npi_hstack", "data*num_args", "num_args:int[1:]=!; dim:int=1", results="out"
    ),
    *define("_npi_insert_scalar _npi_insert_slice", "arr values[val=None]", _INSERTED),
    *define("_npi_insert_tensor", "arr values[val=None] obj", _INSERTED),
    *define(
        "_npi_pad",
        "data",
        "pad_width:shapes=!; mode:{constant/edge/maximum/minimum/reflect/symmetric}=constant; constant_value:double=0; "
        "reflect_type:string=even",
    ),
    *define("_npi_stack", "arg*num_args", "axis:int=0; num_args:int[1:]=!"),
)


def concat_rule(use: Use) -> Outcome:
    """Keep the batch axis, unless it is concatenated."""
    if use.axes_differ:
        return "has different batch axes in its inputs"
    return (
        "concatenates arrays along the batch axis"
        if use.first.is_axis(use.value("dim"))
        else use.first
    )


def _stack(use: Use) -> Outcome:
    return (
        expand_dims_rule(use) if not use.axes_differ else "has different batch axes in its inputs"
    )


def _split(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if at.is_axis(axis):
        return "splits the batch axis"
    return at.with_axis(at.axis - at.count_before((axis,)), -1) if use.value("squeeze_axis") else at


RULES: dict[str, Rule] = {
    "Concat": concat_rule,
    "stack": _stack,
    "SliceChannel": _split,
    "_split_v2": _split,
}
