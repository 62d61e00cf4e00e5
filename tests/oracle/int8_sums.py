"""How far MXNet's int8 sums of products may lie from the exact ones that this package computes.

oneDNN multiplies bytes without a sign by bytes with one. VNNI instructions add four products
exactly to an int32. All others add two products in int16, which cuts the pair off at -32768 and
32767 (``vpmaddubsw``), and then add the pairs exactly. Signed data ``x`` become ``x + 128`` first,
and 128 times the sum of the weights is taken off again, exactly; kernels for one row take the
weights for the data. So:

- No instruction set changes a sum of which no product exceeds 16383 in magnitude, as those of
  weights, and data with a sign, from -64 to 64.
- A pair of products ``p`` and ``q`` loses at most ``max(0, |p| + |q| - 32767)``, which is at most
  ``max(0, |p| - 16383.5) + max(0, |q| - 16383.5)``. A sum therefore lies at most the sum of
  ``max(0, |p| - 16383.5)`` over its products from the exact one, whichever products form pairs:
  :func:`bound`.
- With AVX2, a dense layer forms pairs of neighbours in a row, and a convolution pairs of
  neighbouring channels, or it adds exactly: :func:`cut_off`.

For a convolution of signed data, as only ``_sg_mkldnn_conv`` has it, oneDNN also halves the weights
where there is no VNNI, so that no pair is cut off. A half rounded and doubled again is at most 1
from its weight, and only if that is odd, so such a sum lies at most the sum of ``|x|`` over odd
weights from the exact one. These operators are compared with recorded sums only, which VNNI
instructions added.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tests.surroundings import ORACLE_PROCESSOR, oracle_environment

OPERATORS = ("_contrib_quantized_conv", "_contrib_quantized_fully_connected")
_HALF_OF_INT16 = 16383.5


def products(case: dict[str, Any], inputs: list[Any], *, swapped: bool = False) -> Any:
    """Return the products as oneDNN forms them, (..., K): outputs, then products with pairs as neighbours, K even.

    ``swapped`` takes the weights of a dense layer for the data.
    """
    x, weight = (array.astype(np.int64) for array in inputs[:2])
    shift = 128 if inputs[0].dtype == np.int8 else 0
    if case["op"] == OPERATORS[1]:
        rows = (
            x.reshape(len(x), -1)
            if case["attrs"].get("flatten", "True") in ("True", "true", "1")
            else x
        )
        formed = (
            rows[..., None, :] * (weight + shift)
            if swapped
            else (rows + shift)[..., None, :] * weight
        )
    else:
        windows = windows_of(case["attrs"], x) + shift
        formed = windows[:, None] * np.moveaxis(weight, 1, -1).reshape(
            len(weight), *(1,) * (x.ndim - 2), -1, x.shape[1]
        )
    padded = np.pad(formed, [(0, 0)] * (formed.ndim - 1) + [(0, formed.shape[-1] % 2)])
    return padded.reshape(*padded.shape[: x.ndim if case["op"] == OPERATORS[0] else -1], -1)


def windows_of(attrs: dict[str, str], x: Any) -> Any:
    """Return what each window covers: (N, spatial axes, taps, C)."""
    rank = x.ndim - 2
    axes = tuple(range(2, x.ndim))
    kernel, stride, dilate, pad = (
        tuple(ast.literal_eval(attrs.get(name, "()"))) or (default,) * rank
        for name, default in (("kernel", 1), ("stride", 1), ("dilate", 1), ("pad", 0))
    )
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilate, strict=True))
    steps = tuple(slice(None, None, step) for step in (*stride, *dilate))
    views = sliding_window_view(padded, extent, axis=axes)[(slice(None), slice(None), *steps)]
    return np.moveaxis(views, 1, -1).reshape(len(x), *views.shape[2 : 2 + rank], -1, x.shape[1])


def bound(case: dict[str, Any], inputs: list[Any]) -> Any:
    """Return the largest distance of each sum from the exact one with any instruction set."""
    roles = (False, True) if case["op"] == OPERATORS[1] and inputs[0].dtype == np.int8 else (False,)
    excess = [
        np.maximum(0, np.abs(products(case, inputs, swapped=role)) - _HALF_OF_INT16).sum(axis=-1)
        for role in roles
    ]
    return np.maximum.reduce(excess)


def cut_off(case: dict[str, Any], inputs: list[Any]) -> Any:
    """Return what sums of pairs lose where int16 cuts the pairs off: cut sums less exact ones."""
    formed = products(case, inputs)
    pairs = formed[..., ::2] + formed[..., 1::2]
    return (np.clip(pairs, -(1 << 15), (1 << 15) - 1) - pairs).sum(axis=-1)


def difference(case: dict[str, Any], inputs: list[Any], got: Any, want: Any) -> str | None:
    """Return how MXNet's sums ``want`` differ from the exact ones ``got`` beyond what its
    instructions explain; or None.
    """
    apart = want.astype(np.int64) - got
    if not apart.any():
        return None
    if oracle_environment()["DNNL_MAX_CPU_ISA"] == ORACLE_PROCESSOR["DNNL_MAX_CPU_ISA"]:
        return (
            None
            if np.array_equal(apart, cut_off(case, inputs))
            else "values are not those of pairs in int16"
        )
    return (
        None
        if (np.abs(apart) <= bound(case, inputs)).all()
        else "values beyond the bound of int8 sums"
    )
