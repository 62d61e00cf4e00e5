"""Where weights of bodies and of Constants are written: at home, where they were read, or as initializers of the main graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set

from graphshare.formats.onnx.stored import FIRST_CONSTANTS, TakenNames, find_stored, get_source, list_output_names
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import list_bodies


def find_at_home(graph: Graph) -> dict[Node, str]:
    """Return the weights of bodies that are written where they were read, and their names there.

    Those are the ones that their body alone captures, once. Every other one, tied across bodies for one, is an initializer
    of the main graph. A name that several bodies have is the model's own with a number, which a reader adds anew.
    """
    if not any(node.subgraphs for node in graph.nodes):
        return {}
    lifted = {node for node in graph.nodes if not node.op and find_stored(node.details).home is not None}
    uses = Counter(head.node for head in graph.heads)
    homes: set[Node] = set()
    for node in graph.nodes:
        uses.update([entry.node for entry in node.inputs])
        if node.subgraphs:
            homes.update(_list_at_home(node, lifted))
    at_home = {node for node in homes if uses[node] == 1}
    taken = TakenNames(name for node in graph.nodes if node not in at_home for name in list_output_names(node))
    names: dict[Node, str] = {}
    for node in graph.nodes:
        if node in at_home:
            stored = find_stored(node.details)
            number = stored.outputs[0].removeprefix(stored.tensor.name) if stored.tensor is not None else ""
            name = node.name.removesuffix(number)
            names[node] = name if taken.find_free(name) == node.name else node.name
            taken.add(node.name)
    return names


def _list_at_home(node: Node, lifted: Set[Node]) -> Iterator[Node]:
    """Yield the weights that bodies of an operator capture, and that were read from them."""
    pending = [(body, {v: e.node for v, e in body.captured.items() if e.node in lifted}) for body in list_bodies(node).values()]
    for body, weights in pending:
        home = get_source(body.graph).span
        yield from (weight for weight in weights.values() if find_stored(weight.details).home is home)
        for inner in [inner for node in body.graph.nodes for inner in list_bodies(node).values()] if weights else ():
            pending.append((inner, {v: weights[e.node] for v, e in inner.captured.items() if e.node in weights}))


def is_constant_in_file(node: Node, graph: Graph) -> bool:
    """Return whether a variable of the main graph is written as a Constant: one that it had, or some that a body had.

    ONNX's inference of types takes sparse Constants for tensors, and does not take sparse initializers for them. Up to IR
    version 3 initializers are inputs.
    """
    stored = find_stored(node.details)
    if node.op or stored.node is None:
        return False
    return stored.home is None or stored.is_sparse or get_source(graph).ir_version < FIRST_CONSTANTS
