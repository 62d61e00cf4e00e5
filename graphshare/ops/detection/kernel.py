"""Single-shot detection (anchor targets and results) and region proposals, without gradients.

Anchors are relative corners ``(1, N, 4)``; labels are rows (class, left, top, right, bottom), -1
after the last. Class 0 of the predictions is the background.

Proposals are a region proposal network's best boxes, in pixels, corners included. MXNet's sort is
unstable; here equal scores (such as all too small boxes') keep the anchors' order.
"""

from __future__ import annotations

from math import floor, sqrt
from typing import Any

import numpy as np

from graphshare.ops.detection.boxes import GRADIENTS as BOX_GRADIENTS
from graphshare.ops.detection.boxes import KERNELS as BOX_KERNELS
from graphshare.ops.detection.boxes import (
    compute_iou,
    decode_offsets,
    encode_offsets,
    suppress_overlaps,
    to_centers,
)
from graphshare.ops.formulas import ARRAYS
from graphshare.ops.gradient import no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Dims, Kernel, KernelError, Shapes
from graphshare.ops.limits import SIGNED, Limits, require, require_memory, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_shape

_TOGETHER = 64
"""Number of boxes compared with all worse ones at a time."""

_CELLS = 1 << 17
"""Number of anchors computed at a time."""

PREFIXES = ("_contrib_", "")
"""Prefixes of the MultiBox operators; before MXNet 1.0 there was none."""


def multi_box_prior(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return anchors around the cells of ``(N, C, H, W)``, relative: ``(1, H*W*n, 4)``.

    Cells have all sizes at the first ratio, then the first size at other ratios.
    """
    height, width = x.shape[2:]
    sizes, ratios = attrs["sizes"], attrs["ratios"]
    step_y, step_x = (
        step if step > 0 else 1 / count
        for step, count in zip(attrs["steps"], (height, width), strict=True)
    )
    pairs = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    # Sizes are shares of the height; the image's aspect scales a relative width.
    half = np.array(
        [[size * height / width * ratio**0.5 / 2, size / ratio**0.5 / 2] for size, ratio in pairs]
    )
    y = (np.arange(height) + attrs["offsets"][0]) * step_y
    c = (np.arange(width) + attrs["offsets"][1]) * step_x
    result = context.empty((height, width, len(pairs), 4), x.dtype)
    step = max(1, _CELLS // max(1, width * len(pairs)))
    for first in range(0, height, step):
        middle = np.stack(np.meshgrid(c, y[first : first + step]), axis=-1)[:, :, None]
        part = result[first : first + step]
        part[..., :2], part[..., 2:] = middle - half, middle + half
        if attrs["clip"]:
            np.clip(part, 0, 1, out=part)
    return result.reshape(1, -1, 4)


def _infer_prior_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    height, width = dims_of_rank(inputs[0], 4)[2:]
    for name in ("steps", "offsets"):
        require(len(attrs[name]) == 2, f"{name} is {attrs[name]}, expected two numbers")
    require(attrs["sizes"] and attrs["ratios"], "sizes and ratios need at least one number each")
    require(min(attrs["ratios"]) > 0, f"ratios are {attrs['ratios']}, expected more than 0")
    each = len(attrs["sizes"]) + len(attrs["ratios"]) - 1
    count: Dim = None if height is None or width is None else height * width * each
    return inputs, [unify((1, count, 4), outputs[0])]


def multi_box_detection(
    context: Context, attrs: Attrs, scores: Array, offsets: Array, anchors: Array
) -> Array:
    """Return rows (class, score, left, top, right, bottom) ``(B, N, 6)`` by descending score.

    Rows without a detection are -1; in suppressed rows only the class is.
    """
    require(scores.shape[1] > 1, "the scores have no class except the background")
    out: Array = np.full((scores.shape[0], scores.shape[2], 6), -1, scores.dtype)
    boxes = decode_offsets(
        ARRAYS,
        to_centers(ARRAYS, anchors[0]),
        offsets.reshape(len(scores), -1, 4),
        variances(attrs, scores.dtype),
    )
    if attrs["clip"]:
        boxes = boxes.clip(0, 1)
    for result, each, box in zip(out, scores, boxes, strict=True):
        best = each[1:].argmax(axis=0)
        score = each[1:].max(axis=0)
        # -1 stands for no class
        chosen = np.flatnonzero((score >= score.dtype.type(attrs["threshold"])) & (score > -1))
        rows = np.concatenate(
            [best[chosen, None].astype(score.dtype), score[chosen, None], box[chosen]], axis=1
        )
        result[: len(rows)] = _suppress(attrs, rows)
    return out


def _suppress(attrs: Attrs, rows: Array) -> Array:
    """Sort by descending score; suppressed rows get class -1."""
    limit = attrs["nms_threshold"]
    # As in MXNet, without suppression rows are not sorted either.
    if not 0 < limit <= 1:
        return rows
    order = np.argsort(-rows[:, 1], kind="stable")
    count = attrs["nms_topk"] if 0 < attrs["nms_topk"] < len(rows) else len(rows)
    rows = np.concatenate([rows[order[:count]], rows[count:]])
    rows[count:, 0] = -1
    for start in range(0, count, _TOGETHER):
        best, rest = rows[start : min(start + _TOGETHER, count)], rows[start:count]
        over = compute_iou(best[:, None, 2:], rest[None, :, 2:]) >= rows.dtype.type(limit)
        if not attrs["force_suppress"]:
            over &= best[:, None, 0] == rest[None, :, 0]
        for i in range(len(best)):
            if best[i, 0] >= 0:
                rest[i + 1 :, 0][over[i, i + 1 :]] = -1
    return rows


def variances(attrs: Attrs, dtype: Any) -> Array:
    """Return the variances, the units of offsets."""
    require(len(attrs["variances"]) == 4, f"variances is {attrs['variances']}, expected 4 numbers")
    return np.array(attrs["variances"], dtype)


def _infer_detection_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    batch, classes, count = dims_of_rank(inputs[0], 3)
    (batch_again, wide), anchors = (
        dims_of_rank(inputs[1], 2),
        dims_of_rank(unify(inputs[2], (1, None, 4)), 3),
    )
    per_anchor = None if wide is None else wide // 4
    output = dims_of_rank(unify((batch, count, 6), outputs[0]), 3)
    for known in ((batch_again, anchors[1], 6), (None, per_anchor, 6)):
        output = dims_of_rank(unify(output, known), 3)
    n = output[1]
    return [(output[0], classes, n), (output[0], None if n is None else 4 * n), (1, n, 4)], [output]


def multi_box_target(
    context: Context, attrs: Attrs, anchors: Array, labels: Array, scores: Array
) -> tuple[Array, ...]:
    """Return targets per anchor: offsets ``(B, 4N)``, a mask of that shape, classes ``(B, N)``.

    Classes are label classes plus 1, 0 (background), or ``ignore_label``.
    """
    require(
        labels.ndim == 3 and labels.shape[2] >= 5,
        f"labels are {format_shape(labels.shape)}, expected (B, N, 5) or more",
    )
    boxes, batch = anchors[0], len(labels)
    offsets: Array = np.zeros((batch, len(boxes), 4), anchors.dtype)
    mask: Array = np.zeros((batch, len(boxes), 4), anchors.dtype)
    classes: Array = np.full((batch, len(boxes)), attrs["ignore_label"], anchors.dtype)
    for sample, rows in enumerate(labels):
        ends = np.flatnonzero(rows[:, 0] == -1)
        if len(ends):
            require(
                (rows[ends[0], 1:5] == -1).all(),
                "a label of the class -1 ends the labels, and its box must be -1 throughout",
            )
            rows = rows[: ends[0]]
        if not len(rows):
            continue
        require_memory(6 * boxes.itemsize * len(boxes) * len(rows))
        with np.errstate(invalid="ignore"):
            shared = np.nan_to_num(compute_iou(boxes[:, None], rows[None, :, 1:5]))
        positive, match = _match_anchors(attrs, shared)
        if attrs["negative_mining_ratio"] > 0:
            negative = _hard_negatives(attrs, shared.max(axis=1), positive, scores[sample])
        else:
            negative = ~positive
        classes[sample, negative] = 0
        classes[sample, positive] = rows[match[positive], 0] + 1
        mask[sample, positive] = 1
        offsets[sample, positive] = encode_offsets(
            ARRAYS,
            to_centers(ARRAYS, boxes[positive]),
            to_centers(ARRAYS, rows[match[positive], 1:5]),
            variances(attrs, boxes.dtype),
        )
    return offsets.reshape(batch, -1), mask.reshape(batch, -1), classes


def _match_anchors(attrs: Attrs, shared: Array) -> tuple[Array, Array]:
    """Return which anchors have a label, and which one.

    Each label takes the best free anchor; other anchors must exceed the threshold.
    """
    positive, match = np.zeros(len(shared), bool), shared.argmax(axis=1)
    free = shared.copy()
    for _ in range(shared.shape[1]):
        anchor, label = np.unravel_index(int(free.argmax()), free.shape)
        # MXNet matches no smaller overlap.
        if not free[anchor, label] > 1e-6:
            break
        positive[anchor], match[anchor] = True, label
        free[anchor, :] = free[:, label] = -1
    if attrs["overlap_threshold"] > 0:
        positive |= shared.max(axis=1) > shared.dtype.type(attrs["overlap_threshold"])
    return positive, match


def _hard_negatives(attrs: Attrs, best: Array, positive: Array, scores: Array) -> Array:
    """Return the anchors least likely background, ``negative_mining_ratio`` per labelled one."""
    count = min(int(positive.sum() * attrs["negative_mining_ratio"]), int((~positive).sum()))
    chosen: Array = np.zeros(len(best), bool)
    if count <= 0:
        return chosen
    candidates = np.flatnonzero(
        ~positive & (best < best.dtype.type(attrs["negative_mining_thresh"]))
    )
    require(
        len(candidates) >= count,
        f"{count} negative samples are needed, but only {len(candidates)} anchors qualify",
    )
    powers = np.exp(scores - scores.max(axis=0))
    background = powers[0] / powers.sum(axis=0)
    chosen[candidates[np.argsort(background[candidates], kind="stable")[:count]]] = True
    return chosen


def _infer_target_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    anchors = dims_of_rank(unify(inputs[0], (1, None, 4)), 3)
    labels, scores = dims_of_rank(inputs[1], 3), dims_of_rank(inputs[2], 3)
    require(
        labels[1] != 0,
        "there are no labels, expected at least one for each sample, which may be -1",
    )
    last = outputs[2] if len(outputs) > 2 else None
    batch, n = dims_of_rank(unify(unify((labels[0], anchors[1]), (scores[0], scores[2])), last), 2)
    wide = None if n is None else 4 * n
    targets = ((batch, wide), (batch, wide), (batch, n))
    results = [unify(a, b) for a, b in zip(targets, outputs, strict=False)]
    return [(1, n, 4), (batch, *labels[1:]), (batch, scores[1], n)], results


def make_anchors(attrs: Attrs, height: int, width: int) -> Array:
    """Return all anchors ``(height * width * A, 4)``, by ratio, then scale."""
    stride = attrs["feature_stride"]
    middle, base = (stride - 1) / 2, []
    for ratio in attrs["ratios"]:
        # MXNet truncates the area and rounds the sides.
        across = floor(sqrt(floor(stride * stride / ratio)) + 0.5)
        along = floor(across * ratio + 0.5)
        for scale in attrs["scales"]:
            half_w, half_h = (across * scale - 1) / 2, (along * scale - 1) / 2
            base.append((middle - half_w, middle - half_h, middle + half_w, middle + half_h))
    x, y = np.meshgrid(np.arange(width) * stride, np.arange(height) * stride)
    shifts = np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4)
    result: Array = (np.array(base, np.float32) + shifts.astype(np.float32)).reshape(-1, 4)
    return result


def _apply_deltas(attrs: Attrs, anchors: Array, deltas: Array) -> Array:
    if attrs["iou_loss"]:
        return anchors + deltas
    size = anchors[:, 2:] - anchors[:, :2] + 1
    middle = deltas[:, :2] * size + anchors[:, :2] + (size - 1) / 2
    half = (np.exp(deltas[:, 2:]) * size - 1) / 2
    result: Array = np.concatenate([middle - half, middle + half], axis=1)
    return result


def _propose(attrs: Attrs, scores: Array, deltas: Array, info: Array) -> tuple[Array, Array]:
    """Return an image's proposals and scores, best first."""
    number, height, width = scores.shape[0] // 2, *scores.shape[1:]
    if number != len(attrs["ratios"]) * len(attrs["scales"]):
        expected = len(attrs["ratios"]) * len(attrs["scales"])
        raise KernelError(
            f"{scores.shape[0]} scores are for {number} anchors, but ratios and scales give {expected}"
        )
    score = scores[number:].transpose(1, 2, 0).reshape(-1).copy()
    boxes = _apply_deltas(
        attrs, make_anchors(attrs, height, width), deltas.transpose(1, 2, 0).reshape(-1, 4)
    )
    boxes = np.clip(boxes, 0, np.array([info[1], info[0], info[1], info[0]], boxes.dtype) - 1)
    real_height, real_width = (
        int(info[0] / attrs["feature_stride"]),
        int(info[1] / attrs["feature_stride"]),
    )
    if real_height > height or real_width > width:
        raise KernelError(
            f"an image of {info[0]:g} by {info[1]:g} pixels has more cells than {height} by {width}"
        )
    # A batch's images are padded to one size; cells in the padding give no proposals.
    padding = np.ones((height, width, number), bool)
    padding[:real_height, :real_width] = False
    least = boxes.dtype.type(attrs["rpn_min_size"]) * info[2]
    small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(axis=1)
    score[padding.reshape(-1) | small] = -1
    # As in MXNet, small boxes also grow; with score -1 they fill up the proposals.
    boxes[small] += np.array([-1, -1, 1, 1], boxes.dtype) * (least / 2)
    order = np.argsort(-score, kind="stable")
    if attrs["rpn_pre_nms_top_n"] > 0:
        order = order[: attrs["rpn_pre_nms_top_n"]]
    count = attrs["rpn_post_nms_top_n"]
    chosen = order[suppress_overlaps(boxes[order], attrs["threshold"], most=count, pixels=True)]
    # MXNet repeats too few proposals from the first on.
    chosen = chosen[np.arange(count) % len(chosen)]
    return boxes[chosen], score[chosen]


def proposals(
    context: Context, attrs: Attrs, scores: Array, deltas: Array, info: Array
) -> Array | tuple[Array, ...]:
    """Return ``rpn_post_nms_top_n`` rows (image, left, top, right, bottom) per image.

    ``output_score`` adds scores. ``scores`` are ``(B, 2A, H, W)``, background first; ``deltas``
    ``(B, 4A, H, W)``; ``info`` ``(B, 3)``: each image's height, width and scale.
    """
    count = attrs["rpn_post_nms_top_n"]
    rows: Array = np.empty((len(scores), count, 5), scores.dtype)
    best: Array = np.empty((len(scores), count), scores.dtype)
    for i in range(len(scores)):
        rows[i, :, 0] = i
        rows[i, :, 1:], best[i] = _propose(attrs, scores[i], deltas[i], info[i])
    return (
        (rows.reshape(-1, 5), best.reshape(-1, 1)) if attrs["output_score"] else rows.reshape(-1, 5)
    )


def proposal(
    context: Context, attrs: Attrs, scores: Array, deltas: Array, info: Array
) -> Array | tuple[Array, ...]:
    """Return :func:`proposals` of a single image."""
    require(
        len(scores) == 1,
        f"_contrib_Proposal takes one image, not {len(scores)}; _contrib_MultiProposal takes several",
    )
    return proposals(context, attrs, scores, deltas, info)


def _infer_proposal_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    batch, number, height, width = dims_of_rank(inputs[0], 4)
    if number is not None and number % 2:
        raise KernelError(
            f"expected a background and a foreground score for each anchor, not {number} scores"
        )
    deltas: Dims = (batch, None if number is None else 2 * number, height, width)
    count = None if batch is None else batch * attrs["rpn_post_nms_top_n"]
    results = [unify(a, b) for a, b in zip(((count, 5), (count, 1)), outputs, strict=False)]
    return [inputs[0], unify(inputs[1], deltas), unify(inputs[2], (batch, 3))], results


KERNELS = (
    *BOX_KERNELS,
    *with_limits(
        Limits(dtypes=SIGNED, elements=True, finite=True),
        *(
            Kernel(f"{prefix}MultiBoxPrior", multi_box_prior, _infer_prior_shapes, same_dtypes)
            for prefix in PREFIXES
        ),
        *(
            Kernel(
                f"{prefix}MultiBoxDetection",
                multi_box_detection,
                _infer_detection_shapes,
                same_dtypes,
            )
            for prefix in PREFIXES
        ),
        *(
            Kernel(f"{prefix}MultiBoxTarget", multi_box_target, _infer_target_shapes, same_dtypes)
            for prefix in PREFIXES
        ),
        *with_limits(
            Limits(
                dtypes=SIGNED,
                elements=True,
                finite=True,
                positive=("rpn_post_nms_top_n", "feature_stride"),
            ),
            Kernel("_contrib_Proposal", proposal, _infer_proposal_shapes, same_dtypes),
            Kernel("_contrib_MultiProposal", proposals, _infer_proposal_shapes, same_dtypes),
        ),
    ),
)

GRADIENTS = (
    *BOX_GRADIENTS,
    *no_gradient(
        "boxes are chosen, not computed",
        *(
            f"{prefix}MultiBox{name}"
            for prefix in PREFIXES
            for name in ("Prior", "Detection", "Target")
        ),
        "_contrib_Proposal",
        "_contrib_MultiProposal",
    ),
)
