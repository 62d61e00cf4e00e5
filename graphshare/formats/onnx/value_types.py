"""The types of values: what a file states, else what ONNX's own inference of shapes finds, where the package is installed.

ONNX's checker wants the dtype and the rank of each input and output of a model; of inner values few files state them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from msgspec.structs import replace

from graphshare.errors import Fault, InputError, RefusedError, install_command
from graphshare.formats.onnx.compose import make_typed_input
from graphshare.formats.onnx.inner_tensors import change_inner_tensors, list_functions
from graphshare.formats.onnx.messages import describe_type
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import NO_MESSAGES, NamedMessage, OnnxFile, Span, find_stored, outputs_of
from graphshare.formats.onnx.tensors import DATA_FIELDS, RAW, data_size, dtype_name, locate_tensor, read_elements
from graphshare.formats.onnx.types import NestedType, TensorType, input_types, is_complete, parse_type, read_any_type
from graphshare.formats.onnx.wire import WireError, encode_text, scan
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.rebuild import rebuild_graph
from graphshare.text.format import format_count, format_names, format_shape
from graphshare.text.names import did_you_mean

ValueType = TensorType | NestedType
Key = tuple[Node, int]
_LARGEST = 4096  # bytes of a tensor that may matter to shapes
_INVENTED = "unk__"  # how ONNX's inference begins the names of sizes that it does not know
_NAME, _TYPE = 8, 2  # fields of a TensorProto and of a ValueInfoProto
_LISTED = 4
_NOT_INSTALLED = "the onnx package, which infers types, is not installed"


def find_head_types(graph: Graph) -> Mapping[str, bytes]:
    """Return TypeProtos by name of heads of which the file states none, as far as they are known.

    What the file has as an output stays as it is there.
    """
    types = _find_type_bytes(graph, _list_untyped(graph))
    return {outputs_of(node)[index]: data for (node, index), data in types.items()}


def list_untyped_outputs(graph: Graph) -> list[str]:
    """Return the names of the heads that are written without a dtype or a rank, and were no outputs of the file."""
    heads = _list_untyped(graph)
    types = find_types(graph, heads) if heads else {}
    return [outputs_of(e.node)[e.index] for e in heads if not is_complete(types.get((e.node, e.index)))]


def _list_untyped(graph: Graph) -> list[Entry]:
    """Return the heads of which the file states nothing, as an output or otherwise."""
    heads = [head for head in graph.heads if head.index not in find_stored(head.node.details).values.results]
    return [head for head in heads if _find_statement(head) is None]


def find_types(
    graph: Graph, entries: Sequence[Entry], *, shapes: Mapping[str, Sequence[int | None]] = EMPTY, independent: bool = False
) -> dict[Key, ValueType]:
    """Return the types of values by node and index: what the file states, else what ONNX infers; unknown ones are absent.

    With ``shapes`` of inputs by name, what ONNX infers from these comes first. With ``independent`` what it infers comes first,
    and it does not see what the file states of the values of operators.

    Raises:
        RefusedError: a name of ``shapes`` is not that of an input, or the file states another shape of it; all are listed.
    """
    changed = _feed_shapes(graph, shapes) if shapes else _forget_types(graph) if independent else None
    types = _find_type_bytes(changed or graph, entries, infers_all=changed is not None)
    parsed = {key: parse_type(data, 0, len(data)) for key, data in types.items()}
    return {key: kind for key, kind in parsed.items() if kind is not None}


def make_inputs(graph: Graph, cuts: Mapping[Key, str]) -> dict[Key, Node]:
    """Return an input of the type of each output in ``cuts``, under the name that ``cuts`` has for it.

    Raises:
        RefusedError: the dtype or the rank of an output is not known; all are listed.
    """
    types = _find_type_bytes(graph, [Entry(*key) for key in cuts])
    hint = "cut elsewhere" if _is_installed() else f"{install_command('onnx')}, or cut elsewhere"
    faults = []
    for key, name in cuts.items():
        data = types.get(key, b"")
        if not is_complete(parse_type(data, 0, len(data))):
            what = f"its {'rank' if data else 'type'} is unknown: the file does not state it, and {_explain_gap('it')}"
            faults.append(Fault(f"`cuts` {name!r}: {what}", hint=hint))
    if faults:
        raise RefusedError(faults)
    return {key: make_typed_input(name, types[key]) for key, name in cuts.items()}


def explain_unknown(names: Collection[str]) -> str:
    """Return a note on values of unknown type."""
    values = f"{format_count(len(names), 'value')} ({format_names(names, _LISTED)})"
    return f"unknown dtype or rank of {values}: the file does not state them, and {_explain_gap('them')}"


def _explain_gap(what: str) -> str:
    return f"ONNX's inference does not reach {what}" if _is_installed() else _NOT_INSTALLED


def _is_installed() -> bool:
    return find_spec("onnx") is not None


def _find_statement(entry: Entry) -> NamedMessage | None:
    """Return what the file states of a value, if that is complete."""
    stored = find_stored(entry.node.details)
    messages = (stored.values.results.get(entry.index), stored.values.infos.get(entry.index), stored.input)
    return next((message for message in messages if message is not None and is_complete(read_any_type(message))), None)


def _find_type_bytes(graph: Graph, entries: Iterable[Entry], *, infers_all: bool = False) -> dict[Key, bytes]:
    """Return the TypeProtos of values as far as they are known: stated, else inferred ones; with ``infers_all`` vice versa."""
    stated = {(entry.node, entry.index): _read_statement(entry) for entry in entries}
    inferred = _infer(graph) if infers_all or None in stated.values() else EMPTY
    types: dict[Key, bytes] = {}
    for (node, index), data in stated.items():
        other = inferred.get(outputs_of(node)[index])
        known = other or data if infers_all else data or other
        if known is not None:
            types[node, index] = known
    return types


def _read_statement(entry: Entry) -> bytes | None:
    """Return the TypeProto that the file states of a value, or that of an initializer."""
    message, place = _find_statement(entry), find_stored(entry.node.details).place
    if message is not None:
        data, span = message.span.file.data, message.span
        return b"".join([data[field[3] : field[4]] for field in scan(data, span.start, span.end) if field[0] == _TYPE])
    return None if place is None or entry.node.op else describe_type(dtype_name(place.code), place.shape)


def _infer(graph: Graph) -> Mapping[str, bytes]:
    """Return the TypeProtos that ONNX infers by name; none where it is not installed or fails. Large data is left out."""
    if not _is_installed():
        return EMPTY
    from onnx import shape_inference  # optional, and slow to import

    functions = [span for span in list_functions(graph) if span.size > _LARGEST]
    if functions or any(map(_is_large, graph.nodes)):
        graph = change_inner_tensors(graph, _shrink_tensor, _is_large, functions, enters_bodies=True)
    model = b"".join(encode_model(graph, _shrink_initializer).pieces())
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # it raises errors of inference and of protobuf; without it values have no type, as before
        return EMPTY
    own = {size.dim_param for info in inferred.input for size in info.type.tensor_type.shape.dim}
    types = {info.name: info.type for info in (*inferred.input, *inferred.value_info, *inferred.output)}
    return {name: _encode_type(kind, own) for name, kind in types.items() if kind.ByteSize()}


def _encode_type(kind: Any, own: Collection[str]) -> bytes:
    """Return the bytes of a TypeProto, of whose sizes only those have names that the model states."""
    for size in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if size.dim_param.startswith(_INVENTED) and size.dim_param not in own:
            size.ClearField("dim_param")
    data: bytes = kind.SerializeToString()
    return data


def _is_large(node: Node) -> bool:
    stored = find_stored(node.details)
    return stored.node is not None and stored.node.size > _LARGEST


def _shrink_initializer(node: Node, name: str) -> Message | None:
    """Return an initializer as :func:`_shrink_tensor` does, None for a sparse one."""
    stored = find_stored(node.details)
    span = stored.tensor.span if stored.tensor is not None and not stored.is_sparse else None
    return None if span is None else _shrink_tensor(span.file, span.start, span.end, name)


def _shrink_tensor(file: OnnxFile, start: int, end: int, name: str | None = None) -> Message:
    """Return a TensorProto, under another name if one is given; without its data if that is large, else with it inside."""
    message, content = Message(), b""
    try:
        place = locate_tensor(file, start, end)
        size = data_size(place)
        if place.path and size is not None and size <= _LARGEST:
            content = b"".join(read_elements(Span(file, start, end), place))
        keeps_data = not place.path and end - start <= _LARGEST
    except (InputError, WireError):  # the shape is known without data that is missing
        keeps_data = False
    for number, _, begin, _, stop in scan(file.data, start, end):
        if (number != _NAME or name is None) and (keeps_data or number not in DATA_FIELDS):
            message.add_encoded(Span(file, begin, stop))
    if name is not None:
        message.add_bytes(_NAME, encode_text(name))
    if content:
        message.add_bytes(RAW, content)
    return message


def _forget_types(graph: Graph) -> Graph:
    """Return a graph without what its file states of the values of operators."""

    def forget(node: Node) -> Node:
        stored = find_stored(node.details)
        if not node.op or stored.values is NO_MESSAGES:
            return node
        return replace(node, details=replace(node.details, stored=replace(stored, values=NO_MESSAGES)))

    return rebuild_graph(graph, forget)[0]


def _feed_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | None]]) -> Graph:
    """Return a graph whose inputs state these shapes; a size of which one states the name has its number everywhere."""
    inputs = {node.name: node for node in graph.variables() if not node.details.holds_value}
    types = {name: kind for name, kind in input_types(graph).items() if name in inputs}
    faults: list[Fault] = []
    numbers: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in types:
            faults.append(Fault(f"`shapes` {name!r} names no input", hint=did_you_mean(name, types)))
        elif types[name].contradicts(TensorType("", tuple(shape))):
            faults.append(Fault(f"is given the shape {format_shape(shape)}, but the file states {types[name]}", node=name))
        else:
            pairs = zip(types[name].shape or (), shape, strict=False)
            numbers.update({old: new for old, new in pairs if isinstance(old, str) and new is not None})
    if faults:
        raise RefusedError(faults)
    changes = {}
    for name, kind in types.items():
        old = kind.shape if kind.shape is not None else shapes.get(name, ())
        sizes = [numbers.get(size, size) if isinstance(size, str) else size for size in old]
        if name in shapes:
            sizes = [size if new is None else new for size, new in zip(sizes, shapes[name], strict=True)]
        if tuple(sizes) != kind.shape and (kind.shape is not None or name in shapes):
            changes[inputs[name]] = make_typed_input(name, describe_type(kind.dtype, sizes))
    return rebuild_graph(graph, lambda node: changes.get(node, node))[0]
