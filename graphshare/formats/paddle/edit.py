"""Parts that rewrites add to a program: inputs that replace values, and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault, GraphshareError, RefusedError
from graphshare.formats.facets import Editing, TensorType
from graphshare.formats.paddle.records import (
    FETCH,
    OperatorResult,
    StoredObject,
    find_stored,
    name_value,
    read_values,
)
from graphshare.formats.paddle.text import make_attribute, read_list, read_typed, write_list
from graphshare.formats.paddle.types import find_type_text, parse_type, write_type
from graphshare.ir.graph import Entry, Graph, Node, NodeDetails
from graphshare.ir.rebuild import rebuild, relink, relink_all
from graphshare.ir.walk import topological
from graphshare.text.names import TakenNames


class PaddleEditing(Editing):
    """New inputs have the types of the values that they replace."""

    def make_inputs(
        self, graph: Graph, cuts: Mapping[tuple[Node, int], str]
    ) -> Mapping[tuple[Node, int], Node]:
        nodes: dict[tuple[Node, int], Node] = {}
        faults: list[Fault] = []
        for (node, index), name in cuts.items():
            try:
                nodes[node, index] = make_data(name, Entry(node, index))
            except GraphshareError as error:
                faults += error.faults
        if faults:
            raise RefusedError(faults)
        return nodes

    def make_input(self, name: str, dtype: str, shape: Sequence[int | str | None] | None) -> Node:
        return _make_data(name, write_type(dtype, shape), dtype)


def make_fetch(entry: Entry, name: str) -> Node:
    """Return the operator that outputs a value. Raises RefusedError if the file states no type of
    it.
    """
    text = find_type_text(entry)
    attributes = write_list(
        [make_attribute("name", "0.a_str", name), make_attribute("col", "0.a_i32", 0)]
    )
    result = OperatorResult(1, (("%", b"1"), ("TT", text)))
    # The predictor keeps only persistable values for its caller.
    owned = write_list([_make_flag("persistable", True), _make_flag("stop_gradient", False)])
    fields = (("#", b'"1.fetch"'), ("A", attributes), ("I", b"[]"), ("O", b"[]"), ("OA", owned))
    _, values = read_values(fields, is_named=True)
    details = NodeDetails("pd_op", (name,), values, stored=StoredObject(fields, (result,), name))
    return Node(FETCH, name, inputs=(entry,), num_outputs=1, details=details)


def make_data(name: str, entry: Entry) -> Node:
    """Return an input that replaces a value.

    Raises RefusedError if the file states no tensor type for it.
    """
    text = find_type_text(entry)
    kind = parse_type(text)
    if not isinstance(kind, TensorType):
        raise RefusedError(
            Fault(
                f"{name_value(entry)} is a {kind}, and inputs are tensors",
                hint="cut in front of it",
            )
        )
    return _make_data(name, text, kind.dtype)


def _make_data(name: str, text: bytes, dtype: str) -> Node:
    _, sizes, *_ = read_list(read_typed(text)[1])
    attributes = [
        make_attribute("name", "0.a_str", name),
        make_attribute("shape", "1.a_intarray", msgspec.json.decode(sizes)),
        make_attribute("dtype", "1.a_dtype", dtype),
        make_attribute("place", "1.a_place", [0, 0, ""]),
    ]
    result = OperatorResult(1, (("%", b"1"), ("TT", text)))
    owned = write_list([_make_flag("persistable", False), _make_flag("stop_gradient", True)])
    fields = (
        ("#", b'"1.data"'),
        ("A", write_list(attributes)),
        ("I", b"[]"),
        ("O", b"[]"),
        ("OA", owned),
    )
    _, values = read_values(fields, is_named=True)
    details = NodeDetails(
        "pd_op", (), values, holds_value=False, stored=StoredObject(fields, (result,), name)
    )
    return Node("", name, num_outputs=1, details=details)


def _make_flag(name: str, value: bool) -> bytes:
    return make_attribute(name, "0.a_array", [{"#": "0.a_bool", "D": value}])


def settle_outputs(graph: Graph) -> Graph:
    """Return a graph with a separate ``fetch`` for every output, read by no other node.

    A rewrite may have made any value an output, and connected operators to outputs.
    """
    graph = _pass_by_fetches(graph)
    # One scope has inputs and outputs by name.
    fetches = (head.node for head in graph.heads if head.node.op == FETCH)
    taken = TakenNames(node.name for node in (*graph.variables(), *fetches))
    outputs, more = list[Node](), list[Node]()
    for head in graph.heads:
        node = head.node
        if node.op != FETCH or node in outputs:
            node = make_fetch(head, taken.take(name_value(head)))
            more.append(node)
        outputs.append(node)
    nodes = (*topological(graph), *more)
    if [
        node for node in nodes if node.op == FETCH
    ] != outputs:  # the predictor loses those that are not in their order
        nodes = (*(node for node in nodes if node.op != FETCH), *outputs)
    return replace(graph, nodes=nodes, heads=tuple(map(Entry, outputs)))


def find_fetched(entry: Entry) -> Entry:
    """Return the value behind an output; any other value itself."""
    while entry.node.op == FETCH and find_stored(entry.node) is not None:
        (entry,) = entry.node.inputs
    return entry


def _pass_by_fetches(graph: Graph) -> Graph:
    """Make operators read the input of a ``fetch``, and drop fetches that are not outputs."""
    outputs = {head.node for head in graph.heads}

    def redirect(entry: Entry, node: Node) -> Entry | None:
        source = find_fetched(entry)
        return None if source is entry else relink(source, images)

    images: dict[Node, Node] = {}
    rebuild(graph.nodes, redirect=redirect, images=images)
    kept = [images[node] for node in graph.nodes if node.op != FETCH or node in outputs]
    return replace(graph, nodes=tuple(kept), heads=relink_all(graph.heads, images))
