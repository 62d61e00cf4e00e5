"""Compare a written ONNX file with the graph that it was made from, before it is in place."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import zip_longest

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import open_source
from graphshare.formats.model_format import refuse_differences
from graphshare.formats.onnx.decode import decode_model, scan_model
from graphshare.formats.onnx.graph_fields import INITIALIZER, INPUT, OUTPUT, SPARSE, Lists, index_by_name, scan_graph
from graphshare.formats.onnx.node_fields import NodeReader
from graphshare.formats.onnx.protobuf import WireError
from graphshare.formats.onnx.stored import FUNCTION, TRAINING, OnnxFile, TensorPlace, find_stored, get_source, list_output_names
from graphshare.formats.onnx.tensors import data_size, locate_tensor
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import Body, list_bodies, own_inputs

_Facts = tuple[object, ...]


def check_written(path: str, graph: Graph, *, where: str, changed: Collection[str] = ()) -> None:
    """Compare a written file with the graph that it came from; initializers ``changed`` have other values.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """

    def find() -> Iterator[Fault]:
        with open_source(path) as source:
            yield from _find_differences(source, graph, changed)

    refuse_differences(find, where=where)


def _find_differences(source: ByteSource, graph: Graph, changed: Collection[str] = ()) -> Iterator[Fault]:
    """Yield a fault for everything in which the file reads back as another graph. Raises InputError for a broken file.

    Initializers ``changed`` may have other shapes and dtypes. External data is not looked for: it may be in place later.
    """
    file = OnnxFile(source, seeks_data=False)
    if reads_back(file, graph, changed):
        return
    read = decode_model(file)
    for node, twin in zip_longest(_operators(graph), _operators(read)):
        if node is None or twin is None:
            yield Fault("the file has a different number of operators")
            return
        expected, actual = _describe(node), _describe(twin)
        if expected != actual:
            yield Fault(f"reads back as {actual}, expected {expected}", node=node.name)
    ours, theirs = ({node.name: _describe_variable(node) for node in g.nodes if not node.op} for g in (graph, read))
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name) and name not in changed:
            yield Fault(f"variable reads back as {theirs.get(name)}, expected {ours.get(name)}", node=name)
    heads = [[_value(entry) for entry in g.heads] for g in (graph, read)]
    if heads[0] != heads[1]:
        yield Fault(f"the outputs read back as {heads[1]}, expected {heads[0]}")


def reads_back(file: OnnxFile, graph: Graph, changed: Collection[str] = ()) -> bool:
    """Return whether a file reads back as ``graph``, initializers ``changed`` aside; False also where only decoding can tell.

    Every message is read, and compared with its node, but no graph is built. What has bodies, weights in Constants or sparse
    ones, functions, or tensors of operators in other files is left to :func:`decode_model`, as is every fault.
    """
    try:
        model = scan_model(file)
        if any(number in (FUNCTION, TRAINING) for number, _ in model.fields):
            return False
        lists = scan_graph(file, *model.graph)
        defined = _match_variables(file, lists, graph, changed)
        if defined is None or not _match_operators(file, lists, graph, defined):
            return False
    except (WireError, InputError):
        return False
    names = [message.name for message in lists.named[OUTPUT]]
    return names == [_value(entry) for entry in graph.heads] and defined.issuperset(names)


def _match_variables(file: OnnxFile, lists: Lists, graph: Graph, changed: Collection[str]) -> set[str] | None:
    """Return the names of the variables if a file has those of ``graph``, else None. Raises WireError, InputError."""
    tensors = index_by_name(lists.named[INITIALIZER], unique="initializers")
    inputs = index_by_name(lists.named[INPUT], unique="graph inputs")
    variables = {node.name: node for node in graph.nodes if not node.op}
    if lists.named[SPARSE] or variables.keys() != inputs.keys() | tensors.keys() or "" in variables:
        return None
    for name, node in variables.items():
        tensor, place = tensors.get(name), None
        if tensor is not None:
            place = tensor.place or locate_tensor(file, tensor.span.start, tensor.span.end)
        if name not in changed and _describe_place(place, holds_value=tensor is not None) != _describe_variable(node):
            return None
    return set(variables)


def _match_operators(file: OnnxFile, lists: Lists, graph: Graph, defined: set[str]) -> bool:
    """Return whether the nodes of a file are the operators of ``graph``; add their outputs to the names ``defined``.

    Raises:
        WireError: a node is malformed, or has a body.
    """
    reader, as_read = NodeReader(file), set(get_source(graph).nodes)
    operators = [node for node in graph.nodes if node.op]
    if len(operators) != len(lists.nodes):
        return False
    for node, field in zip(operators, lists.nodes, strict=True):
        details, start, end = node.details, field[3], field[4]
        stored = find_stored(details)
        span = stored.node
        if node.subgraphs:
            return False
        if node in as_read and span is not None and span.read() == file.data[start:end]:  # the bytes that it was read from
            inputs, outputs = stored.inputs, stored.outputs
            if stored.outer:
                return False
        else:
            names, results, label, kind = reader.read(start, end)
            known = reader.read_attributes(kind, _refuse_body)
            if known.outer or known.weight is not None or kind.op != node.op or kind.domain != details.domain:
                return False
            if label != details.label or (known.texts is not node.attrs and [*known.texts.items()] != [*node.attrs.items()]):
                return False
            wanted = [(e.node.details.outputs if e.node.op else (e.node.name,))[e.index] for e in node.inputs]
            # In rising order, so that each insertion is at its final place.
            for position in details.absent:
                wanted.insert(position, "")
            if names != wanted or results != [*details.outputs]:
                return False
            inputs, outputs = tuple(names), details.outputs
        if not all(name in defined or not name for name in inputs):
            return False
        for name in outputs:
            if name in defined:
                return False
            if name:
                defined.add(name)
    return True


def _refuse_body(start: int, end: int) -> Graph:
    raise WireError("a node has a body", start)


def _operators(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op)


def _value(entry: Entry) -> str:
    return list_output_names(entry.node)[entry.index]


def _describe(node: Node) -> _Facts:
    details = node.details
    inputs = tuple([_value(entry) for entry in own_inputs(node)])
    # What a body captures comes in the order of its first use there, and weights that it had itself come first.
    bodies = list_bodies(node).values() if node.subgraphs else ()
    captured = [{_value(entry) for entry in _list_used(body)} for body in bodies]
    return (
        node.op,
        details.label,
        details.domain,
        inputs,
        *captured,
        details.absent,
        list_output_names(node),
        tuple(node.attrs.items()),
        len(node.subgraphs),
    )


def _list_used(body: Body) -> list[Entry]:
    """Return what a body captures and uses: a weight of its own that it does not use is captured only while it is there."""
    used = {head.node for head in body.graph.heads}
    for node in body.graph.nodes:
        used.update(entry.node for entry in own_inputs(node))
        used.update(entry.node for inner in list_bodies(node).values() for entry in _list_used(inner))
    return [entry for variable, entry in body.captured.items() if variable in used]


def _describe_variable(node: Node) -> _Facts:
    return _describe_place(find_stored(node.details).place, holds_value=bool(node.details.holds_value))


def _describe_place(place: TensorPlace | None, *, holds_value: bool) -> _Facts:
    if not holds_value or place is None:
        return "initializer" if holds_value else "input", (), 0, 0
    return "initializer", place.shape, place.code, place.end - place.start if place.pieces else data_size(place)
