"""Probes of layers with windows, whose shapes must fit together: convolutions of every kind, and pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.probing import Probe

FLOATS = ("float32", "float32", "float32", "float64", "float16")


def layers(count: int, seed: int) -> Iterator[Probe]:
    """``count`` probes of each kind."""
    stream = np.random.default_rng(seed)
    for _ in range(count):
        for make in (convolution, deconvolution, pooling):
            case, inputs = make(stream)
            case["attrs"] = {key: str(value) for key, value in case["attrs"].items()}
            if sum(x.size for x in inputs) < 1 << 16:
                yield {**case, "family": "layers", "np_shape": False, "count": len(inputs)}, inputs


def _windows(
    stream: np.random.Generator, *, dilated: bool = True
) -> tuple[dict[str, Any], list[int]]:
    """A window over 1 to 3 axes, and sizes of an image that mostly hold it."""
    rank = int(stream.choice((1, 2, 2, 2, 3)))

    def numbers(*choices: int) -> tuple[int, ...]:
        return tuple(int(n) for n in stream.choice(choices, rank))

    kernel, stride, dilate, pad = (
        numbers(1, 2, 3, 3, 4, 5),
        numbers(1, 1, 2, 3),
        numbers(1, 1, 2, 3),
        numbers(0, 0, 1, 2, 4),
    )
    if rank == 3:
        kernel, pad = tuple(min(k, 3) for k in kernel), tuple(min(p, 2) for p in pad)
    attrs: dict[str, Any] = {"kernel": kernel}
    for key, value, given in (("stride", stride, 2), ("pad", pad, 2), ("dilate", dilate, dilated)):
        if given and stream.integers(3) < given:
            attrs[key] = value
    extent = [
        (k - 1) * d + 1 for k, d in zip(kernel, attrs.get("dilate", (1,) * rank), strict=True)
    ]
    room = 40 if rank == 1 or stream.integers(6) == 0 else 9
    sizes = [
        int(stream.integers(max(1, e - 2 * p * int(stream.integers(2))), e + room))
        for e, p in zip(extent, pad, strict=True)
    ]
    return attrs, sizes


def _drawn(stream: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    x = stream.standard_normal(shape).astype(dtype)
    if x.size and stream.integers(12) == 0:
        x.reshape(-1)[stream.integers(x.size)] = stream.choice((np.nan, np.inf, -np.inf))
    return x


def convolution(stream: np.random.Generator) -> Probe:
    attrs, sizes = _windows(stream)
    groups, share, filters = _channels(stream)
    attrs.update(num_filter=groups * filters, num_group=groups, no_bias=bool(stream.integers(2)))
    if groups == 1 and stream.integers(4):
        del attrs["num_group"]
    dtype = str(stream.choice(FLOATS))
    inputs = [
        _drawn(stream, dtype, (int(stream.integers(1, 4)), groups * share, *sizes)),
        _drawn(stream, dtype, (groups * filters, share, *attrs["kernel"])),
        _drawn(stream, dtype, (groups * filters,)),
    ]
    return {"op": "Convolution", "attrs": attrs}, inputs[: 2 if attrs["no_bias"] else 3]


def _channels(stream: np.random.Generator) -> tuple[int, int, int]:
    """Groups, and channels and filters of each: one for each channel often."""
    kind = stream.integers(4)
    if kind == 0:
        return int(stream.choice((1, 2, 3, 8, 17))), 1, int(stream.choice((1, 1, 2)))
    if kind == 1:
        return 1, int(stream.choice((1, 3, 8, 32))), int(stream.choice((1, 1, 2, 3)))
    return int(stream.choice((1, 1, 2, 4))), int(stream.integers(1, 5)), int(stream.integers(1, 7))


def deconvolution(stream: np.random.Generator) -> Probe:
    attrs, sizes = _windows(stream)
    groups, share, filters = _channels(stream)
    rank = len(sizes)
    attrs.update(num_filter=groups * filters, num_group=groups, no_bias=bool(stream.integers(2)))
    way = stream.integers(4)
    if way == 0:
        attrs["adj"] = tuple(int(n) for n in stream.integers(0, 3, rank))
    elif way == 1:
        attrs["target_shape"] = tuple(int(n) for n in stream.integers(0, 14, rank))
    sizes = [min(n, 9) for n in sizes]
    dtype = str(stream.choice(FLOATS))
    inputs = [
        _drawn(stream, dtype, (int(stream.integers(1, 3)), groups * share, *sizes)),
        _drawn(stream, dtype, (groups * share, filters, *attrs["kernel"])),
        _drawn(stream, dtype, (groups * filters,)),
    ]
    return {"op": "Deconvolution", "attrs": attrs}, inputs[: 2 if attrs["no_bias"] else 3]


def pooling(stream: np.random.Generator) -> Probe:
    attrs, sizes = _windows(stream, dilated=False)
    op = "Pooling_v1" if stream.integers(5) == 0 and len(sizes) == 2 else "Pooling"
    kinds = ("max", "avg", "sum") if op == "Pooling_v1" else ("max", "avg", "sum", "lp")
    attrs["pool_type"] = str(stream.choice(kinds))
    if stream.integers(2):
        attrs["pooling_convention"] = str(
            stream.choice(("valid", "full", "same")[: 2 if op == "Pooling_v1" else 3])
        )
    if op == "Pooling":
        if attrs["pool_type"] == "lp":
            attrs["p_value"] = int(stream.integers(1, 4))
        if stream.integers(3) == 0:
            attrs["count_include_pad"] = bool(stream.integers(2))
        if stream.integers(4) == 0:
            attrs["layout"] = str(
                stream.choice(
                    (("NCW", "NWC"), ("NCHW", "NHWC"), ("NCDHW", "NDHWC"))[len(sizes) - 1]
                )
            )
    if stream.integers(6) == 0:
        attrs["global_pool"] = True
    x = _drawn(
        stream,
        str(stream.choice(FLOATS)),
        (int(stream.integers(1, 3)), int(stream.integers(1, 5)), *sizes),
    )
    if stream.integers(3) == 0:
        x = np.round(x)  # equal ones
    return {"op": op, "attrs": attrs}, [x]
