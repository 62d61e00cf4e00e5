"""Filters of integers, quantized from floats as oneDNN does.

Weights and bias are rounded to integers, half to even; a BatchNorm is folded into them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.kernel import Array, Attrs, KernelError
from graphshare.ops.limits import require
from graphshare.ops.onednn.products import EXACT, exact_parts
from graphshare.ops.windows import Window, is_channels_last, window_of

LEVELS = {"int8": np.float32(127.5), "uint8": np.float32(255.5)}
_LARGEST = np.float32(2147483647)
_ROOM = np.float32(1 << 30)  # the largest bias that oneDNN adds

_MANY = 64
"""Number of channels from which sums over windows are fast with a filter for each channel."""

Inner = Sequence[tuple[str, Attrs]]


class Filters(NamedTuple):
    """The integer weights of a convolution, in float32, or in float64 where only that adds them exactly.

    ``weights`` are (filters, taps, C), for products of which each of ``parts``, columns (taps, C), has sums that float32 holds
    exactly; or (taps, C) with a filter for each channel; otherwise they have the shape of the operator's input, and no parts.
    ``window`` is that of the convolution.

    ``units`` are their steps per 1.0, ``reach`` is the largest absolute weight before. ``bias`` is in steps of the products,
    ``shift`` what 128 added to all data adds to the sums of each filter, None where that is exact, and so changes nothing.
    """

    weights: Array
    parts: list[slice]
    window: Window
    units: Array
    bias: Array | None
    shift: Array | None
    reach: Any


def attributes_of(inner: Inner, operator: str) -> Attrs:
    """Return the attributes of the first ``operator`` among ``inner``.

    Raises:
        KernelError: there is none.
    """
    for name, attrs in inner:
        if name == operator:
            return attrs
    raise KernelError(f"its subgraph has no {operator}")


def per_unit(dtype: str, low: Any, high: Any) -> Any:
    """Return how many integer steps represent 1.0, in a range from ``low`` to ``high``."""
    require(dtype in LEVELS, f"{dtype} is not supported, expected {' or '.join(LEVELS)}")
    reach = np.float32(max(abs(low.item(0)), abs(high.item(0))))
    return LEVELS[dtype] / reach if reach else _LARGEST


def quantize_filters(
    attrs: Attrs, inner: Inner, weights: Sequence[Array], data_unit: Any, dtype: Any, *, by_filter: bool
) -> Filters:
    """Return the integer filters for data of ``dtype`` from weight, bias (if any) and BatchNorm's statistics (if any)."""
    conv = attributes_of(inner, "Convolution")
    weight, *rest = weights
    bias = None if conv["no_bias"] else rest.pop(0)
    if attrs["with_bn"]:
        weight, bias = fold_batch_norm(weight, bias, attributes_of(inner, "BatchNorm"), rest)
    units = weight_units(weight, bias, data_unit, by_filter=by_filter)
    whole = quantize_weight(weight, _units_by_group(units, conv["num_group"]))
    term = None if bias is None else quantize_bias(bias, units, data_unit).astype(np.float32)
    matrix = whole.reshape(*whole.shape[:2], -1)
    largest = float(np.abs(matrix).sum(axis=(1, 2), dtype=np.float64).max(initial=0))
    is_shifted = dtype == np.int8 and not 255 * largest <= EXACT
    shift = 128 * matrix.sum(axis=(1, 2), dtype=np.float64) if is_shifted else None
    reach = np.float32(np.abs(weight).max())
    window = window_of(conv)
    matrix = np.ascontiguousarray(matrix.swapaxes(1, 2))
    parts = exact_parts(matrix.reshape(len(matrix), -1), dtype)
    exact = len(parts) == 1
    is_plain = not is_channels_last(conv["layout"]) and min(window.pad) >= 0
    if is_plain and exact and conv["num_group"] == len(whole) >= _MANY and whole.shape[1] == 1:
        return Filters(np.ascontiguousarray(matrix[:, :, 0].T), [], window, units, term, shift, reach)
    if conv["num_group"] > 1 or not is_plain:
        return Filters(whole if exact else whole.astype(np.float64), [], window, units, term, shift, reach)
    return Filters(matrix, parts, window, units, term, shift, reach)


def fold_batch_norm(weight: Array, bias: Array | None, attrs: Attrs, statistics: Sequence[Array]) -> tuple[Array, Array]:
    """Return the weight and bias of a convolution with a BatchNorm folded into them."""
    gamma, beta, mean, variance = statistics
    scale = np.ones_like(gamma) if attrs["fix_gamma"] else gamma
    alpha = (scale / np.sqrt(variance.astype(np.float64) + attrs["eps"])).astype(np.float32)
    shift = beta - alpha * mean if bias is None else beta + alpha * (bias - mean)
    scaled: Array = weight * alpha.reshape(-1, *(1,) * (weight.ndim - 1))
    return scaled, shift


def weight_units(weight: Array, bias: Array | None, data_unit: Any, *, by_filter: bool) -> Array:
    """Return the steps per 1.0 of each filter's weights, fewer where its bias would overflow; or one for all."""
    rows = weight.reshape(len(weight), -1)
    if not by_filter:
        return np.array([per_unit("int8", rows.min(), rows.max())], np.float32)
    reach = np.abs(rows).max(axis=1)
    units = np.divide(LEVELS["int8"], reach, out=np.full_like(reach, _LARGEST), where=reach > 0)
    if bias is not None:
        with np.errstate(divide="ignore"):
            units = np.where(bias != 0, np.minimum(units, _ROOM / np.abs(bias) / data_unit), units)
    return np.asarray(units.astype(np.float32))


def _units_by_group(units: Array, groups: int) -> Array:
    """Return the steps that oneDNN uses for each filter's weights: filters of group g get those of filter g."""
    if groups == 1 or len(units) == 1:
        return units
    return np.asarray(np.repeat(units[:groups], len(units) // groups))


def quantize_weight(weight: Array, units: Array) -> Array:
    """Return the weights as integers, in their own dtype of floats."""
    whole: Array = weight * units.reshape(-1, *(1,) * (weight.ndim - 1))
    np.rint(whole, out=whole)
    return np.asarray(np.clip(whole, -128, 127, out=whole))


def quantize_bias(bias: Array, units: Array, data_unit: Any) -> Array:
    """Return the bias in steps of the products."""
    return np.asarray(np.rint(bias * (units * data_unit)))
