"""The same elements in another shape or order, and gradients.

Results are views where numpy has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

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
)
from graphshare.ops.limits import Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import (
    contradict,
    count_elements,
    dims_of_rank,
    first_dtype,
    is_known,
    normalize_axis,
    same_dtypes,
    same_shapes,
    unify,
    with_dim,
    without_axes,
)
from graphshare.text.format import format_count, format_shape

Order = Callable[[Attrs, int], Sequence[int]]


def _transpose_kernel(operator: str, order: Order) -> Kernel:
    """Output axis ``i`` is input axis ``order(attrs, rank)[i]``."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        axes = order(attrs, x.ndim)
        require(
            len(set(axes)) == x.ndim,
            f"axes {tuple(axes)} name an axis twice: MXNet leaves elements of the result unwritten",
        )
        return np.asarray(x.transpose(axes))

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        x, y = inputs[0], outputs[0]
        ranked = [shape for shape in (x, y, attrs.get("axes") or None) if shape is not None]
        if not ranked:
            return inputs, outputs
        rank = len(ranked[0])
        axes = list(order(attrs, rank))
        sizes = list(dims_of_rank(x, rank))
        y = dims_of_rank(unify(tuple(sizes[axis] for axis in axes), y), rank)
        # If an axis comes twice, another is missing: only the input gives its size.
        for axis in axes:
            sizes[axis] = y[axes.index(axis)]
        return [tuple(sizes)], [y]

    return Kernel(operator, forward, shapes, same_dtypes)


def transpose_axes(attrs: Attrs, rank: int) -> Sequence[int]:
    """Return as many axes as there are; if one comes twice, only the shape is known."""
    if not attrs["axes"]:
        return range(rank)[::-1]
    axes = [normalize_axis(axis, rank) for axis in attrs["axes"]]
    if len(axes) != rank:
        raise KernelError(
            f"axes {attrs['axes']} are not a permutation of the axes of an array with {format_count(rank, 'axis')}"
        )
    return axes


def np_transpose_axes(attrs: Attrs, rank: int) -> Sequence[int]:
    """Return the axes, reversed for None; () names no axis."""
    if attrs["axes"] == () and rank:
        raise KernelError(f"axes are (), expected {format_count(rank, 'axis')}")
    axes = transpose_axes(attrs, rank)
    require(len(set(axes)) == rank, f"axes {tuple(axes)} name an axis twice")
    return axes


def swap_axes(attrs: Attrs, rank: int) -> Sequence[int]:
    """Exchange ``dim1`` and ``dim2``."""
    axes = list(range(rank))
    one, other = normalize_axis(attrs["dim1"], rank), normalize_axis(attrs["dim2"], rank)
    axes[one], axes[other] = axes[other], axes[one]
    return axes


def reverse(context: Context, attrs: Attrs, x: Array) -> Array:
    """Reverse along ``axis``."""
    with refuse_invalid_call():
        return np.asarray(np.flip(x, tuple(normalize_axis(axis, x.ndim) for axis in attrs["axis"])))


def depth_to_space(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``(N, C, b*H, b*W)``: channel ``(i*b + j)*C + c`` is pixel ``(i, j)`` of a block."""
    b, (n, c, h, w) = attrs["block_size"], x.shape
    blocks = x.reshape(n, b, b, c // (b * b), h, w)
    return np.asarray(blocks.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b))


def space_to_depth(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``(N, b*b*C, H, W)``, the inverse of :func:`depth_to_space`."""
    b, (n, c, h, w) = attrs["block_size"], x.shape
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    return np.asarray(blocks.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b))


def _multiply_dim(size: Dim, factor: int) -> Dim:
    return None if size is None else size * factor


def _divide_dim(size: Dim, factor: int, what: str) -> Dim:
    if size is not None and size % factor:
        raise KernelError(f"{what} of size {size} cannot be divided into blocks of {factor}")
    return None if size is None else size // factor


def _depth_shape(shape: Shape, b: int) -> Dims:
    n, c, h, w = dims_of_rank(shape, 4)
    return n, _multiply_dim(c, b * b), _divide_dim(h, b, "axis 2"), _divide_dim(w, b, "axis 3")


def _space_shape(shape: Shape, b: int) -> Dims:
    n, c, h, w = dims_of_rank(shape, 4)
    return n, _divide_dim(c, b * b, "axis 1"), _multiply_dim(h, b), _multiply_dim(w, b)


def _depth_to_space_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    y = unify(_space_shape(inputs[0], attrs["block_size"]), outputs[0])
    return [unify(inputs[0], _depth_shape(y, attrs["block_size"]))], [y]


def _space_to_depth_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    y = unify(_depth_shape(inputs[0], attrs["block_size"]), outputs[0])
    return [unify(inputs[0], _space_shape(y, attrs["block_size"]))], [y]


def transpose_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Transpose ``dy`` by the inverse of ``axes``."""
    axes = entry.attrs["axes"]
    if not axes:
        return np.asarray(dy.transpose())
    return np.asarray(
        dy.transpose(np.argsort([normalize_axis(axis, dy.ndim) for axis in axes]).tolist())
    )


def swap_axes_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Swap the axes back."""
    return np.asarray(dy.swapaxes(entry.attrs["dim1"], entry.attrs["dim2"]))


def _product(sizes: Sequence[Dim]) -> Dim:
    return count_elements(tuple(sizes))


def _ratio(whole: Dim, part: Dim) -> Dim:
    """A remainder is a KernelError; the result is None where a size is unknown or ``part`` is 0."""
    if whole is None or not part:
        return None
    if whole % part:
        raise KernelError(
            f"{format_count(whole, 'element')} cannot be divided into groups of {part}"
        )
    return whole // part


def fill_by_size(shape: Shape, size: Dim) -> Shape:
    """Compute the only unknown size from the number of elements.

    Raises:
        KernelError: the known shape has another number of elements.
    """
    if shape is None or size is None:
        return shape
    unknown, elements = [i for i, d in enumerate(shape) if d is None], count_elements(shape)
    if elements is not None and elements != size:
        raise KernelError(
            f"{format_shape(shape)} has {format_count(elements, 'element')}, expected {size}"
        )
    if len(unknown) != 1:
        return shape
    rest = prod(d for d in shape if d is not None)
    return tuple(_ratio(size, rest) if d is None else d for d in shape)


def _split(size: Dim, first: int, second: int) -> tuple[Dim, Dim]:
    if first == -1 and second == -1:
        raise KernelError("only one of the two sizes after -4 may be -1")
    if first == -1:
        return _ratio(size, second), second
    if second == -1:
        return first, _ratio(size, first)
    if size is not None and first * second != size:
        raise KernelError(f"an axis of size {size} cannot be split into {first} and {second}")
    return first, second


def infer_shape(shape: Dims, codes: Sequence[int], *, reverse: bool = False) -> Dims:
    """Apply Reshape's codes to a perhaps partly unknown ``shape``.

    A positive code is a size, 0 keeps the axis, -1 takes the remaining elements, -2 keeps all
    further axes, -3 merges two axes, and -4 splits one into the next two sizes. ``reverse`` reads
    both from the right.

    Raises:
        KernelError: the codes ask for missing axes, or sizes that do not fit.
    """
    if reverse:
        return infer_shape(shape[::-1], codes[::-1])[::-1]
    sizes: list[Dim] = []
    covered: set[int] = set()  # axes of the input whose whole size is in the output already
    stated, inferred, at, i = 1, -1, 0, 0
    while i < len(codes):
        code = codes[i]
        needed = {0: 1, -3: 2, -4: 1}.get(code, 0)
        if needed and at + needed > len(shape):
            raise KernelError(
                f"code {code} at position {i} of {tuple(codes)} has no axis left in {format_shape(shape)}"
            )
        if code == -1:
            if inferred >= 0:
                raise KernelError(f"only one size may be -1, not {tuple(codes)}")
            # For later codes, -1 consumes one input axis.
            inferred = len(sizes)
            sizes.append(None)
            at += 1
        elif code == -2:
            covered.update(range(at, len(shape)))
            sizes.extend(shape[at:])
            at = max(at, len(shape))
        elif code == -4:
            require(i + 2 < len(codes), "-4 is followed by two sizes")
            covered.add(at)
            sizes.extend(_split(shape[at], codes[i + 1], codes[i + 2]))
            at, i = at + 1, i + 2
        elif code in (0, -3):
            covered.update(range(at, at + needed))
            sizes.append(_product(shape[at : at + needed]))
            at += needed
        elif code > 0:
            stated *= code
            sizes.append(code)
            at += 1
        else:
            raise KernelError(
                f"{code} is not a code of Reshape; the codes are 0, -1, -2, -3 and -4"
            )
        i += 1
    if inferred >= 0:
        sizes[inferred] = _ratio(_product(without_axes(shape, covered)), stated)
    return tuple(sizes)


def _by_target_shape(shape: Dims, attrs: Attrs) -> Dims:
    """Apply the deprecated ``target_shape``; 0 is inferred, ``keep_highest`` keeps axis 0."""
    wanted: list[Dim] = list(attrs["target_shape"])
    kept = bool(attrs["keep_highest"] and wanted)
    if kept:
        require(shape, "an array without axes has no axis 0 to keep")
        wanted[0] = shape[0]
    first = 1 if kept else 0
    open_axes = [axis for axis in range(first, len(wanted)) if wanted[axis] == 0]
    if len(open_axes) == 1:
        (axis,) = open_axes
        rest = _product([*wanted[first:axis], *wanted[axis + 1 :]])
        wanted[axis] = _ratio(_product(shape[first:]), rest)
    return tuple(wanted)


def _reshape_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x, y = inputs[0], outputs[0]
    if x is None:
        return inputs, outputs
    if attrs["shape"]:
        y = unify(infer_shape(x, attrs["shape"], reverse=attrs["reverse"]), y)
        x = _copy_kept_axes(x, y, attrs)
    elif attrs["target_shape"]:
        y = unify(_by_target_shape(x, attrs), y)
    y = fill_by_size(y, count_elements(x))
    return [fill_by_size(x, count_elements(y))], [y]


def _copy_kept_axes(x: Dims, y: Shape, attrs: Attrs) -> Dims:
    """Complete ``x`` from ``y`` on axes kept by leading (``reverse``: trailing) zeros."""
    if y is None:
        return x
    codes, step = attrs["shape"], -1 if attrs["reverse"] else 1
    sizes = list(x)[::step]
    for i, code in enumerate(codes[::step]):
        if code != 0:
            break
        if sizes[i] is None:
            sizes[i] = y[::step][i]
    return tuple(sizes[::step])


def reshape(context: Context, attrs: Attrs, x: Array) -> Array:
    """Reshape by ``shape``, else the deprecated ``target_shape``."""
    if attrs["shape"]:
        wanted = infer_shape(x.shape, attrs["shape"], reverse=attrs["reverse"])
    else:
        wanted = _by_target_shape(x.shape, attrs) if attrs["target_shape"] else x.shape
    with refuse_invalid_call():
        return x.reshape([d or 0 for d in wanted])


def flatten(context: Context, attrs: Attrs, x: Array) -> Array:
    """Merge all axes but the first."""
    return x.reshape(x.shape[0], prod(x.shape[1:]))


def _flatten_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, [unify((None, None), outputs[0])]
    require(x, "an array without axes cannot be flattened")
    first, rest = dims_of_rank(unify((x[0], _product(x[1:])), outputs[0]), 2)
    return [(first, *(fill_by_size(x[1:], rest) or ()))], [(first, rest)]


def _span(begin: int | None, end: int | None, rank: int) -> tuple[int, int]:
    first = 0 if begin is None else begin + rank * (begin < 0)
    last = rank if end is None else end + rank * (end < 0)
    if not 0 <= first < last <= rank:
        raise KernelError(
            f"begin {begin} and end {end} select no axes of an array with {format_count(rank, 'axis')}"
        )
    return first, last


def _like(attrs: Attrs, x: Dims, y: Dims) -> Dims:
    begin, end = _span(attrs["lhs_begin"], attrs["lhs_end"], len(x))
    first, last = _span(attrs["rhs_begin"], attrs["rhs_end"], len(y))
    replaced, by = _product(x[begin:end]), _product(y[first:last])
    if contradict(replaced, by):
        raise KernelError(
            f"{format_shape(x[begin:end])} cannot take the shape {format_shape(y[first:last])}"
        )
    return x[:begin] + y[first:last] + x[end:]


def reshape_like(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """Reshape axes lhs_begin to lhs_end of ``x`` like axes rhs_begin to rhs_end of ``y``."""
    return x.reshape([d or 0 for d in _like(attrs, x.shape, y.shape)])


def _reshape_like_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x, y = inputs
    if y is None:
        return inputs, outputs
    if x is not None:
        out = unify(_like(attrs, x, y), outputs[0])
    elif any(value is not None for value in attrs.values()):
        return inputs, outputs
    else:
        out = unify(y, outputs[0])
    return [fill_by_size(x, count_elements(out)), y], [out]


def expand_dims(context: Context, attrs: Attrs, x: Array) -> Array:
    """Insert an axis of size 1; a negative ``axis`` counts in the result."""
    return np.asarray(np.expand_dims(x, normalize_axis(attrs["axis"], x.ndim + 1)))


def _expand_dims_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x, y = inputs[0], outputs[0]
    if x is not None:
        at = normalize_axis(attrs["axis"], len(x) + 1)
        y = unify((*x[:at], 1, *x[at:]), y)
    if y is None:
        return inputs, outputs
    at = normalize_axis(attrs["axis"], len(y))
    inserted = with_dim((None,) * len(y), at, 1)
    return [unify(x, without_axes(y, [at]))], [unify(y, inserted)]


def _axes_to_squeeze(attrs: Attrs, shape: Dims) -> list[int]:
    if attrs["axis"] is None:
        return [i for i, d in enumerate(shape) if d == 1]
    axes = [normalize_axis(axis, len(shape)) for axis in attrs["axis"]]
    require(len(set(axes)) == len(axes), f"axis {attrs['axis']} names an axis twice")
    return sorted(axes)


def _squeeze_shape(attrs: Attrs, shape: Dims) -> Dims:
    gone = _axes_to_squeeze(attrs, shape)
    for axis in gone:
        if shape[axis] not in (1, None):
            raise KernelError(
                f"axis {axis} of {format_shape(shape)} has size {shape[axis]}; only axes of size 1 can be squeezed"
            )
    return without_axes(shape, gone) or (1,)


def squeeze(context: Context, attrs: Attrs, x: Array) -> Array:
    """Remove all axes of size 1, or ``axis``; one axis at least remains."""
    return x.reshape([d or 0 for d in _squeeze_shape(attrs, x.shape)])


def _squeeze_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    # Which axes have size 1 is known once all sizes are.
    if x is None or (attrs["axis"] is None and not is_known(x)):
        return inputs, outputs
    y = unify(_squeeze_shape(attrs, x), outputs[0])
    gone = _axes_to_squeeze(attrs, x)
    if y is not None and len(gone) + len(y) == len(x):
        rest = iter(y)
        x = tuple(1 if i in gone else next(rest) for i in range(len(x)))
    return [x], [y]


KERNELS = (
    *with_limits(
        Limits(positive=("block_size",)),
        _transpose_kernel("transpose", transpose_axes),
        _transpose_kernel("_np_transpose", np_transpose_axes),
        _transpose_kernel("SwapAxis", swap_axes),
        Kernel("reverse", reverse, same_shapes, same_dtypes),
        Kernel("depth_to_space", depth_to_space, _depth_to_space_shapes, same_dtypes),
        Kernel("space_to_depth", space_to_depth, _space_to_depth_shapes, same_dtypes),
    ),
    Kernel("Reshape", reshape, _reshape_shapes, same_dtypes),
    Kernel("Flatten", flatten, _flatten_shapes, same_dtypes),
    Kernel("reshape_like", reshape_like, _reshape_like_shapes, first_dtype),
    Kernel("expand_dims", expand_dims, _expand_dims_shapes, same_dtypes),
    Kernel("squeeze", squeeze, _squeeze_shapes, same_dtypes),
)


def restore_shape(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` in the input's shape."""
    return np.asarray(dy.reshape(entry.inputs[0].shape))


GRADIENTS = (
    Gradient("transpose", transpose_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("_np_transpose", transpose_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("SwapAxis", swap_axes_gradient, reads_inputs=False, reads_outputs=False),
    Gradient(
        "reverse",
        lambda entry, dy: reverse(Context(), entry.attrs, dy),
        reads_inputs=False,
        reads_outputs=False,
    ),
    *(
        Gradient(name, permutation_vjp(name), reads_outputs=False)
        for name in ("depth_to_space", "space_to_depth")
    ),
    *(
        Gradient(name, restore_shape, reads_outputs=False)
        for name in ("Reshape", "Flatten", "reshape_like", "expand_dims", "squeeze")
    ),
)
