"""Compare a written ONNX file with its graph and the messages of the graph's source files.

:mod:`graphshare.formats.onnx.accounts` checks that the graph has every message of these files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from operator import itemgetter

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource
from graphshare.files.open_source import open_source
from graphshare.formats.onnx.accounts import list_value_slots
from graphshare.formats.onnx.attributes import GRAPH, GRAPHS, SPARSE_TENSOR, TENSOR
from graphshare.formats.onnx.decode import ModelFields, decode_model, scan_model
from graphshare.formats.onnx.graph_fields import (
    ANNOTATION,
    INITIALIZER,
    INPUT,
    LIST_NAMES,
    NODE,
    SPARSE,
    TENSOR_NAME,
    VALUE_INFO,
    Lists,
    index_by_name,
    scan_graph,
)
from graphshare.formats.onnx.graph_names import GraphNames
from graphshare.formats.onnx.node_fields import NodeReader
from graphshare.formats.onnx.protobuf import WireError, scan
from graphshare.formats.onnx.stored import (
    FUNCTION,
    NO_MESSAGES,
    OUTPUT,
    TRAINING,
    NamedMessage,
    NamesSpan,
    OnnxFile,
    OnnxSource,
    Span,
    TensorPlace,
    find_stored,
    get_source,
    list_results,
)
from graphshare.formats.onnx.tensors import (
    DATA_FIELDS,
    TENSOR_METADATA,
    data_size,
    has_own_key,
    locate_tensor,
)
from graphshare.formats.read_back import refuse_differences
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import list_output_names, list_value_places, own_inputs

_ATTRIBUTE = 5
_COMPARED_FIELDS = frozenset((*range(3), TENSOR_NAME, *DATA_FIELDS))
"""Fields of a TensorProto that are compared by other means: shape, dtype, name and data."""
_Facts = tuple[object, ...]


def check_written(path: str, graph: Graph, *, where: str, changed: Collection[str] = ()) -> None:
    """Compare a written file with its graph; initializers ``changed`` have other values.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """

    def find() -> Iterator[Fault]:
        with open_source(path) as source:
            yield from _find_differences(source, graph, changed)

    refuse_differences(find, where=where)


def _find_differences(
    source: ByteSource, graph: Graph, changed: Collection[str] = ()
) -> Iterator[Fault]:
    """Yield the differences between ``graph`` and the file. Raises InputError for a broken file.

    Initializers ``changed`` may have other shapes and dtypes. External data need not be in place
    yet.
    """
    file = OnnxFile(source, is_own=True)
    if reads_back(file, graph, changed):
        return
    read = decode_model(file)
    if file.disorder is not None:  # a file of ours must be sorted
        yield file.disorder
    ours, theirs = _describe_variables(graph), _describe_variables(read)
    for name in dict.fromkeys((*ours, *theirs)):
        expected, actual = ours.get(name), theirs.get(name)
        if actual != expected and name not in changed:
            yield Fault(f"variable reads back as {actual}, expected {expected}", node=name)
    yield from _compare_graphs(GraphNames(graph), GraphNames(read))
    if not _are_fields_equal(get_source(graph).fields, get_source(read).fields):
        yield Fault("the fields of the model read back as others")


def _compare_graphs(names: GraphNames, others: GraphNames) -> Iterator[Fault]:
    for node, twin in zip_longest(_operators(names.graph), _operators(others.graph)):
        if node is None or twin is None:
            yield Fault("a graph has a different number of operators")
            return
        facts, actual = _describe(node, names), _describe(twin, others)
        if facts != actual:
            yield Fault(f"reads back as {actual}, expected {facts}", node=node.name)
        if node.subgraphs:
            bodies = zip(names.list_bodies(node), others.list_bodies(twin), strict=False)
            for body, other in bodies:
                yield from _compare_graphs(body, other)
    heads = [*map(names.find, names.graph.heads)]
    written_heads = [*map(others.find, others.graph.heads)]
    if heads != written_heads:
        yield Fault(f"the outputs read back as {written_heads}, expected {heads}")
    yield from _compare_contents(_list_contents(names), _list_contents(others))
    if not _are_fields_equal(get_source(names.graph).rest, get_source(others.graph).rest):
        yield Fault("the fields of a graph read back as others")


_Contents = dict[tuple[int, str], list[bytes]]
"""The contents of messages without their names, by list and name."""


def _compare_contents(stated: _Contents, read: _Contents) -> Iterator[Fault]:
    for key in dict.fromkeys((*stated, *read)):
        number, name = key
        written = read.get(key, [])
        # A written output may have an inferred type that no file states; an input, only its name.
        is_declared = number in (OUTPUT, INPUT)
        expected = stated.get(key, written if is_declared else [])
        # A Constant of a body that moved to the main graph
        is_moved = number == NODE and not (expected and written)
        if sorted(expected) != sorted(written) and not is_moved:
            yield Fault(
                f"what {LIST_NAMES[number]} says of {name!r} reads back as something else",
                node=name,
            )


def _list_contents(names: GraphNames) -> _Contents:
    contents: _Contents = {}

    def add(number: int, message: NamedMessage, name: str) -> None:
        if number == ANNOTATION:
            content = b"".join(names.encode_annotation(message, name).pieces())
        else:
            content = _read_rest(message)
        contents.setdefault((number, name), []).append(content)

    heads = Counter(list_value_places(names.graph.heads))
    for node in (*names.captured, *names.nodes):
        stored, outputs = find_stored(node.details), names.list_outputs(node)
        for number, index, message in _place_messages(node, heads):
            add(number, message, outputs[index])
        if stored.tensor is not None:
            rest = _read_tensor_rest(stored.tensor, is_sparse=stored.is_sparse)
            contents[INITIALIZER, outputs[0]] = [rest]
        if stored.node is not None:
            name = outputs[0] if outputs else node.details.label
            contents[NODE, name] = [_read_node_rest(stored.node, has_data=not node.op)]
    for number, message, new_name in names.list_orphans():
        if new_name is not None:
            add(number, message, new_name)
    return contents


def _place_messages(
    node: Node, heads: Counter[tuple[Node, int]]
) -> Iterator[tuple[int, int, NamedMessage]]:
    """Yield the messages on a node's outputs with their lists in a written file and output indices.

    A former output's type goes to value_info; a new output takes its type from value_info.
    """
    stored = find_stored(node.details)
    values = stored.values
    if stored.input is not None:
        yield INPUT, 0, stored.input
    for (number, index, position), message in list_value_slots(values):
        count = heads[node, index]
        if number == OUTPUT and message not in list_results(values, index, count):
            if position or count or index in values.infos or not node.op:
                continue
            number = VALUE_INFO
        elif number == VALUE_INFO and not position and count and index not in values.results:
            number = OUTPUT
        yield number, index, message


def reads_back(file: OnnxFile, graph: Graph, changed: Collection[str] = ()) -> bool:
    """Whether a file reads back as ``graph``, apart from initializers ``changed``.

    Every message is compared with its node, without building a graph. Files that need decoding
    count as different: those with faults, bodies, functions, sparse or Constant weights, and
    operators' tensors in other files.
    """
    try:
        model = scan_model(file)
        if any(number in (FUNCTION, TRAINING) for number, _ in model.fields):
            return False
        lists = scan_graph(file, *model.graph)
        values = _match_variables(file, lists, graph, changed)
        if values is None:
            return False
        if not _match_operators(file, lists, graph, values):
            return False
        if not _match_values(lists, graph):
            return False
        if not _match_fields(model, lists, get_source(graph)):
            return False
    except (WireError, InputError):
        return False
    names = list(filter(None, chain.from_iterable(values.values())))
    defined = set(names)
    if len(values) != len(graph.nodes) or len(defined) != len(names):
        return False
    heads = [message.name for message in lists.named[OUTPUT]]
    return defined.issuperset(heads) and heads == [_value(entry) for entry in graph.heads]


def _match_fields(model: ModelFields, lists: Lists, source: OnnxSource) -> bool:
    """Whether a file has the fields of its source that belong to no node, and no orphans."""
    if source.orphans or lists.named[ANNOTATION]:
        return False
    has_model_fields = _are_fields_equal(source.fields, model.fields)
    return has_model_fields and _are_fields_equal(source.rest, lists.rest)


def _match_variables(
    file: OnnxFile, lists: Lists, graph: Graph, changed: Collection[str]
) -> dict[Node, tuple[str, ...]] | None:
    """Return the names of the variables if a file and ``graph`` have the same ones, else None."""
    tensors = index_by_name(lists.named[INITIALIZER], unique="initializers")
    inputs = index_by_name(lists.named[INPUT], unique="graph inputs")
    variables = {node.name: node for node in graph.variables()}
    if lists.named[SPARSE] or variables.keys() != inputs.keys() | tensors.keys() or "" in variables:
        return None
    for name, node in variables.items():
        tensor, declared, stored = tensors.get(name), inputs.get(name), find_stored(node.details)
        place = None
        if tensor is not None:
            if not _is_tensor_kept(stored.tensor, tensor):
                return None
            place = tensor.place or locate_tensor(file, tensor.start, tensor.end)
        facts = _describe_place(place, holds_value=tensor is not None)
        if facts != _describe_variable(node) and name not in changed:
            return None
        if declared is not None and _read_rest(declared) != _read_rest(stored.input):
            return None
    return {node: (name,) for name, node in variables.items()}


def _is_tensor_kept(expected: NamedMessage | None, actual: NamedMessage) -> bool:
    if expected is None:
        return False
    if expected.place is not None and actual.place is not None:  # shape, dtype, name and data only
        return True
    return _read_tensor_rest(expected) == _read_tensor_rest(actual)


def _match_operators(
    file: OnnxFile, lists: Lists, graph: Graph, values: dict[Node, tuple[str, ...]]
) -> bool:
    """Whether a file's nodes are the operators of ``graph``; add their outputs' names to ``values``.

    An operator may only read ``values`` of earlier nodes, as in decoding.

    Raises:
        WireError: a node is malformed, or has a body.
    """
    reader = NodeReader(file)
    operators = list(_operators(graph))
    if len(operators) != len(lists.nodes):
        return False
    attributes = {id(node.details.stored): node.attrs for node in get_source(graph).nodes}
    for node, field, (inputs, outputs, label, kind) in zip(
        operators, lists.nodes, reader.read(lists.nodes), strict=True
    ):
        op, domain, _, stated, key, _ = kind
        details, span = node.details, node.details.stored.node
        expected = (node.op, details.domain, details.outputs, details.label)
        if (op, domain, outputs, label) != expected or node.subgraphs:
            return False
        if key and isinstance(span, NamesSpan):
            has_rest = span.rest == key
        else:
            rest = _read_node_rest(Span(file, field[3], field[4]))
            has_rest = _read_node_rest(span) == rest
        if not has_rest:
            return False
        # Equal bytes have equal attributes: read only those that are not from the source.
        if (node.attrs or stated) and attributes.get(id(details.stored)) is not node.attrs:
            known = reader.read_attributes(kind, _refuse_body)
            if [*known.texts.items()] != [*node.attrs.items()]:
                return False
        try:
            if inputs != _name_inputs(node, values):
                return False
        except KeyError:  # an input comes after this node
            return False
        values[node] = outputs
    return True


def _name_inputs(node: Node, values: Mapping[Node, tuple[str, ...]]) -> tuple[str, ...]:
    names = [values[entry.node][entry.index] for entry in node.inputs]
    # In rising order, so that each insertion is at its final place.
    for position in node.details.absent:
        names.insert(position, "")
    return tuple(names)


def _match_values(lists: Lists, graph: Graph) -> bool:
    heads = Counter(list_value_places(graph.heads))
    ends = {node for node, _ in heads}
    names: dict[int, list[str]] = {VALUE_INFO: [], OUTPUT: [], INPUT: []}
    messages: dict[int, list[NamedMessage]] = {VALUE_INFO: [], OUTPUT: [], INPUT: []}
    info_names, infos = names[VALUE_INFO], messages[VALUE_INFO]
    for node in graph.nodes:
        details = node.details
        if details.stored is None or details.stored.values is NO_MESSAGES:
            continue
        values = details.stored.values
        if values.annotations is not EMPTY or values.repeated:
            return False
        if values.results is EMPTY and node not in ends:  # the usual case, without a call
            for index, message in values.infos.items():
                info_names.append(details.outputs[index])
                infos.append(message)
            continue
        for number, index, message in _place_messages(node, heads):
            names[number].append(details.outputs[index])
            messages[number].append(message)
    declared = index_by_name(lists.named[OUTPUT])
    # Other outputs have inferred types.
    written = [declared[name] for name in names[OUTPUT] if name in declared]
    are_equal = _are_messages_equal(info_names, infos, lists.named[VALUE_INFO])
    return are_equal and _are_messages_equal(names[OUTPUT], messages[OUTPUT], written)


def _are_messages_equal(
    names: Sequence[str], expected: Sequence[NamedMessage], actual: Sequence[NamedMessage]
) -> bool:
    rests, written = _read_rests(expected), _read_rests(actual)
    written_names = [message.name for message in actual]
    if names == written_names and rests == written:
        return True
    pairs = zip(names, rests, strict=True)
    written_pairs = zip(written_names, written, strict=True)
    return sorted(pairs) == sorted(written_pairs)


def _read_rests(messages: Iterable[NamedMessage]) -> list[bytes]:
    return [
        m.file.data[m.start : m.name_start] + m.file.data[m.name_end : m.end]
        if m.rest is None
        else m.rest
        for m in messages
    ]


def _read_rest(message: NamedMessage | None) -> bytes:
    return b"" if message is None else _read_rests([message])[0]


def _read_tensor_rest(tensor: Span, *, is_sparse: bool = False) -> bytes:
    """Return a TensorProto or SparseTensorProto without its name, shape, dtype, data and location."""
    data = tensor.file.data
    if is_sparse:  # the name is in its values
        values: list[bytes] = []
        others: list[bytes] = []
        for number, _, begin, start, end in scan(data, tensor.start, tensor.end):
            if number == 1:
                values.append(_read_tensor_rest(Span(tensor.file, start, end)))
            else:
                others.append(data[begin:end])
        return b"".join(values + others)
    parts: list[tuple[int, bytes]] = []
    for number, _, begin, start, end in scan(data, tensor.start, tensor.end):
        if number in _COMPARED_FIELDS:
            continue
        is_note = number == TENSOR_METADATA and has_own_key(data, start, end)
        if not is_note:
            parts.append((number, data[begin:end]))
    # Tensors with moved data are written with their fields in order of number.
    return b"".join([part for _, part in sorted(parts, key=itemgetter(0))])


def _read_node_rest(node: Span, *, has_data: bool = False) -> bytes:
    """Return a NodeProto without names and graphs, or without the data of a Constant."""
    left_out = (TENSOR, SPARSE_TENSOR) if has_data else (GRAPH, GRAPHS)
    data, parts = node.file.data, list[bytes]()
    for number, _, begin, start, end in scan(data, node.start, node.end):
        if number == _ATTRIBUTE:
            attribute = [(field[0], field[2], field[4]) for field in scan(data, start, end)]
            parts += [data[first:last] for part, first, last in attribute if part not in left_out]
        elif number > 3:
            parts.append(data[begin:end])
    return b"".join(parts)


def _are_fields_equal(
    expected: Iterable[tuple[int, Span]], actual: Iterable[tuple[int, Span]]
) -> bool:
    return _read_fields(expected) == _read_fields(actual)


def _read_fields(fields: Iterable[tuple[int, Span]]) -> list[tuple[int, bytes]]:
    return [(number, span.read()) for number, span in sorted(fields, key=itemgetter(0))]


def _refuse_body(start: int, end: int) -> Graph:
    raise WireError("a node has a body", start)


def _operators(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op)


def _value(entry: Entry) -> str:
    return list_output_names(entry.node)[entry.index]


def _describe(node: Node, names: GraphNames) -> _Facts:
    details = node.details
    inputs = tuple(map(names.find, own_inputs(node)))
    outputs = names.list_outputs(node)
    texts = tuple(node.attrs.items())
    return (
        node.op,
        details.label,
        details.domain,
        inputs,
        details.absent,
        outputs,
        texts,
        len(node.subgraphs),
    )


def _describe_variables(graph: Graph) -> dict[str, _Facts]:
    return {node.name: _describe_variable(node) for node in graph.variables()}


def _describe_variable(node: Node) -> _Facts:
    return _describe_place(
        find_stored(node.details).place, holds_value=bool(node.details.holds_value)
    )


def _describe_place(place: TensorPlace | None, *, holds_value: bool) -> _Facts:
    if not holds_value:
        return "input", (), 0, 0
    if place is None:
        return "initializer", (), 0, 0
    size = place.end - place.start if place.pieces else data_size(place)
    return "initializer", place.shape, place.code, size
