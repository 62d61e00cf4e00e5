"""Boxes: overlaps, non-maximum suppression with its gradient, decoding; matches, and the offsets between boxes.

A box is (left, top, right, bottom), in the format ``center`` (x, y, width, height).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.detection.geometry import decode_offsets, to_centers, to_corners
from graphshare.ops.detection.suppression import overlaps, suppress_overlaps
from graphshare.ops.formulas import ARRAYS
from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import SIGNED, Limits, refuse_invalid_call, with_limits
from graphshare.ops.unification import dims_of_rank, output_rule, same_dtypes, same_floating_dtypes, unify
from graphshare.text.format import format_count, format_shape

_PAIRS = 1 << 17
"""Number of pairs of boxes that are computed at a time."""


def corners(boxes: Array, form: str) -> Array:
    """Return the corners of ``boxes`` ``(..., 4)`` in format ``form``."""
    return boxes if form == "corner" else np.asarray(to_corners(ARRAYS, boxes))


def box_nms(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return rows ``(..., N, width)``: the remaining ones first, by falling score; all others are -1.

    Candidates are the ``topk`` best rows with a score above ``valid_thresh`` that are not of the background class.
    """
    if attrs["topk"] == 0:
        return x
    out: Array = np.full_like(x, -1)
    for rows, result in zip(x.reshape(-1, *x.shape[-2:]), out.reshape(-1, *x.shape[-2:]), strict=True):
        chosen = survivors(attrs, rows)
        result[: len(chosen)] = rows[chosen]
    if attrs["in_format"] != attrs["out_format"]:
        _convert_format(attrs, out)
    return out


def survivors(attrs: Attrs, rows: Array) -> Array:
    """Return the indices of the remaining rows, by falling score."""
    score, first, number = rows[:, attrs["score_index"]], attrs["coord_start"], attrs["id_index"]
    valid = score > score.dtype.type(attrs["valid_thresh"])
    if number >= 0:
        valid &= rows[:, number] != attrs["background_id"]
    candidates = np.flatnonzero(valid)
    candidates = candidates[np.argsort(-score[candidates], kind="stable")]
    if attrs["topk"] > 0:
        candidates = candidates[: attrs["topk"]]
    rows = rows[candidates]
    classes = rows[:, number] if number >= 0 and not attrs["force_suppress"] else None
    result: Array = candidates[
        suppress_overlaps(corners(rows[:, first : first + 4], attrs["in_format"]), attrs["overlap_thresh"], classes=classes)
    ]
    return result


def _convert_format(attrs: Attrs, rows: Array) -> None:
    """Convert the boxes to the other format in place; as in MXNet, not those whose first number is negative."""
    first = attrs["coord_start"]
    boxes = rows[..., first : first + 4]
    if attrs["out_format"] == "corner":
        other = corners(boxes, "center")
    else:
        other = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], axis=-1)
    boxes[...] = np.where(boxes[..., :1] < 0, boxes, other)


def _infer_nms_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(inputs[0], outputs[0])
    if shape is not None:
        width = shape[-1] if len(shape) >= 2 else 0
        first, score, number = attrs["coord_start"], attrs["score_index"], attrs["id_index"]
        if min(first, score) < 0 or first <= score <= first + 3 or first <= number <= first + 3 or score == number:
            raise KernelError(
                f"coord_start {first}, score_index {score} and id_index {number} must name other numbers of a row"
            )
        last = max(first + 3, score, number, 5 if number >= 0 else 4)
        if width is not None and last >= width:
            raise KernelError(
                f"rows have {format_count(width, 'number')}, expected at least {last + 1} for coordinates, score and id"
            )
    return [shape], [shape, *outputs[1:]]


def box_iou(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return the overlaps of each box of ``a`` with each of ``b``, in the concatenated shapes without the last axis."""
    x, y = corners(a, attrs["format"]), corners(b, attrs["format"])
    first, second = x.reshape(-1, 1, 4), y.reshape(1, -1, 4)
    out: Array = np.empty((first.shape[0], second.shape[1]), np.result_type(x, y))
    step = max(1, _PAIRS // max(1, second.shape[1]))
    for start in range(0, len(out), step):
        out[start : start + step] = overlaps(first[start : start + step], second)
    return out.reshape(a.shape[:-1] + b.shape[:-1])


def _iou_shape(attrs: Attrs, *shapes: tuple[Dim, ...]) -> Shape:
    if any(shape[-1:] not in ((4,), (None,)) for shape in shapes):
        raise KernelError("the last axis of boxes must have size 4")
    if any(len(shape) < 2 for shape in shapes):
        raise KernelError("boxes have at least two axes")
    a, b = shapes
    return a[:-1] + b[:-1]


def box_decode(context: Context, attrs: Attrs, x: Array, anchors: Array) -> Array:
    """Return the corners of boxes at offsets ``(B, N, 4)`` from ``anchors`` ``(1, N, 4)``."""
    centers = to_centers(ARRAYS, anchors) if attrs["format"] == "corner" else (anchors[..., :2], anchors[..., 2:])
    return np.asarray(decode_offsets(ARRAYS, centers, x, read_scales(attrs, x.dtype), attrs["clip"]))


def read_scales(attrs: Attrs, dtype: Any) -> Array:
    """Return the units of offsets, ``std0`` to ``std3``."""
    return np.array([attrs[f"std{i}"] for i in range(4)], dtype)


def _infer_decode_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    output = dims_of_rank(unify(unify(inputs[0], outputs[0]), (None, None, 4)), 3)
    anchors = dims_of_rank(unify(inputs[1], (1, output[1], 4)), 3)
    output = (output[0], anchors[1], 4)
    return [output, anchors], [output]


def bipartite_matching(context: Context, attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """Match rows and columns, best scores first, each once; return the partner of each row and of each column, or -1.

    Pairs beyond ``threshold`` are not matched. MXNet matches ``topk`` pairs and one more.
    """
    rows, columns = x.shape[-2:]
    scores = x.reshape(-1, rows * columns)
    of_rows, of_columns = np.full((len(scores), rows), -1, x.dtype), np.full((len(scores), columns), -1, x.dtype)
    sign = 1 if attrs["is_ascend"] else -1
    for line, row, column in zip(scores, of_rows, of_columns, strict=True):
        count = 0
        for place in np.argsort(sign * line, kind="stable"):
            r, c = divmod(int(place), columns)
            if row[r] != -1 or column[c] != -1:
                continue
            if not sign * line[place] < sign * attrs["threshold"]:
                break
            row[r], column[c] = c, r
            count += 1
            if 0 < attrs["topk"] < count:
                break
    return of_rows.reshape(*x.shape[:-2], rows), of_columns.reshape(*x.shape[:-2], columns)


def _infer_matching_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    if len(shape) < 2:
        raise KernelError(f"{format_shape(shape)} has {len(shape)} axis, expected rows and columns of scores")
    return inputs, [unify(shape[:-1], outputs[0]), unify((*shape[:-2], shape[-1]), outputs[1])]


def box_encode(
    context: Context, attrs: Attrs, samples: Array, matches: Array, anchors: Array, refs: Array, means: Array, stds: Array
) -> tuple[Array, Array]:
    """Return the offsets of the matched boxes ``refs`` from ``anchors`` in units of their size, and a mask of positive samples.

    Samples and matches ``(B, N)``, anchors ``(B, N, 4)`` and refs ``(B, M, 4)`` by their corners; both results ``(B, N, 4)``.
    """
    with refuse_invalid_call():
        picked = np.take_along_axis(refs, matches.astype(np.intp)[..., None], axis=1)
    size, base = picked[..., 2:] - picked[..., :2], anchors[..., 2:] - anchors[..., :2]
    half = anchors.dtype.type(0.5)
    middle, origin = picked[..., :2] + size * half, anchors[..., :2] + base * half
    with np.errstate(all="ignore"):
        offsets = np.concatenate([(middle - origin) / base, np.log(size / base)], axis=-1)
        offsets = (offsets - means) / stds
    positive = (samples > 0.5)[..., None]
    masks = np.broadcast_to(positive, offsets.shape).astype(anchors.dtype)
    return np.where(positive, offsets, 0).astype(anchors.dtype), masks


def _infer_encode_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    samples = unify(inputs[0], inputs[1])
    batch, count = dims_of_rank(samples, 2)
    anchors = dims_of_rank(unify(inputs[2], (batch, count, 4)), 3)
    refs = dims_of_rank(unify(inputs[3], (anchors[0], None, 4)), 3)
    pair: tuple[Dim, ...] = anchors[:2]
    shapes = [pair, pair, anchors, refs, unify(inputs[4], (4,)), unify(inputs[5], (4,))]
    return shapes, [unify(anchors, known) for known in outputs]


KERNELS = with_limits(
    Limits(dtypes=SIGNED, elements=True, finite=True),
    Kernel("_contrib_box_nms", box_nms, _infer_nms_shapes, same_floating_dtypes),
    Kernel("_contrib_box_iou", box_iou, output_rule(_iou_shape), same_floating_dtypes),
    Kernel("_contrib_box_decode", box_decode, _infer_decode_shapes, same_floating_dtypes),
    *with_limits(
        Limits(dtypes=SIGNED, elements=True, finite=True),
        Kernel("_contrib_bipartite_matching", bipartite_matching, _infer_matching_shapes, same_dtypes),
        Kernel("_contrib_box_encode", box_encode, _infer_encode_shapes, same_dtypes),
    ),
)


def box_nms_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return the gradients of the remaining rows at their inputs. As in MXNet, a change of format is ignored."""
    x = entry.inputs[0]
    if entry.attrs["topk"] == 0:
        return dy
    dx: Array = np.zeros_like(x)
    flat = (a.reshape(-1, *x.shape[-2:]) for a in (x, dy, dx))
    for rows, gradient, result in zip(*flat, strict=True):
        chosen = survivors(entry.attrs, rows)
        result[chosen] = gradient[: len(chosen)]
    return dx


GRADIENTS = (
    Gradient("_contrib_box_nms", box_nms_gradient, reads_outputs=False),
    *no_gradient("boxes are chosen, not computed", "_contrib_box_iou", "_contrib_box_decode"),
    *no_gradient("the result is counted, compared or constant", "_contrib_bipartite_matching", "_contrib_box_encode"),
)
