"""Graphs of the tests of rewrites, and how they are wired."""

from __future__ import annotations

from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Node
from tests.symbols import Document, mxnet_text


def read(text: Document) -> Graph:
    return read_symbol(mxnet_text(text).encode())


def wiring(graph: Graph) -> dict[str, list[str]]:
    """The names of the inputs of every node, by its own name."""
    return {node.name: [entry.node.name for entry in node.inputs] for node in graph.nodes}


def heads(graph: Graph) -> list[str]:
    return [entry.node.name for entry in graph.heads]


def named(graph: Graph, name: str) -> Node:
    """The only node of that name."""
    (node,) = (node for node in graph.nodes if node.name == name)
    return node
