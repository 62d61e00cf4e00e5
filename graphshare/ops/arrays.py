"""The inputs and results of kernels: arrays, attributes, and shapes and dtypes that may be partly unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Attrs = Mapping[str, Any]

NP_SHAPE = "is_np_shape"
"""The attribute that shape rules find beside the operator's own where the graph has NumPy shapes.

Sizes of 0 and arrays without axes are then ordinary shapes; otherwise they stand for unknown ones.
"""

Dim = int | None
"""A dimension; None while unknown."""

Dims = tuple[Dim, ...]

Shape = Dims | None
"""A shape; None while even the rank is unknown."""

Shapes = Sequence[Shape]

Types = Sequence[str | None]
"""dtype names (``float32``); None while unknown."""


class KernelError(Exception):
    """A kernel refuses its attributes or inputs; the message says why. The interpreter adds the node and the shapes."""
