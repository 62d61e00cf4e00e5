"""The gradient of connectionist temporal classification."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.ctc import extended, words_of
from graphshare.kernels.kernel import Array
from graphshare.kernels.softmax import log_softmax_along


def ctc_loss(record: Record, dy: Array, *_: Array | None) -> Array:
    """The softmax less the probability that an alignment is at the class, times the head gradient; 0 for a label too long."""
    data = record.inputs[0]
    times, words, blank = words_of(record.attrs, *record.inputs)
    logs = log_softmax_along(data.astype(np.float64), 2)
    dx: Array = np.zeros(data.shape, np.float64)
    for n, (steps, word) in enumerate(zip(times, words, strict=True)):
        dx[:steps, n] = _of_one(logs[:steps, n], word, blank) * float(dy[n])
    return dx.astype(data.dtype)


def _of_one(logs: Array, word: Array, blank: int) -> Array:
    """Of one sample, ``logs`` (T, C): forward and backward recursions over the word with blanks between."""
    if len(logs) < len(word) + int(np.sum(word[1:] == word[:-1])):
        return np.zeros_like(logs)
    path, may_skip = extended(word, blank)
    here = logs[:, path]
    ahead, behind = np.full(here.shape, -np.inf), np.full(here.shape, -np.inf)
    ahead[0, :2], behind[-1, -2:] = here[0, :2], 0
    for t in range(1, len(here)):
        ahead[t] = _reached(ahead[t - 1], may_skip) + here[t]
    for t in reversed(range(len(here) - 1)):
        back = (behind[t + 1] + here[t + 1])[::-1]
        skips = np.concatenate((may_skip[2:][::-1], [False, False]))[: len(path)]
        behind[t] = _reached(back, np.concatenate(([False, False], skips))[: len(path)])[::-1]
    whole = np.logaddexp.reduce(ahead[-1, -2:])
    posterior = np.zeros_like(logs)
    share = np.exp(ahead + behind - whole)
    for place, label in enumerate(path):
        posterior[:, label] += share[:, place]
    return np.asarray(np.exp(logs) - posterior)


def _reached(before: Array, may_skip: Array) -> Array:
    one = np.concatenate(([-np.inf], before[:-1]))
    two = np.where(may_skip, np.concatenate(([-np.inf, -np.inf], before))[: len(before)], -np.inf)
    return np.asarray(np.logaddexp(np.logaddexp(before, one), two))


GRADIENTS = (Gradient("CTCLoss", ctc_loss, reads_outputs=False),)
