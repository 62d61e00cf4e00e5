"""Signatures of ``roi``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import AttributeFault, define
from graphshare.ops.slot_rules import require_nonzero

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphshare.ops.signature import LoadCheck


def pairs_of_sizes(*keys: str) -> LoadCheck:
    """Return a check that ``keys`` are pairs."""

    def check(values: Mapping[str, Any]) -> AttributeFault | None:
        wrong = [key for key in keys if values[key] is None or len(values[key]) != 2]
        return (
            AttributeFault("constraint", wrong[0], str(values[wrong[0]]), "have 2 members")
            if wrong
            else None
        )

    return check


_SIZE_CHECKS = (pairs_of_sizes("pooled_size"), require_nonzero("pooled_size"))

OPERATORS = (
    *define(
        "_contrib_PSROIPooling",
        "data rois",
        "spatial_scale:float[0:1]=!; output_dim:int=!; pooled_size:int=!; group_size:int=0",
        couples_batch="always",
        is_operator_property=True,
    ),
    *define(
        "_contrib_ROIAlign",
        "data rois",
        "pooled_size:shape=!; spatial_scale:float[0:1]=!; sample_ratio:int=-1; position_sensitive:bool=False; "
        "aligned:bool=False",
        load_checks=_SIZE_CHECKS,
        couples_batch="always",
    ),
    *define(
        "_contrib_RROIAlign",
        "data rois",
        "pooled_size:shape=!; spatial_scale:float[0:1]=!; sampling_ratio:int=-1",
        load_checks=_SIZE_CHECKS,
        couples_batch="always",
    ),
    *define(
        "ROIPooling(_npx_roi_pooling)",
        "data rois",
        "pooled_size:shape=!; spatial_scale:float[0:1]=!",
        results="output maxidx",
        visible=1,
        load_checks=_SIZE_CHECKS,
        couples_batch="always",
        is_operator_property=True,
    ),
)
