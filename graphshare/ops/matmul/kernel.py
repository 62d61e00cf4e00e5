"""Products of matrices: dense layers, dot, batched products, and those of attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes, Sizes
from graphshare.ops.limits import FLOATS, Limits, with_limits
from graphshare.ops.unification import axis_of, dims_of_rank, same_dtypes, same_shapes, size_of, unify
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_shape


def fully_connected(context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight.T + bias, weight (num_hidden, inputs); all axes of ``x`` but the first are one if ``flatten``."""
    lead = x.shape[:1] if attrs["flatten"] else x.shape[:-1]
    rows = to_compute_dtype(x).reshape(prod(lead), -1)
    out = context.empty((len(rows), len(weight)), rows.dtype)
    np.matmul(rows, to_compute_dtype(weight).T, out=out)
    if bias is not None:
        out += bias
    return out.reshape(*lead, len(weight)).astype(x.dtype, copy=False)


def fully_connected_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Weight and bias from data, output from data, and back: the samples, and the inputs where one axis holds them."""
    data, (hidden, width), out = inputs[0], dims_of_rank(inputs[1], 2), outputs[0]
    hidden = unify_dims(hidden, attrs["num_hidden"], "axis 0 of weight against num_hidden")
    if data is not None and not data:
        raise KernelError("data has no axes; a dense layer wants at least one")
    if data is None and not attrs["flatten"] and out is not None:
        data = (*out[:-1], None)
    if data is not None:
        data, out, width = _dense(data, out, width, attrs["flatten"])
        out = (*out[:-1], unify_dims(out[-1], hidden, "last axis of the output against num_hidden"))
    elif attrs["flatten"]:
        out = unify((None, hidden), out)
    shapes: list[Shape] = [data, (hidden, width)]
    if len(inputs) > 2:
        shapes.append((unify_dims(dims_of_rank(inputs[2], 1)[0], hidden, "length of bias against num_hidden"),))
    return shapes, [out]


def _dense(data: tuple[Dim, ...], out: Shape, width: Dim, flatten: bool) -> tuple[tuple[Dim, ...], tuple[Dim, ...], Dim]:
    if not flatten:
        lead = dims_of_rank(out, len(data))[:-1]
        front = tuple(unify_dims(a, b, "leading axes of data and output") for a, b in zip(data[:-1], lead, strict=True))
        inner = unify_dims(data[-1], width, "last axis of data against axis 1 of weight")
        return (*front, inner), (*front, dims_of_rank(out, len(data))[-1]), unify_dims(width, inner, "axis 1 of weight")
    batch, hidden = dims_of_rank(out, 2)
    batch = unify_dims(data[0], batch, "samples of data and output")
    rest = data[1:]
    unknown = [i for i, d in enumerate(rest) if d is None]
    known = prod(d for d in rest if d is not None)
    if len(unknown) == 1 and width is not None and known:
        if width % known:
            raise KernelError(f"{format_shape(rest)} cannot hold the {width} inputs of weight")
        rest = tuple(width // known if d is None else d for d in rest)
    width = unify_dims(width, size_of(rest), "axis 1 of weight, the inputs of a sample,")
    return (batch, *rest), (batch, hidden), width


def dot(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """The last axis of ``a`` against the first of ``b``; a transposed one gives its axis at the other end."""
    if a.ndim == b.ndim == 1:
        return np.full(1, np.dot(to_compute_dtype(a), to_compute_dtype(b)), a.dtype)
    inner_a, inner_b = _ends(attrs, a.ndim, b.ndim)
    left, right = to_compute_dtype(a), to_compute_dtype(b)
    out: Array = np.tensordot(left, right, axes=(inner_a, inner_b))
    return out.astype(a.dtype, copy=False)


def _ends(attrs: Attrs, left: int, right: int) -> tuple[int, int]:
    return (0 if attrs["transpose_a"] else left - 1), (right - 1 if attrs["transpose_b"] else 0)


def dot_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """The output from both sides; the shared axis both ways."""
    a, b = inputs
    if a is None or b is None:
        return inputs, outputs
    if not a or not b:
        raise KernelError("dot takes arrays of at least one axis")
    inner_a, inner_b = _ends(attrs, len(a), len(b))
    inner = unify_dims(a[inner_a], b[inner_b], "the axes that are multiplied with each other")
    a, b = _with(a, inner_a, inner), _with(b, inner_b, inner)
    left, right = (*a[:inner_a], *a[inner_a + 1 :]), (*b[:inner_b], *b[inner_b + 1 :])
    return [a, b], [unify((*left, *right) or (1,), outputs[0])]


def _with(shape: tuple[Dim, ...], axis: int, value: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], value, *shape[axis + 1 :])


def _matrices(attrs: Attrs, a: Array, b: Array) -> Array:
    """The product over the last two axes, either side transposed if the attributes say so."""
    left = np.swapaxes(a, -1, -2) if attrs["transpose_a"] else a
    right = np.swapaxes(b, -1, -2) if attrs["transpose_b"] else b
    result: Array = np.matmul(to_compute_dtype(left), to_compute_dtype(right))
    return result


def batch_dot(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """A product of matrices for every index of the axes before the last two."""
    return _matrices(attrs, a, b).astype(a.dtype, copy=False)


def gemm2(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """alpha * a @ b, the rows on ``axis``."""
    axis = attrs["axis"]
    out = _matrices(attrs, np.moveaxis(a, axis, -2), np.moveaxis(b, axis, -2))
    if attrs["alpha"] != 1:
        out *= a.dtype.type(attrs["alpha"])
    return np.ascontiguousarray(np.moveaxis(out, -2, axis), dtype=a.dtype)


def gemm(context: Context, attrs: Attrs, a: Array, b: Array, c: Array) -> Array:
    """alpha * a @ b + beta * c, the rows on ``axis``."""
    out = gemm2(context, attrs, a, b)
    out += a.dtype.type(attrs["beta"]) * c
    return out


def matrix_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """The output (which has the shape of the third input, if there is one) from both sides; what they share both ways."""
    known = next((shape for shape in inputs[:2] if shape is not None), None)
    if known is None:
        return inputs, outputs
    rank = len(known)
    if rank < 2:
        raise KernelError(f"{format_shape(known)} is no matrix; at least two axes are wanted")
    row = axis_of(attrs.get("axis", -2), rank)
    if row == rank - 1:
        raise KernelError("axis, where the rows are, cannot be the last axis")
    a, b = dims_of_rank(inputs[0], rank), dims_of_rank(inputs[1], rank)
    inner_a, inner_b = (row if attrs["transpose_a"] else rank - 1), (rank - 1 if attrs["transpose_b"] else row)
    outer_a, outer_b = (rank - 1 if attrs["transpose_a"] else row), (row if attrs["transpose_b"] else rank - 1)
    inner = unify_dims(a[inner_a], b[inner_b], "the axes that are multiplied with each other")
    out = unify((None,) * rank, outputs[0])
    if len(inputs) > 2:
        out = unify(out, inputs[2])
    assert out is not None
    batch = [i for i in range(rank) if i not in (row, rank - 1)]
    sides = [list(a), list(b), list(out)]
    for i in batch:
        size = unify_dims(unify_dims(a[i], b[i], "batch axes of both sides"), out[i], "batch axes of the output")
        for side in sides:
            side[i] = size
    sides[0][inner_a] = sides[1][inner_b] = inner
    sides[0][outer_a] = sides[2][row] = unify_dims(out[row], a[outer_a], "rows of the output")
    sides[1][outer_b] = sides[2][rank - 1] = unify_dims(out[rank - 1], b[outer_b], "columns of the output")
    result = tuple(sides[2])
    return [tuple(sides[0]), tuple(sides[1]), *([result] if len(inputs) > 2 else [])], [result]


def div_sqrt_dim(context: Context, attrs: Attrs, x: Array) -> Array:
    """x / sqrt(length of the last axis)."""
    result: Array = (x / x.dtype.type(sqrt(x.shape[-1]))).astype(x.dtype, copy=False)
    return result


def khatri_rao(context: Context, attrs: Attrs, *matrices: Array) -> Array:
    """The Kronecker product column by column: (rows of all multiplied, columns)."""
    out = matrices[0]
    for matrix in matrices[1:]:
        out = (out[:, None] * matrix).reshape(-1, matrix.shape[1])
    return out


def khatri_rao_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Columns are shared, rows multiplied."""
    columns, rows = dims_of_rank(outputs[0], 2)[1], []
    for shape in inputs:
        rows.append(dims_of_rank(shape, 2)[0])
        columns = unify_dims(columns, dims_of_rank(shape, 2)[1], "columns")
    return [(row, columns) for row in rows], [unify((_product(rows), columns), outputs[0])]


def _product(values: Sequence[Dim]) -> Dim:
    return size_of(tuple(values))


def fully_connected_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count a product for each column of the weight (num_hidden, columns) and each output."""
    return prod(outputs[0]) * inputs[1][-1]


def _dot_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    left = inputs[0]
    return prod(outputs[0]) * ((left[0] if attrs.get("transpose_a") else left[-1]) if left else 1)


def _batch_dot_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    return prod(outputs[0]) * (inputs[0][-2] if attrs.get("transpose_a") else inputs[0][-1])


KERNELS = with_limits(
    Limits(dtypes=FLOATS, rank=1, elements=True),
    Kernel("FullyConnected", fully_connected, fully_connected_shapes, same_dtypes, cost=fully_connected_cost),
    Kernel("dot", dot, dot_shapes, same_dtypes, cost=_dot_cost),
    Kernel("batch_dot", batch_dot, matrix_shapes, same_dtypes, cost=_batch_dot_cost),
    Kernel("_linalg_gemm", gemm, matrix_shapes, same_dtypes, cost=_batch_dot_cost),
    Kernel("_linalg_gemm2", gemm2, matrix_shapes, same_dtypes, cost=_batch_dot_cost),
    Kernel("_contrib_div_sqrt_dim", div_sqrt_dim, same_shapes, same_dtypes),
    Kernel("khatri_rao", khatri_rao, khatri_rao_shapes, same_dtypes),
)
