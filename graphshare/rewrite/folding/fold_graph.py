"""Plan folds, compute the arrays, rewrite the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.model_format import ModelFormat, find_format
from graphshare.ir.graph import MXNET_DOMAIN, Branch, Entry, Graph, Node, Rewrite, freeze
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.walk import topological
from graphshare.progress import task
from graphshare.rewrite.folding.plan import Pair, plan_folding
from graphshare.rewrite.tie import index_records
from graphshare.text.format import format_count
from graphshare.text.summary import ShortRepr

if TYPE_CHECKING:
    from graphshare.ops.kernel import Array

_NO_BIAS = "no_bias"


class FoldedGraph(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite that folds BatchNorms, with the ``arrays`` that change, by name, and the report."""

    arrays: Mapping[str, Array]
    report: Folding


def fold_graph(model: Checkpoint) -> FoldedGraph:
    """Fold every BatchNorm that can be folded. Raises MemoryLimitError."""
    from graphshare.ops.kernel import KernelError  # start-up: --help must not import numpy
    from graphshare.rewrite.folding.weights import check_fold_memory, fold_group

    plan = plan_folding(model.graph)
    left: dict[Node, str] = dict(plan.left)
    params = model.params
    records = index_records(model.parameter_file)
    check_fold_memory(plan.groups, records)
    results: list[tuple[tuple[Pair, ...], Array, Array]] = []
    with task("folding", len(plan.groups), "weights") as advance:
        for group in plan.groups:
            try:
                results.append((group, *fold_group(group, params, records)))
            except KernelError as refusal:
                left.update((pair.norm, str(refusal)) for pair in group)
            advance(1)
    groups = [group for group, _, _ in results]
    biases = _name_biases(model.graph, groups, records)
    arrays: dict[str, Array] = {}
    folded = []
    for group, weight, bias in results:
        names = group[0].weight.name, biases[group[0].weight]
        arrays.update(zip(names, (weight, bias), strict=True))
        folded.append(
            Folded(*names, tuple(p.layer.name for p in group), tuple(p.norm.name for p in group))
        )
    # Those in bodies last
    order = dict.fromkeys(node for node in (*model.graph.nodes, *left) if node in left)
    reasons = tuple(Unfolded(node.name, left[node]) for node in order)
    new = {first.weight: bias for (first, *_), _, bias in results if first.bias is None}
    make = find_format(model.graph).editing.make_parameter
    variables = {
        weight: make(model.graph, biases[weight], str(bias.dtype), bias.shape)
        for weight, bias in new.items()
    }
    rewrite = _fold_graph(model.graph, groups, variables)
    return FoldedGraph(
        rewrite.graph, rewrite.branches, arrays=arrays, report=Folding(tuple(folded), reasons)
    )


def _name_biases(
    graph: Graph, groups: Sequence[Sequence[Pair]], held: Collection[str]
) -> dict[Node, str]:
    taken = {name for node in graph.nodes for name in (node.name, *node.details.outputs)} | set(
        held
    )
    names: dict[Node, str] = {}
    for first, *_ in groups:
        if first.bias is not None:
            names[first.weight] = first.bias.name
            continue
        name = next(name for name in _bias_names(first.weight.name) if name not in taken)
        taken.add(name)
        names[first.weight] = name
    return names


def _bias_names(weight: str) -> Iterator[str]:
    """Yield ``conv1_bias`` for ``conv1_weight``, then names that are less likely to be taken."""
    base = weight.removesuffix("weight") if weight.endswith("weight") else f"{weight}_"
    yield f"{base}bias"
    number = 1
    while True:
        yield f"{base}folded_bias{number if number > 1 else ''}"
        number += 1


def _fold_graph(
    graph: Graph, groups: Sequence[Sequence[Pair]], variables: Mapping[Node, Node]
) -> Rewrite:
    """Put each layer of ``groups``, with a bias, in the place of its BatchNorm.

    Heads and inner outputs keep their names and values, because the layer gets BatchNorm's name.
    Parameters that only BatchNorm used are removed. ``variables`` are new biases by weight.
    """
    format_ = find_format(graph)
    pairs = {pair.norm: pair for group in groups for pair in group}
    dropped = {pair.layer for pair in pairs.values()} | _find_unused(graph, pairs)

    def change(node: Node) -> Node:
        return _layer_in_place(pairs[node], variables, format_) if node in pairs else node

    images = {variable: variable for variable in variables.values()}
    rebuild([node for node in topological(graph) if node not in dropped], change, images=images)
    nodes: list[Node] = []
    waiting = dict(variables)
    for node in graph.nodes:
        pair = pairs.get(node)
        # A new bias precedes all layers that share it.
        if pair is not None and pair.weight in waiting:
            nodes.append(waiting.pop(pair.weight))
        if node not in dropped:
            nodes.append(images[node])
    heads = relink_all(graph.heads, images)
    result = replace(graph, nodes=tuple(nodes), heads=heads, source=graph.source.after_rewrite())
    kept = {node: images[node] for node in graph.nodes if node not in dropped}
    return Rewrite(result, (Branch("", graph, kept),))


def _find_unused(graph: Graph, norms: Collection[Node]) -> set[Node]:
    candidates = {entry.node for norm in norms for entry in norm.inputs[1:]}
    needed = {entry.node for entry in graph.heads}
    for node in graph.nodes:
        needed.update(node.control_deps)
        if node not in norms:
            needed.update(entry.node for entry in node.inputs)
    return candidates - needed


def _layer_in_place(pair: Pair, variables: Mapping[Node, Node], format_: ModelFormat) -> Node:
    """Return the layer with BatchNorm's outputs and a bias; other inputs are still source nodes."""
    layer, norm = format_.editing.take_outputs(pair.layer, pair.norm), pair.norm
    deps = tuple(dict.fromkeys((*layer.control_deps, *norm.control_deps)))
    if pair.bias is not None:
        return replace(layer, control_deps=deps)
    # Files of 2015 have two numbers for an entry; the new one must match.
    version = None if layer.inputs[1].version is None else 0
    inputs = (*layer.inputs, Entry(variables[pair.weight], 0, version))
    # Only the bias was absent.
    details = replace(layer.details, absent=()) if layer.details.absent else layer.details
    if layer.details.domain != MXNET_DOMAIN:
        return replace(layer, inputs=inputs, control_deps=deps, details=details)
    attrs = {**layer.attrs, _NO_BIAS: "False"}
    form = layer.form
    if _NO_BIAS not in layer.attrs:  # as MXNet writes attributes, if the file is MXNet's
        attrs = dict(sorted(attrs.items())) if list(layer.attrs) == sorted(layer.attrs) else attrs
        if form is not None and form.param is not None:
            form = replace(form, param=(*form.param, _NO_BIAS))
    return replace(layer, attrs=freeze(attrs), inputs=inputs, control_deps=deps, form=form)


class Folded(msgspec.Struct, frozen=True):
    """``norms`` folded into ``weight`` and ``bias``, and the ``layers`` before them, in order."""

    weight: str
    bias: str
    layers: tuple[str, ...]
    norms: tuple[str, ...]


class Unfolded(msgspec.Struct, frozen=True):
    """A BatchNorm that was left, with the reason as the end of a sentence about it."""

    norm: str
    reason: str


class FoldingProof(msgspec.Struct, frozen=True):
    """Counts of ``outputs`` and folded ``layers`` compared with the source, and their differences.

    ``max_abs`` is the largest difference of an output. ``of_largest`` is the largest difference of
    a layer, relative to its largest number; None without finite numbers.
    """

    outputs: int
    max_abs: float
    layers: int
    of_largest: float | None


class Folding(ShortRepr, msgspec.Struct, frozen=True, omit_defaults=True):
    """The changed weights, and the BatchNorms left; ``proof`` is None if nothing ran.

    ``by_weights`` is the largest distance between both models' weights in steps of their dtype, if
    it shows that the models are equal for every input.
    """

    folded: tuple[Folded, ...]
    left: tuple[Unfolded, ...]
    by_weights: float | None = None
    proof: FoldingProof | None = None

    @property
    def count(self) -> int:
        return sum(len(one.norms) for one in self.folded)

    def _summary(self) -> str:
        return f"{format_count(self.count, 'BatchNorm')} folded, {len(self.left)} left"
