"""What fusion asks of operators: what one does to the result of the operator before it.

The kernel of an operator that can be fused into an earlier one has an ``epilogue``; the kernel of one that others can be fused
into has ``extend``, or with ``begin`` a kernel for chains that has.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from graphshare.ops.kernel import Attrs, Kernel


class Normalize(msgspec.Struct, frozen=True):
    """BatchNorm with these attributes; its other inputs follow."""

    attrs: Attrs


class Add(msgspec.Struct, frozen=True):
    """The sum with another array of the same shape, which follows."""


class Clip(msgspec.Struct, frozen=True):
    """Bounds; None for none."""

    low: float | None = None
    high: float | None = None


RELU = Clip(low=0.0)

Operation = Normalize | Add | Clip
Epilogue = Callable[[Attrs], Operation | None]
Extend = Callable[[Attrs, Operation, int], "tuple[Kernel, Attrs] | None"]
