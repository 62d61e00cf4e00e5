"""Rules for operators that compute each sample separately, such as attention and grid sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.onnx_ops.free_axes import Axes, Axis, Call, SizeRefusal, expand_axis, fix


class BySample(msgspec.Struct, frozen=True):
    """Batch axes of operands by position; ``broadcast`` ones may have size 1.

    ``like`` lists the operands whose axes an output may have; the first present counts. ``at`` is
    an output's batch axis if not the first.
    """

    operands: Mapping[int, int]
    like: Sequence[Sequence[int]]
    broadcast: Mapping[int, int] = {}
    at: Mapping[int, int] = {}


def _first(*places: int) -> Mapping[int, int]:
    return dict.fromkeys(places, 0)


BY_SAMPLE = {
    "Attention": BySample(_first(0, 1, 2, 4, 5, 6), ((0,), (4, 1), (5, 2), (0,)), {3: -4}),
    "CausalConvWithState": BySample(_first(0, 3), ((0,), (3,))),
    "Col2Im": BySample(_first(0), ((),)),
    "DeformConv": BySample(_first(0, 2, 4), ((0,),)),
    "LinearAttention": BySample(_first(0, 1, 2, 3, 4, 5), ((0,), (3,))),
    "RotaryEmbedding": BySample(_first(0, 3), ((0,),), {1: -3, 2: -3}),
    "TensorScatter": BySample(_first(0, 1, 2), ((0,),)),
}
BY_SAMPLE_FUSED = {
    "Attention": BySample({0: 0, 3: 0, 4: 1}, ((0,), (4,)), {5: -4}, {1: 1}),
    "EmbedLayerNormalization": BySample(_first(0, 1, 7, 8), ((0,), (0,), (0,))),
    "GroupQueryAttention": BySample(_first(0, 1, 2, 3, 4, 5, 9), ((0,), (3, 1), (4, 2)), {10: -4}),
    "MultiHeadAttention": BySample(_first(0, 1, 2, 4, 6, 7), ((0,), (6, 1), (7, 2)), {5: -4}),
    "RotaryEmbedding": BySample(_first(0, 1), ((0,),)),
}
"""Rules for onnxruntime's own operators."""


def find_by_sample(rule: BySample, call: Call) -> list[Axes | None]:
    """Return the outputs' axes; operands with one sample for all are expanded. Raises SizeRefusal."""
    batch = _expand_operands(rule, call)
    outputs: list[Axes | None] = []
    for index, shape in enumerate(call.list_shapes()):
        if shape is None:
            outputs.append(None)
        else:
            at = rule.at.get(index, 0)
            outputs.append(_follow(call, rule.like[index], shape, at, batch))
    return outputs


def sample_grid(call: Call) -> list[Axes | None]:
    """Return the axes of GridSample: height and width come from the grid. Raises SizeRefusal."""
    batch = _expand_operands(BySample(_first(0, 1), ()), call)
    data, grid = call.data, call.get_axes(1)
    return [(grid[0] if batch is None else batch, data[1], *grid[1:-1])]


def _follow(
    call: Call, places: Sequence[int], shape: Sequence[int], at: int, batch: Axis | None
) -> Axes:
    """Return an output's axes from the first operand in ``places``; ``at`` is the batch axis."""
    place = next((place for place in places if call.has(place)), None)
    like = () if place is None else call.get_axes(place)
    if len(like) == len(shape):
        axes = [
            axis if number == at else call.table.derive(axis, size)
            for number, (axis, size) in enumerate(zip(like, shape, strict=True))
        ]
    else:
        stated = {axis for operand in call.operands for axis in operand.axes or ()}
        if any(map(call.table.is_new, stated - {batch})):
            raise SizeRefusal("has an unknown effect on a size that is free")
        axes = [*map(fix, shape)]
    if batch is not None and at < len(axes):
        axes[at] = batch
    return tuple(axes)


def _find_batch(rule: BySample, call: Call) -> Axis | None:
    """Return the batch axis, if any. Raises SizeRefusal if it is elsewhere."""
    batches: dict[Axis, None] = {}
    for place, operand in enumerate(call.operands):
        axes = operand.axes or ()
        at = _find_batch_axis(rule, place, axes)
        for number, axis in enumerate(axes):
            if not call.table.has_batch([axis]):
                continue
            if number != at:
                raise SizeRefusal("works along the samples")
            batches[axis] = None
    if len(batches) > 1:
        raise SizeRefusal("has different samples in its operands")
    return next(iter(batches), None)


def _expand_operands(rule: BySample, call: Call) -> Axis | None:
    """Expand operands with one sample for all; return the batch axis, if any."""
    batch = _find_batch(rule, call)
    if batch is None:
        return None
    for place in (*rule.operands, *rule.broadcast):
        axes = call.get_axes(place) if call.has(place) else ()
        at = _find_batch_axis(rule, place, axes)
        if at is None or axes[at] == batch:
            continue
        if axes[at]:
            size = call.table.count(axes[at])
            raise SizeRefusal(f"has a fixed size of {size} on an axis whose size is free")
        if place in rule.operands:
            call.edits[place] = expand_axis(at, batch, len(axes))
    return batch


def _find_batch_axis(rule: BySample, place: int, axes: Axes) -> int | None:
    """Return the batch axis of an operand, counted from the first, if it has one."""
    at = rule.operands.get(place, rule.broadcast.get(place))
    if at is None or not -len(axes) <= at < len(axes):
        return None
    return at % len(axes)
