"""How far gradients of a graph depend on rounding: the backward pass once more, with noise of some
last digits in every step.

Gradients that cancel, as those behind a normalization, and numbers beside a pole or a tie are what
rounding leaves of them. The noise goes through the graph as the rounding of another implementation
would.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from graphshare.execute.train import tape
from graphshare.ops.gradient import Gradient
from graphshare.ops.kernel import KernelResult

NOISE = {"float16": 2.0**-10, "float32": 2.0**-22, "float64": 2.0**-24}
"""Relative: the last digit of float16, two of float32. MXNet multiplies by constants of float32 in float64 too."""


@contextmanager
def rounding_noise(seed: int) -> Iterator[None]:
    """Within the block every value and every gradient of a tape has relative noise, drawn from ``seed``."""
    stream = np.random.default_rng(seed)
    run_kernel, find_gradient = tape.run_kernel, tape.find_gradient

    def run(*arguments: Any) -> KernelResult:
        result = run_kernel(*arguments)
        return result._replace(
            outputs=tuple(_shake(stream, y, whole=False) for y in result.outputs)
        )

    def find(operator: str) -> Any:
        gradient = find_gradient(operator)
        if not isinstance(gradient, Gradient):
            return gradient

        def vjp(*arguments: Any) -> Any:
            found = gradient.vjp(*arguments)
            return (
                tuple(_shake(stream, x) for x in found)
                if isinstance(found, (tuple, list))
                else _shake(stream, found)
            )

        return msgspec.structs.replace(gradient, vjp=vjp)

    with mock.patch.object(tape, "run_kernel", run), mock.patch.object(tape, "find_gradient", find):
        yield


def _shake(stream: np.random.Generator, x: Any, *, whole: bool = True) -> Any:
    """Return an array with noise; without ``whole`` not that of whole numbers, which may be indices."""
    if x is None or np.asarray(x).dtype.kind != "f":
        return x
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        noisy = (x * (1 + NOISE[str(x.dtype)] * stream.standard_normal(x.shape))).astype(x.dtype)
    return noisy if whole else np.where(x == np.rint(x), x, noisy)
