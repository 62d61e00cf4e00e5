"""Targets of box training: matches between boxes and the offsets between them."""

from __future__ import annotations

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.ops.limits import SIGNED, Limits, refuse_invalid_call, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_shape


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
    Kernel("_contrib_bipartite_matching", bipartite_matching, _infer_matching_shapes, same_dtypes),
    Kernel("_contrib_box_encode", box_encode, _infer_encode_shapes, same_dtypes),
)
