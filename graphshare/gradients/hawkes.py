"""The gradient of the likelihood of Hawkes processes: of rates, branching ratios and decays.

As in MXNet the memories have none, neither those at the start nor those at the end, and nothing goes to waiting times and ends,
for whose gradients MXNet refuses to be asked.
"""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Gradients, Record
from graphshare.kernels.kernel import Array


def log_likelihood(record: Record, dy: Array, dmemory: Array | None = None) -> Gradients:
    """Event by event as the forward pass goes, with the derivative of each memory by its decay beside it."""
    rates, ratios, decays, state, lags, marks, counts, ends = record.inputs
    number = lags.dtype.type
    drates, dratios, ddecays = (np.zeros_like(x) for x in (rates, ratios, decays))
    for i in range(len(lags)):
        memory, slope = state[i].copy(), np.zeros_like(decays)
        last, now = np.zeros_like(decays), number(0)
        by_rate, by_ratio, by_decay = (np.zeros_like(decays) for _ in range(3))
        for lag, k in zip(lags[i, : int(counts[i])], marks[i], strict=False):
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


GRADIENTS = (Gradient("_contrib_hawkesll", log_likelihood, reads_outputs=False),)
