"""Boxes: overlap, non-maximum suppression and its gradient, decoding, matching, offsets.

A box is (left, top, right, bottom), or (x, y, width, height) in format ``center``. Suppression
compares only boxes with nearby left edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.formulas import ARRAYS, Functions
from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Dims, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import SIGNED, Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.unification import (
    dims_of_rank,
    output_rule,
    same_dtypes,
    same_floating_dtypes,
    unify,
)
from graphshare.text.format import format_count, format_shape


class BoxSides(NamedTuple):
    """Corners and areas of boxes, each ``(...)``."""

    left: Any
    top: Any
    right: Any
    bottom: Any
    area: Any


def measure_sides(f: Functions, boxes: Any, pixels: bool = False) -> BoxSides:
    """Return corners and areas; ``pixels`` includes the pixels at right and bottom."""
    left, top, right, bottom = (f.column(boxes, i) for i in range(4))
    return BoxSides(left, top, right, bottom, _measure_area(f, left, top, right, bottom, pixels))


def _measure_area(f: Functions, left: Any, top: Any, right: Any, bottom: Any, pixels: bool) -> Any:
    """The area of reversed corners is 0."""
    sides = [right - left, bottom - top]
    if pixels:
        sides = [side + 1 for side in sides]
    width, height = (f.at_least_0(side) for side in sides)
    return width * height


def measure_overlap(
    f: Functions, a: BoxSides, b: BoxSides, pixels: bool = False
) -> tuple[Any, Any]:
    """Return areas of intersection, and intersection over union (NaN if both are 0)."""
    low = f.maximum(a.left, b.left), f.maximum(a.top, b.top)
    high = f.minimum(a.right, b.right), f.minimum(a.bottom, b.bottom)
    both = _measure_area(f, *low, *high, pixels=pixels)
    return both, both / (a.area + b.area - both)


def to_corners(f: Functions, boxes: Any) -> Any:
    """Return the corners of boxes (centre, size)."""
    middle, half = f.columns(boxes, 0, 2), f.columns(boxes, 2, 4) / 2
    return f.join(middle - half, middle + half)


def to_centers(f: Functions, boxes: Any) -> tuple[Any, Any]:
    """Return centre and size ``(..., 2)`` of boxes given by corners."""
    low = f.columns(boxes, 0, 2)
    size = f.columns(boxes, 2, 4) - low
    return low + size / 2, size


def decode_offsets(
    f: Functions, centers: tuple[Any, ...], offsets: Any, scales: Any, clip: float = -1
) -> Any:
    """Return the corners of boxes at ``offsets`` from anchors (centre, size).

    ``scales`` are the offsets' 4 units; a positive ``clip`` bounds scaled sizes.
    """
    middle, size = centers
    first = f.columns(offsets, 0, 2) * f.constant(scales[:2], offsets)
    second = f.columns(offsets, 2, 4) * f.constant(scales[2:], offsets)
    if clip > 0:
        second = f.minimum(second, clip)
    center = first * size + middle
    half = f.exp(second) * size / 2
    return f.join(center - half, center + half)


def encode_offsets(
    f: Functions, centers: tuple[Any, Any], targets: tuple[Any, Any], scales: Any
) -> Any:
    """Return the offsets from anchors (centre, size) to ``targets``, in 4 units ``scales``."""
    (middle, size), (center, extent) = centers, targets
    first, second = (center - middle) / size, f.log(extent / size)
    return f.join(first, second) / f.constant(scales, first)


_SLACK = 64
"""Margin for rounding errors in choosing neighbours, in units of the dtype's epsilon."""

_FEW = 1024
"""Up to this number all boxes are compared with each other; beyond, only neighbours."""

_TOGETHER = 64
"""Number of boxes compared with all others at a time."""


def compute_iou(a: Array, b: Array, *, pixels: bool = False) -> Array:
    """Return intersection over union of boxes ``(..., 4)`` that broadcast; 0 if disjoint."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        both, share = measure_overlap(
            ARRAYS, measure_sides(ARRAYS, a, pixels), measure_sides(ARRAYS, b, pixels), pixels
        )
    return np.asarray(np.where(both > 0, share, both))  # 0 / 0 (no areas) also gives 0


def suppress_overlaps(
    boxes: Array,
    limit: float,
    *,
    most: int | None = None,
    classes: Array | None = None,
    pixels: bool = False,
) -> list[int]:
    """Return the indices of boxes that no better box overlaps by more than ``limit``.

    ``boxes`` are in descending order of score; at most ``most`` remain. With ``classes`` only boxes
    of one class suppress each other; for ``pixels`` see :func:`measure_sides`.
    """
    # np.unique would put all NaN into one class, although NaN does not equal itself.
    if classes is not None and not np.isnan(classes).any():
        return _suppress_by_class(boxes, limit, most, classes, pixels)
    if classes is None and len(boxes) <= _FEW:
        return _suppress_few(boxes, limit, most, pixels)
    more, bound, nothing = (
        boxes.dtype.type(1 if pixels else 0),
        boxes.dtype.type(limit),
        boxes.dtype.type(0),
    )
    order = np.argsort(boxes[:, 0], kind="stable")
    places = np.argsort(order, kind="stable").tolist()
    left, top, right, bottom = np.ascontiguousarray(boxes[order].T)
    kinds = None if classes is None else classes[order]
    chosen: list[int] = []
    alive = np.ones(len(boxes), bool)
    with np.errstate(all="ignore"):
        areas = np.maximum(right - left + more, 0) * np.maximum(bottom - top + more, 0)
        starts, ends = find_neighbours(left, right - left + more, areas, float(bound))
        for i, place in enumerate(places):
            if not alive[place]:
                continue
            if most is not None and len(chosen) >= most:
                break
            chosen.append(i)
            near = slice(starts[place], ends[place])
            width = (
                np.minimum(right[near], right[place]) - np.maximum(left[near], left[place]) + more
            )
            height = (
                np.minimum(bottom[near], bottom[place]) - np.maximum(top[near], top[place]) + more
            )
            both = np.maximum(width, nothing) * np.maximum(height, nothing)
            over = np.where(both > 0, both / (areas[place] + areas[near] - both), both) > bound
            if kinds is not None:
                over &= kinds[near] == kinds[place]
            # The box overlaps itself too, but is chosen already.
            alive[near] &= ~over
    return chosen


def _suppress_by_class(
    boxes: Array, limit: float, most: int | None, classes: Array, pixels: bool
) -> list[int]:
    chosen: list[int] = []
    for kind in np.unique(classes):
        places = np.flatnonzero(classes == kind)
        chosen += places[suppress_overlaps(boxes[places], limit, pixels=pixels)].tolist()
    # Places are ranks by score.
    return sorted(chosen)[:most]


def _suppress_few(boxes: Array, limit: float, most: int | None, pixels: bool) -> list[int]:
    """Compare ``_TOGETHER`` boxes at a time with all later ones."""
    alive, bound = np.ones(len(boxes), bool), boxes.dtype.type(limit)
    for start in range(0, len(boxes), _TOGETHER):
        candidates = start + np.flatnonzero(alive[start : start + _TOGETHER])
        with np.errstate(all="ignore"):
            over = compute_iou(boxes[candidates, None], boxes[None, start:], pixels=pixels) > bound
        for place, row in zip(candidates.tolist(), over, strict=True):
            if alive[place]:
                alive[place + 1 :] &= ~row[place + 1 - start :]
    chosen: list[int] = np.flatnonzero(alive)[:most].tolist()
    return chosen


def find_neighbours(
    left: Array, widths: Array, areas: Array, limit: float
) -> tuple[list[int], list[int]]:
    """Return the range (first, end) of boxes that each box can suppress.

    Boxes are sorted by left edge. If intersection over union exceeds ``limit``, the intersection is
    wider than ``limit`` times either box: left edges are at most ``(1 - limit)`` times the left
    box's width apart, and widths differ by a factor of at most ``1 / limit``. A box without area
    overlaps none.
    """
    count, kind = len(left), np.finfo(left.dtype)
    positive = areas[areas > 0]
    # Near denormals rounding errors are not relative.
    is_near_denormals = positive.size > 0 and positive.min() < kind.tiny / kind.eps
    # A negative limit needs no overlap.
    if limit < 0 or is_near_denormals or not np.isfinite(widths).all():
        return [0] * count, [count] * count
    edges, spans = left.astype(np.float64), np.maximum(widths, 0).astype(np.float64)
    largest = float(widths.max(initial=0))
    share = min(1.0, limit * (1 - _SLACK * float(kind.eps)))
    error = _SLACK * float(kind.eps) * (np.abs(edges) + spans + largest + 1)
    before = np.minimum(largest, spans * ((1 - share) / share)) if share > 0 else largest
    starts = np.searchsorted(edges, edges - before - error)
    ends = np.searchsorted(edges, edges + spans * (1 - share) + error, side="right")
    empty = areas <= 0
    return np.where(empty, 0, starts).tolist(), np.where(empty, 0, ends).tolist()


_PAIRS = 1 << 17
"""Number of pairs of boxes computed at a time."""


def corners(boxes: Array, form: str) -> Array:
    """Return the corners of ``boxes`` ``(..., 4)`` in format ``form``."""
    return boxes if form == "corner" else np.asarray(to_corners(ARRAYS, boxes))


def box_nms(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return rows ``(..., N, width)``: the remaining ones by descending score, then -1.

    Candidates are the ``topk`` best rows above ``valid_thresh``, not of the background class.
    """
    # As in MXNet, rows stay unchanged.
    if attrs["topk"] == 0:
        return x
    out: Array = np.full_like(x, -1)
    for rows, result in zip(
        x.reshape(-1, *x.shape[-2:]), out.reshape(-1, *x.shape[-2:]), strict=True
    ):
        chosen = survivors(attrs, rows)
        result[: len(chosen)] = rows[chosen]
    if attrs["in_format"] != attrs["out_format"]:
        _convert_format(attrs, out)
    return out


def survivors(attrs: Attrs, rows: Array) -> Array:
    """Return the indices of the remaining rows by descending score."""
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
        suppress_overlaps(
            corners(rows[:, first : first + 4], attrs["in_format"]),
            attrs["overlap_thresh"],
            classes=classes,
        )
    ]
    return result


def _convert_format(attrs: Attrs, rows: Array) -> None:
    """Convert boxes in place; as in MXNet, not those whose first number is negative."""
    first = attrs["coord_start"]
    boxes = rows[..., first : first + 4]
    if attrs["out_format"] == "corner":
        other = corners(boxes, "center")
    else:
        other = np.concatenate(
            [(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], axis=-1
        )
    boxes[...] = np.where(boxes[..., :1] < 0, boxes, other)


def _infer_nms_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(inputs[0], outputs[0])
    if shape is not None:
        width = shape[-1] if len(shape) >= 2 else 0
        first, score, number = attrs["coord_start"], attrs["score_index"], attrs["id_index"]
        box = range(first, first + 4)
        if min(first, score) < 0 or score in box or number in box or score == number:
            raise KernelError(
                f"coord_start {first}, score_index {score} and id_index {number} must name different numbers of a row"
            )
        last = max(first + 3, score, number, 5 if number >= 0 else 4)
        if width is not None and last >= width:
            raise KernelError(
                f"rows have {format_count(width, 'number')}, expected at least {last + 1} for coordinates, score and id"
            )
    return [shape], [shape, *outputs[1:]]


def box_iou(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return intersection over union: ``(*a.shape[:-1], *b.shape[:-1])``."""
    x, y = corners(a, attrs["format"]), corners(b, attrs["format"])
    first, second = x.reshape(-1, 1, 4), y.reshape(1, -1, 4)
    out: Array = np.empty((first.shape[0], second.shape[1]), np.result_type(x, y))
    step = max(1, _PAIRS // max(1, second.shape[1]))
    for start in range(0, len(out), step):
        out[start : start + step] = compute_iou(first[start : start + step], second)
    return out.reshape(a.shape[:-1] + b.shape[:-1])


def _iou_shape(attrs: Attrs, *shapes: Dims) -> Shape:
    if any(shape[-1:] not in ((4,), (None,)) for shape in shapes):
        raise KernelError("the last axis of boxes must have size 4")
    if any(len(shape) < 2 for shape in shapes):
        raise KernelError("boxes have at least two axes")
    a, b = shapes
    return a[:-1] + b[:-1]


def box_decode(context: Context, attrs: Attrs, x: Array, anchors: Array) -> Array:
    """Return corners at offsets ``(B, N, 4)`` from ``anchors`` ``(1, N, 4)``."""
    centers = (
        to_centers(ARRAYS, anchors)
        if attrs["format"] == "corner"
        else (anchors[..., :2], anchors[..., 2:])
    )
    return np.asarray(
        decode_offsets(ARRAYS, centers, x, read_scales(attrs, x.dtype), attrs["clip"])
    )


def read_scales(attrs: Attrs, dtype: Any) -> Array:
    """Return ``std0`` to ``std3``, the units of offsets."""
    return np.array([attrs[f"std{i}"] for i in range(4)], dtype)


def _infer_decode_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    output = dims_of_rank(unify(unify(inputs[0], outputs[0]), (None, None, 4)), 3)
    anchors = dims_of_rank(unify(inputs[1], (1, output[1], 4)), 3)
    output = (output[0], anchors[1], 4)
    return [output, anchors], [output]


def bipartite_matching(context: Context, attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """Match rows and columns once each, best scores first; return partners, or -1.

    Pairs beyond ``threshold`` are not matched. MXNet matches ``topk`` pairs and one more.
    """
    rows, columns = x.shape[-2:]
    scores = x.reshape(-1, rows * columns)
    of_rows, of_columns = (
        np.full((len(scores), rows), -1, x.dtype),
        np.full((len(scores), columns), -1, x.dtype),
    )
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
    require(
        len(shape) >= 2,
        f"{format_shape(shape)} has {len(shape)} axis, expected rows and columns of scores",
    )
    return inputs, [unify(shape[:-1], outputs[0]), unify((*shape[:-2], shape[-1]), outputs[1])]


def box_encode(
    context: Context,
    attrs: Attrs,
    samples: Array,
    matches: Array,
    anchors: Array,
    refs: Array,
    means: Array,
    stds: Array,
) -> tuple[Array, Array]:
    """Return offsets (in anchor sizes) to matched boxes, and a mask of positive samples.

    Samples and matches are ``(B, N)``, anchors ``(B, N, 4)`` and refs ``(B, M, 4)`` corners,
    results ``(B, N, 4)``.
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
    pair: Dims = anchors[:2]
    shapes = [pair, pair, anchors, refs, unify(inputs[4], (4,)), unify(inputs[5], (4,))]
    return shapes, [unify(anchors, known) for known in outputs]


KERNELS = with_limits(
    Limits(dtypes=SIGNED, elements=True, finite=True),
    Kernel("_contrib_box_nms", box_nms, _infer_nms_shapes, same_floating_dtypes),
    Kernel("_contrib_box_iou", box_iou, output_rule(_iou_shape), same_floating_dtypes),
    Kernel("_contrib_box_decode", box_decode, _infer_decode_shapes, same_floating_dtypes),
    Kernel("_contrib_bipartite_matching", bipartite_matching, _infer_matching_shapes, same_dtypes),
    Kernel("_contrib_box_encode", box_encode, _infer_encode_shapes, same_dtypes),
)


def box_nms_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` at remaining rows' input rows; as in MXNet, ignore format changes."""
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
    *no_gradient(
        "the result is counted, compared or constant",
        "_contrib_bipartite_matching",
        "_contrib_box_encode",
    ),
)
