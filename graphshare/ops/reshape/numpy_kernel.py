"""The numpy interface's operators that move elements, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.broadcast.kernel import sum_broadcast
from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dims,
    Kernel,
    KernelError,
    Shape,
    ShapeRule,
    Shapes,
)
from graphshare.ops.limits import Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.reshape.kernel import restore_shape
from graphshare.ops.unification import (
    count_elements,
    is_known,
    normalize_axis,
    output_rule,
    same_dtypes,
    same_shapes,
    unify,
    without_axes,
)
from graphshare.text.format import format_count, format_shape

View = Callable[[Attrs, Array], Array]


def _views(view: View) -> tuple[Callable[[Context, Attrs, Array], Array], ShapeRule]:
    """Return kernel and shape rule; the rule views an array that takes no memory."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        # reshape removes the axis that ascontiguousarray adds to an array without axes.
        return np.ascontiguousarray(view(attrs, x)).reshape(view(attrs, x).shape)

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        shape = inputs[0]
        if shape is None or not is_known(shape):
            return inputs, outputs
        bare = np.broadcast_to(np.zeros((), np.bool_), tuple(d or 0 for d in shape))
        try:
            return inputs, [unify(view(attrs, bare).shape, outputs[0])]
        except (ValueError, IndexError) as error:
            raise KernelError(f"{error} (for {format_shape(shape)})") from None

    return forward, shapes


def _broadcast_to(attrs: Attrs, x: Array) -> Array:
    shape: tuple[int, ...] = attrs["shape"]
    lead = len(shape) - x.ndim
    sizes: list[int] = []
    for i, code in enumerate(shape):
        if code >= 0:
            sizes.append(code)
        elif code == -2 and i >= lead:
            sizes.append(x.shape[i - lead])
        else:
            raise KernelError(f"shape is {shape}, expected sizes, or -2 for that of the array")
    return np.broadcast_to(x, tuple(sizes))


def _rot90(attrs: Attrs, x: Array) -> Array:
    require(len(attrs["axes"] or ()) == 2, f"axes are {attrs['axes']}, expected two")
    return np.rot90(x, attrs["k"], attrs["axes"])


def _diagonal(attrs: Attrs, x: Array) -> Array:
    return np.diagonal(x, clamp_offset(attrs, x.shape), attrs["axis1"], attrs["axis2"])


def read_roll(attrs: Attrs, rank: int) -> tuple[tuple[int, ...], list[int] | None]:
    """Return shifts and axes (None: flattened).

    Raises:
        KernelError: they do not match.
    """
    if attrs["shift"] is None:
        raise KernelError("roll needs a shift")
    shift: tuple[int, ...] = attrs["shift"]
    if attrs["axis"] is None:
        require(len(shift) == 1, f"shift is {shift}, expected one number for the flattened array")
        return shift, None
    axes = [normalize_axis(axis, rank) for axis in attrs["axis"]]
    require(axes, "axis is (), expected an axis, or None for the flattened array")
    require(
        len(shift) in (1, len(axes)),
        f"shift {shift} and axis {attrs['axis']} must have the same length",
    )
    require(len(set(axes)) == len(axes), f"axis {attrs['axis']} names an axis twice")
    return shift, axes


def roll(context: Context, attrs: Attrs, x: Array) -> Array:
    """Move elements cyclically along axes, or when flattened."""
    shift, _ = read_roll(attrs, x.ndim)
    with refuse_invalid_call():
        return np.roll(x, shift if attrs["axis"] is not None else shift[0], attrs["axis"])


def _tril_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """One axis becomes every row of a square matrix."""
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    if len(shape) == 1:
        return inputs, [(shape[0], shape[0])]
    return same_shapes(attrs, inputs, outputs)


def diag(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return two axes' diagonal as the last axis, or the matrix with one axis on diagonal ``k``."""
    if x.ndim == 1:
        return np.diag(x, attrs["k"])
    axes = attrs.get("axis1", 0), attrs.get("axis2", 1)
    with refuse_invalid_call():
        return np.ascontiguousarray(np.diagonal(x, attrs["k"], *axes))


def _diag_shape(attrs: Attrs, shape: Dims) -> Shape:
    k = attrs["k"]
    if "axis1" not in attrs and len(shape) > 2:
        raise KernelError(
            f"{format_shape(shape)} has {format_count(len(shape), 'axis')}, expected 1 or 2"
        )
    if len(shape) == 1:
        side = None if shape[0] is None else shape[0] + abs(k)
        return side, side
    first = normalize_axis(attrs.get("axis1", 0), len(shape))
    second = normalize_axis(attrs.get("axis2", 1), len(shape))
    rest = without_axes(shape, [first, second])
    rows, columns = shape[first], shape[second]
    if rows is None or columns is None:
        return (*rest, None)
    length = min(rows + min(k, 0), columns - max(k, 0))
    is_empty = length == 0 and 0 in (rows, columns)
    require(length > 0 or is_empty, f"there is no diagonal {k} in {format_shape(shape)}")
    return (*rest, length)


def _diagflat_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    size = count_elements(inputs[0])
    side = None if size is None else size + abs(attrs["k"])
    return inputs, [unify((side, side), outputs[0])]


def trace(context: Context, attrs: Attrs, x: Array) -> Array:
    """Sum a diagonal."""
    return np.asarray(
        np.trace(x, clamp_offset(attrs, x.shape), attrs["axis1"], attrs["axis2"], dtype=x.dtype)
    )


def clamp_offset(attrs: Attrs, shape: tuple[int, ...]) -> int:
    """Return a diagonal's offset, at most the nearest empty one: numpy crashes beyond."""
    return int(max(-shape[attrs["axis1"]], min(attrs["offset"], shape[attrs["axis2"]])))


def _trace_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    diagonal = _views(_diagonal)[1](attrs, inputs, [None])[1][0]
    return inputs, outputs if diagonal is None else [unify(diagonal[:-1], outputs[0])]


def reshape(context: Context, attrs: Attrs, x: Array) -> Array:
    """Reshape by ``newshape``."""
    return x.reshape(_infer_newshape(attrs, x.shape))


def _reshape_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None or not is_known(shape):
        return inputs, outputs
    return inputs, [unify(_infer_newshape(attrs, tuple(d or 0 for d in shape)), outputs[0])]


def _infer_newshape(attrs: Attrs, shape: tuple[int, ...]) -> tuple[int, ...]:
    codes = list(attrs["newshape"])
    # Only _npx_reshape has `reverse` and codes below -1.
    if "reverse" not in attrs and min(codes, default=0) < -1:
        raise KernelError(f"newshape {tuple(codes)} has a negative size other than -1")
    step = -1 if attrs.get("reverse") else 1
    result = _apply_codes(codes[::step], shape[::step])[::step]
    require(
        prod(result) == prod(shape), f"{format_shape(shape)} cannot become {format_shape(result)}"
    )
    return result


def _apply_codes(codes: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Apply the codes of ``_npx_reshape``.

    -1 infers a size, -2 keeps an axis, -3 drops one of size 1, -4 keeps the rest, -5 merges two, -6
    splits.
    """
    sizes: list[int] = []
    at, steps = 0, iter(codes)
    try:
        for code in steps:
            if code >= -1:
                sizes.append(code)
                at += 1
            elif code == -2:
                sizes.append(shape[at])
                at += 1
            elif code == -3:
                require(shape[at] == 1, f"-3 drops an axis of size 1, not of size {shape[at]}")
                at += 1
            elif code == -4:
                sizes += shape[at:]
                at = len(shape)
            elif code == -5:
                sizes.append(shape[at] * shape[at + 1])
                at += 2
            elif code == -6:
                sizes += _split(shape[at], next(steps), next(steps))
                at += 1
            else:
                raise KernelError(f"newshape has {code}; codes go from -1 to -6")
    except (IndexError, StopIteration):
        raise KernelError(
            f"newshape {tuple(codes)} needs more axes than {format_shape(shape)} has"
        ) from None
    if sizes.count(-1) > 1:
        raise KernelError(f"only one size of newshape may be -1, not {tuple(codes)}")
    if -1 in sizes:
        known = prod(d for d in sizes if d != -1)
        if not known or prod(shape) % known:
            raise KernelError(f"{format_shape(shape)} cannot become {format_shape(tuple(sizes))}")
        sizes[sizes.index(-1)] = prod(shape) // known
    return tuple(sizes)


def _split(size: int, left: int, right: int) -> tuple[int, int]:
    if left == right == -1 or 0 in (left, right):
        raise KernelError(f"an axis of {size} cannot be split into {left} and {right}")
    if left == -1:
        left = size // right
    elif right == -1:
        right = size // left
    require(left * right == size, f"an axis of {size} cannot be split into {left} and {right}")
    return left, right


def _at_least(rank: int) -> Kernel:
    view = (np.atleast_1d, np.atleast_2d, np.atleast_3d)[rank - 1]

    def forward(context: Context, attrs: Attrs, *arrays: Array) -> tuple[Array, ...]:
        return tuple(view(x) for x in arrays)

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        return inputs, [unify(_fill_rank(a), b) for a, b in zip(inputs, outputs, strict=False)]

    def _fill_rank(shape: Shape) -> Shape:
        if shape is None or len(shape) >= rank:
            return shape
        one: Dims = (1,) * (rank - len(shape))
        if rank == 3:  # (N,) becomes (1, N, 1), and (M, N) becomes (M, N, 1)
            return (1, *shape, 1)[3 - rank :] if len(shape) == 1 else (*shape, *one)
        return (*one, *shape)

    return Kernel(f"_np_atleast_{rank}d", forward, shapes, _own_dtypes)


def _own_dtypes(attrs: Attrs, inputs: Any, outputs: Any) -> Any:
    return inputs, [a or b for a, b in zip(inputs, outputs, strict=False)]


_VIEWS: dict[str, View] = {
    "_np_moveaxis": lambda attrs, x: np.moveaxis(x, attrs["source"], attrs["destination"]),
    "_np_squeeze": lambda attrs, x: np.squeeze(x, axis=attrs["axis"]) if x.ndim else x,
    "_npi_broadcast_to": _broadcast_to,
    "_npi_flip": lambda attrs, x: np.flip(x, attrs["axis"]),
    "_npi_rot90": _rot90,
    "_np_diagonal": _diagonal,
}

KERNELS = with_limits(
    Limits(rank=1),
    *(Kernel(operator, *_views(view), same_dtypes) for operator, view in _VIEWS.items()),
    *map(_at_least, (1, 2, 3)),
    Kernel("_np_copy", lambda context, attrs, x: x, same_shapes, same_dtypes),
    Kernel("_np_roll", roll, same_shapes, same_dtypes),
    Kernel(
        "_npi_tril", lambda context, attrs, x: np.tril(x, attrs["k"]), _tril_shapes, same_dtypes
    ),
    Kernel("_np_diag", diag, output_rule(_diag_shape), same_dtypes),
    Kernel("diag", diag, output_rule(_diag_shape), same_dtypes),
    Kernel(
        "_np_diagflat",
        lambda context, attrs, x: np.diagflat(x, attrs["k"]),
        _diagflat_shapes,
        same_dtypes,
    ),
    Kernel("_np_trace", trace, _trace_shapes, same_dtypes),
    Kernel("_np_reshape", reshape, _reshape_shapes, same_dtypes),
    Kernel("_npx_reshape", reshape, _reshape_shapes, same_dtypes),
)


def rot90_vjp(entry: TapeEntry, dy: Array) -> Array:
    """Rotate ``dy`` by ``k`` again, as in MXNet; the derivative would rotate by ``-k``."""
    with refuse_invalid_call():
        return np.rot90(dy, entry.attrs["k"], entry.attrs["axes"])


def trace_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` on the diagonal, zeros elsewhere."""
    dx, attrs = np.zeros_like(entry.inputs[0]), entry.attrs
    matrices = np.moveaxis(dx, (attrs["axis1"], attrs["axis2"]), (-2, -1))  # a view
    offset = clamp_offset(attrs, dx.shape)
    steps = np.arange(np.diagonal(matrices, offset, -2, -1).shape[-1])
    matrices[..., steps + max(0, -offset), steps + max(0, offset)] = dy[..., None]
    return np.asarray(dx)


GRADIENTS = (
    *(
        Gradient(name, restore_shape, reads_outputs=False)
        for name in ("_np_reshape", "_npx_reshape", "_np_squeeze", "_np_copy")
    ),
    *(
        Gradient(name, permutation_vjp(name), reads_outputs=False)
        for name in "diag _np_diag _np_diagflat _np_diagonal _np_roll _np_moveaxis _npi_flip _npi_tril".split()
    ),
    Gradient("_npi_rot90", rot90_vjp, reads_inputs=False, reads_outputs=False),
    Gradient("_npi_broadcast_to", sum_broadcast, reads_outputs=False),
    Gradient("_np_trace", trace_gradient, reads_outputs=False),
    *no_gradient(
        "MXNet's gradient of it is zero everywhere",
        "_np_atleast_1d",
        "_np_atleast_2d",
        "_np_atleast_3d",
    ),
)
