"""Folding as a whole: plan, compute the arrays, rewrite the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphshare.checkpoint.model import Checkpoint
from graphshare.ir.graph import Node, Rewrite
from graphshare.progress import task
from graphshare.rewrite.fold.graph import fold_graph, name_biases
from graphshare.rewrite.fold.plan import Pair, plan_folding
from graphshare.rewrite.fold.report import Folded, Folding, Unfolded
from graphshare.text.names import split_key

if TYPE_CHECKING:
    from graphshare.ops.kernel import Array


def fold(model: Checkpoint) -> tuple[Rewrite, dict[str, Array], Folding]:
    """Return the rewrite that folds what can be folded, the arrays that change, and the report."""
    from graphshare.ops.kernel import KernelError  # start-up: --help must not import numpy
    from graphshare.rewrite.fold.weights import fold_group

    plan = plan_folding(model.graph)
    left: dict[Node, str] = dict(plan.left)
    params = model.params
    file = model.parameter_file
    records = {split_key(record.key or "")[1]: record for record in (file.records if file is not None else ())}
    results: list[tuple[tuple[Pair, ...], Array, Array]] = []
    with task("folding", len(plan.groups), "weights") as advance:
        for group in plan.groups:
            try:
                results.append((group, *fold_group(group, params, records)))
            except KernelError as refusal:
                left.update((pair.norm, str(refusal)) for pair in group)
            advance(1)
    groups = [group for group, _, _ in results]
    biases = name_biases(model.graph, groups, records)
    arrays: dict[str, Array] = {}
    folded = []
    for group, weight, bias in results:
        names = group[0].weight.name, biases[group[0].weight]
        arrays.update(zip(names, (weight, bias), strict=True))
        folded.append(Folded(*names, tuple(p.layer.name for p in group), tuple(p.norm.name for p in group)))
    reasons = tuple(Unfolded(node.name, left[node]) for node in model.graph.nodes if node in left)
    return fold_graph(model.graph, groups, biases), arrays, Folding(tuple(folded), reasons)
