"""The numbers that the corpus's recorded forwards were computed with: a rule of name, shape and
type, from a frozen stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PERIOD = 65521
"""After how many numbers those of large arrays repeat themselves: a prime, so rows differ all the same."""


DETECTOR = "cv_faster_rcnn_resnet50_v1b_voc"


def with_fewer_regions(text: str) -> str:
    """The graph of :data:`DETECTOR` with 12 regions instead of 300, each of which takes as long as
    its whole backbone.
    """
    for attribute in (
        '"repeats": "{}"',
        '"end": "{}"',
        '"shape": "(1, {}, 21)"',
        '"shape": "(1, {}, 20, 4)"',
    ):
        assert text.count(attribute.format(300)) == 1
        text = text.replace(attribute.format(300), attribute.format(12))
    return text


def parameter(name: str, shape: Sequence[int], dtype: str, auxiliary: bool) -> NDArray:
    """The value of a parameter whose file was left out of the corpus."""
    z = np.asarray(np.random.RandomState(zlib.crc32(name.encode())).standard_normal(tuple(shape)))
    if np.dtype(dtype).kind in "iu":
        return (np.abs(z * 10).astype("int64") % 7).astype(dtype)
    return _scaled(z, name.lower(), shape, auxiliary).astype(dtype)


def repeated_parameter(name: str, shape: Sequence[int], auxiliary: bool) -> NDArray:
    """In float64 what :func:`parameter` might have drawn, much faster: of a large one the numbers repeat themselves."""
    stream = np.random.default_rng(zlib.crc32(name.encode()))
    z = stream.standard_normal(min(PERIOD, int(np.prod(shape))))
    return np.resize(_scaled(z, name.lower(), shape, auxiliary), tuple(shape))


def _scaled(z: NDArray, name: str, shape: Sequence[int], auxiliary: bool) -> NDArray:
    if auxiliary:
        is_variance = name.endswith(("moving_var", "running_var", "_var", "variance"))
        return 1.0 + 0.3 * np.abs(z) if is_variance else 0.1 * z
    if name.endswith("gamma"):
        return 1.0 + 0.1 * z
    if name.endswith(("beta", "bias")):
        return 0.05 * z
    if name.endswith("_alpha") or "prelu" in name or ("relu" in name and len(shape) <= 1):
        return 0.25 + 0.05 * z
    if len(shape) >= 2 and name.endswith(("weight", "parameters", "_w")):
        return z * np.sqrt(2.0 / (int(np.prod(shape[1:])) or 1))
    if name.endswith(("_min", "min_calib_range")):
        return -np.abs(z)
    return np.abs(z) if name.endswith(("_max", "max_calib_range")) else 0.1 * z
