"""Signatures of the operators of family ``numpy_concat``."""

from __future__ import annotations

from graphshare.ops.concat.signature import SPLIT
from graphshare.ops.signature import define
from graphshare.ops.slot_rules import split

OPERATORS = (
    *define("_npi_column_stack _npi_vstack", "arg*num_args", "num_args:int[1:]=!"),
    *define(
        "_npi_delete",
        "arr obj[step=None&int_ind=None]",
        "start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define("_npi_dsplit", "data", SPLIT, results=split, no_kernel="MXNet 1.9.1 writes beyond its results"),
    *define("_npi_hsplit", "data", SPLIT, results=split),
    *define("_npi_dstack _npi_hstack", "data*num_args", "num_args:int[1:]=!; dim:int=1", results="out"),
    *define(
        "_npi_insert_scalar _npi_insert_slice",
        "arr values[val=None]",
        "val:double?=None; start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define(
        "_npi_insert_tensor",
        "arr values[val=None] obj",
        "val:double?=None; start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define(
        "_npi_pad",
        "data",
        "pad_width:shapes=!; mode:{constant/edge/maximum/minimum/reflect/symmetric}=constant; constant_value:double=0; "
        "reflect_type:string=even",
    ),
    *define("_npi_stack", "arg*num_args", "axis:int=0; num_args:int[1:]=!"),
)
