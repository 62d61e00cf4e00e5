"""The same elements in another order, and the gradients. Results are views of the input wherever numpy has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import axis_of, dims_of_rank, same_dtypes, same_shapes, unify
from graphshare.text.format import format_count

Order = Callable[[Attrs, int], Sequence[int]]


def _transpose_kernel(operator: str, order: Order, rank_of: Callable[[Attrs], int | None]) -> Kernel:
    """Return the kernel whose output axis ``i`` is the input's axis ``order(attrs, rank)[i]``."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        axes = order(attrs, x.ndim)
        require(
            len(set(axes)) == x.ndim, f"axes {tuple(axes)} name an axis twice: MXNet leaves elements of the result unwritten"
        )
        return np.asarray(x.transpose(axes))

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        x, y = inputs[0], outputs[0]
        rank = next((len(shape) for shape in (x, y) if shape is not None), rank_of(attrs))
        if rank is None:
            return inputs, outputs
        axes = list(order(attrs, rank))
        known = dims_of_rank(x, rank)
        y = dims_of_rank(unify(tuple(known[axis] for axis in axes), y), rank)
        return [tuple(y[axes.index(axis)] if axis in axes else known[axis] for axis in range(rank))], [y]

    return Kernel(operator, forward, shapes, same_dtypes)


def transpose_axes(attrs: Attrs, rank: int) -> Sequence[int]:
    """Return as many axes as the array has; only the shape is known where one comes twice."""
    if not attrs["axes"]:
        return range(rank)[::-1]
    axes = [axis_of(axis, rank) for axis in attrs["axes"]]
    if len(axes) != rank:
        raise KernelError(
            f"axes {attrs['axes']} are not a permutation of the axes of an array with {format_count(rank, 'axis')}"
        )
    return axes


def np_transpose_axes(attrs: Attrs, rank: int) -> Sequence[int]:
    """Return the axes; without a value they are reversed, and no axes are none."""
    if attrs["axes"] == () and rank:
        raise KernelError(f"axes are (), expected {format_count(rank, 'axis')}")
    axes = transpose_axes(attrs, rank)
    require(len(set(axes)) == rank, f"axes {tuple(axes)} name an axis twice")
    return axes


def swap_axes(attrs: Attrs, rank: int) -> Sequence[int]:
    """Return the axes with ``dim1`` and ``dim2`` exchanged."""
    axes = list(range(rank))
    one, other = axis_of(attrs["dim1"], rank), axis_of(attrs["dim2"], rank)
    axes[one], axes[other] = axes[other], axes[one]
    return axes


def reverse(context: Context, attrs: Attrs, x: Array) -> Array:
    """Reverse the array along ``axis``."""
    with refuse_invalid_call():
        return np.asarray(np.flip(x, tuple(axis_of(axis, x.ndim) for axis in attrs["axis"])))


def _axis_count(attrs: Attrs) -> int | None:
    return len(attrs["axes"]) if attrs["axes"] else None


def _any_rank(attrs: Attrs) -> int | None:
    return None


def depth_to_space(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``(N, C, b*H, b*W)``: channel ``(i*b + j)*C + c`` of ``(N, b*b*C, H, W)`` is pixel ``(i, j)`` of a block."""
    b, (n, c, h, w) = attrs["block_size"], x.shape
    blocks = x.reshape(n, b, b, c // (b * b), h, w)
    return np.asarray(blocks.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b))


def space_to_depth(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``(N, b*b*C, H, W)`` of ``(N, C, b*H, b*W)``, the inverse of :func:`depth_to_space`."""
    b, (n, c, h, w) = attrs["block_size"], x.shape
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    return np.asarray(blocks.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b))


def _multiply_dim(size: Dim, factor: int) -> Dim:
    return None if size is None else size * factor


def _divide_dim(size: Dim, factor: int, what: str) -> Dim:
    if size is not None and size % factor:
        raise KernelError(f"{what} of size {size} cannot be divided into blocks of {factor}")
    return None if size is None else size // factor


def _depth_shape(shape: Shape, b: int) -> tuple[Dim, ...]:
    n, c, h, w = dims_of_rank(shape, 4)
    return n, _multiply_dim(c, b * b), _divide_dim(h, b, "axis 2"), _divide_dim(w, b, "axis 3")


def _space_shape(shape: Shape, b: int) -> tuple[Dim, ...]:
    n, c, h, w = dims_of_rank(shape, 4)
    return n, _divide_dim(c, b * b, "axis 1"), _multiply_dim(h, b), _multiply_dim(w, b)


def _depth_to_space_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    y = unify(_space_shape(inputs[0], attrs["block_size"]), outputs[0])
    return [unify(inputs[0], _depth_shape(y, attrs["block_size"]))], [y]


def _space_to_depth_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    y = unify(_depth_shape(inputs[0], attrs["block_size"]), outputs[0])
    return [unify(inputs[0], _space_shape(y, attrs["block_size"]))], [y]


KERNELS = with_limits(
    Limits(positive=("block_size",)),
    _transpose_kernel("transpose", transpose_axes, _axis_count),
    _transpose_kernel("_np_transpose", np_transpose_axes, _axis_count),
    _transpose_kernel("SwapAxis", swap_axes, _any_rank),
    Kernel("reverse", reverse, same_shapes, same_dtypes),
    Kernel("depth_to_space", depth_to_space, _depth_to_space_shapes, same_dtypes),
    Kernel("space_to_depth", space_to_depth, _space_to_depth_shapes, same_dtypes),
)


def transpose_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` transposed by the inverse permutation of ``axes``."""
    axes = entry.attrs["axes"]
    if not axes:
        return np.asarray(dy.transpose())
    return np.asarray(dy.transpose(np.argsort([axis_of(axis, dy.ndim) for axis in axes]).tolist()))


def swap_axes_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` with the same two axes swapped."""
    return np.asarray(dy.swapaxes(entry.attrs["dim1"], entry.attrs["dim2"]))


def reverse_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` with the same axes reversed."""
    return np.flip(dy, tuple(axis_of(axis, dy.ndim) for axis in entry.attrs["axis"]))


GRADIENTS = (
    Gradient("transpose", transpose_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("_np_transpose", transpose_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("SwapAxis", swap_axes_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("reverse", reverse_gradient, reads_inputs=False, reads_outputs=False),
    *(Gradient(name, permutation_vjp(name), reads_outputs=False) for name in ("depth_to_space", "space_to_depth")),
)
