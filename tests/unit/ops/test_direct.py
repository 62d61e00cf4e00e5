"""Functions for small results give the bits of the kernels that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Context, Kernel
from graphshare.ops.registry import find_kernel, known_kernels, lookup

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 17.0, -90.0, 1e-40, 3e38, np.inf, -np.inf, np.nan]


def cases() -> Iterator[tuple[Kernel, dict[str, str]]]:
    """Each kernel that has such functions, with attributes."""
    for kernel in known_kernels().values():
        if kernel.direct is not None:
            for attrs in _ATTRS.get(
                kernel.operator,
                [{"scalar": "0.3"}] if kernel.operator.endswith("_scalar") else [{}],
            ):
                yield kernel, attrs


_ATTRS = {
    "Activation": [
        {"act_type": name} for name in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    ]
}


def arrays(count: int, dtype: str) -> Iterator[list[Array]]:
    """All pairs of special values; the same transposed, and broadcast."""
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL).astype(dtype)
    first, *second = np.meshgrid(values, values) if count > 1 else [values[np.newaxis]]
    yield [first, *second]
    yield [first.T, *(x.T for x in second)]
    if second:
        yield [first[:1], second[0][:, :1]]


def test_they_give_the_same_bits() -> None:
    checked: dict[str, int] = {}
    for kernel, text in cases():
        signature = lookup(kernel.operator)
        assert signature is not None
        attrs, faults = signature.parse(text)
        assert not faults
        assert kernel.direct is not None
        count = len(signature.formal_inputs(text))
        for dtype in ("float16", "float32", "float64"):
            function = kernel.direct(attrs, [dtype] * count)
            for inputs in arrays(count, dtype) if function is not None else ():
                with np.errstate(all="ignore"):
                    wanted: Any = kernel.forward(Context(), attrs, *inputs)
                    found = function(*inputs)
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), kernel.operator
                assert found.flags.c_contiguous
                assert found.tobytes() == wanted.tobytes(), (kernel.operator, text, dtype)
                assert not any(np.may_share_memory(found, x) for x in inputs)
                checked[kernel.operator] = checked.get(kernel.operator, 0) + 1
        assert kernel.direct(attrs, ["int32"] * count) is None
    assert len(checked) > 60


def test_pairs_have_a_function_where_both_are_floats_of_one_dtype() -> None:
    for operator in ("elemwise_add", "broadcast_mul"):
        kernel = find_kernel(operator)
        assert kernel is not None
        assert kernel.direct is not None
        for dtypes, has_function in (
            (["float32", "float32"], True),
            (["float64", "float64"], True),
            (["float32", "float64"], False),
            (["float64", "float32"], False),
            (["int32", "int32"], False),
        ):
            assert (kernel.direct({}, dtypes) is not None) == has_function
