"""Gradients of operators that only move elements: the operator is applied to element numbers.

An element's gradient is the sum of the gradients wherever its number appears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.ops.gradient import Gradients, TapeEntry, Vjp
from graphshare.ops.kernel import Array, Context
from graphshare.ops.registry import find_kernel


def permutation_vjp(operator: str, *, attrs: Mapping[str, Any] | None = None) -> Vjp:
    """Return the gradient of the first input; the outputs hold its elements, or constants.

    Elements are numbered from 1: an inserted constant must be 0 or less. ``attrs`` override the
    node's own.
    """

    def vjp(entry: TapeEntry, *dys: Array | None) -> Gradients:
        x = entry.inputs[0]
        numbers = np.arange(1, x.size + 1, dtype=np.float64).reshape(x.shape)
        outputs = _run(
            operator, {**entry.attrs, **(attrs or {})}, (numbers, *entry.inputs[1:]), len(dys)
        )
        return [_sum_by_number(outputs, dys, x.size).reshape(x.shape).astype(x.dtype)]

    return vjp


def joint_permutation_vjp(operator: str) -> Vjp:
    """Return gradients of all inputs; the outputs hold their elements."""

    def vjp(entry: TapeEntry, *dys: Array | None) -> Gradients:
        ends = np.cumsum([x.size for x in entry.inputs])
        numbers = [
            np.arange(end - x.size + 1, end + 1, dtype=np.float64).reshape(x.shape)
            for end, x in zip(ends.tolist(), entry.inputs, strict=True)
        ]
        total = _sum_by_number(_run(operator, entry.attrs, numbers, len(dys)), dys, int(ends[-1]))
        parts = np.split(total, ends[:-1].tolist())
        return [
            part.reshape(x.shape).astype(x.dtype)
            for part, x in zip(parts, entry.inputs, strict=True)
        ]

    return vjp


def _run(
    operator: str, attrs: Mapping[str, Any], inputs: Sequence[Array], num_outputs: int
) -> tuple[Array, ...]:
    kernel = find_kernel(operator)
    assert kernel is not None
    result: Any = kernel.forward(Context(num_outputs=num_outputs), attrs, *inputs)
    return result if isinstance(result, tuple) else (result,)


def _sum_by_number(outputs: Sequence[Array], dys: Sequence[Array | None], count: int) -> Array:
    total = np.zeros(count, np.float64)
    for numbers, dy in zip(outputs, dys, strict=False):
        if dy is not None:
            is_element = numbers.reshape(-1) > 0
            indices = numbers.reshape(-1)[is_element].astype(np.intp) - 1
            # Tile repeats elements; bincount adds all places.
            total += np.bincount(
                indices, dy.reshape(-1)[is_element].astype(np.float64), minlength=count
            )
    return total
