"""Gradients of the operators of family ``foreign``."""

from __future__ import annotations

from graphshare.ops.gradient import no_gradient

GRADIENTS = no_gradient("boxes are chosen, not computed", "MultiBoxDetection", "MultiBoxPrior", "MultiBoxTarget")
