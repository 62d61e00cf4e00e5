"""Operators for sparse arrays, applied to dense arrays."""

from __future__ import annotations

from graphshare.ops.binary.kernel import ARITHMETIC, infer_scalar_dtypes, scalar_forward
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError
from graphshare.ops.unification import same_dtypes, same_shapes


def divide(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """Return x / y, of a row-sparse x only in its rows."""
    return ARITHMETIC["div"](context, x, y)


def cast_storage(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the array itself, which is always dense."""
    if attrs["stype"] != "default":
        raise KernelError(f"stype {attrs['stype']} is not supported: only dense arrays can be computed")
    return x


KERNELS = (
    Kernel("cast_storage", cast_storage, same_shapes, same_dtypes),
    Kernel("_scatter_elemwise_div", divide, same_shapes, same_dtypes),
    Kernel("_scatter_plus_scalar", scalar_forward("add", False), same_shapes, infer_scalar_dtypes),
    Kernel("_scatter_minus_scalar", scalar_forward("sub", False), same_shapes, infer_scalar_dtypes),
)
