"""Where arrays lie changes no bit: elementwise kernels in the buffer of an input, normalization of transposed data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from graphshare.ops.index import FAMILY_OF
from graphshare.ops.kernel import Array, Context
from graphshare.ops.registry import find_kernel, lookup

VALUES = [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 6.1566744, -2.5, np.inf, -np.inf, np.nan]
EXPONENTS = [2.0, -1.0, 0.5, 0.0, 1.3]


def _arrays(count: int, dtype: str) -> Iterator[list[Array]]:
    """Single numbers, and all pairs in two dimensions."""
    pairs = list(product(VALUES, EXPONENTS))
    for pair in pairs:
        yield [np.array([x], dtype) for x in pair[:count]]
    yield [np.array(column, dtype).reshape(len(VALUES), -1) for column in zip(*pairs, strict=True)][
        :count
    ]


@pytest.mark.parametrize("family", ["binary", "unary", "activation"])
def test_the_buffer_of_a_result_changes_no_bit(family: str) -> None:
    checked = set()
    for operator in [name for name, of in FAMILY_OF.items() if of == family]:
        kernel, signature = find_kernel(operator), lookup(operator)
        assert kernel is not None
        assert signature is not None
        text = {"scalar": "2.0"} if operator.endswith("_scalar") else {}
        attrs, faults = signature.parse(text)
        count = len(signature.formal_inputs(text))
        if faults or count > 2:
            continue
        for dtype in ("float16", "float32", "float64"):
            for inputs in _arrays(count, dtype):
                with np.errstate(all="ignore"):
                    wanted = _first(kernel.forward(Context(), attrs, *[x.copy() for x in inputs]))
                    for flags in product((False, True), repeat=count):
                        found = _first(
                            kernel.forward(
                                Context(reusable=flags), attrs, *[x.copy() for x in inputs]
                            )
                        )
                        assert found.tobytes() == wanted.tobytes(), (operator, inputs, flags)
                checked.add(operator)
    assert len(checked) > {"binary": 40, "unary": 40, "activation": 1}[family]


@pytest.mark.parametrize("operator", ["InstanceNorm", "LayerNorm"])
def test_the_layout_of_the_data_changes_no_bit(operator: str) -> None:
    kernel, signature = find_kernel(operator), lookup(operator)
    assert kernel is not None
    assert signature is not None
    attrs, _ = signature.parse({})
    view = (
        np.random.default_rng(0)
        .standard_normal((2, 4, 4, 5))
        .astype(np.float32)
        .transpose(0, 2, 3, 1)
    )
    scale = np.ones(4, np.float32)
    found, wanted = (
        _first(kernel.forward(Context(), attrs, x, scale, scale)) for x in (view, view.copy())
    )
    assert found.tobytes() == wanted.tobytes()


def _first(result: Any) -> Array:
    """Return the first output; what is not a number has no sign."""
    array = np.asarray(result[0] if isinstance(result, tuple) else result)
    return (
        np.where(np.isnan(array), np.nan, array).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
    )
