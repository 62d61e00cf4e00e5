"""Variables that a file of the oldest generations implies without a node: MXNet invents them while loading.

Before 0.9 (and in any file without a version) an operator with fewer inputs than it needs gets variables named
``<node>_<input>``; in real files these are BatchNorm's moving statistics. Their parameter records must follow a rename of the
operator anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from graphshare.ir.graph import Graph, Node
from graphshare.ops.registry import name_inputs, signature_of

IMPLIED_BEFORE = 900  # NNVM (0.9.0) writes auxiliary states as nodes


class Implied(msgspec.Struct, frozen=True, eq=False):
    """A variable without a node: input ``slot`` of ``node``, called ``formal`` there and ``name`` in parameter files."""

    node: Node
    slot: int
    formal: str
    name: str
    auxiliary: bool


def implies_variables(graph: Graph) -> bool:
    """Whether MXNet would invent missing inputs of this file."""
    return graph.version is None or graph.version < IMPLIED_BEFORE


def implied_variables(graph: Graph) -> Iterator[Implied]:
    """Yield the variables that ``graph`` implies, in file order of their operators."""
    if implies_variables(graph):
        for node in graph.nodes:
            if not node.is_variable:
                yield from implied_inputs(node)


def implied_inputs(node: Node) -> Iterator[Implied]:
    """Yield the inputs that MXNet would invent for one operator of such a file."""
    signature, formals = signature_of(node), name_inputs(node)
    if signature is None or formals is None or len(formals) <= len(node.inputs):
        return
    mutated = signature.auxiliary_slots(node.attrs, len(formals), subgraphs=node.subgraphs)
    for slot in range(len(node.inputs), len(formals)):
        yield Implied(node, slot, formals[slot], implied_name(node.name, formals[slot]), slot in mutated)


def implied_name(node_name: str, formal: str) -> str:
    """Return MXNet's name for a missing input."""
    return f"{node_name}_{formal}" if node_name else formal
