"""Replace operators that compute one value at the file's sizes by that value."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import Tensor
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.walk import list_named_outputs, post_order, topological


def find_constants(graph: Graph) -> list[Entry]:
    """Return operands that depend only on constants and known sizes, except the graph's outputs."""
    format_ = find_format(graph)
    outputs = list_named_outputs(graph.nodes)
    types = format_.types.find_types(graph, outputs, independent=True)
    computable, sizes = format_.meaning.find_computable(graph, types)
    entries = [*computable, *(Entry(*place) for place in sizes)]
    heads = {head.node for head in graph.heads}
    return [
        entry
        for entry in entries
        if len(entry.node.details.outputs) == 1 and entry.node not in heads
    ]


def fold_constants(
    graph: Graph, values: Mapping[Node, Tensor]
) -> tuple[Rewrite, Mapping[str, Tensor]]:
    """Replace operators by their constant ``values``, and drop unused nodes.

    Values of parameters are returned by name, for the parameter file.
    """
    weights: dict[str, Tensor] = {}
    editing = find_format(graph).editing

    def change(node: Node) -> Node:
        if node not in values:
            return node
        image = editing.make_constant(graph, node, values[node])
        if not image.op:
            weights[image.name] = values[node]
        return image

    images = rebuild(topological(graph), change)
    heads = relink_all(graph.heads, images)
    inputs = {node for node in graph.variables() if not node.details.holds_value}
    needed = inputs.union(post_order(head.node for head in heads))
    nodes = [image for image in map(images.__getitem__, graph.nodes) if image in needed]
    present = set(nodes)
    # An operator that an initializer replaces is gone.
    kept = {
        node: image
        for node, image in images.items()
        if image in present and bool(node.op) == bool(image.op)
    }
    source = graph.source.after_rewrite(kept)
    folded = replace(graph, nodes=tuple(nodes), heads=heads, source=source)
    names = {node.name for node in nodes}
    own_weights = {name: value for name, value in weights.items() if name in names}
    return Rewrite(folded, (Branch("", graph, kept),)), own_weights
