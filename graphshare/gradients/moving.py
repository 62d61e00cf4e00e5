"""Gradients of operators that only move elements: where they went is found by moving their numbers.

The forward pass runs once more on whole numbers that count the elements; the gradient of an element is the sum of the
gradients of all places where its number turned up. Families whose operators are used much have ways of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphshare.gradients.gradient import Gradients, Record, Vjp
from graphshare.kernels.kernel import Array, Context
from graphshare.kernels.registry import find_kernel


def moved(operator: str, *, attrs: Mapping[str, Any] | None = None) -> Vjp:
    """The gradient of the first input of an operator whose outputs hold its elements, or constants.

    Elements are numbered from 1; a constant that the operator puts beside them is to be 0 or less. ``attrs`` prevail over the
    node's own.
    """

    def vjp(record: Record, *dys: Array | None) -> Gradients:
        kernel = find_kernel(operator)
        assert kernel is not None
        x = record.inputs[0]
        numbers = np.arange(1, x.size + 1, dtype=np.float64).reshape(x.shape)
        result: Any = kernel.forward(
            Context(num_outputs=len(dys)), {**record.attrs, **(attrs or {})}, numbers, *record.inputs[1:]
        )
        outputs = result if isinstance(result, tuple) else (result,)
        total = np.zeros(x.size, np.float64)
        for places, dy in zip(outputs, dys, strict=False):
            if dy is not None:
                inside = places.reshape(-1) > 0
                chosen = places.reshape(-1)[inside].astype(np.intp) - 1
                total += np.bincount(chosen, dy.reshape(-1)[inside].astype(np.float64), minlength=x.size)
        return [total.reshape(x.shape).astype(x.dtype)]

    return vjp


def moved_all(operator: str) -> Vjp:
    """As :func:`moved`, of an operator whose outputs hold the elements of all its inputs."""

    def vjp(record: Record, *dys: Array | None) -> Gradients:
        kernel = find_kernel(operator)
        assert kernel is not None
        ends = np.cumsum([x.size for x in record.inputs])
        numbers = [
            np.arange(end - x.size + 1, end + 1, dtype=np.float64).reshape(x.shape)
            for end, x in zip(ends.tolist(), record.inputs, strict=True)
        ]
        result: Any = kernel.forward(Context(num_outputs=len(dys)), record.attrs, *numbers)
        total = np.zeros(int(ends[-1]), np.float64)
        for places, dy in zip(result if isinstance(result, tuple) else (result,), dys, strict=False):
            if dy is not None:
                total += np.bincount(places.reshape(-1).astype(np.intp) - 1, dy.reshape(-1), minlength=len(total))
        parts = np.split(total, ends[:-1].tolist())
        return [part.reshape(x.shape).astype(x.dtype) for part, x in zip(parts, record.inputs, strict=True)]

    return vjp
