"""The same elements under another shape, and the gradients. Results are views of the input wherever numpy has one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import refuse_invalid_call, require
from graphshare.ops.reshape.transpose import GRADIENTS as TRANSPOSE_GRADIENTS
from graphshare.ops.reshape.transpose import KERNELS as TRANSPOSE_KERNELS
from graphshare.ops.unification import axis_of, dims_of_rank, first_dtype, is_known, same_dtypes, size_of, unify
from graphshare.text.format import format_count, format_shape

Dims = tuple[Dim, ...]


def _product(sizes: Sequence[Dim]) -> Dim:
    return size_of(tuple(sizes))


def _ratio(whole: Dim, part: Dim) -> Dim:
    """``whole / part``, None where either is unknown or nothing follows.

    Raises:
        KernelError: ``part`` does not divide ``whole``.
    """
    if whole is None or not part:
        return None
    if whole % part:
        raise KernelError(f"{format_count(whole, 'element')} cannot be divided into groups of {part}")
    return whole // part


def fill_by_size(shape: Shape, size: Dim) -> Shape:
    """``shape`` with its only unknown dimension taken from the number of elements.

    Raises:
        KernelError: the shape is known and has another number of elements.
    """
    if shape is None or size is None:
        return shape
    unknown, elements = [i for i, d in enumerate(shape) if d is None], size_of(shape)
    if elements is not None and elements != size:
        raise KernelError(f"{format_shape(shape)} has {format_count(elements, 'element')} where {size} are wanted")
    if len(unknown) != 1:
        return shape
    rest = prod(d for d in shape if d is not None)
    return tuple(_ratio(size, rest) if d is None else d for d in shape)


def _split(size: Dim, first: int, second: int) -> tuple[Dim, Dim]:
    if first == -1 and second == -1:
        raise KernelError("of the two sizes behind -4 only one may be -1")
    if first == -1:
        return _ratio(size, second), second
    if second == -1:
        return first, _ratio(size, first)
    if size is not None and first * second != size:
        raise KernelError(f"an axis of size {size} cannot be split into {first} and {second}")
    return first, second


def infer_shape(shape: Dims, codes: Sequence[int], *, reverse: bool = False) -> Dims:
    """What the codes of Reshape make of ``shape``, as far as it is known.

    A positive code is a size, 0 keeps the axis, -1 takes what is left, -2 keeps all further axes, -3 merges two axes, and
    -4 splits one into the next two sizes. ``reverse`` reads both from the right.

    Raises:
        KernelError: the codes ask for axes that are not there, or for sizes that do not fit.
    """
    if reverse:
        return infer_shape(shape[::-1], codes[::-1])[::-1]
    found: list[Dim] = []
    covered: set[int] = set()  # axes of the input that stand in the output with all they hold
    stated, inferred, at, i = 1, -1, 0, 0
    while i < len(codes):
        code = codes[i]
        needed = {0: 1, -3: 2, -4: 1}.get(code, 0)
        if needed and at + needed > len(shape):
            raise KernelError(f"code {code} at place {i} of {tuple(codes)} finds no axis left in {format_shape(shape)}")
        if code == -1:
            if inferred >= 0:
                raise KernelError(f"only one size may be -1, not {tuple(codes)}")
            inferred = len(found)
            found.append(None)
            at += 1
        elif code == -2:
            covered.update(range(at, len(shape)))
            found.extend(shape[at:])
            at = max(at, len(shape))
        elif code == -4:
            if i + 2 >= len(codes):
                raise KernelError("-4 is followed by two sizes")
            covered.add(at)
            found.extend(_split(shape[at], codes[i + 1], codes[i + 2]))
            at, i = at + 1, i + 2
        elif code in (0, -3):
            covered.update(range(at, at + needed))
            found.append(_product(shape[at : at + needed]))
            at += needed
        elif code > 0:
            stated *= code
            found.append(code)
            at += 1
        else:
            raise KernelError(f"{code} is not a code of Reshape; the codes are 0, -1, -2, -3 and -4")
        i += 1
    if inferred >= 0:
        found[inferred] = _ratio(_product([d for axis, d in enumerate(shape) if axis not in covered]), stated)
    return tuple(found)


def _by_target_shape(shape: Dims, attrs: Attrs) -> Dims:
    """The deprecated way: 0 is inferred, ``keep_highest`` keeps axis 0."""
    wanted: list[Dim] = list(attrs["target_shape"])
    kept = bool(attrs["keep_highest"] and wanted)
    if kept:
        require(shape, "an array without axes has no axis 0 to keep")
        wanted[0] = shape[0]
    open_axes = [i for i in range(kept, len(wanted)) if wanted[i] == 0]
    if len(open_axes) == 1:
        rest = _product([d for i, d in enumerate(wanted) if i != open_axes[0] and not (kept and i == 0)])
        wanted[open_axes[0]] = _ratio(_product(shape[1:] if kept else shape), rest)
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
    y = fill_by_size(y, size_of(x))
    return [fill_by_size(x, size_of(y))], [y]


def _copy_kept_axes(x: Dims, y: Shape, attrs: Attrs) -> Dims:
    """``x`` with the axes that the leading (or, reversed, trailing) zeros keep, from ``y``."""
    if y is None:
        return x
    codes, step = attrs["shape"], -1 if attrs["reverse"] else 1
    found = list(x)[::step]
    for i, code in enumerate(codes[::step]):
        if code != 0:
            break
        found[i] = y[::step][i] if found[i] is None else found[i]
    return tuple(found[::step])


def reshape(context: Context, attrs: Attrs, x: Array) -> Array:
    """Another shape by the codes of ``shape``, else by the deprecated ``target_shape``."""
    if attrs["shape"]:
        wanted = infer_shape(x.shape, attrs["shape"], reverse=attrs["reverse"])
    else:
        wanted = _by_target_shape(x.shape, attrs) if attrs["target_shape"] else x.shape
    with refuse_invalid_call():
        return x.reshape([d or 0 for d in wanted])


def flatten(context: Context, attrs: Attrs, x: Array) -> Array:
    """Axis 0 stays, all others become one."""
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
        raise KernelError(f"axes {begin} to {end} of an array with {format_count(rank, 'axis')}")
    return first, last


def _like(attrs: Attrs, x: Dims, y: Dims) -> Dims:
    """The shape of ``x`` with its axes from lhs_begin to lhs_end replaced by those of ``y`` from rhs_begin to rhs_end."""
    begin, end = _span(attrs["lhs_begin"], attrs["lhs_end"], len(x))
    first, last = _span(attrs["rhs_begin"], attrs["rhs_end"], len(y))
    replaced, by = _product(x[begin:end]), _product(y[first:last])
    if replaced is not None and by is not None and replaced != by:
        raise KernelError(f"{format_shape(x[begin:end])} cannot take the shape {format_shape(y[first:last])}")
    return x[:begin] + y[first:last] + x[end:]


def reshape_like(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """The elements of ``x``, axes lhs_begin to lhs_end in the shape of the axes rhs_begin to rhs_end of ``y``."""
    return x.reshape([d or 0 for d in _like(attrs, x.shape, y.shape)])


def _reshape_like_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x, y = inputs
    if y is None or (x is None and any(value is not None for value in attrs.values())):
        return inputs, outputs
    out = unify(y if x is None else _like(attrs, x, y), outputs[0])
    return [fill_by_size(x, size_of(out)), y], [out]


def expand_dims(context: Context, attrs: Attrs, x: Array) -> Array:
    """A new axis of size 1 before axis ``axis``; negative ones count in the result."""
    return np.asarray(np.expand_dims(x, axis_of(attrs["axis"], x.ndim + 1)))


def _expand_dims_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x, y = inputs[0], outputs[0]
    if x is not None:
        at = axis_of(attrs["axis"], len(x) + 1)
        y = unify((*x[:at], 1, *x[at:]), y)
    if y is None:
        return inputs, outputs
    at = axis_of(attrs["axis"], len(y))
    return [unify(x, y[:at] + y[at + 1 :])], [unify(y, (None,) * at + (1,) + (None,) * (len(y) - at - 1))]


def _axes_to_squeeze(attrs: Attrs, shape: Dims) -> list[int]:
    if attrs["axis"] is None:
        return [i for i, d in enumerate(shape) if d == 1]
    axes = [axis_of(axis, len(shape)) for axis in attrs["axis"]]
    require(len(set(axes)) == len(axes), f"axis {attrs['axis']} names an axis twice")
    return sorted(axes)


def _squeeze_shape(attrs: Attrs, shape: Dims) -> Dims:
    gone = _axes_to_squeeze(attrs, shape)
    for axis in gone:
        if shape[axis] not in (1, None):
            raise KernelError(
                f"axis {axis} of {format_shape(shape)} has size {shape[axis]}; only axes of size 1 can be squeezed"
            )
    return tuple(d for i, d in enumerate(shape) if i not in gone) or (1,)


def squeeze(context: Context, attrs: Attrs, x: Array) -> Array:
    """Without the axes of size 1, all or those of ``axis``; one axis stays at least."""
    return x.reshape([d or 0 for d in _squeeze_shape(attrs, x.shape)])


def _squeeze_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None or (attrs["axis"] is None and not is_known(x)):
        return inputs, outputs
    y = unify(_squeeze_shape(attrs, x), outputs[0])
    gone = _axes_to_squeeze(attrs, x)
    if y is not None and len(gone) + len(y) == len(x):
        rest = iter(y)
        x = tuple(1 if i in gone else next(rest) for i in range(len(x)))
    return [x], [y]


KERNELS = (
    *TRANSPOSE_KERNELS,
    Kernel("Reshape", reshape, _reshape_shapes, same_dtypes),
    Kernel("Flatten", flatten, _flatten_shapes, same_dtypes),
    Kernel("reshape_like", reshape_like, _reshape_like_shapes, first_dtype),
    Kernel("expand_dims", expand_dims, _expand_dims_shapes, same_dtypes),
    Kernel("squeeze", squeeze, _squeeze_shapes, same_dtypes),
)


def restore_shape(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` in the shape of the input."""
    return np.asarray(dy.reshape(entry.inputs[0].shape))


GRADIENTS = (
    *TRANSPOSE_GRADIENTS,
    *(
        Gradient(name, restore_shape, reads_outputs=False)
        for name in ("Reshape", "Flatten", "reshape_like", "expand_dims", "squeeze")
    ),
)
