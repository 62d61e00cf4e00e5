"""Read MXNet's operators that multiply by constants and add constants as :class:`AffineStep`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from graphshare.ir.affine import AffineStep, Constant, FindConstant, read_arithmetic
from graphshare.ops.folding import ChannelScaling
from graphshare.ops.registry import find_kernel
from graphshare.ops.windows import channel_axes

_STATISTICS = (1, 2, 3, 4)
"""BatchNorm's gamma, beta, mean and variance."""
_ARITHMETIC = {
    "broadcast_add": "Add",
    "broadcast_sub": "Sub",
    "broadcast_mul": "Mul",
    "broadcast_div": "Div",
    "elemwise_add": "Add",
    "elemwise_sub": "Sub",
    "elemwise_mul": "Mul",
    "elemwise_div": "Div",
}
"""Binary operators of one dtype, by ONNX name: a float constant implies a float operand."""


class OperatorWithConstants:
    """An operator with constants. ``name_rest(weight's shape)`` returns a term for all but its
    weights.
    """

    def __init__(
        self,
        op: str,
        attrs: Mapping[str, Any],
        count: int,
        find: FindConstant,
        name_rest: Callable[[tuple[int, ...]], Hashable],
    ) -> None:
        self.op, self.attrs, self.count = op, attrs, count
        self.find, self.name_rest = find, name_rest

    def find_layer(self) -> tuple[Constant, Constant | None] | None:
        """Return a layer's weight and bias; None where one is not constant."""
        weight, bias, count = self.find(1), None, 2
        if not self.attrs["no_bias"]:
            bias, count = self.find(2), 3
            if bias is None:
                return None
        return (weight, bias) if weight is not None and self.count == count else None


def read_step(operation: OperatorWithConstants) -> AffineStep | None:
    """Return constant factors and addends; None for other forms."""
    if operation.op in _ARITHMETIC and operation.count == 2:
        return read_arithmetic(_ARITHMETIC[operation.op], operation.find(0), operation.find(1))
    rule = _RULES.get(operation.op)
    if rule is not None:
        return rule(operation)
    kernel = find_kernel(operation.op)
    if kernel is None or kernel.scaling is None:
        return None
    return _read_norm(operation, kernel.scaling)


def _read_convolution(operation: OperatorWithConstants) -> AffineStep | None:
    layer = operation.find_layer()
    if layer is None:
        return None
    weight, bias = layer
    attrs, rank = operation.attrs, len(operation.attrs["kernel"] or ()) + 2
    core, axis = operation.name_rest(weight.shape), channel_axes(attrs)[1]
    if operation.op == "Deconvolution":
        if attrs["layout"] not in (None, "NCHW", "NCDHW", "NCW"):
            return None
        arranged = weight.put_outputs_first(attrs["num_group"])
        if arranged is None:
            return None
        weight = arranged
    return AffineStep(0, core=core, kernel=weight, shift=bias, axis=axis, rank=rank)


def _read_product(operation: OperatorWithConstants) -> AffineStep | None:
    layer = operation.find_layer()
    if layer is None:
        return None
    weight, bias = layer
    rank = 2 if operation.attrs["flatten"] else None
    return AffineStep(
        0, core=operation.name_rest(weight.shape), kernel=weight, shift=bias, axis=-1, rank=rank
    )


def _read_norm(operation: OperatorWithConstants, scaling: ChannelScaling) -> AffineStep | None:
    gamma, beta, mean, variance = (operation.find(place) for place in _STATISTICS)
    if gamma is None or beta is None or mean is None or variance is None:
        return None
    if operation.attrs["fix_gamma"]:
        gamma = replace(gamma, read=lambda rows=...: np.ones(gamma.shape, gamma.dtype)[rows])
    axis = scaling.axis(operation.attrs)
    return AffineStep(
        0, norm=(gamma, beta, mean, variance), norm_axis=axis, epsilon=operation.attrs["eps"]
    )


_RULES: Mapping[str, Callable[[OperatorWithConstants], AffineStep | None]] = {
    **dict.fromkeys(("Convolution", "Convolution_v1", "Deconvolution"), _read_convolution),
    "FullyConnected": _read_product,
}
