"""Connectionist temporal classification in ONNX: the forward recursion of all samples at once as ``Scan`` over the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import FAR, Translation, Value

_WIDE = "float64"


def translate_ctc_loss(t: Translation) -> str:
    """Emit minus the logarithm of the probability of each label over all alignments, 0 if the label is too long."""
    steps, samples, _ = t.inputs[0].shape
    width = t.inputs[1].shape[1]
    size = 2 * width + 1
    times, label, lengths, blank = _read_labels(t)
    inside = _constant(t, np.arange(width)[None]) < _column(lengths)
    word = inside.choose(label, blank)
    path = _with_blanks(t, word, blank, size)  # (N, 2 * L + 1)
    logs = Term(t, t.emit("LogSoftmax", t.cast(t.inputs[0], _WIDE), axis=2), _WIDE)
    emitted = logs.apply("GatherElements", _unsqueeze(path, 0).expand((steps, samples, size)), axis=2)
    first = emitted.apply("Gather", emitted.number(0, "int64"), axis=0)
    start = (_constant(t, np.arange(size)) < 2).choose(first, -np.inf)
    after = _advance(t, start, emitted, path, times, blank) if steps > 1 else start
    last = 2 * lengths
    ends = [after.apply("GatherElements", _column(place.apply("Max", 0)), axis=1) for place in (last - 1, last)]
    ends[0] = _column(lengths > 0).choose(ends[0], -np.inf)
    loss = -Term(t, t.emit("Concat", *(end.name for end in ends), axis=1), _WIDE).reduce("ReduceLogSumExp", [1])
    fits = (times >= lengths + _count_repeats(t, word, inside, width)) & (times > 0)
    return fits.choose(loss, 0.0).cast(t.inputs[0].dtype).name


def _read_labels(t: Translation) -> tuple[Term, Term, Term, int]:
    """Return the number of steps, the labels, their lengths, and the class of the blank."""
    data, label = t.inputs[:2]
    steps, samples, classes = data.shape
    labels = _round(term(t, 1))
    blank, padding = (0, 0) if t.attrs["blank_label"] == "first" else (classes - 1, -1)
    times = _round(term(t, 2)) if t.attrs["use_data_lengths"] else labels.number(steps).expand((samples,))
    if t.attrs["use_label_lengths"]:
        return times, labels, _round(term(t, len(t.inputs) - 1)), blank
    width = label.shape[1]
    places = labels.equals(padding).choose(_constant(t, np.arange(width)[None]), width)
    return times, labels, places.reduce("ReduceMin", [1]), blank


def _advance(t: Translation, start: Term, emitted: Term, path: Term, times: Term, blank: int) -> Term:
    """Emit ``Scan``: the log probabilities of the paths after the last step of each sample."""
    steps, samples, size = t.inputs[0].shape[0], t.inputs[0].shape[1], 2 * t.inputs[1].shape[1] + 1
    before = t.pad(t.slice(path.name, [1], [0], [-2]), (0, 2), (0, 0), blank, "int64")
    may_skip = ~path.equals(blank) & ~path.equals(Term(t, before, "int64"))
    forbidden = may_skip.choose(emitted.number(0), -np.inf)

    def step(inputs: Sequence[Value]) -> list[Value]:
        ahead, new, place = (term(t, x) for x in inputs)
        moved = [Term(t, _shift(t, ahead, by), _WIDE) for by in (1, 2)]
        ways = [_unsqueeze(way, 0).name for way in (ahead, moved[0], moved[1] + forbidden)]
        total = Term(t, t.emit("Concat", *ways, axis=0), _WIDE).reduce("ReduceLogSumExp", [0]) + new
        out = _column(place < times).choose(total, ahead)
        return [Value(out.name, (samples, size), _WIDE)]

    state = Value("ahead", (samples, size), _WIDE)
    body = t.body([state, Value("emitted", (samples, size), _WIDE), Value("step", (1,), "int64")], step)
    rest = t.slice(emitted.name, [0], [1], [FAR])
    places = t.constant(np.arange(1, steps)[:, None], "int64")
    (out,) = t.emit_several("Scan", 1, start.name, rest, places, body=body, num_scan_inputs=2)
    return Term(t, out, _WIDE)


def _shift(t: Translation, ahead: Term, by: int) -> str:
    """Return log probabilities ``by`` places further on the path, with minus infinity before."""
    return t.slice(t.pad(ahead.name, (0, by), (0, 0), -np.inf, _WIDE), [1], [0], [-by])


def _with_blanks(t: Translation, word: Term, blank: int, size: int) -> Term:
    """Return the words with blanks between and around (N, 2 * L + 1)."""
    samples, width = t.inputs[1].shape
    pairs = t.pad(_unsqueeze(word, 2).name, (0, 0, 1), (0, 0, 0), blank, "int64")
    return Term(t, t.pad(t.reshape(pairs, (samples, 2 * width)), (0, 0), (0, 1), blank, "int64"), "int64")


def _count_repeats(t: Translation, word: Term, inside: Term, width: int) -> Term:
    """Return the number of classes that follow the same one in each word."""
    later, earlier = (Term(t, t.slice(word.name, [1], [a], [b]), "int64") for a, b in ((1, width), (0, width - 1)))
    both = Term(t, t.slice(inside.name, [1], [1], [width]), "bool")
    return (later.equals(earlier) & both).cast("int64").reduce("ReduceSum", [1])


def _round(x: Term) -> Term:
    """Return the nearest whole numbers, half away from 0."""
    return x.widen().round_half_away().cast("int64") if x.is_float else x.cast("int64")


def _constant(t: Translation, array: object) -> Term:
    return Term(t, t.constant(array, "int64"), "int64")


def _column(x: Term) -> Term:
    return _unsqueeze(x, 1)


def _unsqueeze(x: Term, axis: int) -> Term:
    return Term(x.t, x.t.emit("Unsqueeze", x.name, x.t.integers([axis])), x.dtype)
