"""Gradients of the operators of family ``detection``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient

GRADIENTS = (
    *no_gradient(
        "boxes are chosen, not computed",
        "_contrib_MultiBoxDetection",
        "_contrib_MultiBoxTarget",
        "_contrib_Proposal",
        "_contrib_MultiProposal",
    ),
)
