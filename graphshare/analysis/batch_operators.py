"""What each kind of operator does with the axis of a batch: keeps it, moves it, or mixes its samples.

Operators without a rule of their own follow from ``couples_batch`` of their signature.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphshare.analysis.batch_axis import UNKNOWN, At, Mixes, Outcome, Rule, Use
from graphshare.analysis.batch_shapes import moving_rules, one_hot
from graphshare.analysis.roles import PARAMETER_FORMALS

_REDUCES = "takes one value of all samples"


def usual(use: Use) -> Outcome:
    """An operator without a rule of its own."""
    kind = use.signature.couples_batch
    if use.axes_differ or (kind == "elementwise" and _broadcast_apart(use)):
        return "has the samples on different axes of its inputs"
    if kind == "always":
        return "mixes the samples of a batch"
    if kind not in ("never", "elementwise"):
        return UNKNOWN
    wrong = [name for name in use.formals_with_samples() if name in PARAMETER_FORMALS]
    if wrong:
        return f"has a {wrong[0]} that depends on the batch"
    if use.first.axis and kind != "elementwise":
        return f"takes axis 0 for the samples, which are on axis {use.first.axis}"
    return use.first if kind == "elementwise" else At(use.first.axis)


def _broadcast_apart(use: Use) -> bool:
    """Whether inputs of different ranks are stretched to each other: they are lined up at their last axes."""
    ranks = {(at.rank, at.more) for at in use.inputs if at is not None}
    known = {rank for rank, _ in ranks if rank is not None}
    return len(known) > 1 or (len(ranks) > 1 and (1 in known or not known))


def _reduction(use: Use) -> Outcome:
    axes = use.value("axes") if use.signature.name == "moments" else use.value("axis")
    axes = () if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    at = use.first
    hit = any(map(at.is_, axes))
    if use.value("exclude") is True:
        if not axes or not hit:
            return _REDUCES
        return At(at.axis) if use.value("keepdims") else At(sum(0 <= axis < at.axis for axis in axes))
    if not axes or hit:
        return _REDUCES
    if use.value("keepdims"):
        return at
    return at.moved(at.axis - sum(0 <= axis < at.axis for axis in axes), -len(axes))


def _along(use: Use) -> Outcome:
    """Operators that work along one axis and keep it: softmax, sorting, LayerNorm, reverse."""
    axis = use.value("axis")
    if axis is None:
        return "works on all samples in one row"
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return "works along the samples" if any(map(use.first.is_, axes)) else use.first


def _embedding(use: Use) -> Outcome:
    return "has a weight that depends on the batch" if use.input(1) is not None else one_hot(use)


def _leaky(use: Use) -> Outcome:
    return use.first if use.value("act_type") != "prelu" else usual(use)


def _dense(use: Use) -> Outcome:
    if any(use.input(slot) is not None for slot in range(1, len(use.inputs))):
        return "has a weight that depends on the batch"
    if use.value("flatten") is False:
        return use.first
    return At(0, 2) if not use.first.axis else f"takes axis 0 for the samples, which are on axis {use.first.axis}"


def _windows(use: Use) -> Outcome:
    """Convolution and pooling, whose rank follows from the kernel."""
    outcome = usual(use)
    kernel = tuple(use.value("kernel") or ())
    return At(0, len(kernel) + 2) if isinstance(outcome, At) and kernel else outcome


def _batch_norm(use: Use) -> Outcome:
    if any(use.input(slot) is not None for slot in range(1, len(use.inputs))):
        return "has a weight that depends on the batch"
    if use.signature.parameter("axis") is not None and use.first.is_(use.value("axis")):
        return "normalises each sample by values of its own"
    places = [use.first, None, None]  # mean and variance are no sample's
    return (
        places if use.value("use_global_stats") else Mixes("takes mean and variance of the whole batch while training", places)
    )


def _loss(use: Use) -> Outcome:
    how = use.value("normalization")
    if how in ("batch", "valid"):
        counted = "all samples" if how == "batch" else "what is valid in all samples"
        return f"divides its gradient by the number of {counted} (normalization {how})"
    return usual(use)


def _dot(use: Use) -> Outcome:
    lhs, rhs = use.input(0), use.input(1)
    if lhs is not None and not lhs.axis and rhs is None and not use.value("transpose_a"):
        return At(0)
    return "sums over the samples"


def _recurrent(use: Use) -> Outcome:
    names = use.formals_with_samples()
    for name, at in zip(names, [at for at in use.inputs if at is not None], strict=False):
        if name == "parameters":
            return "has a weight that depends on the batch"
        wanted = 0 if name == "sequence_length" else 1
        if at.axis != wanted:
            return f"takes axis {wanted} of its {name} for the samples, which are on axis {at.axis}"
    return At(1, 3) if "data" in names else "has states that depend on the batch, and data that do not"


def _sequence(use: Use) -> Outcome:
    axis = use.value("axis")
    samples = 1 - (axis or 0)
    data, lengths = use.input(0), use.input(1)
    if data is None or data.axis != samples or (lengths is not None and lengths.axis):
        return f"takes axis {samples} for the samples and axis {1 - samples} for time"
    return data.moved(0, -1) if use.signature.name == "SequenceLast" else data


def _at_axes(*wanted: int, out: At) -> Rule:
    """An operator whose inputs have the samples on these axes and whose output has them as told."""

    def rule(use: Use) -> Outcome:
        for slot, axis in enumerate(wanted):
            at = use.input(slot)
            if at is not None and at.axis != axis:
                return f"takes axis {axis} of input {slot} for the samples, which are on axis {at.axis}"
        return out if use.input(0) is not None else UNKNOWN

    return rule


def _counted(use: Use) -> Outcome:
    axis = use.value("axis")
    return "counts all samples" if axis is None or use.first.is_(axis) else None


def _calibrated(use: Use) -> Outcome:
    """Quantizing operators: the range is an attribute or an input, or that of all samples."""
    if use.first.axis and use.signature.name.startswith("_sg_"):
        return f"takes axis 0 for the samples, which are on axis {use.first.axis}"
    quantizes = not use.signature.name.startswith("_sg_") or use.value("quantized")
    if quantizes and use.value("min_calib_range") is None and use.signature.parameter("min_calib_range") is not None:
        return "takes the range of all samples for each (it is not calibrated)"
    return [use.first, None, None]


def _quantized(use: Use) -> Outcome:
    outcome = usual(use)
    return [outcome, None, None] if isinstance(outcome, At) else outcome


def _nothing(use: Use) -> Outcome:
    return None


def _says(why: str) -> Rule:
    return lambda use: why


def _table() -> Iterable[tuple[str, Rule]]:
    """Rules with the operators that they are for."""
    yield "sum mean prod nansum nanprod max min norm argmax argmin moments", _reduction
    yield "softmax log_softmax softmin sort argsort topk LayerNorm reverse", _along
    yield "Embedding", _embedding
    yield "LeakyReLU", _leaky
    yield "FullyConnected", _dense
    yield "Convolution Deconvolution Pooling", _windows
    yield "BatchNorm BatchNorm_v1 _contrib_SyncBatchNorm _contrib_BatchNormWithReLU", _batch_norm
    yield "SoftmaxOutput MakeLoss", _loss
    yield "dot", _dot
    yield "RNN", _recurrent
    yield "SequenceLast SequenceMask SequenceReverse", _sequence
    yield "CTCLoss", _at_axes(1, 0, 0, 0, out=At(0))
    yield "_contrib_interleaved_matmul_selfatt_qk _sg_mkldnn_selfatt_qk", _at_axes(1, out=At(0, 3))
    yield "_contrib_interleaved_matmul_selfatt_valatt _sg_mkldnn_selfatt_valatt", _at_axes(1, 0, out=At(1, 3))
    yield "_contrib_interleaved_matmul_encdec_qk", _at_axes(1, 1, out=At(0, 3))
    yield "_contrib_interleaved_matmul_encdec_valatt", _at_axes(1, 0, out=At(1, 3))
    yield "_contrib_arange_like", _counted
    yield "shape_array size_array", _says("tells how large the batch is")
    yield "_contrib_MultiBoxPrior MultiBoxPrior", _nothing
    yield "_contrib_quantize_v2 _contrib_requantize _sg_mkldnn_conv _sg_mkldnn_fully_connected", _calibrated
    yield "_contrib_quantize", lambda use: [use.first, None, None]
    yield "_contrib_dequantize", lambda use: use.first
    yield "_contrib_quantized_conv _contrib_quantized_fully_connected _contrib_quantized_pooling", _quantized
    yield "_contrib_quantized_act _contrib_quantized_flatten _contrib_quantized_elemwise_add", _quantized
    yield "IdentityAttachKLSparseReg", _says("keeps an average of the whole batch while training")
    yield "diag _slice_assign _slice_assign_scalar", _says("moves the samples")


RULES: dict[str, Rule] = {name: rule for names, rule in (*_table(), *moving_rules()) for name in names.split()}
