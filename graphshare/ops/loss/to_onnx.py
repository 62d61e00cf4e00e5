"""Losses in ONNX: their outputs at inference. Most do not depend on the label.

Connectionist temporal classification is a ``Scan`` over steps, the log likelihood of marked events
a ``Scan`` over events.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.loss.kernel import require_one_dtype
from graphshare.ops.onnx_terms import Term, term, terms
from graphshare.ops.translation import FAR, Translation, Translator, Value, keep_input


def translate_softmax_output(t: Translation) -> str:
    """Emit the kernel's ``Softmax``."""
    x = t.inputs[0]
    if t.attrs["multi_output"]:
        if x.rank < 2:
            t.refuse("its data has no axis 1 for multi_output")
        return t.emit("Softmax", x, axis=1)
    is_along_last = x.rank == 2 or (x.dtype == "float32" and x.rank in (1, 4))
    if t.attrs["preserve_shape"] or is_along_last:
        return t.emit("Softmax", x, axis=-1)
    rows = t.reshape(x, (x.shape[0], prod(x.shape[1:])))
    return t.reshape(t.emit("Softmax", rows, axis=-1), x.shape)


def translate_softmax_cross_entropy(t: Translation) -> str:
    """Emit the kernel's sum of log probabilities."""
    x, label = t.inputs
    wide = "float64" if x.dtype == "float64" else "float32"
    logs = t.emit("LogSoftmax", t.cast(x, wide), axis=1)
    classes = t.emit("Unsqueeze", t.cast(label, "int64"), t.integers([1]))
    chosen = t.emit("GatherElements", logs, classes, axis=1)
    floor = t.number(np.log(np.asarray(1e-8, wide)), wide)
    total = t.reduce("ReduceSum", t.cast(t.emit("Max", chosen, floor), "float64", dtype=wide), [0])
    return t.cast(t.emit("Neg", total), x.dtype, dtype="float64")


_WIDE = "float64"


def translate_ctc_loss(t: Translation) -> str:
    """Emit the kernel's loss."""
    steps, samples, _ = t.inputs[0].shape
    width = t.inputs[1].shape[1]
    if not width:  # as labels of padding alone
        padding = t.constant(
            np.full((samples, 1), 0 if t.attrs["blank_label"] == "first" else -1), "int32"
        )
        labels = Value(padding, (samples, 1), "int32")
        return translate_ctc_loss(
            t.derive(t.attrs, [t.inputs[0], labels, *t.inputs[2:]], t.outputs)
        )
    size = 2 * width + 1
    times, label, lengths, blank = _read_labels(t)
    inside = _constant(t, np.arange(width)[None]) < _column(lengths)
    word = inside.choose(label, blank)
    path = _with_blanks(t, word, blank, size)  # (N, 2 * L + 1)
    logs = Term(t, t.emit("LogSoftmax", t.cast(t.inputs[0], _WIDE), axis=2), _WIDE)
    emitted = logs.apply("GatherElements", path.unsqueeze(0).expand((steps, samples, size)), axis=2)
    first = emitted.apply("Gather", emitted.number(0, "int64"), axis=0)
    start = (_constant(t, np.arange(size)) < 2).choose(first, -np.inf)
    after = _advance(t, start, emitted, path, times, blank) if steps > 1 else start
    last = 2 * lengths
    ends = [
        after.apply("GatherElements", _column(place.apply("Max", 0)), axis=1)
        for place in (last - 1, last)
    ]
    # An empty word ends on its only blank.
    ends[0] = _column(lengths > 0).choose(ends[0], -np.inf)
    loss = -Term(t, t.emit("Concat", *(end.name for end in ends), axis=1), _WIDE).reduce(
        "ReduceLogSumExp", [1]
    )
    fits = (times >= lengths + _count_repeats(t, word, inside, width)) & (times > 0)
    return fits.choose(loss, 0.0).cast(t.inputs[0].dtype).name


def _read_labels(t: Translation) -> tuple[Term, Term, Term, int]:
    """Return numbers of steps, labels, lengths, and the blank's class."""
    data, label = t.inputs[:2]
    steps, samples, classes = data.shape
    labels = _round(term(t, 1))
    blank, padding = (0, 0) if t.attrs["blank_label"] == "first" else (classes - 1, -1)
    times = (
        _round(term(t, 2))
        if t.attrs["use_data_lengths"]
        else labels.number(steps).expand((samples,))
    )
    if t.attrs["use_label_lengths"]:
        return times, labels, _round(term(t, len(t.inputs) - 1)), blank
    width = label.shape[1]
    places = labels.equals(padding).choose(_constant(t, np.arange(width)[None]), width)
    return times, labels, places.reduce("ReduceMin", [1]), blank


def _advance(
    t: Translation, start: Term, emitted: Term, path: Term, times: Term, blank: int
) -> Term:
    """Scan the log probabilities of paths to each sample's last step."""
    steps, samples, size = t.inputs[0].shape[0], t.inputs[0].shape[1], 2 * t.inputs[1].shape[1] + 1
    before = t.pad(t.slice(path.name, [1], [0], [-2]), (0, 2), (0, 0), blank, "int64")
    may_skip = ~path.equals(blank) & ~path.equals(Term(t, before, "int64"))
    # -inf forbids the skip, 0 allows it.
    forbidden = may_skip.choose(emitted.number(0), -np.inf)

    def step(inputs: Sequence[Value]) -> list[Value]:
        ahead, new, place = (term(t, x) for x in inputs)
        moved = [Term(t, _shift(t, ahead, by), _WIDE) for by in (1, 2)]
        ways = [way.unsqueeze(0).name for way in (ahead, moved[0], moved[1] + forbidden)]
        total = Term(t, t.emit("Concat", *ways, axis=0), _WIDE).reduce("ReduceLogSumExp", [0]) + new
        out = _column(place < times).choose(total, ahead)
        return [Value(out.name, (samples, size), _WIDE)]

    state = Value("ahead", (samples, size), _WIDE)
    body = t.body(
        [state, Value("emitted", (samples, size), _WIDE), Value("step", (1,), "int64")], step
    )
    rest = t.slice(emitted.name, [0], [1], [FAR])
    places = t.constant(np.arange(1, steps)[:, None], "int64")
    (out,) = t.emit_several("Scan", 1, start.name, rest, places, body=body, num_scan_inputs=2)
    return Term(t, out, _WIDE)


def _shift(t: Translation, ahead: Term, by: int) -> str:
    """Shift log probabilities ``by`` places along the path, after minus infinity."""
    return t.slice(t.pad(ahead.name, (0, by), (0, 0), -np.inf, _WIDE), [1], [0], [-by])


def _with_blanks(t: Translation, word: Term, blank: int, size: int) -> Term:
    """Put blanks between and around: (N, 2 * L + 1)."""
    samples, width = t.inputs[1].shape
    pairs = t.pad(word.unsqueeze(2).name, (0, 0, 1), (0, 0, 0), blank, "int64")
    return Term(
        t, t.pad(t.reshape(pairs, (samples, 2 * width)), (0, 0), (0, 1), blank, "int64"), "int64"
    )


def _count_repeats(t: Translation, word: Term, inside: Term, width: int) -> Term:
    later, earlier = (
        Term(t, t.slice(word.name, [1], [a], [b]), "int64") for a, b in ((1, width), (0, width - 1))
    )
    both = Term(t, t.slice(inside.name, [1], [1], [width]), "bool")
    return (later.equals(earlier) & both).cast("int64").reduce("ReduceSum", [1])


def _round(x: Term) -> Term:
    """Round half away from 0."""
    return x.widen().round_half_away().cast("int64") if x.is_float else x.cast("int64")


def _constant(t: Translation, array: object) -> Term:
    return Term(t, t.constant(array, "int64"), "int64")


def _column(x: Term) -> Term:
    return x.unsqueeze(1)


def translate_log_likelihood(t: Translation) -> list[str]:
    """Emit the kernel's log likelihoods and final memories."""
    require_one_dtype([x.dtype for x in t.inputs])
    rates, ratios, decays, memory, lags, marks, counts, ends = terms(t)
    (samples, number), steps, dtype = t.inputs[0].shape, t.inputs[4].shape[1], rates.dtype
    if not steps or not number:
        t.refuse("its sequences have no elements")
    shapes = [(samples, number), (samples, number), (samples, 1), (samples, 1)]
    columns = Term(t, t.constant(np.arange(number)[None], "int64"), "int64")
    limit = _column(counts.apply("Ceil"))

    def step(inputs: Sequence[Value]) -> list[Value]:
        memory, last, likelihood, now, lag, mark, place = (term(t, x) for x in inputs)
        now = now + _column(lag)
        at = _column(mark.cast("int64"))
        rate, past, ratio, decay, then = (
            x.expand((samples, number)).apply("GatherElements", at, axis=1)
            for x in (rates, memory, ratios, decays, last)
        )
        wait = now - then
        fading = (-decay * wait).apply("Exp")
        gain = (rate + ratio * decay * past * fading).apply("Log") - (
            rate * wait + ratio * past * (1 - fading)
        )
        goes_on = place < limit
        is_mark = columns.equals(at) & goes_on
        results = [
            is_mark.choose(1 + past * fading, memory),
            is_mark.choose(now, last),
            goes_on.choose(likelihood + gain, likelihood),
            now,
        ]
        return [Value(x.name, shape, dtype) for x, shape in zip(results, shapes, strict=True)]

    zeros = [rates.number(0).expand(shape).name for shape in shapes[1:]]
    scanned = [
        Value("lag", (samples,), dtype),
        Value("mark", (samples,), "int32"),
        Value("place", (1,), dtype),
    ]
    body = t.body([*(Value("state", shape, dtype) for shape in shapes), *scanned], step)
    rows = [t.transpose(x.name, (1, 0)) for x in (lags, marks)]
    places = t.constant(np.arange(steps)[:, None], dtype)
    outputs = t.emit_several(
        "Scan", 4, memory.name, *zeros, *rows, places, body=body, num_scan_inputs=3
    )
    end, last, likelihood = (Term(t, name, dtype) for name in outputs[:3])
    wait = _column(ends) - last
    fading = (-decays * wait).apply("Exp")
    rest = (rates * wait + ratios * end * (1 - fading)).reduce("ReduceSum", [1])
    return [(likelihood.reshape((samples,)) - rest).name, (end * fading).name]


TRANSLATIONS = (
    Translator(
        "SoftmaxOutput", translate_softmax_output, "its data has an axis 1, with multi_output"
    ),
    *(
        Translator(name, keep_input)
        for name in ("LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", "MakeLoss")
    ),
    Translator("LogisticRegressionOutput", lambda t: t.emit("Sigmoid", t.inputs[0])),
    Translator("softmax_cross_entropy", translate_softmax_cross_entropy),
    Translator("CTCLoss", translate_ctc_loss),
    Translator(
        "_contrib_hawkesll",
        translate_log_likelihood,
        "its sequences have elements and its dtype is floating point",
    ),
)
