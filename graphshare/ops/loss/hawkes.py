"""The log likelihood of marked events under self-exciting (Hawkes) processes, and its gradients."""

from __future__ import annotations

from math import ceil

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import LAPACK, Limits, require, with_limits
from graphshare.ops.unification import dims_of_rank, unify
from graphshare.text.format import format_count


def log_likelihood(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, Array]:
    """Return the log likelihood of each sequence ``(N,)``, and the memory of each mark at the end ``(N, K)``.

    Inputs are rates ``(N, K)``, branching ratios and decays ``(K,)``, memories at the start ``(N, K)``, waiting times and marks
    ``(N, T)``, and for each sequence the number of events and the end of the observation.
    """
    rates, ratios, decays, state, lags, marks, counts, ends = inputs
    real = {x.dtype for x in (*inputs[:5], ends)}
    require(len(real) == 1 and rates.dtype.kind == "f", f"dtypes {', '.join(sorted(map(str, real)))}, expected one of floats")
    require(marks.dtype == np.int32, f"marks are {marks.dtype}, expected int32")
    number = lags.dtype.type
    memory, likelihood = state.copy(), np.zeros(len(lags), lags.dtype)
    for i in range(len(lags)):
        last, now = np.zeros(rates.shape[1], lags.dtype), number(0)
        for lag, mark in zip(lags[i, : ceil(counts[i])], marks[i], strict=False):
            if not 0 <= mark < rates.shape[1]:
                raise KernelError(f"mark {mark} is out of range for {format_count(rates.shape[1], 'mark')}")
            now = now + lag
            wait = now - last[mark]
            fading = np.exp(-decays[mark] * wait)
            rate = rates[i, mark] + ratios[mark] * decays[mark] * memory[i, mark] * fading
            expected = rates[i, mark] * wait + ratios[mark] * memory[i, mark] * (1 - fading)
            likelihood[i] += np.log(rate) - expected
            memory[i, mark] = 1 + memory[i, mark] * fading
            last[mark] = now
        wait = ends[i] - last
        fading = np.exp(-decays * wait)
        likelihood[i] -= (rates[i] * wait + ratios * memory[i] * (1 - fading)).sum()
        memory[i] *= fading
    return likelihood, memory


def _infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    both = unify(unify(inputs[0], inputs[3]), outputs[1])
    count, marks = dims_of_rank(both, 2)
    steps = unify(unify(inputs[4], inputs[5]), (count, None))
    count = dims_of_rank(steps, 2)[0]
    each, by_mark = (count, marks), (marks,)
    shapes = [each, by_mark, by_mark, each, steps, steps, (count,), (count,)]
    return [unify(a, b) for a, b in zip(shapes, inputs, strict=True)], [unify((count,), outputs[0]), each]


def _infer_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    dtype = inputs[0]
    return [dtype, dtype, dtype, dtype, dtype, "int32", dtype, dtype], [dtype, dtype]


KERNELS = with_limits(
    Limits(first=LAPACK, finite=True), Kernel("_contrib_hawkesll", log_likelihood, _infer_shapes, _infer_dtypes)
)


def log_likelihood_gradient(entry: TapeEntry, dy: Array, dmemory: Array | None = None) -> Gradients:
    """Return the gradients of rates, branching ratios and decays, event by event in the order of the forward pass."""
    rates, ratios, decays, state, lags, marks, counts, ends = entry.inputs
    number = lags.dtype.type
    drates, dratios, ddecays = (np.zeros_like(x) for x in (rates, ratios, decays))
    for i in range(len(lags)):
        memory, slope = state[i].copy(), np.zeros_like(decays)
        last, now = np.zeros_like(decays), number(0)
        by_rate, by_ratio, by_decay = (np.zeros_like(decays) for _ in range(3))
        for lag, k in zip(lags[i, : ceil(counts[i])], marks[i], strict=False):
            now = now + lag
            wait = now - last[k]
            fading = np.exp(-decays[k] * wait)
            rate = rates[i, k] + ratios[k] * decays[k] * memory[k] * fading
            by_rate[k] += 1 / rate - wait
            by_ratio[k] += decays[k] * memory[k] * fading / rate - memory[k] * (1 - fading)
            excited = memory[k] * (1 - decays[k] * wait) + decays[k] * slope[k]
            by_decay[k] += ratios[k] * (fading * excited / rate - slope[k] * (1 - fading) - memory[k] * wait * fading)
            slope[k] = fading * (slope[k] - wait * memory[k])
            memory[k] = 1 + memory[k] * fading
            last[k] = now
        wait = ends[i] - last
        fading = np.exp(-decays * wait)
        by_rate -= wait
        by_ratio -= memory * (1 - fading)
        by_decay -= ratios * (slope * (1 - fading) + memory * wait * fading)
        drates[i] = dy[i] * by_rate
        dratios += dy[i] * by_ratio
        ddecays += dy[i] * by_decay
    return [drates, dratios, ddecays]


GRADIENTS = (Gradient("_contrib_hawkesll", log_likelihood_gradient, reads_outputs=False),)
