"""Read an ONNX model as a graph: values become edges; inputs and initializers become variables.

Only names and texts of attributes are copied; messages refer to their places in the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import SAMPLE
from graphshare.files.open_source import open_source
from graphshare.formats.content_tests import begins_with_version
from graphshare.formats.onnx.attributes import AttributeReader, ReadGraph, Weight
from graphshare.formats.onnx.graph_fields import (
    ANNOTATION,
    INITIALIZER,
    INPUT,
    SPARSE,
    TENSOR_NAME,
    VALUE_INFO,
    Lists,
    MessagesByName,
    Rest,
    index_by_name,
    scan_graph,
)
from graphshare.formats.onnx.inner_tensors import list_outside_graph
from graphshare.formats.onnx.node_fields import (
    MAX_NESTING,
    NodeReader,
    NodeSorter,
    find_only_weight,
    name_domain,
)
from graphshare.formats.onnx.protobuf import (
    BYTES,
    Field,
    WireError,
    expect,
    integer_at,
    once,
    scan,
    text_at,
)
from graphshare.formats.onnx.stated_once import refuse_repeats
from graphshare.formats.onnx.stored import (
    FUNCTION,
    METADATA,
    NO_MESSAGES,
    OUTPUT,
    TRAINING,
    NamedMessage,
    NamesSpan,
    OnnxFile,
    OnnxSource,
    Span,
    Stored,
    TensorPlace,
    get_source,
    read_metadata,
    replace_stored,
)
from graphshare.formats.onnx.tensors import is_weight, locate_tensor
from graphshare.formats.onnx.values import describe_variable
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeDetails, freeze
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.text.names import TakenNames

OVERLOAD = "overload of the function"
"""The typed attribute of a node that selects one of several functions; no attribute in a file has
this name.
"""
_MODEL_SINGLE, _OPSET_SINGLE = once(1, 2, 3, 4, 5, 6), once(1, 2)
_FUNCTION_SINGLE = once(1, 8, 10, 13)


def read_model(path: str) -> Graph:
    """Return the graph of the ONNX file at ``path``.

    Raises:
        InputError: it cannot be read, is not an ONNX model, or contradicts itself.
    """
    with open_source(path) as source:
        return decode_model(OnnxFile(source))


def decode_model(file: OnnxFile) -> Graph:
    """Return the graph of an ONNX file with its nodes in topological order. Raises InputError."""
    try:
        return _decode_sorted(file)
    except WireError as error:
        if not _is_message(file):
            # Start-up: only files of no format need it
            from graphshare.formats.wrong_file import refuse_bytes

            start = bytes(file.data[: min(SAMPLE, file.size)])
            raise InputError(refuse_bytes(start, "graph", where=file.path)) from None
        raise InputError(
            Fault(str(error), where=file.path, path=f"byte {error.position}")
        ) from None
    except InputError as error:
        raise error.with_location(file.path) from None


def _is_message(file: OnnxFile) -> bool:
    """Whether a file begins like nearly all models, or is a protobuf message at all."""
    if begins_with_version(bytes(file.data[:2])):
        return True
    try:
        deque(scan(file.data, 0, file.size), maxlen=0)
    except WireError:
        return False
    return True


class _UndefinedError(InputError):
    """A node reads a value that no earlier node defines."""


def _decode_sorted(file: OnnxFile) -> Graph:
    try:
        graph = _decode(file)
    except _UndefinedError as error:
        if not _sort(file, error):
            raise
        return _decode(file)
    for number, span in get_source(graph).fields:
        try:
            if number == FUNCTION:
                read_function(span.open_field()[1])
        except _UndefinedError as error:
            return _decode(file) if _sort(file, error) else graph
        except (WireError, InputError):
            pass  # refused where the function is needed
    return graph


def _sort(file: OnnxFile, error: InputError) -> bool:
    """Sort the nodes of a file in memory; return False if they are sorted. Raises WireError, InputError."""
    model, sorter = scan_model(file), NodeSorter(file)
    sorter.sort_graph(*model.graph)
    for _, span in [field for field in model.fields if field[0] == FUNCTION]:
        _, function = span.open_field()
        sorter.sort_nodes(
            [field for field in scan(file.data, function.start, function.end) if field[0] == 7]
        )
    if sorter.content == file.data[0 : file.size]:
        return False
    file.data = file.held = bytes(sorter.content)
    file.disorder = error.faults[0]
    return True


def _decode(file: OnnxFile) -> Graph:
    model = scan_model(file)
    lists = scan_graph(file, *model.graph)
    nodes, heads, rest = _read_main(file, lists)
    in_order = model.is_ordered and lists.is_ordered
    whole = Span(file, 0, file.size)
    source = OnnxSource(
        file,
        whole,
        model.fields,
        *rest,
        nodes,
        heads,
        model.version,
        model.opsets,
        in_order,
        lists.count(),
    )
    graph = Graph(nodes, heads, source=source)
    deque(list_outside_graph(graph), maxlen=0)  # outside data must be in the model's directory
    return graph


class ModelFields(NamedTuple):
    """The fields of a ModelProto: begin and end of ``graph``; other fields, tags included, by number."""

    graph: tuple[int, int]
    fields: tuple[tuple[int, Span], ...]
    version: int
    opsets: Mapping[str, int]
    is_ordered: bool


def scan_model(file: OnnxFile) -> ModelFields:
    """Scan the ModelProto in a file. Raises WireError, InputError."""
    data = file.data
    fields: list[tuple[int, Span]] = []
    opsets: dict[str, int] = {}
    version = last = 0
    is_ordered = True
    graphs: list[tuple[int, int]] = []
    for field in scan(data, 0, file.size, _MODEL_SINGLE):
        number, _, begin, start, end = field
        is_ordered, last = is_ordered and number >= last, number
        if number == 7:
            expect(field, BYTES, "the graph")
            graphs.append((start, end))
            continue
        fields.append((number, Span(file, begin, end)))
        if number == 1:
            version = integer_at(data, field)
        elif number == 8:
            expect(field, BYTES, "an operator set")
            domain, number = read_opset(file, start, end)
            opsets[domain] = number
        elif number == METADATA:
            expect(field, BYTES, "metadata")
            read_metadata(fields[-1][1])
        elif number == TRAINING:
            refuse_repeats(data, field, "training")
    if not graphs:
        raise InputError(Fault("has no graph", hint="it is empty, cut short, or not an ONNX model"))
    if len(graphs) > 1:
        raise InputError(Fault(f"has {len(graphs)} graphs, and a model has one"))
    return ModelFields(graphs[0], tuple(fields), version, opsets, is_ordered)


def _read_main(file: OnnxFile, lists: Lists) -> tuple[tuple[Node, ...], tuple[Entry, ...], Rest]:
    """Return nodes, heads and other fields of the main graph; lifted weights get unique names."""
    scope = _Scope(None)
    reader = _GraphReader(file, lifts=True)
    nodes, heads, rest = reader.read(lists, scope)
    taken = TakenNames(scope.values if reader.lifted else ())
    names: dict[Node, str] = {}
    for node in reader.lifted:
        free = taken.take(node.name)
        if free != node.name:
            names[node] = free
    if not names:
        return nodes, heads, rest
    images = rebuild(nodes, lambda node: _name_lifted(node, names[node]) if node in names else node)
    return tuple(images.values()), relink_all(heads, images), rest


def _name_lifted(node: Node, name: str) -> Node:
    renamed = replace_stored(node, outputs=(name,))
    return msgspec.structs.replace(
        renamed, name=name, details=msgspec.structs.replace(renamed.details, outputs=(name,))
    )


def read_opset(file: OnnxFile, start: int, end: int) -> tuple[str, int]:
    """Return the domain and the version of an OperatorSetIdProto."""
    domain, version = "", 0
    for field in scan(file.data, start, end, _OPSET_SINGLE):
        if field[0] == 1:
            domain = text_at(file.data, field)
        elif field[0] == 2:
            version = integer_at(file.data, field)
    return name_domain(domain), version


class Function(msgspec.Struct, frozen=True, eq=False):
    """A function of a model: its body, with inputs as variables, and its operator sets by domain.

    ``attributes`` maps formal attributes to defaults, or None where a call must state the value.
    """

    graph: Graph
    attributes: Mapping[str, object]
    opsets: Mapping[str, int]


def read_function(span: Span) -> Function:
    """Return the function of a FunctionProto. Raises WireError, InputError."""
    file, scope, reader = span.file, _Scope(None), _GraphReader(span.file)
    texts: dict[int, list[str]] = {4: [], 5: [], 6: []}  # inputs, outputs, attributes
    nodes: list[Field] = []
    defaults: list[Field] = []
    opsets: dict[str, int] = {}
    for field in scan(file.data, span.start, span.end, _FUNCTION_SINGLE):
        if field[0] in texts:
            texts[field[0]].append(text_at(file.data, field))
        elif field[0] in (7, 9, 11):
            expect(field, BYTES, "a part of a function")
            if field[0] == 9:
                # Targets are assigned from left to right: ``domain`` first.
                domain, opsets[domain] = read_opset(file, field[3], field[4])
            else:
                (nodes if field[0] == 7 else defaults).append(field)
        elif field[0] in (12, 14):
            refuse_repeats(file.data, field, "value" if field[0] == 12 else "pair")
    places = ((name, freeze({"position": i})) for i, name in enumerate(texts[4]))
    variables = [
        Node("", name, details=NodeDetails("", (name,), place, holds_value=False))
        for name, place in places
    ]
    scope.values.update({node.name: Entry(node) for node in variables})
    operators = list(reader.read_operators(nodes, scope, MessagesByName(Lists())))
    heads = tuple([scope.values[name] for name in texts[5] if name in scope.values])
    if len(heads) < len(texts[5]):
        raise WireError("an output of a function is a value that nothing defines", span.start)
    graph = Graph((*variables, *operators), heads)
    attributes = {
        **dict.fromkeys(texts[6]),
        **AttributeReader(file).read(defaults, _refuse_graph).values,
    }
    return Function(graph, attributes, opsets)


class _Scope:
    """The values of a graph by name. Values of the enclosing graph become variables, the captures.

    ``messages`` describe the values and captures, because a body may return a captured value.
    ``defines`` tells whether an operator of the graph outputs a name. ``lifted`` names the weights
    of this body that moved to the main graph; the body captures them.
    """

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.messages: MessagesByName | None = None
        self.defines: Callable[[str], bool] = bool
        self.lifted: set[str] = set()
        self.values: dict[str, Entry] = {}
        self.captures: dict[str, Entry] = {}
        self.variables: list[Node] = []
        self.captured: list[Entry] = []

    def find(self, name: str) -> Entry | None:
        entry = self.values.get(name) or self.captures.get(name)
        if entry is not None or self.outer is None:
            return entry
        around = self.outer.find(name)
        if around is None:
            return None
        self.captures[name] = self._capture(around, name)
        return self.captures[name]

    def lift(self, node: Node) -> Entry:
        """Return the capture of a weight lifted to the main graph; enclosing bodies capture it too."""
        return Entry(node) if self.outer is None else self._capture(self.outer.lift(node), "")

    def _capture(self, around: Entry, name: str) -> Entry:
        messages = NO_MESSAGES if self.messages is None else self.messages.list_messages((name,))
        # The name is redefined after the capture: messages describe the later value
        if messages is not NO_MESSAGES and self.defines(name):
            messages = NO_MESSAGES
        stored = None if messages is NO_MESSAGES else Stored(messages)
        details = NodeDetails("", (name,), holds_value=False, stored=stored)
        variable = Node("", f"capture {len(self.variables)}", num_outputs=1, details=details)
        self.variables.append(variable)
        self.captured.append(around)
        return Entry(variable)


def _refuse_graph(start: int, end: int) -> Graph:
    raise WireError("the default of an attribute is a graph", start)


class _GraphReader:
    """Reads the graphs of one file; ``lifts`` makes weights of bodies variables of the main graph."""

    def __init__(self, file: OnnxFile, *, lifts: bool = False) -> None:
        self._file = file
        self._lifts = lifts
        self.lifted: list[Node] = []
        self._nodes = NodeReader(file)
        self._depth = 0

    def read(
        self, lists: Lists, scope: _Scope, home: Span | None = None
    ) -> tuple[tuple[Node, ...], tuple[Entry, ...], Rest]:
        """Return nodes, heads and other fields of a GraphProto; a body has a ``home``.

        Raises WireError, InputError.
        """
        by_name = scope.messages = MessagesByName(lists)
        scope.defines = lambda name: any(
            name in outputs for _, outputs, _, _ in self._nodes.read(lists.nodes)
        )
        nodes, placed = self._read_variables(lists, scope, by_name, home), 0
        for node in self.read_operators(lists.nodes, scope, by_name, home):
            # Lifted weights go before the operator that contains their bodies
            if home is None and len(self.lifted) > placed:
                nodes += self.lifted[placed:]
                placed = len(self.lifted)
            # A Constant lifted to the main graph is not a node of its body.
            if node.op or not scope.lifted:
                nodes.append(node)
        heads = []
        for message in lists.named[OUTPUT]:
            entry = scope.find(message.name)
            if entry is None:
                text = f"graph output {message.name!r} is a value that nothing defines"
                raise _UndefinedError(Fault(text, path=f"byte {message.start}"))
            heads.append(Entry(entry.node, entry.index))
        orphans = [
            (number, message)
            for number in (VALUE_INFO, ANNOTATION)
            for message in lists.named[number]
            if message.name not in scope.values
            and message.name not in scope.lifted
            and message.name not in scope.captures
        ]
        return tuple(nodes), tuple(heads), (tuple(lists.rest), tuple(orphans))

    def _subgraph_reader(self, outer: _Scope, captured: list[Entry]) -> ReadGraph:
        """Return a reader of subgraphs that adds the entries they capture to ``captured``."""

        def read(start: int, end: int) -> Graph:
            if self._depth >= MAX_NESTING:
                raise WireError(f"subgraphs are nested deeper than {MAX_NESTING} levels", start)
            self._depth += 1
            scope, span = _Scope(outer), Span(self._file, start, end)
            lists = scan_graph(self._file, start, end)
            nodes, heads, rest = self.read(lists, scope, span)
            self._depth -= 1
            captured.extend(scope.captured)
            source = OnnxSource(self._file, span, (), *rest, nodes, heads, counts=lists.count())
            return Graph(
                (*scope.variables, *nodes), heads, source=source, captures=tuple(scope.variables)
            )

        return read

    def _read_variables(
        self, lists: Lists, scope: _Scope, by_name: MessagesByName, home: Span | None
    ) -> list[Node]:
        tensors = index_by_name(
            (*lists.named[INITIALIZER], *lists.named[SPARSE]), unique="initializers"
        )
        sparse = {message.name for message in lists.named[SPARSE]}
        inputs = index_by_name(lists.named[INPUT], unique="graph inputs")
        nodes = []
        # Up to IR version 3 every initializer is also an input: one node stands for both.
        for position, name in enumerate(dict.fromkeys((*inputs, *tensors))):
            tensor = tensors.get(name)
            if not name:
                raise WireError(
                    "a graph input or an initializer has no name", (tensor or inputs[name]).start
                )
            place = None
            if tensor is not None and name not in sparse:
                place = tensor.place or self._locate(tensor)
            stored = Stored(
                by_name.list_messages((name,)),
                tensor=tensor,
                place=place,
                is_sparse=name in sparse,
                input=inputs.get(name),
            )
            is_own = home is None or not self._is_weight(stored) or name in by_name.results
            values = describe_variable(stored, position) if home is not None and is_own else EMPTY
            if not is_own:
                stored = msgspec.structs.replace(stored, outputs=(name,), home=home)
            details = NodeDetails(
                "", (name,), values, holds_value=tensor is not None, stored=stored
            )
            node = Node("", name, num_outputs=1, details=details)
            if is_own:
                scope.values[name] = Entry(node)
                nodes.append(node)
            else:
                self._lift(node, scope, (tensor or inputs[name]).start)
        return nodes

    def _lift(self, node: Node, scope: _Scope, at: int) -> None:
        if node.name in scope.values or node.name in scope.lifted:
            self._refuse_second(node, node.name, at)
        self.lifted.append(node)
        scope.lifted.add(node.name)
        scope.captures[node.name] = scope.lift(node)

    def _is_weight(self, stored: Stored) -> bool:
        if not self._lifts or stored.tensor is None or stored.input is not None:
            return False
        return stored.place is None or is_weight(stored.place.shape, stored.place.code)

    def _locate(self, tensor: NamedMessage) -> TensorPlace:
        try:
            return locate_tensor(self._file, tensor.start, tensor.end)
        except WireError as error:
            raise InputError(
                Fault(str(error), node=tensor.name, path=f"byte {error.position}")
            ) from None

    def read_operators(
        self,
        fields: Sequence[Field],
        scope: _Scope,
        by_name: MessagesByName,
        home: Span | None = None,
    ) -> Iterator[Node]:
        """Yield the operators of NodeProtos in order; a Constant with a weight becomes a variable."""
        file, values, refused, find = (
            self._file,
            scope.values,
            scope.lifted,
            scope.values.__getitem__,
        )
        for rank, (field, (inputs, outputs, label, kind)) in enumerate(
            zip(fields, self._nodes.read(fields), strict=True)
        ):
            _, _, begin, start, end = field
            op, domain, overload, stated, key, known = kind
            absent: tuple[int, ...] = ()
            name = next(filter(None, outputs), label)
            if not op:
                raise WireError(f"node {name!r} has no operator", begin)
            span = (
                NamesSpan(file, start, end, end - len(key), key) if key else Span(file, start, end)
            )
            try:
                entries = tuple(map(find, inputs))
            except KeyError:  # a capture, an absent input, or a fault
                entries, absent = self._find_inputs(inputs, scope, name, begin)
            if stated:
                captured: list[Entry] = []
                known = self._nodes.read_attributes(kind, self._subgraph_reader(scope, captured))
                entries = (*entries, *captured)
                weight = find_only_weight(inputs, outputs, kind, known)
                # A body cannot return a value of the enclosing graph.
                if weight is not None and (home is None or name not in by_name.results):
                    stored = Stored(
                        by_name.list_messages(outputs), span, (), (name,), label, home=home
                    )
                    yield self._read_constant(weight, stored, rank, scope, begin)
                    continue
            texts, attributes, graphs, bodies, outer, _ = known
            if overload:
                attributes = {**attributes, OVERLOAD: overload}
            stored = Stored(
                by_name.list_messages(outputs),
                span,
                () if key else inputs,
                outputs,
                label,
                outer=outer,
            )
            details = NodeDetails(
                domain, outputs, attributes, absent, label, stored=stored, bodies=bodies
            )
            node = Node(op, name, texts, entries, len(outputs), subgraphs=graphs, details=details)
            for index, output in enumerate(outputs):
                if output:
                    if output in values or output in refused:
                        self._refuse_second(node, output, begin)
                    values[output] = Entry(node, index)
            yield node

    def _define(self, name: str, entry: Entry, scope: _Scope, at: int) -> None:
        if name in scope.values or name in scope.lifted:
            self._refuse_second(entry.node, name, at)
        scope.values[name] = entry

    def _refuse_second(self, node: Node, name: str, at: int) -> NoReturn:
        message = f"value {name!r} is defined twice, and a name stands for one value"
        raise InputError(Fault(message, node=node.name, path=f"byte {at}"))

    def _read_constant(
        self, weight: Weight, stored: Stored, rank: int, scope: _Scope, at: int
    ) -> Node:
        (name,), number = stored.outputs, TENSOR_NAME if weight.place is not None else 1
        message = NamedMessage(
            self._file, weight.start, weight.end, name, number, weight.end, weight.end, rank
        )
        stored = msgspec.structs.replace(
            stored, tensor=message, place=weight.place, is_sparse=weight.place is None
        )
        values = describe_variable(stored, 0) if not self._lifts else EMPTY
        details = NodeDetails(
            "", (name,), values, label=stored.label, holds_value=True, stored=stored
        )
        node = Node("", name, num_outputs=1, details=details)
        if self._lifts and stored.home is not None:
            self._lift(node, scope, at)
        else:
            self._define(name, Entry(node), scope, at)
        return node

    def _find_inputs(
        self, names: Sequence[str], scope: _Scope, node: str, at: int
    ) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
        entries: list[Entry] = []
        for name in names:
            if name:
                entry = scope.find(name)
                if entry is None:
                    hint = "correct the name, or add the node or initializer that defines the value"
                    message = f"reads the value {name!r}, which nothing before it defines"
                    raise _UndefinedError(Fault(message, node=node, path=f"byte {at}", hint=hint))
                entries.append(entry)
        absent = (
            tuple([position for position, name in enumerate(names) if not name])
            if len(entries) < len(names)
            else ()
        )
        return tuple(entries), absent
