"""Operators of MXNet before 1.0 that 1.9.1 has under other names: their kernels and gradients."""

from __future__ import annotations

import msgspec

from graphshare.ops.box.kernel import KERNELS as BOX
from graphshare.ops.detection.kernel import KERNELS as DETECTION
from graphshare.ops.gradient import no_gradient

_PREFIX = "_contrib_"

KERNELS = tuple(
    msgspec.structs.replace(kernel, operator=kernel.operator.removeprefix(_PREFIX))
    for kernel in (*BOX, *DETECTION)
    if kernel.operator.startswith(f"{_PREFIX}MultiBox")
)

GRADIENTS = no_gradient("boxes are chosen, not computed", "MultiBoxDetection", "MultiBoxPrior", "MultiBoxTarget")
