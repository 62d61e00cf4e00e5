"""Operators for sparse arrays, applied to dense ones, and gradients."""

from __future__ import annotations

import numpy as np

from graphshare.ops.binary.kernel import ARITHMETIC, binary_gradient, scalar_kernel
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import require
from graphshare.ops.unary.kernel import factor_vjp
from graphshare.ops.unification import first_dtype, same_dtypes, same_shapes, unify


def divide(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """Return x / y; of a row-sparse x only in its rows."""
    return ARITHMETIC["div"](context, x, y)


def _divide_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    inputs, outputs = same_dtypes(attrs, inputs, outputs)
    require("bool" not in inputs, "booleans cannot be divided")
    return inputs, outputs


def cast_storage(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the array: always dense."""
    require(
        attrs["stype"] == "default",
        f"stype {attrs['stype']} is not supported: only dense arrays can be computed",
    )
    return x


def retain(context: Context, attrs: Attrs, x: Array, indices: Array) -> Array:
    """Keep the rows in ``indices``, zero the others. MXNet does so for row-sparse data only."""
    rows = find_rows(len(x), indices)
    result = np.zeros_like(x)
    result[rows] = x[rows]
    return result


def find_rows(count: int, indices: Array) -> Array:
    """Return ``indices`` within ``count`` rows; the rest retain nothing."""
    rows: Array = indices.reshape(-1).astype(np.int64)
    return rows[(rows >= 0) & (rows < count)]


def _retain_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Any number of rows may be retained."""
    shape = unify(inputs[0], outputs[0])
    if shape is not None and not shape:
        raise KernelError("data has no axes, expected rows")
    return [shape, inputs[1]], [shape]


KERNELS = (
    Kernel("_sparse_retain", retain, _retain_shapes, first_dtype),
    Kernel("cast_storage", cast_storage, same_shapes, same_dtypes),
    Kernel("_scatter_elemwise_div", divide, same_shapes, _divide_types),
    scalar_kernel("_scatter_plus_scalar", "add", False),
    scalar_kernel("_scatter_minus_scalar", "sub", False),
)


def retain_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the retained rows' gradient; indices have none."""
    return [retain(Context(), entry.attrs, dy, entry.inputs[1]), None]


GRADIENTS = (
    Gradient("_sparse_retain", retain_gradient, reads_outputs=False),
    binary_gradient("_scatter_elemwise_div", "div"),
    *(
        Gradient(name, factor_vjp(1.0), reads_inputs=False, reads_outputs=False)
        for name in ("cast_storage", "_scatter_plus_scalar", "_scatter_minus_scalar")
    ),
)
