"""The operators that take part in a fold, those of MXNet and of ONNX: what they compute, and their typed attributes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.ir.graph import Node
from graphshare.ops.registry import find_kernel, kernel_of, signature_of

if TYPE_CHECKING:
    from graphshare.ops.folding import ChannelScaling, LinearLayer
    from graphshare.ops.kernel import Attrs

_WITH_BIAS = 3  # inputs of a layer
_FIRST_INFERENCE = 7
"""The operator set from which on a BatchNormalization without a statement is one for inference."""


class Foldable(msgspec.Struct, frozen=True, eq=False):
    """A node that is linear in a weight, or that scales channels, with the attributes that ``linear`` or ``scaling`` reads.

    ``fault`` is why it cannot be folded, as the end of a sentence about it; empty where nothing is known against it.
    """

    attrs: Attrs
    linear: LinearLayer | None = None
    scaling: ChannelScaling | None = None
    fault: str = ""


def find_foldable(node: Node, operator_set: int | None = None) -> Foldable | None:
    """Return what a fold needs of a node, None of one without a part in it; ``operator_set`` is ONNX's version of operators."""
    if not node.details.domain and node.op in _ONNX_OPERATORS:
        try:
            return _ONNX_OPERATORS[node.op](node, operator_set or 0)
        except ValueError:
            return None
    kernel = kernel_of(node) if node.op else None
    if kernel is None or (kernel.linear is None and kernel.scaling is None):
        return None
    attrs = _parse_attributes(node)
    return Foldable(attrs, kernel.linear, kernel.scaling, "" if attrs else "has attributes that cannot be read")


def _parse_attributes(node: Node) -> dict[str, Any]:
    """Return the typed attributes; none where one cannot be read. Old files have attributes that are not the operator's."""
    signature = signature_of(node)
    values, faults = signature.parse(node.attrs) if signature is not None else ({}, [])
    return {} if any(fault.kind != "unknown" for fault in faults) else values


def _read_float(node: Node, name: str, default: str) -> float:
    """Return an attribute of ONNX, which is a float32."""
    number: float = struct.unpack("f", struct.pack("f", float(node.attrs.get(name, default))))[0]
    return number


def _read_convolution(node: Node, operator_set: int) -> Foldable:
    """Return Conv or ConvTranspose, which are MXNet's operators of another name."""
    kernel = find_kernel("Convolution" if node.op == "Conv" else "Deconvolution")
    groups = int(node.attrs.get("group", "1"))
    attrs = {"kernel": (), "layout": None, "num_group": groups, "no_bias": len(node.inputs) < _WITH_BIAS}
    return Foldable(attrs, kernel.linear if kernel is not None else None)


def _read_gemm(node: Node, operator_set: int) -> Foldable:
    from graphshare.ops.folding import GEMM  # start-up: --help must not import numpy

    attrs = {"transB": int(node.attrs.get("transB", "0")), "beta": _read_float(node, "beta", "1")}
    return Foldable({**attrs, "no_bias": len(node.inputs) < _WITH_BIAS}, GEMM)


def _read_batch_normalization(node: Node, operator_set: int) -> Foldable:
    """Return BatchNormalization, which is MXNet's BatchNorm with gamma; its statements of a mode changed three times."""
    is_old = operator_set < _FIRST_INFERENCE and int(node.attrs.get("is_test", "0")) != 1
    fault = ""
    if is_old or int(node.attrs.get("training_mode", "0")) or any(node.details.outputs[1:]):
        fault = "is in training mode: it normalizes by the mean and variance of the batch"
    elif not int(node.attrs.get("spatial", "1")):
        fault = "has spatial 0: a mean and a variance of each position"
    kernel = find_kernel("BatchNorm")
    attrs = {"axis": 1, "eps": _read_float(node, "epsilon", "1e-5"), "fix_gamma": False}
    return Foldable(attrs, scaling=kernel.scaling if kernel is not None else None, fault=fault)


_ONNX_OPERATORS: Mapping[str, Callable[[Node, int], Foldable]] = {
    "Conv": _read_convolution,
    "ConvTranspose": _read_convolution,
    "Gemm": _read_gemm,
    "BatchNormalization": _read_batch_normalization,
}
