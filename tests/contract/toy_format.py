"""The smallest third format: a JSON graph, with parameters in an ``.npz`` file beside it.

The text of a graph is ``{"toy": 1, "nodes": [...], "outputs": [[node, index], ...]}``, a node is
``{"name": ..., "op": ..., "inputs": [[node, index], ...], "attrs": {...}}``, and a variable has no operator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from graphshare.errors import Fault, InputError
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_format import ModelFormat
from graphshare.ir.graph import NO_DETAILS, Entry, Graph, Node, NodeDetails, Source, freeze
from graphshare.ir.walk import node_ids


class ToySource(Source, frozen=True):
    """The source of graphs of this format."""

    format = "toy"


class ToyFormat(ModelFormat):
    """Toy graphs."""

    name = "toy"
    title = "a toy graph"
    plural = "toy graphs"
    file = "a toy graph"

    def fits(self, start: bytes) -> bool:
        return re.match(rb'\s*\{\s*"toy"', start) is not None

    def read(self, file: ModelFile, *, complete: bool = True) -> Graph:
        try:
            document = json.loads(file.read())
            if document["toy"] != 1:
                raise ValueError(f"version {document['toy']} is not known")
            nodes: list[Node] = []
            for record in document["nodes"]:
                inputs = _read_entries(record.get("inputs", []), nodes)
                attrs = freeze(record.get("attrs", {}))
                op = record.get("op", "")
                # MXNet's operators have the same names
                details = NodeDetails(domain=self.name) if op else NO_DETAILS
                nodes.append(
                    Node(op, record["name"], attrs, inputs, num_outputs=1, details=details)
                )
            return Graph(
                tuple(nodes), _read_entries(document["outputs"], nodes), source=ToySource()
            )
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(Fault(f"is not a toy graph: {error!r}", where=file.where)) from error

    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        return graph.nodes

    def describe(self, graph: Graph) -> str:
        return "version 1"

    def encode(self, graph: Graph) -> Iterable[bytes]:
        ids = node_ids(graph)
        records = [
            {
                "name": node.name,
                "op": node.op,
                "inputs": _write_entries(node.inputs, ids),
                "attrs": dict(node.attrs),
            }
            for node in graph.nodes
        ]
        yield json.dumps(
            {"toy": 1, "nodes": records, "outputs": _write_entries(graph.heads, ids)}
        ).encode()


def _read_entries(pairs: Iterable[Any], nodes: Sequence[Node]) -> tuple[Entry, ...]:
    return tuple(Entry(nodes[number], index) for number, index in pairs)


def _write_entries(entries: Iterable[Entry], ids: dict[Node, int]) -> list[list[int]]:
    return [[ids[entry.node], entry.index] for entry in entries]


FORMAT = ToyFormat()
