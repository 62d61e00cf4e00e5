"""Types of kernels' arguments and results: arrays, attributes, partly known shapes and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Attrs = Mapping[str, Any]

NP_SHAPE = "is_np_shape"
"""Attribute added for shape rules if the graph has NumPy shapes.

A size of 0 and a shape without axes are then known, not an unknown size or shape.
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
    """A kernel refuses its attributes or inputs. The interpreter adds the node and the shapes."""
