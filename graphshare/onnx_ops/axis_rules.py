"""Rules of ONNX operators for free sizes: axes of outputs, and operands that must follow them.

Operators that mix samples, or combine a fixed size with a free one, are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from graphshare.onnx_ops.free_axes import (
    Axes,
    Axis,
    Call,
    Edit,
    SizeRefusal,
    expand_axis,
    fix,
    is_free,
    join,
    list_names,
    regroup,
)
from graphshare.onnx_ops.sample_rules import BY_SAMPLE, BY_SAMPLE_FUSED, find_by_sample, sample_grid

Outputs = Sequence["Axes | None"]
Rule = Callable[[Call], Outputs]
_LARGEST = {"int64": 2**63 - 1, "int32": 2**31 - 1}


def find_axes(call: Call) -> Outputs:
    """Return the axes of an operator's outputs, and note its edits. Raises SizeRefusal."""
    node = call.node
    if node.subgraphs:
        if node.op == "If":
            call.refuse_batch(call.data, "has a condition that depends on the samples")
        raise SizeRefusal("has a body, and free sizes are not followed into bodies")
    if not (_makes_sizes(call) or any(operand.has_free_axis for operand in call.operands)):
        return call.make_outputs(_fix_axes)
    rule = {"": _RULES, "com.microsoft": _FUSED}.get(node.details.domain, {}).get(node.op)
    if rule is None:
        raise SizeRefusal
    try:
        if node.op in _SIZES_AT and call.operands[_SIZES_AT[node.op]].has_free_axis:
            raise SizeRefusal("uses values of samples as sizes")
        outputs = rule(call)
    except (IndexError, KeyError, ValueError, ZeroDivisionError):  # a file can contain anything
        raise SizeRefusal("has operands or attributes that do not fit each other") from None
    _check_outputs(call, outputs)
    return outputs


def _fix_axes(shape: Sequence[int]) -> Axes:
    return tuple(map(fix, shape))


def _check_outputs(call: Call, outputs: Outputs) -> None:
    for axes, shape in zip(outputs, call.shapes, strict=False):
        if axes is None:
            continue
        # Samples on two axes: for example a matrix product of every sample with every other.
        if sum(call.table.has_batch([axis]) for axis in axes) > 1:
            raise SizeRefusal("relates samples to each other")
        if shape is not None and [*map(call.table.count, axes)] != list(shape):
            raise SizeRefusal("has an output whose shape does not follow from its inputs")


def _makes_sizes(call: Call) -> bool:
    """Return whether an operator may make free sizes from fixed ones."""
    return call.node.op in _SIZED or (
        call.node.op == "Slice" and any(operand.depends for operand in call.operands[1:])
    )


def _broadcast(call: Call) -> Outputs:
    operands = [call.get_axes(place) for place in range(len(call.operands)) if call.has(place)]
    rank = max(map(len, operands))
    rows = [_pad_axes(axes, rank) for axes in operands]
    return [tuple(map(call.table.merge, zip(*rows, strict=True)))] * len(call.shapes)


def _pad_axes(axes: Axes, rank: int) -> Axes:
    """Return axes with as many of size 1 in front as broadcasting adds."""
    return ((),) * (rank - len(axes)) + axes


def _along(find: Callable[[Call], Iterable[int]]) -> Rule:
    """Return the rule of an operator that works along some axes and moves none."""

    def rule(call: Call) -> Outputs:
        data = call.data
        worked = [data[axis] for axis in find(call) if axis < len(data)]
        call.refuse_batch(worked, "works along the samples")
        if any(operand.has_free_axis for operand in call.operands[1:]):
            raise SizeRefusal("has a parameter that depends on free sizes")
        return call.make_outputs(lambda shape: tuple(map(call.table.derive, data, shape)))

    return rule


def _no_axis(call: Call) -> Iterable[int]:
    return ()


def _inner_axes(call: Call) -> Iterable[int]:
    return range(1, len(call.data))


def _one_axis(default: int) -> Callable[[Call], Iterable[int]]:
    return lambda call: (call.axis(default),)


def _softmax_axes(call: Call) -> Iterable[int]:
    if call.version >= 13:
        return (call.axis(-1),)
    # Before version 13 these operators normalized jointly over all axes from the given one on.
    return range(call.axis(1), len(call.data))


def _last_axes(call: Call) -> Iterable[int]:
    return range(call.axis(-1), len(call.data))


def _sum_axes(call: Call) -> Iterable[int]:
    rank = len(call.data)
    return [axis % rank for axis in call.integers("", 1) or range(rank)]


def _normalize(call: Call) -> Outputs:
    # training_mode came with version 14; before version 7 is_test was 0 unless stated.
    is_training = call.integer("training_mode")
    if call.version < 7 and not is_training:
        is_training = not call.integer("is_test")
    if is_training:
        call.refuse_batch(call.data, "takes its statistics from the samples of a batch")
    return _along(_inner_axes)(call)


def _pool(call: Call) -> Outputs:
    if len(call.shapes) > 1:
        call.refuse_batch(call.data, "returns indices that count through all samples")
    return _along(_inner_axes)(call)


def _pad(call: Call) -> Outputs:
    data = call.data
    axes = call.integers("", 3) or list(range(len(data)))
    pads = call.some_integers("pads", 1)
    padded: Iterable[int] = range(len(data))
    if pads:
        # An element added in front and one removed at the end move samples. A pad may be computed.
        padded = {axis % len(data) for axis, pad in zip(axes * 2, pads, strict=False) if pad != 0}
    call.refuse_batch([data[axis] for axis in padded], "changes the number of samples")
    return _along(_no_axis)(call)


def _skip(call: Call) -> Outputs:
    """Return the axes of a normalized sum; mean and variance have size 1 on the last one."""
    data = call.data
    call.refuse_batch(data[-1:], "works along the samples")
    total = tuple(map(call.table.merge, zip(data, call.get_axes(1), strict=True)))
    return [total, (*total[:-1], ()), (*total[:-1], ()), total][: len(call.shapes)]


def _multiply_packed(call: Call) -> Outputs:
    call.refuse_batch(call.data[-1:], "sums over the samples of a batch")
    return [(*call.data[:-1], fix(call.shape()[-1]))]


def _quantize(call: Call) -> Outputs:
    call.refuse_batch(call.data, "takes its scale from all samples of a batch")
    return [call.data, (), ()]


def _quantize_sequence(call: Call) -> Outputs:
    _quantize(call)
    raise SizeRefusal  # the length of the sequence may be free, and is not followed


def _reduce(call: Call) -> Outputs:
    data = call.data
    reduced = _find_reduced(call)
    call.refuse_batch([data[axis] for axis in reduced], "reduces the samples of a batch")
    if call.integer("keepdims", 1):
        return [tuple([() if n in reduced else axis for n, axis in enumerate(data)])]
    return [tuple([axis for n, axis in enumerate(data) if n not in reduced])]


def _find_reduced(call: Call) -> Collection[int]:
    """Return the axes of a reduction; without stated ones all, or none."""
    op, rank = call.node.op, len(call.data)
    stated: Sequence[int] | None
    if op.startswith("Arg"):
        stated = [call.axis()]
    elif op.startswith("Global"):
        stated = range(2, rank)
    else:
        stated = call.integers("axes", 1)
    unstated = () if call.integer("noop_with_empty_axes") else range(rank)
    return {axis % rank for axis in stated or unstated}


def _sum_products(
    call: Call, terms: Sequence[tuple[Axes, Sequence[object]]], result: Iterable[object]
) -> Axes:
    """Return the axes of a sum of products by letters; letters not in ``result`` are summed over."""
    letters: dict[object, list[Axis]] = {}
    for axes, term in terms:
        for axis, letter in zip(axes, term, strict=True):
            letters.setdefault(letter, []).append(axis)
    kept = list(result)
    for letter, summed in letters.items():
        if letter in kept:
            continue
        call.refuse_batch(summed, "sums over the samples of a batch")
        is_mixed = len(set(map(is_free, summed))) > 1
        if is_mixed and call.table.is_new(join(*summed)):
            size = call.table.count(summed[0])
            raise SizeRefusal(f"sums over a fixed size of {size} and a free size")
    return tuple(call.table.merge(letters[letter]) for letter in kept)


def _multiply(call: Call) -> Outputs:
    second = 3 if call.node.op == "QLinearMatMul" else 1
    a, b = call.data, call.get_axes(second)
    # Batch dimensions are numbered from the right, as in broadcasting.
    result: list[object] = [*range(min(2 - len(a), 2 - len(b)), 0)]
    left: list[object] = ["k"]
    right: list[object] = ["k"]
    if len(a) > 1:
        left = [*range(2 - len(a), 0), "i", "k"]
        result.append("i")
    if len(b) > 1:
        right = [*range(2 - len(b), 0), "k", "j"]
        result.append("j")
    return [_sum_products(call, [(a, left), (b, right)], result)]


def _multiply_matrices(call: Call) -> Outputs:
    left = "ki" if call.integer("transA") else "ik"
    right = "jk" if call.integer("transB") else "kj"
    product = _sum_products(call, [(call.data, left), (call.get_axes(1), right)], "ij")
    added: Axes = ((), ())
    if call.has(2):
        added = (*added, *call.get_axes(2))[-2:]
    return [tuple(map(call.table.merge, zip(product, added, strict=True)))]


def _sum_by_letters(call: Call) -> Outputs:
    left, _, result = call.node.attrs.get("equation", "").replace(" ", "").partition("->")
    terms = [(call.get_axes(place), term) for place, term in enumerate(left.split(","))]
    if not result or any(len(axes) != len(term) for axes, term in terms):
        raise SizeRefusal
    return [_sum_products(call, terms, result)]


def _transpose(call: Call) -> Outputs:
    order = call.integers("perm") or reversed(range(len(call.data)))
    return [tuple(call.data[axis] for axis in order)]


def _flatten(call: Call) -> Outputs:
    axis = call.integer("axis", 1)
    return [(join(*call.data[:axis]), join(*call.data[axis:]))]


def _squeeze(call: Call) -> Outputs:
    data = call.data
    stated = call.integers("axes", 1)
    if stated is None:
        taken = [number for number, axis in enumerate(data) if call.table.count(axis) == 1]
    else:
        taken = [number % len(data) for number in stated]
    if any(is_free(data[number]) for number in taken):
        raise SizeRefusal("removes an axis whose size is free")
    return [tuple(axis for number, axis in enumerate(data) if number not in taken)]


def _unsqueeze(call: Call) -> Outputs:
    rank = len(call.shape())
    added = {axis % rank for axis in call.integers("axes", 1) or ()}
    if rank - len(added) != len(call.data):
        raise SizeRefusal("has axes that are not stated")
    rest = iter(call.data)
    return [tuple([() if number in added else next(rest) for number in range(rank)])]


def _reshape(call: Call) -> Outputs:
    target = regroup(call.table, call.data, call.shape())
    if call.get_operand(1).has_free_axis:
        raise SizeRefusal("uses values of samples as sizes")
    # A 0 copies the input's size, unless allowzero makes it a size.
    copied = () if call.integer("allowzero") else call.data
    both = enumerate(zip(target, copied, strict=False))
    kept = [place for place, (axis, own) in both if axis == own]
    if _makes_target(call, target, kept):
        return [target]
    if not call.has(1):
        raise SizeRefusal("states its sizes as an attribute")
    wanted = list(target)
    for place in kept:
        if is_free(target[place]):
            wanted[place] = (0,)
    # -1 can be used once: for the axis that takes most operators to compute.
    longest = max(wanted, key=lambda axis: len(list_names(axis)), default=())
    if is_free(longest):
        wanted[wanted.index(longest)] = (-1,)
    call.edits[1] = Edit(tuple(wanted))
    return [target]


def _makes_target(call: Call, target: Axes, kept: Collection[int]) -> bool:
    """Return whether the stated sizes make ``target`` for all free sizes; a 0 keeps ``kept`` axes."""
    sizes = call.get_operand(1)
    if sizes.row is None:
        return sizes.depends and not any(map(call.table.is_new, target))
    for place, (size, axis) in enumerate(zip(sizes.row, target, strict=False)):
        is_copied = size == (0,) and place in kept
        if not is_copied and size not in (axis, (-1,)):
            return False
    return True


def _expand(call: Call) -> Outputs:
    row = call.operands[1].row
    sizes = _fix_axes(call.shape()) if row is None else row
    rank = max(len(call.data), len(sizes))
    data, wanted = _pad_axes(call.data, rank), _pad_axes(sizes, rank)
    fitted: list[Axis] = []
    for axis, size in zip(data, wanted, strict=True):
        # A 1 leaves a free axis unchanged; the file's size would fix it.
        would_fix = is_free(axis) and not is_free(size)
        is_equal = call.table.count(size) == call.table.count(axis)
        fitted.append(() if would_fix and is_equal else size)
    if row is not None and tuple(fitted[rank - len(row) :]) != row:
        call.edits[1] = Edit(tuple(fitted))
    return [tuple(map(call.table.merge, zip(data, fitted, strict=True)))]


def _tile(call: Call) -> Outputs:
    row = call.operands[1].row
    if row is None or len(row) != len(call.data):
        raise SizeRefusal("has repeats that are not stated")
    return [tuple(map(join, row, call.data))]


def _fill(call: Call) -> Outputs:
    row = call.operands[0].row
    if call.node.op == "Range":
        start, end, step = (operand.row for operand in call.operands)
        row = end if (start, step) == (((0,),), ((),)) else None
    # A model that does not follow this fails in the proof
    return [_fix_axes(call.shape()) if row is None else row]


def _concat(call: Call) -> Outputs:
    axis = call.axis(1)
    along = [call.get_axes(place)[axis] for place in range(len(call.operands))]
    call.refuse_batch(along, "joins values along the samples")
    common = call.align(axis)
    # The sum is a new size, derived from the operand with the most free sizes.
    freest = max(along, key=lambda each: len(list_names(each)))
    common[axis] = call.table.derive(freest, call.shape()[axis])
    return [tuple(common)]


def _split(call: Call) -> Outputs:
    axis = call.data[call.axis()]
    call.refuse_batch([axis], "splits the samples")
    if is_free(axis) and call.integers("split", 1) is not None:
        raise SizeRefusal("splits an axis whose size is free into parts of fixed sizes")
    return _along(_no_axis)(call)


def _slice(call: Call) -> Outputs:
    data = call.data
    starts, ends = call.integers("starts", 1), call.integers("ends", 2)
    axes = call.integers("axes", 3) or list(range(len(starts or ())))
    steps = call.integers("steps", 4) or [1] * len(axes)
    if starts is None or ends is None:
        sliced = [data[axis] for axis in axes] or data
        call.refuse_batch(sliced, "has a start or end that is not stated")
        is_head = (starts, steps) == ([0] * len(axes), [1] * len(axes))
        return [_cut(call, axes)] if is_head else _along(_no_axis)(call)
    moved = list(ends)
    for number, (place, *cut) in enumerate(zip(axes, starts, ends, steps, strict=False)):
        moved[number] = _move_end(call, data[place % len(data)], *cut)
    if moved != ends:
        call.edits[2] = Edit(tuple([(end,) for end in moved]), dtype=call.operands[2].dtype)
    return _along(_no_axis)(call)


def _move_end(call: Call, axis: Axis, start: int, end: int, step: int) -> int:
    """Return the end of a slice for every size of an axis: the largest number means the axis's end."""
    size = call.table.count(axis)
    if start or step != 1 or end < size:
        call.refuse_batch([axis], "takes some of the samples")
    # The size in the file would cut off a larger axis.
    if not is_free(axis) or step <= 0 or not size <= end < _LARGEST["int32"]:
        return end
    if not call.has(2):
        raise SizeRefusal("states its sizes as an attribute")
    return _LARGEST[call.operands[2].dtype]


def _cut(call: Call, axes: Sequence[int]) -> Axes:
    """Return the axes of the first part of a value, such as a table; a row states its length."""
    data, shape, table = call.data, call.shape(), call.table
    cut = [table.derive(axis, size) for axis, size in zip(data, shape, strict=True)]
    for place, axis in zip(axes, call.get_operand(2).row or (), strict=False):
        becomes_free = not is_free(data[place]) and is_free(axis)
        if becomes_free and table.count(axis) == shape[place]:
            cut[place] = axis
    return tuple(cut)


def _gather(call: Call) -> Outputs:
    axis = call.axis()
    call.refuse_batch([call.data[axis]], "selects samples by index")
    return [(*call.data[:axis], *call.get_axes(1), *call.data[axis + 1 :])]


def _gather_elements(call: Call) -> Outputs:
    axis = call.axis()
    along = [call.get_axes(place)[axis] for place in range(len(call.operands))]
    call.refuse_batch(along, "selects samples by index")
    common = call.align(axis)
    # As many as indices, or as the data that ScatterElements changes.
    place = 1 if call.node.op == "GatherElements" else 0
    common[axis] = call.get_axes(place)[axis]
    return [tuple(common)]


def _resize(call: Call) -> Outputs:
    data = call.data
    call.refuse_batch(data[1:], "works along the samples")
    if not call.has(3) or call.operands[3].depends:
        return _along(_no_axis)(call)
    target = []
    for axis, size in zip(data, call.shape(), strict=True):
        times, rest = divmod(size, call.table.count(axis))
        if not is_free(axis):
            target.append(fix(size))
            continue
        # Only a whole multiple of a free size can be computed from it.
        if rest:
            raise SizeRefusal(f"has a fixed size of {size} on an axis whose size is free")
        target.append(join(axis, fix(times)))
    stated = [target[axis] for axis in call.integers("axes") or range(len(data))]
    if any(map(is_free, stated)):
        call.edits[3] = Edit(tuple(stated))
    return [tuple(target)]


def _shape(call: Call) -> Outputs:
    call.row = call.data[call.integer("start") : call.integer("end", len(call.data))]
    return [(fix(len(call.row)),)]


def _recur(call: Call) -> Outputs:
    """Return an RNN's axes: sequence, direction, batch, hidden; with layout 1 the batch is first."""
    at = 0 if call.integer("layout") else 1
    sequence, batch = call.data[1 - at], call.data[at]
    call.refuse_batch([sequence, call.data[2]], "works along the samples")
    direction, hidden = (call.get_axes(2)[number] for number in (0, 2))
    for place, number, rank in ((4, 0, 1), (5, at, 3), (6, at, 3)):
        axes = call.get_axes(place) if call.has(place) else ()
        if not axes or axes[number] == batch:
            continue
        if axes[number] or call.table.has_batch(axes):
            raise SizeRefusal("has different samples in its states and its sequence")
        call.edits[place] = expand_axis(number, batch, rank)
    if at:
        state: Axes = (direction, batch, hidden)
        states: Axes = (sequence, *state)
    else:
        state = (batch, direction, hidden)
        states = (batch, sequence, direction, hidden)
    return [states, state, state][: len(call.shapes)]


_ELEMENTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
Cast CastLike Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater
GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean
Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
"""
_WINDOWS = """
AveragePool Conv ConvInteger ConvTranspose DepthToSpace GroupNormalization InstanceNormalization
LRN LpPool QLinearConv SpaceToDepth Upsample
"""
_REDUCTIONS = """
ArgMax ArgMin GlobalAveragePool GlobalLpPool GlobalMaxPool ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""
_FUSED_ELEMENTWISE = "BiasGelu FastGelu Gelu QuickGelu"
_SIZED = frozenset(("ConstantOfShape", "Expand", "Range", "Shape", "Tile"))
"""Operators that make free sizes from values without any."""
_SIZES_AT = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1}
"""Operands that are rows of sizes."""
SIZE_OPERANDS: dict[str, Sequence[int]] = {
    "ConstantOfShape": (0,),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "Slice": (1, 2),
}
SIZE_OPERANDS |= dict.fromkeys("Expand Pad Reshape Split Tile TopK Upsample".split(), (1,))
"""Operands that are sizes, repeats or indices."""
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _broadcast),
    **dict.fromkeys(_WINDOWS.split(), _along(_inner_axes)),
    **dict.fromkeys(_REDUCTIONS.split(), _reduce),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _multiply),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recur),
    **dict.fromkeys(("GatherElements", "ScatterElements"), _gather_elements),
    **dict.fromkeys(("ConstantOfShape", "Range"), _fill),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _along(_softmax_axes)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _along(_last_axes)),
    **dict.fromkeys(("LpNormalization", "TopK"), _along(_one_axis(-1))),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _along(_no_axis)),
    **{op: partial(find_by_sample, rule) for op, rule in BY_SAMPLE.items()},
    "BatchNormalization": _normalize,
    "Concat": _concat,
    "CumSum": _along(_sum_axes),
    "DynamicQuantizeLinear": _quantize,
    "Einsum": _sum_by_letters,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _multiply_matrices,
    "GridSample": sample_grid,
    "MaxPool": _pool,
    "MeanVarianceNormalization": _along(lambda call: call.integers("axes") or (0, 2, 3)),
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _along(lambda call: range(len(call.data) - 2, len(call.data))),
    "Unsqueeze": _unsqueeze,
}
_FUSED: Mapping[str, Rule] = {
    **dict.fromkeys(_FUSED_ELEMENTWISE.split(), _broadcast),
    **dict.fromkeys(("FusedConv", "QLinearConv"), _along(_inner_axes)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip),
    **{op: partial(find_by_sample, rule) for op, rule in BY_SAMPLE_FUSED.items()},
    "DynamicQuantizeLSTM": _quantize_sequence,
    "MatMulNBits": _multiply_packed,
}
"""The onnxruntime operators that its optimizer and common tools write most."""
