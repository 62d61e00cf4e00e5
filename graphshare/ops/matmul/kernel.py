"""Matrix products and gradients: dense layers, dot and batched products."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from graphshare.ops.folding import LinearLayer, scale_filters
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    Sizes,
)
from graphshare.ops.limits import FLOATS, Limits, require, with_limits
from graphshare.ops.matmul.attention import GRADIENTS as ATTENTION_GRADIENTS
from graphshare.ops.matmul.attention import KERNELS as ATTENTION_KERNELS
from graphshare.ops.unification import (
    count_elements,
    dims_of_rank,
    normalize_axis,
    same_dtypes,
    same_shapes,
    unify,
    with_dim,
    without_axes,
)
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_count, format_shape


def fully_connected(
    context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None
) -> Array:
    """Return x @ weight.T + bias, weight (num_hidden, inputs); ``flatten`` merges axes after 0."""
    axes = 1 if attrs["flatten"] else x.ndim - 1
    lead = x.shape[:axes]
    # numpy cannot infer -1 for data without elements.
    rows = to_compute_dtype(x).reshape(prod(lead), prod(x.shape[axes:]))
    out = context.empty((len(rows), len(weight)), rows.dtype)
    np.matmul(rows, to_compute_dtype(weight).T, out=out)
    if bias is not None:
        out += bias
    return out.reshape(*lead, len(weight)).astype(x.dtype, copy=False)


def fully_connected_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer weight, bias and output from data, and data as far as possible."""
    data, (hidden, width), out = inputs[0], dims_of_rank(inputs[1], 2), outputs[0]
    hidden = unify_dims(hidden, attrs["num_hidden"], "axis 0 of weight against num_hidden")
    require(data != (), "data has no axes, expected at least one")
    if data is None and not attrs["flatten"] and out is not None:
        data = (*out[:-1], None)
    if data is not None:
        data, out, width = _unify_dense(data, out, width, attrs["flatten"])
        out = (*out[:-1], unify_dims(out[-1], hidden, "last axis of the output against num_hidden"))
    elif attrs["flatten"]:
        out = unify((None, hidden), out)
    shapes: list[Shape] = [data, (hidden, width)]
    if len(inputs) > 2:
        (length,) = dims_of_rank(inputs[2], 1)
        shapes.append((unify_dims(length, hidden, "length of bias against num_hidden"),))
    return shapes, [out]


def _unify_dense(data: Dims, out: Shape, width: Dim, flatten: bool) -> tuple[Dims, Dims, Dim]:
    if not flatten:
        *lead, hidden = dims_of_rank(out, len(data))
        front = tuple(
            unify_dims(a, b, "leading axes of data and output")
            for a, b in zip(data[:-1], lead, strict=True)
        )
        inner = unify_dims(data[-1], width, "last axis of data against axis 1 of weight")
        return (*front, inner), (*front, hidden), unify_dims(width, inner, "axis 1 of weight")
    batch, hidden = dims_of_rank(out, 2)
    batch = unify_dims(data[0], batch, "samples of data and output")
    rest = data[1:]
    unknown = [i for i, d in enumerate(rest) if d is None]
    known = prod(d for d in rest if d is not None)
    # If another size is 0, any size gives the width 0.
    if len(unknown) == 1 and width is not None and known:
        if width % known:
            raise KernelError(
                f"{format_shape(rest)} cannot have the {format_count(width, 'element')} that weight expects"
            )
        rest = with_dim(rest, unknown[0], width // known)
    width = unify_dims(width, count_elements(rest), "axis 1 of weight (the inputs of a sample)")
    return (batch, *rest), (batch, hidden), width


def dot(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Multiply over the last axis of ``a`` and the first of ``b``; if transposed the opposite."""
    if a.ndim == b.ndim == 1:
        # MXNet has no arrays without axes: two vectors give the shape (1,).
        return np.full(1, np.dot(to_compute_dtype(a), to_compute_dtype(b)), a.dtype)
    inner_a, inner_b = _inner_axes(attrs, a.ndim, b.ndim)
    left, right = to_compute_dtype(a), to_compute_dtype(b)
    if a.ndim == b.ndim == 2:  # the result of tensordot, in a third of the time
        return np.asarray(
            np.dot(left if inner_a else left.T, right.T if inner_b else right), a.dtype
        )
    out: Array = np.tensordot(left, right, axes=(inner_a, inner_b))
    return out.astype(a.dtype, copy=False)


def _inner_axes(attrs: Attrs, left: int, right: int) -> tuple[int, int]:
    return (0 if attrs["transpose_a"] else left - 1), (right - 1 if attrs["transpose_b"] else 0)


def dot_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output, and the shared axis."""
    a, b = inputs
    if a is None or b is None:
        return inputs, outputs
    if not a or not b:
        raise KernelError("an array has no axes, expected at least one")
    if len(a) == len(b) == 1 and (attrs["transpose_a"] or attrs["transpose_b"]):
        raise KernelError("two vectors cannot be transposed")
    inner_a, inner_b = _inner_axes(attrs, len(a), len(b))
    inner = unify_dims(a[inner_a], b[inner_b], "the axes that are multiplied with each other")
    a, b = with_dim(a, inner_a, inner), with_dim(b, inner_b, inner)
    outer = (*without_axes(a, [inner_a]), *without_axes(b, [inner_b]))
    return [a, b], [unify(outer or (1,), outputs[0])]


def _multiply_matrices(attrs: Attrs, a: Array, b: Array) -> Array:
    left = np.swapaxes(a, -1, -2) if attrs["transpose_a"] else a
    right = np.swapaxes(b, -1, -2) if attrs["transpose_b"] else b
    result: Array = np.matmul(to_compute_dtype(left), to_compute_dtype(right))
    return result


def batch_dot(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Multiply matrices of the last two axes."""
    return _multiply_matrices(attrs, a, b).astype(a.dtype, copy=False)


def gemm2(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return alpha * a @ b, with rows on ``axis``."""
    axis = attrs["axis"]
    out = _multiply_matrices(attrs, np.moveaxis(a, axis, -2), np.moveaxis(b, axis, -2))
    if attrs["alpha"] != 1:
        out *= a.dtype.type(attrs["alpha"])
    return np.ascontiguousarray(np.moveaxis(out, -2, axis), dtype=a.dtype)


def gemm(context: Context, attrs: Attrs, a: Array, b: Array, c: Array) -> Array:
    """Return alpha * a @ b + beta * c, with rows on ``axis``."""
    out = gemm2(context, attrs, a, b)
    out += a.dtype.type(attrs["beta"]) * c
    return out


def _infer_batch_dot_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    for shape in inputs:
        if shape is not None and len(shape) < 3:
            rank = format_count(len(shape), "axis")
            raise KernelError(
                f"{format_shape(shape)} has {rank}, expected at least 3: a batch of matrices"
            )
    return matrix_shapes(attrs, inputs, outputs)


def matrix_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output (and third input) from both sides, and shared axes."""
    known = next((shape for shape in inputs[:2] if shape is not None), None)
    if known is None:
        return inputs, outputs
    rank = len(known)
    if rank < 2:
        raise KernelError(f"{format_shape(known)} is not a matrix, expected at least two axes")
    # batch_dot has no `axis`.
    row = normalize_axis(attrs.get("axis", -2), rank)
    require(row != rank - 1, "axis (of the rows) cannot be the last axis")
    a, b = dims_of_rank(inputs[0], rank), dims_of_rank(inputs[1], rank)
    outer_a, inner_a = (rank - 1, row) if attrs["transpose_a"] else (row, rank - 1)
    inner_b, outer_b = (rank - 1, row) if attrs["transpose_b"] else (row, rank - 1)
    inner = unify_dims(a[inner_a], b[inner_b], "the axes that are multiplied with each other")
    out = unify((None,) * rank, outputs[0])
    if len(inputs) > 2:
        out = unify(out, inputs[2])
    assert out is not None
    sides = [list(a), list(b), list(out)]
    for i in range(rank):
        if i in (row, rank - 1):
            continue
        size = unify_dims(a[i], b[i], "batch axes of both sides")
        size = unify_dims(size, out[i], "batch axes of the output")
        for side in sides:
            side[i] = size
    sides[0][inner_a] = sides[1][inner_b] = inner
    sides[0][outer_a] = sides[2][row] = unify_dims(out[row], a[outer_a], "rows of the output")
    sides[1][outer_b] = sides[2][rank - 1] = unify_dims(
        out[rank - 1], b[outer_b], "columns of the output"
    )
    result = tuple(sides[2])
    return [tuple(sides[0]), tuple(sides[1]), *([result] if len(inputs) > 2 else [])], [result]


def div_sqrt_dim(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return x / sqrt(size of the last axis)."""
    result: Array = (x / x.dtype.type(sqrt(x.shape[-1]))).astype(x.dtype, copy=False)
    return result


def khatri_rao(context: Context, attrs: Attrs, *matrices: Array) -> Array:
    """Return the column-wise Kronecker product: (product of all rows, columns)."""
    out = matrices[0]
    for matrix in matrices[1:]:
        out = (out[:, None] * matrix).reshape(-1, matrix.shape[1])
    return out


def khatri_rao_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the product of rows, and columns."""
    columns = dims_of_rank(outputs[0], 2)[1]
    rows: list[Dim] = []
    for shape in inputs:
        row, width = dims_of_rank(shape, 2)
        rows.append(row)
        columns = unify_dims(columns, width, "columns")
    output = unify((count_elements(tuple(rows)), columns), outputs[0])
    return [(row, columns) for row in rows], [output]


def fully_connected_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count a product over the weight's columns per output."""
    return prod(outputs[0]) * inputs[1][-1]


def _dot_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    left = inputs[0]
    if not left:
        return prod(outputs[0])
    return prod(outputs[0]) * (left[0] if attrs.get("transpose_a") else left[-1])


def _batch_dot_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    return prod(outputs[0]) * (inputs[0][-2] if attrs.get("transpose_a") else inputs[0][-1])


KERNELS = (
    *ATTENTION_KERNELS,
    *with_limits(
        Limits(dtypes=FLOATS, rank=1, elements=True),
        Kernel(
            "FullyConnected",
            fully_connected,
            fully_connected_shapes,
            same_dtypes,
            cost=fully_connected_cost,
            linear=LinearLayer(lambda attrs: (1, -1) if attrs["flatten"] else (-1,), scale_filters),
            # Unlike the operators below, it accepts data without elements.
            limits=Limits(dtypes=FLOATS, rank=1),
        ),
        Kernel("dot", dot, dot_shapes, same_dtypes, cost=_dot_cost),
        Kernel("batch_dot", batch_dot, _infer_batch_dot_shapes, same_dtypes, cost=_batch_dot_cost),
        Kernel("_linalg_gemm", gemm, matrix_shapes, same_dtypes, cost=_batch_dot_cost),
        Kernel("_linalg_gemm2", gemm2, matrix_shapes, same_dtypes, cost=_batch_dot_cost),
        Kernel("_contrib_div_sqrt_dim", div_sqrt_dim, same_shapes, same_dtypes),
        Kernel("khatri_rao", khatri_rao, khatri_rao_shapes, same_dtypes),
    ),
)


def fully_connected_gradient(entry: TapeEntry, dy: Array) -> tuple[Array | None, ...]:
    """Return gradients of data, weight and bias."""
    x, weight = entry.inputs[:2]
    lead = x.shape[:1] if entry.attrs["flatten"] else x.shape[:-1]
    rows = to_compute_dtype(dy).reshape(prod(lead), len(weight))
    dx = dw = None
    if entry.requested[0]:
        dx = np.matmul(rows, to_compute_dtype(weight)).reshape(x.shape)
        dx = dx.astype(x.dtype, copy=False)
    if entry.requested[1]:
        dw = np.matmul(rows.T, to_compute_dtype(x).reshape(prod(lead), weight.shape[1]))
        dw = dw.astype(weight.dtype, copy=False)
    if len(entry.inputs) == 2:
        return dx, dw
    return dx, dw, rows.sum(axis=0).astype(entry.inputs[2].dtype, copy=False)


def dot_gradient(entry: TapeEntry, dy: Array) -> tuple[Array, Array]:
    """Return both gradients: ``dy`` times the other side, summed over its remaining axes."""
    a, b = (to_compute_dtype(x) for x in entry.inputs)
    if a.ndim == b.ndim == 1:
        scalar = dy.reshape(())
        return (scalar * b).astype(entry.inputs[0].dtype), (scalar * a).astype(
            entry.inputs[1].dtype
        )
    inner_a, inner_b = _inner_axes(entry.attrs, a.ndim, b.ndim)
    dy = dy.reshape(*np.delete(a.shape, inner_a), *np.delete(b.shape, inner_b))
    left = a.ndim - 1
    da = np.tensordot(
        to_compute_dtype(dy),
        b,
        axes=(range(left, dy.ndim), [i for i in range(b.ndim) if i != inner_b]),
    )
    db = np.tensordot(
        a, to_compute_dtype(dy), axes=([i for i in range(a.ndim) if i != inner_a], range(left))
    )
    return (
        np.moveaxis(da, -1, inner_a).astype(entry.inputs[0].dtype),
        np.moveaxis(db, 0, inner_b).astype(entry.inputs[1].dtype),
    )


def _matrix_gradients(attrs: Attrs, a: Array, b: Array, dy: Array) -> tuple[Array, Array]:
    a, b, dy = (to_compute_dtype(x) for x in (a, b, dy))
    left = np.swapaxes(a, -1, -2) if attrs["transpose_a"] else a
    right = np.swapaxes(b, -1, -2) if attrs["transpose_b"] else b
    da = np.matmul(dy, np.swapaxes(right, -1, -2))
    db = np.matmul(np.swapaxes(left, -1, -2), dy)
    return (
        np.swapaxes(da, -1, -2) if attrs["transpose_a"] else da,
        np.swapaxes(db, -1, -2) if attrs["transpose_b"] else db,
    )


def batch_dot_gradient(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return both gradients."""
    a, b = entry.inputs
    both = _matrix_gradients(entry.attrs, a, b, dy)
    return tuple(
        np.ascontiguousarray(g, dtype=x.dtype) for g, x in zip(both, entry.inputs, strict=True)
    )


def gemm2_gradient(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return both gradients, with rows on ``axis``."""
    axis = entry.attrs["axis"]
    a, b, gradient = (np.moveaxis(x, axis, -2) for x in (*entry.inputs[:2], dy))
    both = _matrix_gradients(
        entry.attrs, a, b, gradient * gradient.dtype.type(entry.attrs["alpha"])
    )
    return tuple(np.ascontiguousarray(np.moveaxis(g, -2, axis), dtype=dy.dtype) for g in both)


def gemm_gradient(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return gradients of a, b and c."""
    return (*gemm2_gradient(entry, dy), dy * dy.dtype.type(entry.attrs["beta"]))


def div_sqrt_dim_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Scale the gradient like the data."""
    result: Array = dy / dy.dtype.type(sqrt(dy.shape[-1]))
    return result


def khatri_rao_gradient(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Multiply ``dy``, column by column, by the product of the other matrices."""
    matrices = entry.inputs
    rows = [len(m) for m in matrices]
    whole = dy.reshape(*rows, -1)
    gradients = []
    for i in range(len(matrices)):
        part = whole
        for j in reversed(range(len(matrices))):
            if j != i:
                shape = [1] * part.ndim
                shape[j], shape[-1] = part.shape[j], part.shape[-1]
                part = (part * matrices[j].reshape(shape)).sum(axis=j, keepdims=True)
        gradients.append(part.reshape(matrices[i].shape))
    return tuple(gradients)


GRADIENTS = (
    *ATTENTION_GRADIENTS,
    Gradient("FullyConnected", fully_connected_gradient, reads_outputs=False),
    Gradient("dot", dot_gradient, reads_outputs=False),
    Gradient("batch_dot", batch_dot_gradient, reads_outputs=False),
    Gradient("_linalg_gemm", gemm_gradient, reads_outputs=False),
    Gradient("_linalg_gemm2", gemm2_gradient, reads_outputs=False),
    Gradient(
        "_contrib_div_sqrt_dim", div_sqrt_dim_gradient, reads_inputs=False, reads_outputs=False
    ),
    Gradient("khatri_rao", khatri_rao_gradient, reads_outputs=False),
)
