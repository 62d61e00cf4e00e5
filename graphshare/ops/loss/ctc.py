"""Connectionist temporal classification and its gradient."""

from __future__ import annotations

import numpy as np

from graphshare.ops.activation.softmax import log_softmax_along
from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.ops.limits import FLOATS, Limits, lie_within, with_limits
from graphshare.ops.unification import dims_of_rank, unify
from graphshare.text.format import format_count


def ctc_loss(context: Context, attrs: Attrs, data: Array, label: Array, *lengths: Array) -> Array:
    """Return each label's negative log probability over all alignments; 0 if too long.

    ``data`` (T, N, C) are logits, ``label`` is (N, L), the result (N,). With ``blank_label`` first,
    class 0 is the blank and pads labels; with last, class C - 1 is the blank and -1 pads.
    """
    logs = log_softmax_along(data.astype(np.float64), 2)
    times, words, blank = read_labels(attrs, data, label, *lengths)
    losses = [_loss(logs[: times[n], n], word, blank) for n, word in enumerate(words)]
    return np.array(losses, data.dtype)


def read_labels(
    attrs: Attrs, data: Array, label: Array, *lengths: Array
) -> tuple[Array, list[Array], int]:
    """Return each sample's number of steps and unpadded label, and the blank's class.

    Raises:
        KernelError: a label's class is out of range, or a length is not within its array.
    """
    steps, samples, classes = data.shape
    times = _round_half_away(lengths[0]) if attrs["use_data_lengths"] else np.full(samples, steps)
    counts = _round_half_away(lengths[-1]) if attrs["use_label_lengths"] else None
    for named, numbers, size in (("data", times, steps), ("label", counts, label.shape[1])):
        if numbers is not None and not lie_within(numbers, 0, size):
            raise KernelError(
                f"{named} lengths are {numbers.min()} to {numbers.max()}, expected 0 to {size}"
            )
    blank, padding = (0, 0) if attrs["blank_label"] == "first" else (classes - 1, -1)
    labels = _round_half_away(label)
    words = []
    for n in range(samples):
        length = labels.shape[1]
        ends = np.flatnonzero(labels[n] == padding)
        if counts is not None:
            length = counts[n]
        elif ends.size:
            length = ends[0]
        word = labels[n, :length]
        if not lie_within(word, 0, classes - 1):
            raise KernelError(f"label {n} has classes outside of 0 to {classes - 1}")
        words.append(word)
    return times, words, blank


def _round_half_away(x: Array) -> Array:
    if x.dtype.kind != "f":
        return x.astype(np.int64)
    return convert(np.trunc(x + np.copysign(x.dtype.type(0.5), x)), np.int64)


def extend_label(word: Array, blank: int) -> tuple[Array, Array]:
    """Return the word with blanks between and around, and where the preceding blank is optional."""
    path = np.full(2 * len(word) + 1, blank)
    path[1::2] = word
    may_skip = np.zeros(len(path), bool)
    may_skip[2:] = (path[2:] != blank) & (path[2:] != path[:-2])
    return path, may_skip


def _loss(logs: Array, word: Array, blank: int) -> float:
    """Compute the loss by forward recursion over the extended word; ``logs`` are (T, C)."""
    # A blank between equal neighbours takes a step.
    repeats = int(np.sum(word[1:] == word[:-1]))
    if len(logs) < len(word) + repeats or not len(logs):
        return 0.0
    path, may_skip = extend_label(word, blank)
    ahead = np.full(len(path), -np.inf)
    ahead[:2] = logs[0, path[:2]]
    for step in logs[1:]:
        ahead = advance_paths(ahead, may_skip) + step[path]
    # An alignment ends on the last class or the blank after it.
    return -float(np.logaddexp.reduce(ahead[-2:]))


def advance_paths(before: Array, may_skip: Array) -> Array:
    """Advance log probabilities one step: stay, move by one, or where allowed by two."""
    one = np.concatenate(([-np.inf], before[:-1]))
    two = np.where(may_skip, np.concatenate(([-np.inf, -np.inf], before))[: len(before)], -np.inf)
    return np.asarray(np.logaddexp(np.logaddexp(before, one), two))


def _infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    steps, samples, classes = dims_of_rank(inputs[0], 3)
    labels, words = dims_of_rank(inputs[1], 2)
    if steps is not None and words is not None and words > steps:
        raise KernelError(
            f"labels of {format_count(words, 'class')} cannot be longer than the {format_count(steps, 'step')} of data"
        )
    sizes = unify((samples,), (labels,))
    for other in (*inputs[2:], *outputs[:1]):
        sizes = unify(sizes, other)
    count: Dim = None if sizes is None else sizes[0]
    return [(steps, count, classes), (count, words), *[(count,)] * (len(inputs) - 2)], [(count,)]


KERNELS = with_limits(
    Limits(first=FLOATS, elements=True),
    Kernel("CTCLoss", ctc_loss, _infer_shapes, lambda attrs, inputs, _: (inputs, [inputs[0]])),
)


def ctc_loss_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return softmax minus class posteriors, times ``dy``; 0 for too long labels."""
    data = entry.inputs[0]
    times, words, blank = read_labels(entry.attrs, *entry.inputs)
    logs = log_softmax_along(data.astype(np.float64), 2)
    dx: Array = np.zeros(data.shape, np.float64)
    for n, (steps, word) in enumerate(zip(times, words, strict=True)):
        dx[:steps, n] = _sample_gradient(logs[:steps, n], word, blank) * float(dy[n])
    return dx.astype(data.dtype)


def _sample_gradient(logs: Array, word: Array, blank: int) -> Array:
    """Compute the gradient by forward and backward recursion; ``logs`` are (T, C)."""
    if len(logs) < len(word) + int(np.sum(word[1:] == word[:-1])):
        return np.zeros_like(logs)
    path, may_skip = extend_label(word, blank)
    here = logs[:, path]
    ahead, behind = np.full(here.shape, -np.inf), np.full(here.shape, -np.inf)
    ahead[0, :2], behind[-1, -2:] = here[0, :2], 0
    for t in range(1, len(here)):
        ahead[t] = advance_paths(ahead[t - 1], may_skip) + here[t]
    for t in reversed(range(len(here) - 1)):
        back = (behind[t + 1] + here[t + 1])[::-1]
        # Backwards, skips lead to where forward skips begin.
        skips = np.concatenate((may_skip[2:][::-1], [False, False]))[: len(path)]
        behind[t] = advance_paths(back, np.concatenate(([False, False], skips))[: len(path)])[::-1]
    whole = np.logaddexp.reduce(ahead[-1, -2:])
    posterior = np.zeros_like(logs)
    share = np.exp(ahead + behind - whole)
    for place, label in enumerate(path):
        posterior[:, label] += share[:, place]
    return np.asarray(np.exp(logs) - posterior)


GRADIENTS = (Gradient("CTCLoss", ctc_loss_gradient, reads_outputs=False),)
