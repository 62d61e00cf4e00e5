"""What operators that move axes, take arrays apart or join them do with the axis of a batch."""

from __future__ import annotations

from collections.abc import Iterable

from graphshare.analysis.batch_axis import UNKNOWN, At, Outcome, Rule, Use


def _joined(use: Use) -> Outcome:
    if use.axes_differ:
        return "has the samples on different axes of its inputs"
    return "joins arrays along the samples" if use.first.is_(use.value("dim")) else use.first


def _stack(use: Use) -> Outcome:
    return _expand(use) if not use.axes_differ else "has the samples on different axes of its inputs"


def _expand(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if axis < 0 and at.rank is not None:
        axis += at.rank + 1
    if axis < -1:
        return "adds an axis whose place is not known"
    return at.moved(at.axis + (0 <= axis <= at.axis), 1)


def _squeeze(use: Use) -> Outcome:
    axes, at = use.value("axis"), use.first
    if axes is None:
        return "drops the axis of the samples where there is one sample"
    if any(map(at.is_, axes)):
        return "drops the axis of the samples"
    return at.moved(at.axis - sum(0 <= axis < at.axis for axis in axes), -len(axes))


def _swap(use: Use) -> Outcome:
    a, b, at = use.value("dim1"), use.value("dim2"), use.first
    if a < 0 or b < 0:
        return "swaps axes whose places are not known"
    return at.moved(b if at.axis == a else a if at.axis == b else at.axis)


def _split(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if at.is_(axis):
        return "takes the samples apart"
    return at.moved(at.axis - (0 <= axis < at.axis), -1) if use.value("squeeze_axis") else at


def _part(use: Use) -> Outcome:
    return "takes a part of the samples" if use.first.is_(use.value("axis")) else use.first


def _repeat(use: Use) -> Outcome:
    return "works on all samples in one row" if use.value("axis") is None else use.first


def _broadcast_axis(use: Use) -> Outcome:
    return "stretches the axis of the samples" if any(map(use.first.is_, use.value("axis") or ())) else use.first


def _take(use: Use) -> Outcome:
    data, indices, axis = use.input(0), use.input(1), use.value("axis")
    if data is None and indices is not None:
        return At(indices.axis + axis) if axis >= 0 else "takes along an axis whose place is not known"
    if data is None or data.is_(axis) or indices is not None or 0 <= axis < data.axis:
        return "picks among the samples"
    return At(data.axis)


def _pick(use: Use) -> Outcome:
    axis, at = use.value("axis"), use.first
    if axis is None or at.is_(axis) or use.axes_differ:
        return "picks among the samples"
    return at if use.value("keepdims") else at.moved(at.axis - (0 <= axis < at.axis), -1)


def one_hot(use: Use) -> Outcome:
    """An axis more, behind those that are there."""
    return use.first.moved(use.first.axis, 1)


def _reshape(use: Use) -> Outcome:
    shape, at = tuple(use.value("shape") or ()), use.first
    if not shape:
        target = tuple(use.value("target_shape") or ())
        if not at.axis and (use.value("keep_highest") or target[:1] == (0,)):
            return At(0, len(target))
        return f"makes axis 0 {target[0]}, whatever the batch is" if target and not at.axis else "moves the samples"
    rank = len(shape) if min(shape) >= -1 else None
    if use.value("reverse") and shape[0] != -1 and rank != at.rank:
        return "fits its shape from the last axis, so that the place of the samples is not known"
    if at.axis:
        return At(at.axis, rank) if shape[: at.axis + 1] == (0,) * (at.axis + 1) else "folds the samples into another axis"
    if shape[0] > 0 or (shape[0] == -4 and shape[1:2] != (-1,)):
        return f"makes axis 0 {max(shape[:2])}, whatever the batch is"
    return At(0, rank)


def _flatten(use: Use) -> Outcome:
    return At(0, 2) if not use.first.axis else "folds the samples into another axis"


def _transpose(use: Use) -> Outcome:
    axes, at = tuple(use.value("axes") or ()), use.first
    if axes:
        places = [axis % len(axes) for axis in axes]
        return At(places.index(at.axis), len(axes)) if at.axis in places else UNKNOWN
    return "turns all axes round, and their number is not known" if at.rank is None else At(at.rank - 1 - at.axis, at.rank)


def _slice(use: Use) -> Outcome:
    for key, whole in (("begin", (None, 0)), ("end", (None,)), ("step", (None, 1))):
        given = tuple(use.value(key) or ())
        if use.first.axis < len(given) and given[use.first.axis] not in whole:
            return "takes a part of the samples"
    return use.first


def _slice_like(use: Use) -> Outcome:
    data, like, axes = use.input(0), use.input(1), tuple(use.value("axes") or ())
    if data is None:
        return (
            "cuts a constant to the size of the batch" if like is not None and (not axes or any(map(like.is_, axes))) else None
        )
    if not axes or any(map(data.is_, axes)):
        return data if like is not None and like.axis == data.axis else "takes a part of the samples"
    return data


def _reshape_like(use: Use) -> Outcome:
    partial = any(use.value(key) is not None for key in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end"))
    same = [at is not None and not at.axis for at in (use.input(0), use.input(1))]
    return At(0) if all(same) and not partial else "moves the samples"


def _broadcast_like(use: Use) -> Outcome:
    lhs, rhs, axes = use.input(0), use.input(1), use.value("lhs_axes")
    if axes is None:
        return use.first if not use.axes_differ else "has the samples on different axes of its inputs"
    if lhs is not None and not any(map(lhs.is_, axes)):
        return lhs
    return "stretches the axis of the samples" if lhs is not None or rhs is not None else None


def _broadcast_to(use: Use) -> Outcome:
    shape, at = tuple(use.value("shape") or ()), use.first
    if at.axis < len(shape) and shape[at.axis] == 0:
        return At(at.axis, len(shape))
    return "makes the axis of the samples as long as its attribute says"


def _tile(use: Use) -> Outcome:
    reps, at = tuple(use.value("reps") or ()), use.first
    if at.rank is None and set(reps) - {1} and len(reps) <= at.axis:
        return "repeats along axes whose places are not known"
    more = max(0, len(reps) - at.rank) if at.rank is not None else 0  # axes that it puts before those that there are
    place = at.axis + more - (max(0, at.rank - len(reps)) if at.rank is not None else 0)
    if 0 <= place < len(reps) and reps[place] != 1:
        return "repeats the samples"
    return at.moved(at.axis + more, more)


def moving_rules() -> Iterable[tuple[str, Rule]]:
    """Rules with the operators that they are for."""
    yield "Concat _contrib_quantized_concat", _joined
    yield "stack", _stack
    yield "expand_dims", _expand
    yield "squeeze", _squeeze
    yield "SwapAxis", _swap
    yield "SliceChannel _split_v2", _split
    yield "slice_axis", _part
    yield "repeat", _repeat
    yield "broadcast_axis", _broadcast_axis
    yield "take", _take
    yield "pick", _pick
    yield "one_hot", one_hot
    yield "Reshape", _reshape
    yield "Flatten", _flatten
    yield "transpose", _transpose
    yield "slice", _slice
    yield "slice_like", _slice_like
    yield "reshape_like", _reshape_like
    yield "broadcast_like", _broadcast_like
    yield "broadcast_to", _broadcast_to
    yield "tile", _tile
