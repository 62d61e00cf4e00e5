"""Compare a written ONNX file with the graph that it was made from, before it is in place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import open_source
from graphshare.formats.model_format import refuse_differences
from graphshare.formats.onnx.decode import decode_model, scan_model
from graphshare.formats.onnx.graph_fields import (
    INITIALIZER,
    INPUT,
    OUTPUT,
    SPARSE,
    VALUE_INFO,
    Lists,
    index_by_name,
    scan_graph,
)
from graphshare.formats.onnx.node_fields import NodeKind, NodeReader
from graphshare.formats.onnx.protobuf import WireError
from graphshare.formats.onnx.stored import (
    FUNCTION,
    TRAINING,
    NamesSpan,
    OnnxFile,
    TensorPlace,
    find_stored,
    get_source,
    list_output_names,
)
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
    if file.disorder is not None:  # a file of ours is sorted
        yield file.disorder
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
        lists = scan_graph(file, *model.graph, dropped=(VALUE_INFO,))
        values = _match_variables(file, lists, graph, changed)
        if values is None or not _match_operators(file, lists, graph, values):
            return False
    except (WireError, InputError):
        return False
    names = [name for outputs in values.values() for name in outputs if name]
    defined, heads = set(names), [message.name for message in lists.named[OUTPUT]]
    is_whole = len(values) == len(graph.nodes) and len(defined) == len(names) and defined.issuperset(heads)
    return is_whole and heads == [_value(entry) for entry in graph.heads]


def _match_variables(
    file: OnnxFile, lists: Lists, graph: Graph, changed: Collection[str]
) -> dict[Node, tuple[str, ...]] | None:
    """Return the names of the variables if a file has those of ``graph``, else None. Raises WireError, InputError."""
    tensors = index_by_name(lists.named[INITIALIZER], unique="initializers")
    inputs = index_by_name(lists.named[INPUT], unique="graph inputs")
    variables = {node.name: node for node in graph.nodes if not node.op}
    if lists.named[SPARSE] or variables.keys() != inputs.keys() | tensors.keys() or "" in variables:
        return None
    for name, node in variables.items():
        tensor, place = tensors.get(name), None
        if tensor is not None:
            place = tensor.place or locate_tensor(file, tensor.start, tensor.end)
        if name not in changed and _describe_place(place, holds_value=tensor is not None) != _describe_variable(node):
            return None
    return {node: (name,) for name, node in variables.items()}


def _match_operators(file: OnnxFile, lists: Lists, graph: Graph, values: dict[Node, tuple[str, ...]]) -> bool:
    """Return whether the nodes of a file are the operators of ``graph``; add the names of their outputs to ``values``.

    An operator reads ``values`` of the nodes before it, which are all that decoding finds.

    Raises:
        WireError: a node is malformed, or has a body.
    """
    reader, equal = NodeReader(file), dict[int, Mapping[str, str]]()
    operators = [node for node in graph.nodes if node.op]
    if len(operators) != len(lists.nodes):
        return False
    sources = {id(node.details.stored): node for node in get_source(graph).nodes if node.attrs}
    for node, (inputs, outputs, label, kind) in zip(operators, reader.read(lists.nodes), strict=True):
        op, domain, _, stated, _, known = kind
        details, attrs, texts = node.details, node.attrs, known.texts
        if outputs != details.outputs or label != details.label or op != node.op or domain != details.domain:
            return False
        if node.subgraphs:
            return False
        if stated:
            if _keeps_attributes(node, sources.get(id(details.stored)), kind):
                texts = attrs
            else:
                known = reader.read_attributes(kind, _refuse_body)
                texts = known.texts
                if known.outer or known.weight is not None:
                    return False
        if texts is not attrs and equal.get(id(attrs)) is not texts:
            if [*texts.items()] != [*attrs.items()]:
                return False
            equal[id(attrs)] = texts
        try:
            names = [values[entry.node][entry.index] for entry in node.inputs]
        except KeyError:  # it comes after this node
            return False
        # In rising order, so that each insertion is at its final place.
        for position in details.absent:
            names.insert(position, "")
        if inputs != tuple(names):
            return False
        values[node] = outputs
    return True


def _keeps_attributes(node: Node, source: Node | None, kind: NodeKind) -> bool:
    """Return whether a node has the attributes of its ``source``, and a file the bytes that these were read from.

    Reading these bytes once more finds the same attributes.
    """
    if source is None or source.attrs is not node.attrs:
        return False
    stored = find_stored(source.details)
    span = stored.node
    if not isinstance(span, NamesSpan) or stored.outer or source.subgraphs:
        return False
    return bool(kind.key) and span.file.data[span.names_end : span.end] == kind.key.encode("latin-1")


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
