"""Find the types of values: stated ones, else those that ONNX infers if it is installed.

ONNX's checker needs dtype and rank of a model's inputs and outputs; few files state other types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from graphshare.errors import Fault, InputError, RefusedError, install_command
from graphshare.formats.facets import StaticType, TensorType
from graphshare.formats.onnx import inference
from graphshare.formats.onnx.compose import make_typed_input
from graphshare.formats.onnx.inference import infer_types, is_installed
from graphshare.formats.onnx.inner_tensors import change_inner_tensors
from graphshare.formats.onnx.messages import describe_type, rewrite_message
from graphshare.formats.onnx.protobuf import Message, WireError, encode_text, scan
from graphshare.formats.onnx.stored import (
    FIRST_CONSTANTS,
    FUNCTION,
    NO_MESSAGES,
    NamedMessage,
    Span,
    find_stored,
    get_source,
    replace_stored,
)
from graphshare.formats.onnx.tensor_messages import add_external
from graphshare.formats.onnx.tensors import (
    DATA_FIELDS,
    RAW,
    data_size,
    locate_tensor,
    read_elements,
)
from graphshare.formats.onnx.types import (
    input_types,
    is_complete,
    parse_type,
    read_any_type,
    read_type,
)
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.onnx import dtype_name
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import list_output_names
from graphshare.text.format import format_count, format_names, format_shape
from graphshare.text.names import did_you_mean

Key = tuple[Node, int]
_LARGEST = 4096  # bytes of a tensor that may matter to shapes
_NAME, _TYPE = 8, 2  # fields of a TensorProto and of a ValueInfoProto
_TEXT = 8  # the dtype of texts, which cannot be in another file
_LISTED = 4
_NOT_INSTALLED = "the onnx package, which infers types, is not installed"
_DATA = "data"


def find_head_types(graph: Graph) -> Mapping[str, bytes]:
    """Return the known TypeProtos, by name, of heads whose type the file does not state."""
    types = _find_type_bytes(graph, _list_unstated(graph))
    return {list_output_names(node)[index]: data for (node, index), data in types.items()}


def list_untyped_outputs(graph: Graph) -> list[str]:
    """Return the names of new outputs that are written without dtype or rank."""
    return [list_output_names(e.node)[e.index] for e in list_untyped(graph, _list_unstated(graph))]


def list_untyped(graph: Graph, entries: Sequence[Entry]) -> list[Entry]:
    """Return the values without a known dtype or rank, or type in a sequence."""
    if not entries:
        return []
    types = find_types(graph, entries)
    return [e for e in entries if not is_complete(types.get((e.node, e.index)))]


def _list_unstated(graph: Graph) -> list[Entry]:
    return [head for head in graph.heads if not _is_stated(head)]


def _is_stated(head: Entry) -> bool:
    if head.index in find_stored(head.node.details).values.results:
        return True
    return _find_statement(head) is not None


def find_types(
    graph: Graph,
    entries: Sequence[Entry],
    *,
    shapes: Mapping[str, Sequence[int | None]] = EMPTY,
    independent: bool = False,
) -> dict[Key, StaticType]:
    """Return the known types of values by node and index: stated ones, else inferred ones.

    With ``shapes`` of inputs by name, types inferred from these come first. With ``independent``
    all inferred types do, and inference ignores the stated types of operators' values.

    Raises:
        RefusedError: ``shapes`` names no input, or contradicts the file; all cases are listed.
    """
    changed = graph
    if shapes:
        changed = _state_shapes(changed, shapes)
    if independent:
        changed = _forget_types(changed)
    types: dict[Key, StaticType] = {}
    encoded = _find_type_bytes(changed, entries, infers_all=changed is not graph)
    for key, data in encoded.items():
        kind = parse_type(data, 0, len(data))
        if kind is not None:
            types[key] = kind
    return types


def make_inputs(graph: Graph, cuts: Mapping[Key, str]) -> dict[Key, Node]:
    """Return an input for each output in ``cuts``, with its type and its name in ``cuts``.

    Raises:
        RefusedError: an output's dtype or rank is not known; all are listed.
    """
    types = _find_type_bytes(graph, [Entry(*key) for key in cuts])
    stating = "state it with `types={'gelu': 'float32[n,3]'}`, or cut elsewhere"
    hint = stating if is_installed() else f"{install_command('onnx')}, or cut elsewhere"
    faults = []
    for key, name in cuts.items():
        data = types.get(key, b"")
        if not is_complete(parse_type(data, 0, len(data))):
            unknown = "rank" if data else "type"
            what = f"its {unknown} is unknown: the file does not state it, and {_explain_gap('it')}"
            faults.append(Fault(f"`cuts` {name!r}: {what}", hint=hint))
    if faults:
        raise RefusedError(faults)
    return {key: make_typed_input(name, types[key]) for key, name in cuts.items()}


def explain_unknown(names: Collection[str]) -> str:
    """Return a note on values of unknown type."""
    values = f"{format_count(len(names), 'value')} ({format_names(names, _LISTED)})"
    return f"unknown dtype or rank of {values}: the file does not state them, and {_explain_gap('them')}"


def _explain_gap(what: str) -> str:
    return f"ONNX's inference does not reach {what}" if is_installed() else _NOT_INSTALLED


def find_refusal(graph: Graph) -> str:
    """Return why ONNX's checker, with inference, refuses a model without large data; empty if it does not.

    Raises:
        RefusedError: as for :func:`infer_types`.
    """
    return inference.find_refusal(encode_without_data(graph), _DATA)


def encode_without_data(graph: Graph) -> bytes:
    """Return a model with its large data in a file that need not exist."""
    return b"".join(_encode_without_data(graph, _DATA).pieces())


def _find_statement(entry: Entry) -> NamedMessage | None:
    stored = find_stored(entry.node.details)
    messages = (
        stored.values.results.get(entry.index),
        stored.values.infos.get(entry.index),
        stored.input,
    )
    for message in messages:
        if message is not None and is_complete(read_any_type(message)):
            return message
    return None


def _find_type_bytes(
    graph: Graph, entries: Iterable[Entry], *, infers_all: bool = False
) -> dict[Key, bytes]:
    """Return the known TypeProtos: stated, else inferred ones; with ``infers_all`` vice versa."""
    stated = {(entry.node, entry.index): _read_statement(entry) for entry in entries}
    inferred = _infer(graph) if infers_all or None in stated.values() else EMPTY
    types: dict[Key, bytes] = {}
    for (node, index), data in stated.items():
        other = inferred.get(list_output_names(node)[index])
        known = (other or data) if infers_all else (data or other)
        if known is not None:
            types[node, index] = known
    return types


def _read_statement(entry: Entry) -> bytes | None:
    message = _find_statement(entry)
    if message is not None:
        data = message.file.data
        fields = scan(data, message.start, message.end)
        return b"".join([data[field[3] : field[4]] for field in fields if field[0] == _TYPE])
    place = find_stored(entry.node.details).place
    if place is None or entry.node.op:
        return None
    return describe_type(dtype_name(place.code), place.shape)


def _infer(graph: Graph) -> Mapping[str, bytes]:
    """Return the inferred TypeProtos by name; none if ONNX is not installed or fails.

    Raises:
        RefusedError: as for :func:`infer_types`.
    """
    if not is_installed():
        return EMPTY
    try:
        return infer_types(_encode_for_inference(graph))
    except InputError:  # values stay without a type
        return EMPTY
    except RefusedError as error:
        raise error.with_location(get_source(graph).file.path) from None


def define_operators(graph: Graph, wanted: Collection[str]) -> Mapping[str, bytes]:
    """Return ONNX's definitions (:func:`inference.define_operators`); none if it is missing or refuses.

    Raises:
        RefusedError: as for :func:`infer_types`.
    """
    if not is_installed():
        return EMPTY
    try:
        return inference.define_operators(_encode_for_inference(graph), wanted)
    except InputError:
        return EMPTY


def _encode_for_inference(graph: Graph) -> bytes:
    return b"".join(_encode_without_data(_state_loops(declare_weights(graph))).pieces())


def _encode_without_data(graph: Graph, location: str = "") -> Message:
    shrink = partial(_shrink_tensor, location=location)
    functions = [
        span
        for number, span in get_source(graph).fields
        if number == FUNCTION and span.size > _LARGEST
    ]
    if functions or any(map(_is_large, graph.nodes)):
        graph = change_inner_tensors(graph, shrink, _is_large, functions, enters_bodies=True)

    def encode(node: Node, name: str) -> Message | None:
        stored = find_stored(node.details)
        if stored.tensor is None or stored.is_sparse:
            return None
        return shrink(stored.tensor, name, has_data=not stored.data_in_record)

    types = find_head_types(graph) if location else EMPTY
    return encode_model(graph, encode, types)


def declare_weights(graph: Graph) -> Graph:
    """Make initializers of an old IR version inputs too: ONNX infers nothing from others there."""
    if get_source(graph).ir_version >= FIRST_CONSTANTS:
        return graph

    def declare(node: Node) -> Node:
        stored = find_stored(node.details)
        if node.op or stored.input is not None:
            return node
        if stored.tensor is None or stored.place is None:
            return node
        kind = describe_type(dtype_name(stored.place.code), stored.place.shape)
        typed = find_stored(make_typed_input(node.name, kind).details)
        return replace_stored(node, input=typed.input)

    return rebuild_graph(graph, declare)[0]


def _state_loops(graph: Graph) -> Graph:
    """State the types of values that Loops carry if both ends of a body do; ONNX infers no rank."""
    if not any(node.op == "Loop" for node in graph.nodes):
        return graph

    def state(node: Node) -> Node:
        stored = find_stored(node.details)
        if node.op != "Loop" or node.details.domain or not node.subgraphs:
            return node
        body, infos = node.subgraphs[0], dict(stored.values.infos)
        inputs = [
            declared
            for each in body.variables()
            if (declared := find_stored(each.details).input) is not None
        ]
        # A body's inputs begin with iteration number and condition, its outputs with the condition.
        for index, (name, before, head) in enumerate(
            zip(list_output_names(node), inputs[2:], body.heads[1:], strict=False)
        ):
            is_stated = index in infos or index in stored.values.results
            after = find_stored(head.node.details).values.results.get(head.index)
            if not name or is_stated or after is None:
                continue
            common = _find_common_type(read_type(before), read_type(after))
            if common:
                declared = find_stored(make_typed_input(name, common).details).input
                assert declared is not None
                infos[index] = declared
        return replace_stored(node, values=replace(stored.values, infos=infos))

    return rebuild_graph(graph, state)[0]


def _find_common_type(left: TensorType | None, right: TensorType | None) -> bytes:
    """Return the TypeProto of two tensors' common dtype and rank and equal sizes; empty if they differ."""
    if left is None or right is None or left.shape is None or right.shape is None:
        return b""
    if not left.dtype or left.dtype != right.dtype or len(left.shape) != len(right.shape):
        return b""
    sizes: list[int | None] = []
    for size, other in zip(left.shape, right.shape, strict=True):
        sizes.append(size if isinstance(size, int) and size == other else None)
    return describe_type(left.dtype, sizes)


def _is_large(node: Node) -> bool:
    stored = find_stored(node.details)
    return stored.node is not None and stored.node.size > _LARGEST


def _shrink_tensor(
    span: Span, name: str | None = None, *, location: str = "", has_data: bool = True
) -> Message:
    """Return a TensorProto with small data inside and without large data, renamed if a name is given.

    Data that is left out or missing is in the file ``location``, if given.
    """
    content, size = b"", 0
    try:
        place = locate_tensor(span.file, span.start, span.end)
        size = data_size(place) or 0
        if place.path and size <= _LARGEST:
            content = b"".join(read_elements(span, place))
        must_stay = bool(location) and place.code == _TEXT
        keeps_data = has_data and not place.path and (span.size <= _LARGEST or must_stay)
    except (InputError, WireError):  # the shape is known without the missing data
        keeps_data = False
    left_out = set[int]() if keeps_data else set(DATA_FIELDS)
    if name is not None:
        left_out.add(_NAME)
    message = rewrite_message(span, dict.fromkeys(left_out))
    if name is not None:
        message.add_bytes(_NAME, encode_text(name))
    if content:
        message.add_bytes(RAW, content)
    elif location and not keeps_data:
        add_external(message, (location, 0, size))
    return message


def _forget_types(graph: Graph) -> Graph:
    def forget(node: Node) -> Node:
        stored = find_stored(node.details)
        if not node.op or stored.values is NO_MESSAGES:
            return node
        return replace_stored(node, values=NO_MESSAGES)

    return rebuild_graph(graph, forget)[0]


def _bind_sizes(
    types: Mapping[str, TensorType], shapes: Mapping[str, Sequence[int | None]]
) -> dict[str, int]:
    """Map named sizes to the numbers in ``shapes``. Raises RefusedError if shapes do not fit."""
    faults: list[Fault] = []
    numbers: dict[str, int] = {}
    for name, shape in shapes.items():
        kind = types.get(name)
        if kind is None:
            message = f"`shapes` {name!r} is not an input"
            faults.append(Fault(message, hint=did_you_mean(name, types)))
            continue
        if kind.contradicts(TensorType("", tuple(shape))):
            message = f"is given the shape {format_shape(shape)}, but the file states {kind}"
            faults.append(Fault(message, node=name))
            continue
        for old, new in zip(kind.shape or (), shape, strict=False):
            if isinstance(old, str) and new is not None:
                numbers[old] = new
    if faults:
        raise RefusedError(faults)
    return numbers


def _state_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | None]]) -> Graph:
    """State these shapes of inputs; a named size gets its number everywhere."""
    inputs = {node.name: node for node in graph.variables() if not node.details.holds_value}
    types = {name: kind for name, kind in input_types(graph).items() if name in inputs}
    numbers = _bind_sizes(types, shapes)
    changes = {}
    for name, kind in types.items():
        shape = shapes.get(name)
        old = shape if kind.shape is None else kind.shape
        if old is None:
            continue
        sizes = [numbers.get(size, size) if isinstance(size, str) else size for size in old]
        if shape is not None:
            sizes = [size if new is None else new for size, new in zip(sizes, shape, strict=True)]
        if tuple(sizes) != kind.shape:
            changes[inputs[name]] = make_typed_input(name, describe_type(kind.dtype, sizes))
    return rebuild_graph(graph, lambda node: changes.get(node, node))[0]
