"""Layers that are linear in a weight, and scalings of channels to fold into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from graphshare.ops.arrays import Array, Attrs, KernelError
from graphshare.text.format import format_count, format_shape


class LinearLayer(msgspec.Struct, frozen=True):
    """An operator on data, a weight and a bias (unless ``no_bias``), linear in the weight.

    ``channel_axes(attrs)`` number the output's channel axis, from either end, for every possible
    rank. ``scale(attrs, weight, factor)`` multiplies each output channel's weights by its factor
    (channels,), or raises :class:`KernelError` where shapes do not fit. The operator multiplies its
    bias by ``bias_factor(attrs)``.
    """

    channel_axes: Callable[[Attrs], tuple[int, ...]]
    scale: Callable[[Attrs, Array, Array], Array]
    bias_factor: Callable[[Attrs], float] = lambda attrs: 1.0


class ChannelScaling(msgspec.Struct, frozen=True):
    """At inference, scale each channel of the first input and add a term.

    ``axis(attrs)`` is the channel axis; ``terms(attrs, *others)`` returns factor and term
    (channels,) in float64 from the other inputs.
    """

    axis: Callable[[Attrs], int]
    terms: Callable[..., tuple[Array, Array]]


def scale_filters(attrs: Attrs, weight: Array, factor: Array) -> Array:
    """Multiply ``weight`` along axis 0, the output channels, by ``factor``."""
    if weight.shape[:1] != factor.shape:
        raise KernelError(misfit(weight, factor))
    scaled: Array = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
    return scaled


def _scale_matrix(attrs: Attrs, weight: Array, factor: Array) -> Array:
    """``weight`` is (K, channels), or with ``transB`` (channels, K)."""
    return (
        scale_filters(attrs, weight, factor)
        if attrs["transB"]
        else scale_filters(attrs, weight.T, factor).T
    )


GEMM = LinearLayer(lambda attrs: (1, -1), _scale_matrix, lambda attrs: attrs["beta"])
"""ONNX's Gemm, whose output is a matrix: alpha * data * weight + beta * bias."""


def misfit(weight: Array, factor: Array) -> str:
    """End a sentence on a factor that does not match the output channels."""
    return (
        f"has {format_count(len(factor), 'channel')}, which a weight of shape "
        f"{format_shape(weight.shape)} does not have"
    )


def fold_scaling(
    linear: LinearLayer,
    scaling: ChannelScaling,
    attrs: tuple[Attrs, Attrs],
    weight: Array,
    bias: Array | None,
    statistics: Sequence[Array],
) -> tuple[Array, Array]:
    """Return a layer's weight and bias with the scaling after it folded in.

    They have the weight's dtype and are computed in float64. ``attrs`` belong to layer and scaling;
    ``statistics`` are the scaling's inputs after its first.

    Raises:
        KernelError: shapes do not fit, or a result is not finite; the message is the end of a
            sentence about the scaling.
    """
    if len({array.shape for array in statistics}) > 1 or statistics[0].ndim != 1:
        shapes = ", ".join(format_shape(array.shape) for array in statistics)
        raise KernelError(f"has parameters of different shapes: {shapes}")
    # The layer multiplies its bias by this; the folded term is divided by it below.
    share = linear.bias_factor(attrs[0])
    if not share:
        raise KernelError("is after a layer that multiplies its bias by 0")
    with np.errstate(all="ignore"):  # results that are not finite are refused below
        factor, term = scaling.terms(attrs[1], *(array.astype(np.float64) for array in statistics))
        if bias is not None:
            if bias.shape != term.shape:
                raise KernelError(
                    f"has {format_count(len(term), 'channel')}, and the bias before it has shape "
                    f"{format_shape(bias.shape)}"
                )
            term = term + bias.astype(np.float64) * share * factor
        scaled = linear.scale(attrs[0], weight.astype(np.float64), factor)
        new = scaled.astype(weight.dtype), (term / share).astype(weight.dtype)
    if not all(np.isfinite(array).all() for array in new):
        raise KernelError(
            f"would make the weight or bias before it infinite or NaN in {weight.dtype}"
        )
    return new


def is_same(left: Sequence[Array], right: Sequence[Array]) -> bool:
    """Whether all arrays are pairwise equal."""
    return all(map(np.array_equal, left, right))
