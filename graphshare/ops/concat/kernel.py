"""Several arrays into one along an axis, and one into several."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import require
from graphshare.ops.unification import axis_of, dims_of_rank, is_known, same_dtypes, size_of, unify
from graphshare.text.format import format_shape

Dims = tuple[Dim, ...]


def _with(shape: Dims, axis: int, size: Dim) -> Dims:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _common(shapes: Sequence[Shape], axis: int) -> Dims | None:
    """What all shapes agree on beside ``axis``, which is left unknown; None where no rank is known."""
    found: Shape = None
    for shape in shapes:
        if shape is not None:
            found = unify(found, _with(shape, axis_of(axis, len(shape)), None))
    return found


def _unify_along(axis: int, inputs: Shapes, output: Shape) -> tuple[Shapes, Shapes]:
    """Inputs side by side along ``axis``; one unknown size there follows from the output's."""
    common = _common((*inputs, output), axis)
    if common is None:
        return inputs, [output]
    at = axis_of(axis, len(common))
    found = [dims_of_rank(unify(shape, common), len(common)) for shape in inputs]
    sizes = [shape[at] for shape in found]
    known = sum(size for size in sizes if size is not None)
    output = dims_of_rank(unify(output, _with(common, at, None if None in sizes else known)), len(common))
    whole = output[at]
    if whole is not None and known > whole:
        raise KernelError(f"inputs with {known} along axis {at} do not fit an output with {whole}")
    if whole is not None and sizes.count(None) == 1:
        missing = sizes.index(None)
        found[missing] = _with(found[missing], at, whole - known)
    return found, [output]


def _concat_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _unify_along(attrs["dim"], inputs, outputs[0])


def concat(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """One behind the other along the axis ``dim``."""
    axis, shape = attrs["dim"], list(inputs[0].shape)
    if not -len(shape) <= axis < len(shape) or len({x.ndim for x in inputs}) > 1:
        return np.concatenate(inputs, axis=axis)  # which says what is wrong
    shape[axis] = sum(x.shape[axis] for x in inputs)
    return np.concatenate(inputs, axis=axis, out=context.empty(shape, np.result_type(*inputs)))


def concatenate(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """As :func:`concat` along ``axis``; with none, of the inputs made flat."""
    return np.concatenate(inputs, axis=attrs["axis"])


def concatenate_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Along ``axis`` added up; with none, all sizes as one."""
    if attrs["axis"] is not None:
        return _unify_along(attrs["axis"], inputs, outputs[0])
    sizes = [size_of(shape) for shape in inputs]
    whole = None if None in sizes else sum(size for size in sizes if size is not None)
    return inputs, [unify((whole,), outputs[0])]


def stack(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """One behind the other along a new axis."""
    return np.stack(inputs, axis=attrs["axis"])


def stack_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """The shape that all inputs share, with a new axis."""
    each: Shape = None
    for shape in inputs:
        each = unify(each, shape)
    output = outputs[0]
    if output is not None:
        at = axis_of(attrs["axis"], len(output))
        each = unify(each, output[:at] + output[at + 1 :])
    if each is not None:
        at = axis_of(attrs["axis"], len(each) + 1)
        output = unify((*each[:at], len(inputs), *each[at:]), output)
    return [each] * len(inputs), [output]


def _parts(attrs: Attrs, size: int) -> list[tuple[int, int]]:
    """Where each output of _split_v2 begins and ends on an axis of this size."""
    count = attrs["sections"]
    if count > 0:
        if size % count:
            raise KernelError(f"an axis of size {size} cannot be split into {count} equal parts")
        return [(i * size // count, (i + 1) * size // count) for i in range(count)]
    bounds = [*attrs["indices"], size]
    spans = list(itertools.pairwise(bounds))
    if any(not 0 <= begin < end for begin, end in spans):
        raise KernelError(f"indices {attrs['indices']} must rise and stay below the axis's size {size}")
    return spans


def _take_part(x: Array, axis: int, begin: int, end: int, *, squeeze: bool) -> Array:
    where: list[slice | int] = [slice(None)] * x.ndim
    if squeeze and end - begin != 1:
        raise KernelError(f"a part with {end - begin} along axis {axis} cannot be squeezed; parts of size 1 can")
    where[axis] = begin if squeeze else slice(begin, end)
    part: Array = x[tuple(where)]
    return part if part.ndim else part.reshape(1)


def split(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Parts along ``axis``: ``sections`` equal ones, or beginning at ``indices`` (the first of which is 0)."""
    axis = axis_of(attrs["axis"], x.ndim)
    return tuple(_take_part(x, axis, *span, squeeze=attrs["squeeze_axis"]) for span in _parts(attrs, x.shape[axis]))


def slice_channel(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """``num_outputs`` equal parts along ``axis``."""
    return split(context, _equal_parts(attrs), x)


def _equal_parts(attrs: Attrs) -> Attrs:
    return {**attrs, "indices": (), "sections": attrs["num_outputs"]}


def split_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Parts along an axis, forwards, and backwards from parts of which all are known along it."""
    x = inputs[0]
    count = attrs["sections"] if attrs["sections"] > 0 else len(attrs["indices"])
    parts = [*outputs, *[None] * (count - len(outputs))][:count]
    squeeze = attrs["squeeze_axis"]
    if x is None:
        rank = next((len(part) + squeeze for part in parts if part is not None and part != (1,)), None)
        if rank is None:
            return inputs, parts
        x = (None,) * rank
    at = axis_of(attrs["axis"], len(x))
    along: list[Dim] = []
    for part in parts:
        along.append(1 if squeeze else None if part is None else part[at])
        if part is not None and len(part) + squeeze == len(x):
            beside = part if squeeze else part[:at] + part[at + 1 :]
            x = dims_of_rank(unify(x, (*beside[:at], None, *beside[at:])), len(x))
    x = _with(x, at, _whole_size(attrs, x[at], along))
    size = x[at]
    sizes: list[Dim] = [None] * count if size is None else [end - begin for begin, end in _parts(attrs, size)]
    if squeeze and any(d not in (1, None) for d in sizes):
        raise KernelError(f"parts of {format_shape(x)} with {sizes[0]} along axis {at} cannot be squeezed; parts of size 1 can")
    cut = [x[:at] + x[at + 1 :] or (1,) if squeeze else _with(x, at, d) for d in sizes]
    return [x], [unify(a, b) for a, b in zip(cut, parts, strict=True)]


def _whole_size(attrs: Attrs, size: Dim, parts: Sequence[Dim]) -> Dim:
    """The size along the axis that is split."""
    if size is not None:
        return size
    if attrs["sections"] > 0:
        known = next((d for d in parts if d is not None), None)
        return None if known is None else known * attrs["sections"]
    return None if not parts or parts[-1] is None else attrs["indices"][-1] + parts[-1]


def _slice_channel_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return split_shapes(_equal_parts(attrs), inputs, outputs)


def _crop_shape(attrs: Attrs, shapes: Shapes) -> Dims:
    """The shape of the crop: height and width of the second input, or of ``h_w``."""
    n, c, height, width = dims_of_rank(shapes[0], 4)
    if len(shapes) > 1:
        h, w = dims_of_rank(shapes[1], 4)[2:]
    else:
        h, w = dims_of_rank(attrs["h_w"], 2)
        if not h or not w:
            raise KernelError(f"h_w is {attrs['h_w']} where a height and a width are wanted")
    for size, part in ((height, h), (width, w)):
        if size is not None and part is not None and part > size:
            raise KernelError(f"a part of size {part} cannot be cropped out of {size}")
    return n, c, h, w


def crop(context: Context, attrs: Attrs, x: Array, *like: Array) -> Array:
    """A window of ``(N, C, H, W)``: in the middle with ``center_crop``, else from ``offset`` (y, x) on."""
    h, w = (d or 0 for d in _crop_shape(attrs, [x.shape, *(y.shape for y in like)])[2:])
    require(len(attrs["offset"]) == 2, f"offset {attrs['offset']} must be a row and a column")
    top, left = attrs["offset"]
    if attrs["center_crop"]:
        top, left = (x.shape[2] - h) // 2, (x.shape[3] - w) // 2
    if top + h > x.shape[2] or left + w > x.shape[3]:
        raise KernelError(f"a window of {format_shape((h, w))} at {format_shape((top, left))} leaves {format_shape(x.shape)}")
    result: Array = x[:, :, top : top + h, left : left + w]
    return result


def _crop_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    output = dims_of_rank(unify(_crop_shape(attrs, inputs), outputs[0]), 4)
    first = unify(inputs[0], (*output[:2], None, None))
    if len(inputs) == 1 or is_known(inputs[1]):
        return [first, *inputs[1:]], [output]
    return [first, unify(inputs[1], (None, None, *output[2:]))], [output]


KERNELS = (
    Kernel("Concat", concat, _concat_shapes, same_dtypes),
    Kernel("_rnn_param_concat", concat, _concat_shapes, same_dtypes),
    Kernel("_npi_concatenate", concatenate, concatenate_shapes, same_dtypes),
    Kernel("stack", stack, stack_shapes, same_dtypes),
    Kernel("SliceChannel", slice_channel, _slice_channel_shapes, same_dtypes),
    Kernel("_split_v2", split, split_shapes, same_dtypes),
    Kernel("Crop", crop, _crop_shapes, same_dtypes),
)
