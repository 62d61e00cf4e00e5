"""``run`` in batches: a few images at a time, the outputs joined on their batch axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.analysis.batch_axis import follow_batch
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.targets import resolve_targets
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.execute.prepare import runnable_part, unique_names
from graphshare.execute.run import Computed
from graphshare.formats.images.images import Images
from graphshare.ir.graph import Graph
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.progress import task


def run_batches(
    graph: Graph,
    size: int,
    compute: Callable[[Mapping[str, Any]], Computed],
    *,
    feeds: Mapping[str, Any],
    targets: Sequence[str] = (),
) -> Computed:
    """Compute ``targets`` for ``size`` images at a time; ``compute`` runs ``graph`` with feeds, of which others stay the same.

    The last batch is filled up with the last image, and what that gives is dropped.

    Raises:
        UsageError: no feed is images, or two differ in their number.
        RefusedError: an operator mixes the samples of a batch, or what ``compute`` refuses.
    """
    images = {name: value for name, value in feeds.items() if isinstance(value, Images)}
    count = _count_images(images)
    axes = _find_batch_axes(graph, images, targets)
    parts = []
    with task("computing", count, "images") as advance:
        for start in range(0, count, size):
            indices = [min(number, count - 1) for number in range(start, start + size)]
            parts.append(compute({**feeds, **{name: value.take(indices) for name, value in images.items()}}))
            advance(min(size, count - start))
    outputs = {name: _join([part.outputs[name] for part in parts], axis, count, size) for name, axis in axes.items()}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    peak, variables = max(part.peak_bytes for part in parts), max(part.variable_bytes for part in parts)
    return Computed(outputs, peak, variables, sum(part.seconds for part in parts), [], list(notes))


def _count_images(images: Mapping[str, Images]) -> int:
    if not images:
        hint = "feed a folder, as in --feed data=photos, or leave --batch out"
        raise UsageError(Fault("--batch is for images, and no --feed is one", hint=hint))
    counts = {name: len(value) for name, value in images.items()}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name} {number}" for name, number in counts.items())
        raise UsageError(Fault(f"--batch needs as many images for each input; there are {numbers}"))
    return next(iter(counts.values()))


def _find_batch_axes(graph: Graph, images: Mapping[str, Images], targets: Sequence[str]) -> dict[str, int | None]:
    """Return the batch axis of each output by name; None for one that depends on no image.

    Raises:
        RefusedError: operators that mix the samples of a batch; all are listed.
    """
    heads = resolve_targets(targets, graph.nodes, option="--target") if targets else list(graph.heads)
    part, _ = runnable_part(graph, heads)
    nodes = post_order(entry.node for entry in part.heads)
    inputs = {node: 0 for node in nodes if node.is_variable and node.name in images}
    found, all_couplings = follow_batch(nodes, inputs, rank=4)
    couplings = [coupling for coupling in all_couplings if not coupling.only_training]
    if couplings:
        hint = "leave --batch out: all images are one batch then"
        raise RefusedError([Fault(f"{c.node.op} {c.why}", node=c.node.name, hint=hint) for c in couplings])
    names = unique_names([output_name(entry) for entry in heads])
    places = [found.get((head.node, head.index)) for head in part.heads]
    return {name: None if at is None else at.axis for name, at in zip(names, places, strict=True)}


def _join(arrays: Sequence[Array], axis: int | None, count: int, size: int) -> Array:
    """Return the outputs of all batches as one, without what filled the last batch up."""
    if axis is None:
        return arrays[0]
    whole = np.concatenate(arrays, axis)
    per_image = whole.shape[axis] // (size * len(arrays))
    kept: Array = whole[(slice(None),) * axis + (slice(0, count * per_image),)]
    return kept
