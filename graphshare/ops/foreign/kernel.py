"""Kernels of the operators of family ``foreign``: those of MXNet before 1.0 that 1.9.1 has under other names."""

from __future__ import annotations

import msgspec

from graphshare.ops.box.kernel import KERNELS as BOX
from graphshare.ops.detection.kernel import KERNELS as DETECTION

_PREFIX = "_contrib_"

KERNELS = tuple(
    msgspec.structs.replace(kernel, operator=kernel.operator.removeprefix(_PREFIX))
    for kernel in (*BOX, *DETECTION)
    if kernel.operator.startswith(f"{_PREFIX}MultiBox")
)
