"""Concatenation, splitting along an axis, cropping, and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    NP_SHAPE,
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
from graphshare.ops.limits import require
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import (
    count_elements,
    dims_of_rank,
    exceeds,
    is_known,
    normalize_axis,
    same_dtypes,
    same_shapes,
    sum_if_known,
    unify,
    with_dim,
    without_axes,
)
from graphshare.text.format import format_shape


def _infer_along(axis: int, inputs: Shapes, output: Shape) -> tuple[Shapes, Shapes]:
    """The output determines one unknown size along ``axis``."""
    common: Shape = None
    for shape in (*inputs, output):
        if shape is not None:
            common = unify(common, with_dim(shape, normalize_axis(axis, len(shape)), None))
    if common is None:
        return inputs, [output]
    at = normalize_axis(axis, len(common))
    shapes = [dims_of_rank(unify(shape, common), len(common)) for shape in inputs]
    sizes = [shape[at] for shape in shapes]
    known = sum(size for size in sizes if size is not None)
    output = dims_of_rank(
        unify(output, with_dim(common, at, None if None in sizes else known)), len(common)
    )
    whole = output[at]
    if exceeds(known, whole):
        raise KernelError(f"inputs with {known} along axis {at} do not fit an output with {whole}")
    if whole is not None and sizes.count(None) == 1:
        missing = sizes.index(None)
        shapes[missing] = with_dim(shapes[missing], at, whole - known)
    return shapes, [output]


def infer_concat_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the sum of the sizes along ``dim``."""
    return _infer_along(attrs["dim"], inputs, outputs[0])


def _infer_parameter_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Two unknown sizes (a bidirectional RNN's weights) are equal."""
    shapes, (output,) = infer_concat_shapes(attrs, inputs, outputs)
    known = [shape for shape in shapes if shape is not None]
    if output is None or len(known) < len(shapes):
        return shapes, [output]
    at = normalize_axis(attrs["dim"], len(output))
    sizes = [shape[at] for shape in known]
    whole = output[at]
    if whole is None or sizes.count(None) != 2:
        return shapes, [output]
    share = (whole - sum(size for size in sizes if size is not None)) // 2
    filled = [with_dim(shape, at, share if shape[at] is None else shape[at]) for shape in known]
    return filled, [output]


def concat(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """Concatenate along ``dim``."""
    axis, shape = attrs["dim"], list(inputs[0].shape)
    if not -len(shape) <= axis < len(shape) or len({x.ndim for x in inputs}) > 1:
        return np.concatenate(inputs, axis=axis)  # raises an error that names the fault
    shape[axis] = sum(x.shape[axis] for x in inputs)
    return np.concatenate(inputs, axis=axis, out=context.empty(shape, np.result_type(*inputs)))


def concatenate(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """Concatenate along ``axis``, or flattened if it is None."""
    return np.concatenate(inputs, axis=attrs["axis"])


def concatenate_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the sum of sizes along ``axis``, or for None of all sizes."""
    if attrs["axis"] is not None:
        return _infer_along(attrs["axis"], inputs, outputs[0])
    sizes = [count_elements(shape) for shape in inputs]
    return inputs, [unify((sum_if_known(sizes),), outputs[0])]


def stack(context: Context, attrs: Attrs, *inputs: Array) -> Array:
    """Concatenate along a new axis."""
    return np.stack(inputs, axis=attrs["axis"])


def stack_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the inputs' common shape, and the output's with a new axis."""
    (each, *_), _ = same_shapes(attrs, inputs, [])
    output = outputs[0]
    if output is not None:
        at = normalize_axis(attrs["axis"], len(output))
        each = unify(each, without_axes(output, [at]))
    if each is not None:
        at = normalize_axis(attrs["axis"], len(each) + 1)
        output = unify((*each[:at], len(inputs), *each[at:]), output)
    return [each] * len(inputs), [output]


def number_of_sections(attrs: Attrs) -> int:
    """Return the number of equal parts; 0 or less if ``indices`` say where parts begin."""
    count: int = attrs["num_outputs"] if "num_outputs" in attrs else attrs["sections"]
    return count


def part_spans(attrs: Attrs, size: int) -> list[tuple[int, int]]:
    """Return (begin, end) of each part on an axis of ``size``."""
    count = number_of_sections(attrs)
    if count > 0:
        if size % count:
            raise KernelError(f"an axis of size {size} cannot be split into {count} equal parts")
        return [(i * size // count, (i + 1) * size // count) for i in range(count)]
    # MXNet ignores the indices of an empty axis.
    if size == 0:
        return [(0, 0)] * len(attrs["indices"])
    bounds = [*attrs["indices"], size]
    require(
        bounds[0] == 0,
        f"indices {attrs['indices']} must begin with 0: the parts together are the axis",
    )
    spans = list(itertools.pairwise(bounds))
    if any(not 0 <= begin < end for begin, end in spans):
        raise KernelError(
            f"indices {attrs['indices']} must be ascending and less than the size of the axis, {size}"
        )
    return spans


def _take_part(
    x: Array, axis: int, begin: int, end: int, *, squeeze: bool, single: tuple[int, ...]
) -> Array:
    index: list[slice | int] = [slice(None)] * x.ndim
    if squeeze and end - begin != 1:
        raise KernelError(f"axis {axis} of a part has size {end - begin}, expected 1 to squeeze it")
    index[axis] = begin if squeeze else slice(begin, end)
    part: Array = x[tuple(index)]
    return part if part.ndim else part.reshape(single)


def split(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Split along ``axis`` into equal parts, or at ``indices`` (the first is 0)."""
    axis = normalize_axis(attrs["axis"], x.ndim)
    # Without NumPy shapes a lone number has shape (1).
    options = {
        "squeeze": attrs["squeeze_axis"],
        "single": () if context.shapes and context.shapes[0] == () else (1,),
    }
    return tuple(_take_part(x, axis, *span, **options) for span in part_spans(attrs, x.shape[axis]))


def _open_by_parts(parts: Shapes, squeeze: bool) -> Shape:
    """Return a shape of the parts' rank with unknown sizes; None without a rank."""
    for part in parts:
        # A squeezed part of shape (1) may stand for a number, with one axis less.
        if part is not None and part != (1,):
            return (None,) * (len(part) + squeeze)
    return None


def split_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the parts, and the input from parts of known size."""
    sections = number_of_sections(attrs)
    count = sections if sections > 0 else len(attrs["indices"])
    parts = [*outputs, *[None] * (count - len(outputs))][:count]
    x = _open_by_parts(parts, attrs["squeeze_axis"]) if inputs[0] is None else inputs[0]
    if x is None:
        return inputs, parts
    at = normalize_axis(attrs["axis"], len(x))
    x = _infer_whole(attrs, x, at, parts)
    expected = _list_part_shapes(attrs, x, at, count)
    return [x], [unify(a, b) for a, b in zip(expected, parts, strict=True)]


def _infer_whole(attrs: Attrs, x: Dims, at: int, parts: Shapes) -> Dims:
    squeeze = attrs["squeeze_axis"]
    along: list[Dim] = [1 if squeeze else None] * len(parts)
    for i, part in enumerate(parts):
        if part is None:
            continue
        if not squeeze:
            along[i] = part[at]
        if len(part) + squeeze == len(x):
            behind = part[at:] if squeeze else part[at + 1 :]
            x = dims_of_rank(unify(x, (*part[:at], None, *behind)), len(x))
    return with_dim(x, at, _whole_size(attrs, x[at], along))


def _list_part_shapes(attrs: Attrs, x: Dims, at: int, count: int) -> list[Shape]:
    size = x[at]
    sizes: list[Dim] = [None] * count
    if size is not None:
        sizes = [end - begin for begin, end in part_spans(attrs, size)]
    if not attrs["squeeze_axis"]:
        return [with_dim(x, at, d) for d in sizes]
    if not {1, None}.issuperset(sizes):
        raise KernelError(
            f"axis {at} of a part of {format_shape(x)} has size {sizes[0]}, expected 1 to squeeze it"
        )
    single: Shape = () if attrs.get(NP_SHAPE) else (1,)
    return [without_axes(x, [at]) or single] * len(sizes)


def _whole_size(attrs: Attrs, size: Dim, parts: Sequence[Dim]) -> Dim:
    if size is not None:
        return size
    sections = number_of_sections(attrs)
    if sections > 0:
        known = next((d for d in parts if d is not None), None)
        return None if known is None else known * sections
    if not parts or parts[-1] is None:
        return None
    begin: int = attrs["indices"][-1]
    return begin + parts[-1]


def _crop_shape(attrs: Attrs, shapes: Shapes) -> Dims:
    """The second input gives the shape, or ``h_w``."""
    n, c, height, width = dims_of_rank(shapes[0], 4)
    if len(shapes) > 1:
        h, w = dims_of_rank(shapes[1], 4)[2:]
    else:
        h, w = dims_of_rank(attrs["h_w"], 2)
        if not h or not w:
            raise KernelError(f"h_w is {attrs['h_w']}, expected a height and a width")
    for size, part in ((height, h), (width, w)):
        require(not exceeds(part, size), f"a part of size {part} cannot be cropped out of {size}")
    return n, c, h, w


def crop_origin(attrs: Attrs, shapes: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """Return the crop's first row and column."""
    h, w = (d or 0 for d in _crop_shape(attrs, shapes)[2:])
    height, width = shapes[0][2:]
    require(len(attrs["offset"]) == 2, f"offset {attrs['offset']} must be a row and a column")
    require(min(attrs["offset"]) >= 0, f"offset is {attrs['offset']}, expected at least 0")
    top, left = attrs["offset"]
    if attrs["center_crop"]:
        top, left = (height - h) // 2, (width - w) // 2
    if top + h > height or left + w > width:
        raise KernelError(
            f"a window of {format_shape((h, w))} at {format_shape((top, left))} leaves {format_shape(shapes[0])}"
        )
    return top, left


def crop(context: Context, attrs: Attrs, x: Array, *like: Array) -> Array:
    """Crop ``(N, C, H, W)``: the centre with ``center_crop``, otherwise at ``offset`` (y, x)."""
    shapes = [x.shape, *(y.shape for y in like)]
    h, w = (d or 0 for d in _crop_shape(attrs, shapes)[2:])
    top, left = crop_origin(attrs, shapes)
    result: Array = x[:, :, top : top + h, left : left + w]
    return result


def _infer_crop_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    output = dims_of_rank(unify(_crop_shape(attrs, inputs), outputs[0]), 4)
    first = unify(inputs[0], (*output[:2], None, None))
    if len(inputs) == 1 or is_known(inputs[1]):
        return [first, *inputs[1:]], [output]
    return [first, unify(inputs[1], (None, None, *output[2:]))], [output]


KERNELS = (
    Kernel("Concat", concat, infer_concat_shapes, same_dtypes),
    Kernel("_rnn_param_concat", concat, _infer_parameter_shapes, same_dtypes),
    Kernel("_npi_concatenate", concatenate, concatenate_shapes, same_dtypes),
    Kernel("stack", stack, stack_shapes, same_dtypes),
    Kernel("SliceChannel", split, split_shapes, same_dtypes),
    Kernel("_split_v2", split, split_shapes, same_dtypes),
    Kernel("Crop", crop, _infer_crop_shapes, same_dtypes),
)


def concat_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return each input's part."""
    axis = entry.attrs["dim"] if "dim" in entry.attrs else entry.attrs["axis"]
    if axis is None:
        dy, axis, sizes = dy.reshape(-1), 0, [x.size for x in entry.inputs]
    else:
        axis = normalize_axis(axis, dy.ndim)
        sizes = [x.shape[axis] for x in entry.inputs]
    parts = np.split(dy, np.cumsum(sizes)[:-1].tolist(), axis)
    return [
        part.reshape(x.shape).astype(x.dtype, copy=False)
        for part, x in zip(parts, entry.inputs, strict=True)
    ]


def split_gradient(entry: TapeEntry, *dys: Array | None) -> Array:
    """Concatenate the parts' gradients; zeros for unused parts."""
    (x,) = entry.inputs
    axis = normalize_axis(entry.attrs["axis"], x.ndim)
    dx = np.zeros_like(x)
    for dy, (begin, end) in zip(dys, part_spans(entry.attrs, x.shape[axis]), strict=False):
        if dy is not None:
            part = dx[(slice(None),) * axis + (slice(begin, end),)]
            part += dy.reshape(part.shape)
    return np.asarray(dx)


GRADIENTS = (
    *(
        Gradient(name, concat_gradient, reads_outputs=False)
        for name in ("Concat", "_rnn_param_concat", "_npi_concatenate")
    ),
    Gradient(
        "stack",
        lambda entry, dy: list(np.moveaxis(dy, entry.attrs["axis"], 0)),
        reads_inputs=False,
        reads_outputs=False,
    ),
    Gradient("SliceChannel", split_gradient, reads_outputs=False),
    Gradient("_split_v2", split_gradient, reads_outputs=False),
    Gradient("Crop", permutation_vjp("Crop"), reads_outputs=False),
)
