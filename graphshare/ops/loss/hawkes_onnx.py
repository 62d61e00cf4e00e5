"""The log likelihood of marked events in ONNX: ``Scan`` over the events of all sequences at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.onnx_terms import Term, term, terms
from graphshare.ops.translation import Translation, Value


def translate_log_likelihood(t: Translation) -> list[str]:
    """Emit the log likelihood of each sequence ``(N,)`` and the memory of each mark at the end ``(N, K)``."""
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
            x.expand((samples, number)).apply("GatherElements", at, axis=1) for x in (rates, memory, ratios, decays, last)
        )
        wait = now - then
        fading = (-decay * wait).apply("Exp")
        gain = (rate + ratio * decay * past * fading).apply("Log") - (rate * wait + ratio * past * (1 - fading))
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
    scanned = [Value("lag", (samples,), dtype), Value("mark", (samples,), "int32"), Value("place", (1,), dtype)]
    body = t.body([*(Value("state", shape, dtype) for shape in shapes), *scanned], step)
    rows = [t.transpose(x.name, (1, 0)) for x in (lags, marks)]
    places = t.constant(np.arange(steps)[:, None], dtype)
    made = t.emit_several("Scan", 4, memory.name, *zeros, *rows, places, body=body, num_scan_inputs=3)
    end, last, likelihood = (Term(t, name, dtype) for name in made[:3])
    wait = _column(ends) - last
    fading = (-decays * wait).apply("Exp")
    rest = (rates * wait + ratios * end * (1 - fading)).reduce("ReduceSum", [1])
    return [(likelihood.reshape((samples,)) - rest).name, (end * fading).name]


def _column(x: Term) -> Term:
    return Term(x.t, x.t.emit("Unsqueeze", x.name, x.t.integers([1])), x.dtype)
