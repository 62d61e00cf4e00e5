"""Signatures of the operators of family ``dynamic_shape``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphshare.ops.signature import OutputList, define
from graphshare.ops.slot_rules import number_outputs

if TYPE_CHECKING:
    from graphshare.ops.signature import Attributes, Signature


def unique(signature: Signature, attrs: Attributes) -> OutputList:
    """Return the values and one output for each flag that is set."""
    flags = ("return_index", "return_inverse", "return_counts")
    return number_outputs(1 + sum(bool(signature.value(attrs, flag)) for flag in flags))


OPERATORS = (
    *define("_CrossDeviceCopy", "data"),
    *define("_npi_share_memory", "a b"),
    *define("_npi_bincount", "data weights[has_weights]", "minlength:int=0; has_weights:bool=False"),
    *define(
        "_npi_unique",
        "data",
        "return_index:bool=False; return_inverse:bool=False; return_counts:bool=False; axis:int?=None",
        results=unique,
    ),
    *define("_npx_constraint_check", "input", "msg:string=Constraint violated."),
    *define("_npx_nonzero(_npi_nonzero)", "x"),
)
