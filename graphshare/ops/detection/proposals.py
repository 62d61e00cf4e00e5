"""Region proposals: the best boxes of a region proposal network.

Boxes are in pixels of the image, corners included. MXNet's sort of scores is unstable, so its order of boxes with equal scores
(such as all boxes that are too small) may differ; here it is that of the anchors.
"""

from __future__ import annotations

from math import floor, sqrt

import numpy as np

from graphshare.ops.box.suppression import suppress_overlaps
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.ops.limits import SIGNED, Limits, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify


def anchors_of(attrs: Attrs, height: int, width: int) -> Array:
    """Return the anchors of all cells ``(height * width * A, 4)``, by ratio, then by scale."""
    stride = attrs["feature_stride"]
    middle, base = (stride - 1) / 2, []
    for ratio in attrs["ratios"]:
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
    """Return the anchors moved and scaled by ``deltas``."""
    if attrs["iou_loss"]:
        return anchors + deltas
    size = anchors[:, 2:] - anchors[:, :2] + 1
    middle = deltas[:, :2] * size + anchors[:, :2] + (size - 1) / 2
    half = (np.exp(deltas[:, 2:]) * size - 1) / 2
    result: Array = np.concatenate([middle - half, middle + half], axis=1)
    return result


def _propose(attrs: Attrs, scores: Array, deltas: Array, info: Array) -> tuple[Array, Array]:
    """Return the proposals of one image and their scores, best first, repeated up to ``rpn_post_nms_top_n``."""
    number, height, width = scores.shape[0] // 2, *scores.shape[1:]
    if number != len(attrs["ratios"]) * len(attrs["scales"]):
        raise KernelError(f"{scores.shape[0]} scores are for {number} anchors, but ratios and scales give another number")
    score = scores[number:].transpose(1, 2, 0).reshape(-1).copy()
    boxes = _apply_deltas(attrs, anchors_of(attrs, height, width), deltas.transpose(1, 2, 0).reshape(-1, 4))
    boxes = np.clip(boxes, 0, np.array([info[1], info[0], info[1], info[0]], boxes.dtype) - 1)
    real_height, real_width = int(info[0] / attrs["feature_stride"]), int(info[1] / attrs["feature_stride"])
    if real_height > height or real_width > width:
        raise KernelError(f"an image of {info[0]:g} by {info[1]:g} pixels has more cells than {height} by {width}")
    padding = np.ones((height, width, number), bool)
    padding[:real_height, :real_width] = False
    least = boxes.dtype.type(attrs["rpn_min_size"]) * info[2]
    small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(axis=1)
    score[padding.reshape(-1) | small] = -1
    boxes[small] += np.array([-1, -1, 1, 1], boxes.dtype) * (least / 2)
    order = np.argsort(-score, kind="stable")
    if attrs["rpn_pre_nms_top_n"] > 0:
        order = order[: attrs["rpn_pre_nms_top_n"]]
    count = attrs["rpn_post_nms_top_n"]
    chosen = order[suppress_overlaps(boxes[order], attrs["threshold"], most=count, pixels=True)]
    chosen = chosen[np.arange(count) % len(chosen)]
    return boxes[chosen], score[chosen]


def proposals(context: Context, attrs: Attrs, scores: Array, deltas: Array, info: Array) -> Array | tuple[Array, ...]:
    """Return rows (image, left, top, right, bottom), ``rpn_post_nms_top_n`` for each image; with ``output_score`` the scores.

    ``scores`` are ``(B, 2A, H, W)``, the background's first; ``deltas`` ``(B, 4A, H, W)``; ``info`` ``(B, 3)``: height, width
    and scale of the images.
    """
    count = attrs["rpn_post_nms_top_n"]
    rows: Array = np.empty((len(scores), count, 5), scores.dtype)
    best: Array = np.empty((len(scores), count), scores.dtype)
    for i in range(len(scores)):
        rows[i, :, 0] = i
        rows[i, :, 1:], best[i] = _propose(attrs, scores[i], deltas[i], info[i])
    return (rows.reshape(-1, 5), best.reshape(-1, 1)) if attrs["output_score"] else rows.reshape(-1, 5)


def proposal(context: Context, attrs: Attrs, scores: Array, deltas: Array, info: Array) -> Array | tuple[Array, ...]:
    """Return :func:`proposals` of a single image."""
    if len(scores) != 1:
        raise KernelError(f"_contrib_Proposal takes one image, not {len(scores)}; _contrib_MultiProposal takes several")
    return proposals(context, attrs, scores, deltas, info)


def _infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    batch, number, height, width = dims_of_rank(inputs[0], 4)
    if number is not None and number % 2:
        raise KernelError(f"{number} scores are not one of background and one of foreground for each anchor")
    deltas: tuple[Dim, ...] = (batch, None if number is None else 2 * number, height, width)
    count = None if batch is None else batch * attrs["rpn_post_nms_top_n"]
    results = [unify(a, b) for a, b in zip(((count, 5), (count, 1)), outputs, strict=False)]
    return [inputs[0], unify(inputs[1], deltas), unify(inputs[2], (batch, 3))], results


KERNELS = with_limits(
    Limits(dtypes=SIGNED, elements=True, finite=True, positive=("rpn_post_nms_top_n", "feature_stride")),
    Kernel("_contrib_Proposal", proposal, _infer_shapes, same_dtypes),
    Kernel("_contrib_MultiProposal", proposals, _infer_shapes, same_dtypes),
)
