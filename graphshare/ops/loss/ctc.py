"""Connectionist temporal classification."""

from __future__ import annotations

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.limits import FLOATS, Limits, with_limits
from graphshare.ops.softmax.kernel import log_softmax_along
from graphshare.ops.unification import dims_of_rank, unify


def ctc_loss(context: Context, attrs: Attrs, data: Array, label: Array, *lengths: Array) -> Array:
    """Minus the logarithm of the probability of each label, over all its alignments; 0 for one that is too long.

    ``data`` is (T, N, C) before the softmax, ``label`` (N, L), the result (N,). With ``blank_label`` first, class 0 is the
    blank and fills labels up; with last, class C - 1 is the blank and -1 fills up.
    """
    logs = log_softmax_along(data.astype(np.float64), 2)
    times, words, blank = words_of(attrs, data, label, *lengths)
    losses = [_loss(logs[: times[n], n], word, blank) for n, word in enumerate(words)]
    return np.array(losses, data.dtype)


def words_of(attrs: Attrs, data: Array, label: Array, *lengths: Array) -> tuple[Array, list[Array], int]:
    """How many steps each sample has, its label without what fills it up, and the blank's class.

    Raises:
        KernelError: a label has a class that is none.
    """
    steps, samples, classes = data.shape
    given = list(lengths)
    times = convert(given.pop(0), np.int64) if attrs["use_data_lengths"] else np.full(samples, steps)
    counts = convert(given.pop(0), np.int64) if attrs["use_label_lengths"] else None
    blank, filler = (0, 0) if attrs["blank_label"] == "first" else (classes - 1, -1)
    words = convert(label, np.int64)
    found = []
    for n in range(samples):
        fillers = np.flatnonzero(words[n] == filler)
        length = (fillers[0] if fillers.size else words.shape[1]) if counts is None else counts[n]
        word = words[n, :length]
        if word.size and not (word.min() >= 0 and word.max() < classes):
            raise KernelError(f"label {n} has classes beyond 0 to {classes - 1}")
        found.append(word)
    return times, found, blank


def extend_label(word: Array, blank: int) -> tuple[Array, Array]:
    """The word with blanks between and around, and where the blank before may be skipped."""
    path = np.full(2 * len(word) + 1, blank)
    path[1::2] = word
    may_skip = np.zeros(len(path), bool)
    may_skip[2:] = (path[2:] != blank) & (path[2:] != path[:-2])
    return path, may_skip


def _loss(logs: Array, word: Array, blank: int) -> float:
    """The forward recursion over the word with blanks between, ``logs`` (T, C)."""
    repeats = int(np.sum(word[1:] == word[:-1]))
    if len(logs) < len(word) + repeats:
        return 0.0
    path, may_skip = extend_label(word, blank)
    reached = np.full(len(path), -np.inf)
    reached[:2] = logs[0, path[:2]]
    for step in logs[1:]:
        one = np.concatenate(([-np.inf], reached[:-1]))
        two = np.where(may_skip, np.concatenate(([-np.inf, -np.inf], reached))[: len(path)], -np.inf)
        reached = np.logaddexp(np.logaddexp(reached, one), two) + step[path]
    return -float(np.logaddexp.reduce(reached[-2:]))


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    steps, samples, classes = dims_of_rank(inputs[0], 3)
    _, words = dims_of_rank(inputs[1], 2)
    sizes: Shape = (samples,)
    sizes = unify(sizes, dims_of_rank(inputs[1], 2)[:1])
    for other in (*inputs[2:], *outputs[:1]):
        sizes = unify(sizes, other)
    count: Dim = None if sizes is None else sizes[0]
    return [(steps, count, classes), (count, words), *[(count,)] * (len(inputs) - 2)], [(count,)]


def _types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """The labels and lengths may be of any type."""
    return inputs, [inputs[0]]


KERNELS = with_limits(Limits(first=FLOATS), Kernel("CTCLoss", ctc_loss, _shapes, _types))
