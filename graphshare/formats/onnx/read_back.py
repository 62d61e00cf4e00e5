"""Compare a written ONNX file with the graph that it was made from, and with the messages of the files that this was read from.

Whether the graph has every message of these files is counted in :mod:`graphshare.formats.onnx.accounts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter, itemgetter

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import open_source
from graphshare.formats.model_format import refuse_differences
from graphshare.formats.onnx.accounts import LISTS, list_slots
from graphshare.formats.onnx.attributes import GRAPH, GRAPHS
from graphshare.formats.onnx.decode import decode_model, scan_model
from graphshare.formats.onnx.graph_fields import (
    ANNOTATION,
    INITIALIZER,
    INPUT,
    NODE,
    OUTPUT,
    SPARSE,
    TENSOR_NAME,
    VALUE_INFO,
    Lists,
    index_by_name,
    scan_graph,
)
from graphshare.formats.onnx.messages import SHORT
from graphshare.formats.onnx.node_fields import NodeReader
from graphshare.formats.onnx.protobuf import WireError, scan
from graphshare.formats.onnx.stored import (
    FUNCTION,
    NO_MESSAGES,
    OWN_KEYS,
    TRAINING,
    NamedMessage,
    NamesSpan,
    OnnxFile,
    Span,
    TensorPlace,
    find_stored,
    get_source,
    list_output_names,
)
from graphshare.formats.onnx.tensors import DATA_FIELDS, TENSOR_METADATA, data_size, locate_tensor, read_pair
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import Body, list_bodies, own_inputs

_ATTRIBUTE = 5
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
    variables = {node.name: node for node in read.nodes if not node.op}
    pairs = {node: variables[node.name] for node in graph.nodes if not node.op and node.name in variables}
    yield from _compare_graphs(graph, read, pairs)
    if not _are_fields_equal(get_source(graph).fields, get_source(read).fields):
        yield Fault("the fields of the model read back as others")
    heads = [[_value(entry) for entry in g.heads] for g in (graph, read)]
    if heads[0] != heads[1]:
        yield Fault(f"the outputs read back as {heads[1]}, expected {heads[0]}")


def _compare_graphs(graph: Graph, read: Graph, pairs: dict[Node, Node]) -> Iterator[Fault]:
    """Yield the differences between the messages of a graph and those that were read, in bodies too.

    ``pairs`` are those of variables and of nodes around a body; the operators of the graph are added to it.
    """
    nodes, twins = list(_operators(graph)), list(_operators(read))
    if len(nodes) != len(twins):
        yield Fault("a body has a different number of operators")
        return
    pairs.update(zip(nodes, twins, strict=True))
    places = [[(head.node, head.index) for head in g.heads] for g in (graph, read)]
    if [(pairs.get(node), index) for node, index in places[0]] != places[1]:
        yield Fault("the outputs of a graph read back as others")
    for node in graph.nodes:
        if (twin := pairs.get(node)) is not None:
            expected, actual = (_list_contents(n, set(place)) for n, place in zip((node, twin), places, strict=True))
            # An output without a type in any file has one that was inferred.
            expected.update({key: actual[key] for key in actual if key[0] in (OUTPUT, INPUT) and key not in expected})
            for number, index in expected.keys() | actual.keys():
                if sorted(expected.get((number, index), ())) != sorted(actual.get((number, index), ())):
                    name = (*list_output_names(node), "")[index]
                    yield Fault(f"what {LISTS[number]} says of {name!r} reads back as something else", node=node.name)
    for node, twin in zip(nodes, twins, strict=True):
        for body, other in zip(list_bodies(node).values(), list_bodies(twin).values(), strict=False):
            inner = {**pairs, **_pair_variables(body, other, pairs)}
            yield from _compare_graphs(body.graph, other.graph, inner)
            yield from _compare_bodies(body.graph, other.graph, inner)


def _compare_bodies(graph: Graph, read: Graph, pairs: Mapping[Node, Node]) -> Iterator[Fault]:
    """Yield the differences between the operators and the fields of two bodies."""
    for node, twin in zip(_operators(graph), _operators(read), strict=False):
        inputs = [(pairs.get(entry.node), entry.index) for entry in own_inputs(node)]
        facts = [(n.op, n.details.domain, n.details.label, n.details.absent, [*n.attrs.items()]) for n in (node, twin)]
        if facts[0] != facts[1] or inputs != [(entry.node, entry.index) for entry in own_inputs(twin)]:
            yield Fault("an operator of a body reads back as something else", node=node.name)
    own, theirs = get_source(graph), get_source(read)
    orphans = [[(n, _read_rest(message)) for n, message in source.orphans if n == VALUE_INFO] for source in (own, theirs)]
    if not _are_fields_equal(own.rest, theirs.rest) or len(orphans[1]) > len(orphans[0]):
        yield Fault("the fields of a body read back as others")


def _pair_variables(body: Body, other: Body, pairs: Mapping[Node, Node]) -> dict[Node, Node]:
    """Return the pairs of the variables of a body: its own in their order, captures by what they stand for."""
    own, theirs = ([node for node in each.graph.nodes if not node.op and node not in each.captured] for each in (body, other))
    captured = {(entry.node, entry.index): variable for variable, entry in other.captured.items()}
    found = dict(zip(own, theirs, strict=False))
    for variable, entry in body.captured.items():
        place = pairs.get(entry.node), entry.index
        if place in captured:
            found[variable] = captured[place]
    return found


def _list_contents(node: Node, heads: Collection[tuple[Node, int]]) -> dict[tuple[int, int], list[bytes]]:
    """Return what the messages of a node say beside names, by list and output, as the lists should have them.

    The type of an output that is none any more is in value_info, and the other way round.
    """
    stored, contents = find_stored(node.details), dict[tuple[int, int], list[bytes]]()
    values = stored.values
    for (number, index, position), message in list_slots(stored):
        is_head = (node, index) in heads
        if number == OUTPUT and not is_head:
            if position or index in values.infos or not node.op:
                continue
            number = VALUE_INFO
        elif number == VALUE_INFO and not position and is_head and index not in values.results:
            number = OUTPUT
        if number in (NODE, INITIALIZER, SPARSE):
            continue
        if isinstance(message, NamedMessage):
            text = _read_annotation_rest(message) if number == ANNOTATION else _read_rest(message)
            contents.setdefault((number, index), []).append(text)
    if stored.tensor is not None:
        contents[INITIALIZER, 0] = [_read_tensor_rest(stored.tensor, is_sparse=stored.is_sparse)]
    elif stored.node is not None:
        contents[NODE, 0] = [_read_node_rest(stored.node)]
    return contents


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
        values = _match_variables(file, lists, graph, changed)
        if values is None or not _match_operators(file, lists, graph, values) or not _match_values(lists, graph):
            return False
        source = get_source(graph)
        if source.orphans or lists.named[ANNOTATION] or not _are_fields_equal(source.fields, model.fields):
            return False
        if not _are_fields_equal(source.rest, lists.rest):
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
        stored, declared = find_stored(node.details), inputs.get(name)
        if name not in changed and _describe_place(place, holds_value=tensor is not None) != _describe_variable(node):
            return None
        if tensor is not None and (stored.tensor is None or not _says_the_same(stored.tensor, tensor)):
            return None
        if declared is not None and _read_rest(declared) != (b"" if stored.input is None else _read_rest(stored.input)):
            return None
    return {node: (name,) for name, node in variables.items()}


def _says_the_same(tensor: NamedMessage, other: NamedMessage) -> bool:
    """Return whether two tensors say the same beside their names and data; small ones are compared with their data first."""
    if tensor.size <= SHORT and _read_rest(tensor) == _read_rest(other):
        return True
    return _read_tensor_rest(tensor) == _read_tensor_rest(other)


def _match_operators(file: OnnxFile, lists: Lists, graph: Graph, values: dict[Node, tuple[str, ...]]) -> bool:
    """Return whether the nodes of a file are the operators of ``graph``; add the names of their outputs to ``values``.

    An operator reads ``values`` of the nodes before it, which are all that decoding finds.

    Raises:
        WireError: a node is malformed, or has a body.
    """
    reader = NodeReader(file)
    operators = [node for node in graph.nodes if node.op]
    if len(operators) != len(lists.nodes):
        return False
    sources = {id(node.details.stored): node for node in get_source(graph).nodes if node.attrs}
    keys: dict[str, bytes] = {}
    for node, field, (inputs, outputs, label, kind) in zip(operators, lists.nodes, reader.read(lists.nodes), strict=True):
        op, domain, _, stated, key, known = kind
        details, span = node.details, node.details.stored.node
        if outputs != details.outputs or label != details.label or op != node.op or domain != details.domain:
            return False
        if node.subgraphs:
            return False
        if key and isinstance(span, NamesSpan):
            rest = keys.get(key) or keys.setdefault(key, key.encode("latin-1"))
            if span.file.data[span.names_end : span.end] != rest:
                return False
        elif _read_node_rest(span) != _read_node_rest(Span(file, field[3], field[4])):
            return False
        # These bytes say what they said in the source; they are read where the node has other attributes than there.
        source = sources.get(id(details.stored))
        if (node.attrs or stated) and (source is None or source.attrs is not node.attrs):
            known = reader.read_attributes(kind, _refuse_body)
            if [*known.texts.items()] != [*node.attrs.items()]:
                return False
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


def _match_values(lists: Lists, graph: Graph) -> bool:
    """Return whether the lists of a file on values have what the files of ``graph`` said of these, under their names now."""
    heads = {(head.node, head.index) for head in graph.heads}
    infos: list[tuple[str, NamedMessage]] = []
    results: list[tuple[str, NamedMessage]] = []
    for node in graph.nodes:
        stored = node.details.stored
        if stored is None or stored.values is NO_MESSAGES:
            continue
        if stored.values.annotations or stored.values.repeated:
            return False
        names = node.details.outputs
        for index, message in stored.values.infos.items():
            is_head = (node, index) in heads and index not in stored.values.results
            (results if is_head else infos).append((names[index], message))
        for index, message in stored.values.results.items():
            if (node, index) in heads:
                results.append((names[index], message))
            elif node.op and index not in stored.values.infos:
                infos.append((names[index], message))
    declared = index_by_name(lists.named[OUTPUT])
    stated = [declared.get(name) for name, _ in results]
    return _are_messages_equal(infos, lists.named[VALUE_INFO]) and all(
        other is not None and _read_rest(other) == _read_rest(message)
        for other, (_, message) in zip(stated, results, strict=True)
    )


def _are_messages_equal(expected: list[tuple[str, NamedMessage]], actual: Sequence[NamedMessage]) -> bool:
    """Return whether messages under these names are those of a file, in any order."""
    if len(expected) != len(actual):
        return False
    if [name for name, _ in expected] != [message.name for message in actual]:
        expected = sorted(expected, key=itemgetter(0))
        actual = sorted(actual, key=attrgetter("name"))
        if [name for name, _ in expected] != [message.name for message in actual]:
            return False
    return [_read_rest(message) for _, message in expected] == [_read_rest(message) for message in actual]


def _read_rest(message: NamedMessage) -> bytes:
    """Return what a message says beside its name."""
    data = message.file.data
    return data[message.start : message.name_start] + data[message.name_end : message.end]


def _read_tensor_rest(tensor: Span, *, is_sparse: bool = False) -> bytes:
    """Return what a TensorProto, or a SparseTensorProto, says beside its name, shape, dtype, data and the place of that."""
    data, parts = tensor.file.data, list[bytes]()
    if is_sparse:  # its values have the name
        fields = list(scan(data, tensor.start, tensor.end))
        parts += [_read_tensor_rest(Span(tensor.file, field[3], field[4])) for field in fields if field[0] == 1]
        return b"".join([*parts, *(data[field[2] : field[4]] for field in fields if field[0] != 1)])
    for number, _, begin, start, end in scan(data, tensor.start, tensor.end):
        is_note = number == TENSOR_METADATA and read_pair(tensor.file, start, end)[0].startswith(OWN_KEYS)
        if number > 2 and number not in DATA_FIELDS and number != TENSOR_NAME and not is_note:
            parts.append(data[begin:end])
    return b"".join(parts)


def _read_annotation_rest(annotation: Span) -> bytes:
    """Return what a TensorAnnotation says beside the names of values."""
    data, parts = annotation.file.data, list[bytes]()
    for number, _, begin, start, end in scan(data, annotation.start, annotation.end):
        if number == 2:
            parts += [data[field[2] : field[4]] for field in scan(data, start, end) if field[0] != 2]
        elif number != 1:
            parts.append(data[begin:end])
    return b"".join(parts)


def _read_node_rest(node: Span) -> bytes:
    """Return what a NodeProto says beside its names, without the graphs in its attributes."""
    data, parts = node.file.data, list[bytes]()
    for number, _, begin, start, end in scan(data, node.start, node.end):
        if number == _ATTRIBUTE:
            attribute = [(field[0], field[2], field[4]) for field in scan(data, start, end)]
            parts += [data[first:last] for part, first, last in attribute if part not in (GRAPH, GRAPHS)]
        elif number > 3:
            parts.append(data[begin:end])
    return b"".join(parts)


def _are_fields_equal(expected: Iterable[tuple[int, Span]], actual: Iterable[tuple[int, Span]]) -> bool:
    """Return whether the fields of a message are those that were read, in the order of their numbers."""
    texts = [[(n, span.read()) for n, span in sorted(fields, key=itemgetter(0))] for fields in (expected, actual)]
    return texts[0] == texts[1]


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
