"""One change in each place of a model: what it is, where it is, and by which right it counts."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from tests.onnx_files.mutable import SOURCES, Source
from tests.seam.meaningless import document, reorder, sign

Path = tuple[tuple[str, int | None], ...]
"""The fields from a model to a message, each with a position where it is a list."""
Edit = Callable[[ModelProto, Any, dict[str, bytes]], object]
"""Changes a model in place: the model, the message at a path, and the files of external data."""


class Effect(Enum):
    """What a change is: of what is computed, of what the file declares or keeps beside that, or of nothing."""

    COMPUTED = "computed"
    DECLARED = "declared"
    NOTHING = "nothing"


class Mutant(NamedTuple):
    """One change of the model ``source``: its ``place`` is a kind of place and the scope that it is in."""

    source: str
    path: str
    place: str
    scope: str
    what: str
    effect: Effect
    change: Callable[[ModelProto, dict[str, bytes]], object]

    @property
    def name(self) -> str:
        """The name of a test."""
        return f"{self.source}-{self.path}-{self.what}"

    def build(self) -> Source:
        """Return the changed model with its files."""
        model, files = read_source(self.source)
        changed, others = copy.deepcopy(model), dict(files)
        self.change(changed, others)
        return Source(changed, others)


@cache
def read_source(name: str) -> Source:
    """Return the model that is changed."""
    return SOURCES[name]()


@cache
@cache
def list_mutants() -> tuple[Mutant, ...]:
    """Return all mutants, whose names are unique."""
    mutants = [
        mutant for name in SOURCES for mutant in (*_list_changes(name), *_list_meaningless(name))
    ]
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    return tuple(mutants)


def choose_mutants(*, of_each_model: bool) -> tuple[Mutant, ...]:
    """Return the first mutant of each kind of change in a scope: of all models together, or ``of_each_model``."""
    kinds = {
        (
            m.source if of_each_model else "",
            m.scope,
            m.place,
            re.sub(r"\d+| from .*", "", m.what),
        ): m
        for m in reversed(list_mutants())
    }
    return tuple(reversed(kinds.values()))


def _list_changes(name: str) -> Iterator[Mutant]:
    model = read_source(name).model
    for path, message in _walk(model):
        scope = _name_scope(model, path)
        makers = _EDITS.get(message.DESCRIPTOR.name)
        for place, what, effect, edit in makers(model, path, message) if makers else ():
            yield Mutant(name, _format(path), place, scope, what, effect, _apply(edit, path))


def _apply(edit: Edit, path: Path) -> Callable[[ModelProto, dict[str, bytes]], object]:
    return lambda model, files: edit(model, _resolve(model, path), files)


def _walk(message: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every message of a model with its path."""
    yield path, message
    for field in message.DESCRIPTOR.fields:
        if field.type != field.TYPE_MESSAGE or field.name == "training_info":
            continue
        value = getattr(message, field.name)
        if field.is_repeated:
            for position, each in enumerate(value):
                yield from _walk(each, (*path, (field.name, position)))
        elif message.HasField(field.name):
            yield from _walk(value, (*path, (field.name, None)))


def _resolve(message: Any, path: Path) -> Any:
    for field, position in path:
        message = getattr(message, field) if position is None else getattr(message, field)[position]
    return message


def _format(path: Path) -> str:
    return (
        ".".join(field if position is None else f"{field}{position}" for field, position in path)
        or "model"
    )


def _name_scope(model: ModelProto, path: Path) -> str:
    """Return in which bodies a message is: the names of the operators and of their attributes."""
    parts = ["function"] if path and path[0][0] == "functions" else []
    for end in range(2, len(path) + 1):
        message = _resolve(model, path[:end])
        if message.DESCRIPTOR.name == "GraphProto":
            owner = _resolve(model, path[: end - 2])
            parts.append(f"{owner.op_type}.{_resolve(model, path[: end - 1]).name}")
    return "/".join(parts) or "graph"


# Tensors: initializers, Constants, attributes, the values and the indices of sparse tensors.

_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_SAME_SIZE = {
    21: 22,
    22: 21,
    1: 6,
    6: 12,
    12: 1,
    2: 3,
    3: 2,
    4: 5,
    5: 4,
    7: 13,
    13: 7,
    10: 16,
    16: 10,
    9: 2,
}
"""dtypes of one size, where bytes are kept."""
_SAME_FIELD = {
    17: 19,
    22: 21,
    14: 15,
    6: 3,
    3: 6,
    5: 6,
    2: 6,
    4: 6,
    9: 2,
    12: 13,
    13: 12,
    10: 16,
    16: 10,
}
"""dtypes of one field."""


def _edit_tensor(
    model: ModelProto, path: Path, tensor: TensorProto
) -> Iterator[tuple[str, str, Effect, Edit]]:
    place, effect = _place_tensor(model, path, tensor)
    fields = [field for field in _FIELDS if len(getattr(tensor, field))]
    if tensor.data_location == TensorProto.EXTERNAL:
        place += ", external data"
        yield place, "first byte elsewhere", effect, lambda m, t, files: _change_file(t, files, 3)
        yield place, "last byte elsewhere", effect, lambda m, t, files: _change_file(t, files, -1)
        yield (
            place,
            "offset",
            effect,
            lambda m, t, files: _set_external(t, "offset", lambda n: str(abs(int(n) - 4))),
        )
        if "others.bin" in read_files(model, path):
            yield (
                place,
                "location",
                effect,
                lambda m, t, files: _set_external(t, "location", lambda _: "others.bin"),
            )
    elif tensor.raw_data:
        place += ", raw_data"
        array = numpy_helper.to_array(tensor)
        # A size of 2 ** 56 would never end
        last = len(tensor.raw_data) - (array.itemsize if array.dtype.kind in "iu" else 1)
        yield place, "first byte", effect, lambda m, t, files: _change_raw(t, 0)
        if last:
            yield place, "last number", effect, lambda m, t, files: _change_raw(t, last)
    for field in fields:
        place += f", {field}"
        for what, position in (("first value", 0), ("last value", -1)):
            yield (
                place,
                what,
                effect,
                lambda m, t, files, f=field, n=position: _change_value(t, f, n),
            )
    if tensor.dims and "indices" not in path[-1]:
        yield place, "rank", effect, lambda m, t, files: t.dims.insert(0, 1)
    types = _SAME_FIELD if fields else _SAME_SIZE
    if tensor.data_type in types:
        yield (
            place,
            "dtype",
            effect,
            lambda m, t, files: setattr(t, "data_type", types[t.data_type]),
        )


def _place_tensor(model: ModelProto, path: Path, tensor: TensorProto) -> tuple[str, Effect]:
    graph_field = next(
        (
            field
            for field, _ in reversed(path)
            if field in ("initializer", "sparse_initializer", "node")
        ),
        "",
    )
    dtype = TensorProto.DataType.Name(tensor.data_type)
    if graph_field != "node":
        return f"{graph_field} {dtype}", _find_effect(model, path, tensor)
    owner = next(
        _resolve(model, path[:end]) for end in range(len(path), 0, -1) if path[end - 1][0] == "node"
    )
    kind = "Constant" if owner.op_type == "Constant" else "attribute"
    return (
        f"{kind} {next(field for field, _ in reversed(path) if field in _ATTRIBUTE_FIELDS)} {dtype}",
        Effect.COMPUTED,
    )


_ATTRIBUTE_FIELDS = ("t", "tensors", "sparse_tensor", "sparse_tensors")


def read_files(model: ModelProto, path: Path) -> Mapping[str, bytes]:
    """Return the files of the model that is walked."""
    return next(
        (source.files for name in SOURCES if (source := read_source(name)).model is model), {}
    )


def _find_effect(model: ModelProto, path: Path, tensor: TensorProto) -> Effect:
    """Return whether an initializer is computed with; one that nothing reads is kept."""
    names = (
        [tensor.name] if path[-1][0] == "initializer" else [_resolve(model, path[:-1]).values.name]
    )
    return Effect.COMPUTED if any(name in _list_reads(model) for name in names) else Effect.DECLARED


def _list_reads(model: ModelProto) -> set[str]:
    reads = set()
    for _, message in _walk(model):
        if message.DESCRIPTOR.name == "NodeProto":
            reads |= set(message.input)
        if message.DESCRIPTOR.name == "GraphProto":
            reads |= {value.name for value in message.output}
    return reads


def _change_raw(tensor: TensorProto, position: int) -> None:
    data = bytearray(tensor.raw_data)
    data[position] ^= 1 if tensor.data_type == TensorProto.BOOL else 3
    tensor.raw_data = bytes(data)


def _change_file(tensor: TensorProto, files: dict[str, bytes], position: int) -> None:
    place = {entry.key: entry.value for entry in tensor.external_data}
    start, size = int(place["offset"]), int(place["length"])
    data = bytearray(files[place["location"]])
    data[start + position % size] ^= 3
    files[place["location"]] = bytes(data)


def _set_external(tensor: TensorProto, key: str, change: Callable[[str], str]) -> None:
    entry = next(entry for entry in tensor.external_data if entry.key == key)
    entry.value = change(entry.value)


def _change_value(tensor: TensorProto, field: str, position: int) -> None:
    values = getattr(tensor, field)
    values[position] = (
        b"4.5"
        if field == "string_data"
        else 1 - values[position]
        if tensor.data_type == 9
        else values[position] + 1
    )


def _edit_sparse(
    model: ModelProto, path: Path, tensor: Any
) -> Iterator[tuple[str, str, Effect, Edit]]:
    place, effect = _place_tensor(model, (*path, ("indices", None)), tensor.indices)
    yield f"{place}, indices", "index", effect, lambda m, t, files: _move_index(t)
    yield f"{place}, size", "size", effect, lambda m, t, files: t.dims.__setitem__(0, t.dims[0] + 1)


def _move_index(tensor: Any) -> None:
    values = numpy_helper.to_array(tensor.indices).copy()
    values[-1] += 1
    tensor.indices.CopyFrom(numpy_helper.from_array(values, tensor.indices.name))


# Attributes of every kind.


def _edit_attribute(
    model: ModelProto, path: Path, attribute: AttributeProto
) -> Iterator[tuple[str, str, Effect, Edit]]:
    kind = AttributeProto.AttributeType.Name(attribute.type)
    owner = _resolve(model, path[:-1])
    op = getattr(owner, "op_type", "function")
    place, effect = (
        (f"Constant {attribute.name}" if op == "Constant" else f"attribute {kind}"),
        Effect.COMPUTED,
    )
    if attribute.ref_attr_name:
        yield (
            "attribute reference",
            "reference",
            effect,
            lambda m, a, files: setattr(a, "ref_attr_name", "zzz"),
        )
        return
    single = {"FLOAT": "f", "INT": "i", "STRING": "s"}.get(kind)
    listed = {"FLOATS": "floats", "INTS": "ints", "STRINGS": "strings", "TENSORS": "tensors", "GRAPHS": "graphs",
              "SPARSE_TENSORS": "sparse_tensors", "TYPE_PROTOS": "type_protos"}.get(kind)  # fmt: skip
    if single:
        yield (
            place,
            "value",
            effect,
            lambda m, a, files: setattr(a, single, _next(getattr(a, single))),
        )
    if kind in ("FLOATS", "INTS", "STRINGS"):
        count = len(getattr(attribute, listed))
        for what, position in {
            "first": 0,
            "last": count - 1,
            "17th": 16,
            "middle": count // 2,
        }.items():
            if 0 <= position < count and (what != "middle" or count > 2):
                yield (
                    place,
                    what,
                    effect,
                    lambda m, a, files, n=position: _change_item(getattr(a, listed), n),
                )
    if kind == "FLOAT":
        yield (
            place,
            "one bit",
            effect,
            lambda m, a, files: setattr(
                a, "f", float(np.nextafter(np.float32(a.f), np.float32(9)))
            ),
        )
    if listed and getattr(attribute, listed):
        yield place, "one less", effect, lambda m, a, files: getattr(a, listed).pop()
        yield (
            place,
            "one more",
            effect,
            lambda m, a, files: getattr(a, listed).append(getattr(a, listed)[-1]),
        )
    if op != "function":
        yield place, "dropped", effect, lambda m, a, files: _drop(m, path)
        yield place, "another name", effect, lambda m, a, files: setattr(a, "name", "zzz")
    else:
        yield "function default", "dropped", effect, lambda m, a, files: _drop(m, path)


def _next(value: Any) -> Any:
    return (
        value[:-1] + b"3"
        if isinstance(value, bytes)
        else value + 1
        if isinstance(value, int)
        else value + 1.5
    )


def _change_item(values: Any, position: int) -> None:
    values[position] = _next(values[position])


def _drop(model: ModelProto, path: Path) -> None:
    (field, position), owner = path[-1], _resolve(model, path[:-1])
    del getattr(owner, field)[position]


# Operators and their connections.

_OTHER_OPERATOR = {
    "Add": "Mul", "Mul": "Add", "Sub": "Add", "Div": "Mul", "Relu": "Neg", "Neg": "Relu", "Sum": "Max", "Max": "Sum",
    "Less": "Greater", "MaxPool": "AveragePool", "Identity": "Neg", "MatMul": "Add", "Softmax": "LogSoftmax",
    "ReduceSum": "ReduceMax", "ReduceMean": "ReduceSum",
}  # fmt: skip


def _edit_operator(
    model: ModelProto, path: Path, node: onnx.NodeProto
) -> Iterator[tuple[str, str, Effect, Edit]]:
    effect = Effect.COMPUTED
    operator = _OTHER_OPERATOR.get(node.op_type, "Zzz")
    yield "operator", "operator", effect, lambda m, n, files: setattr(n, "op_type", operator)
    twin = {"own": "twin", "twin": "own"}.get(node.domain, "zzz")
    yield "domain", "domain", effect, lambda m, n, files: setattr(n, "domain", twin)
    inputs, outputs = list(node.input), list(node.output)
    for position, name in enumerate(inputs):
        what = f"input {position}"
        if not name:
            yield (
                "absent input",
                f"{what} given",
                effect,
                lambda m, n, files, p=position: n.input.__setitem__(p, inputs[0]),
            )
            continue
        if any(inputs[position + 1 :]):
            yield (
                "absent input",
                f"{what} absent",
                effect,
                lambda m, n, files, p=position: n.input.__setitem__(p, ""),
            )
        for other in _list_others(model, path, name) if position < 5 else ():
            yield (
                "connection",
                f"{what} from {other}",
                effect,
                lambda m, n, files, p=position, o=other: n.input.__setitem__(p, o),
            )
    for position in range(min(len(inputs) - 1, 5)):
        if inputs[position] != inputs[position + 1]:
            yield (
                "order of inputs",
                f"inputs {position} exchanged",
                effect,
                lambda m, n, files, p=position: _exchange(n.input, p),
            )
    if inputs:
        dropping = effect if inputs[-1] else Effect.NOTHING
        yield "number of inputs", "last input dropped", dropping, lambda m, n, files: n.input.pop()
        yield (
            "number of inputs",
            "one input more",
            effect,
            lambda m, n, files: n.input.append(inputs[0]),
        )
    for position in range(len(outputs) - 1):
        yield (
            "order of outputs",
            f"outputs {position} exchanged",
            effect,
            lambda m, n, files, p=position: _exchange(n.output, p),
        )
    yield "number of outputs", "one output more", effect, lambda m, n, files: n.output.append("zzz")
    if len(outputs) > 1 and (not outputs[-1] or outputs[-1] not in _list_reads(model)):
        yield "number of outputs", "last output dropped", effect, lambda m, n, files: n.output.pop()


def _exchange(items: Any, position: int) -> None:
    items[position], items[position + 1] = items[position + 1], items[position]


def _list_others(model: ModelProto, path: Path, name: str) -> list[str]:
    """Return a value that an operator could read instead: of the same type where types are
    declared, else an earlier one.
    """
    graph, position = _resolve(model, path[:-1]), path[-1][1]
    assert position is not None
    earlier = [output for node in graph.node[:position] for output in node.output if output]
    declared = dict.fromkeys(
        [value if isinstance(value, str) else value.name for value in graph.input]
    )
    weights = [tensor.name for tensor in getattr(graph, "initializer", ())]
    types = {value.name: value.type.SerializeToString() for value in (*getattr(graph, "value_info", ()), *graph.output)
             if not isinstance(value, str)}  # fmt: skip
    types |= {
        value.name: value.type.SerializeToString()
        for value in graph.input
        if not isinstance(value, str)
    }
    types |= {tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims).SerializeToString()
              for tensor in getattr(graph, "initializer", ())}  # fmt: skip
    names = [
        other for other in dict.fromkeys((*earlier[::-1], *declared, *weights)) if other != name
    ]
    alike = [other for other in names if name in types and types.get(other) == types[name]]
    return (alike or names)[:2]


# Graphs, functions, and what a model declares.


def _edit_graph(
    model: ModelProto, path: Path, graph: onnx.GraphProto
) -> Iterator[tuple[str, str, Effect, Edit]]:
    effect, ends = Effect.COMPUTED, "graph" if path == (("graph", None),) else "body"
    for position in range(len(graph.output) - 1):
        yield (
            f"order of outputs of a {ends}",
            f"outputs {position} exchanged",
            effect,
            lambda m, g, files, p=position: _swap(g.output, p),
        )
    for position in range(len(graph.input) - 1):
        yield (
            f"order of inputs of a {ends}",
            f"inputs {position} exchanged",
            Effect.NOTHING if ends == "graph" else effect,
            (lambda m, g, files, p=position: _swap(g.input, p)),
        )
    for field in ("input", "output") if ends == "graph" else ():
        names = [
            value.name
            for value in getattr(graph, field)
            if value.name not in {t.name for t in graph.initializer}
        ]
        if len(names) > 1:
            yield (
                f"names of {field}s",
                f"names of {field}s exchanged",
                effect,
                (lambda m, g, files, pair=tuple(names[:2]): _exchange_names(m, *pair)),
            )
    if len(graph.output) > 1:
        yield (
            f"number of outputs of a {ends}",
            "last output dropped",
            effect,
            lambda m, g, files: g.output.pop(),
        )
    names = [output for node in graph.node for output in node.output if output]
    outputs = [value.name for value in graph.output]
    other = next((name for name in names if name not in outputs), None)
    if other is not None:
        yield (
            f"output of a {ends}",
            "another output",
            effect,
            lambda m, g, files: setattr(g.output[0], "name", other),
        )
    if ends == "graph":
        yield (
            "number of nodes",
            "an unused node more",
            Effect.DECLARED,
            lambda m, g, files: g.node.append(helper.make_node("Neg", [g.input[0].name], ["zzz"])),
        )
        held = {tensor.name for tensor in graph.initializer}
        for position, value in enumerate(graph.input):
            if value.name not in held:
                yield (
                    "type of an input",
                    f"dtype of input {position}",
                    Effect.DECLARED,
                    lambda m, g, files, p=position: _cast(g.input[p]),
                )
                yield (
                    "type of an input",
                    f"rank of input {position}",
                    Effect.DECLARED,
                    (
                        lambda m, g, files, p=position: g.input[p].type.tensor_type.shape.dim.add(
                            dim_value=1
                        )
                    ),
                )
                for axis, _ in enumerate(value.type.tensor_type.shape.dim):
                    yield (
                        "type of an input",
                        f"size {axis} of input {position}",
                        Effect.DECLARED,
                        (
                            lambda m, g, files, p=position, a=axis: setattr(
                                g.input[p].type.tensor_type.shape.dim[a], "dim_value", 7
                            )
                        ),
                    )
        for position, _ in enumerate(graph.output):
            yield (
                "type of an output",
                f"dtype of output {position}",
                Effect.DECLARED,
                lambda m, g, files, p=position: _cast(g.output[p]),
            )


def _exchange_names(model: ModelProto, first: str, second: str) -> None:
    """Give two values each other's names wherever they stand."""
    names = {first: second, second: first}
    for node in _list_messages(model.graph, "NodeProto"):
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (
        *_list_messages(model.graph, "ValueInfoProto"),
        *_list_messages(model.graph, "TensorProto"),
    ):
        value.name = names.get(value.name, value.name)


def _cast(value: onnx.ValueInfoProto) -> None:
    kind = (
        value.type.tensor_type
        if value.type.HasField("tensor_type")
        else value.type.sequence_type.elem_type.tensor_type
    )
    kind.elem_type = TensorProto.INT64 if kind.elem_type != TensorProto.INT64 else TensorProto.INT32


def _swap(messages: Any, position: int) -> None:
    first, second = (copy.deepcopy(messages[position + offset]) for offset in (0, 1))
    messages[position].CopyFrom(second)
    messages[position + 1].CopyFrom(first)


def _edit_function(
    model: ModelProto, path: Path, function: onnx.FunctionProto
) -> Iterator[tuple[str, str, Effect, Edit]]:
    effect = Effect.COMPUTED
    if len(function.input) > 1:
        yield (
            "inputs of a function",
            "inputs exchanged",
            effect,
            lambda m, f, files: _exchange(f.input, 0),
        )
    if len(function.output) > 1:
        yield (
            "outputs of a function",
            "outputs exchanged",
            effect,
            lambda m, f, files: _exchange(f.output, 0),
        )
        yield (
            "outputs of a function",
            "last output dropped",
            effect,
            lambda m, f, files: f.output.pop(),
        )
    yield (
        "outputs of a function",
        "another output",
        effect,
        lambda m, f, files: f.output.__setitem__(0, f.input[0]),
    )
    yield (
        "name of a function",
        "another name",
        effect,
        lambda m, f, files: setattr(f, "name", "Zzz"),
    )
    yield (
        "name of a function",
        "another domain",
        effect,
        lambda m, f, files: setattr(f, "domain", "zzz"),
    )
    yield "function", "dropped", effect, lambda m, f, files: _drop(m, path)
    if function.attribute:
        yield (
            "attributes of a function",
            "formal attribute dropped",
            effect,
            lambda m, f, files: f.attribute.pop(),
        )


def _edit_opset(
    model: ModelProto, path: Path, opset: onnx.OperatorSetIdProto
) -> Iterator[tuple[str, str, Effect, Edit]]:
    owner = _resolve(model, path[:-1])
    domain = "" if opset.domain == "ai.onnx" else opset.domain
    nodes = _list_messages(owner.graph if owner is model else owner, "NodeProto")
    used = any(node.domain == domain for node in nodes)
    place = "opset of a model" if len(path) == 1 else "opset of a function"
    effect = Effect.COMPUTED if used else Effect.DECLARED
    yield place, "version", effect, lambda m, o, files: setattr(o, "version", o.version + 1)
    yield (
        place,
        "older version",
        effect,
        lambda m, o, files: setattr(o, "version", max(o.version - 1, 0) or 3),
    )


def _edit_annotation(
    model: ModelProto, path: Path, note: Any
) -> Iterator[tuple[str, str, Effect, Edit]]:
    place, effect = "quantization annotation", Effect.DECLARED
    yield place, "dropped", effect, lambda m, n, files: _drop(m, path)
    yield (
        place,
        "another tensor",
        effect,
        lambda m, n, files: setattr(n.quant_parameter_tensor_names[0], "value", "x"),
    )
    yield (
        place,
        "another key",
        effect,
        lambda m, n, files: setattr(n.quant_parameter_tensor_names[0], "key", "zzz"),
    )
    yield (
        place,
        "of another value",
        effect,
        lambda m, n, files: setattr(n, "tensor_name", m.graph.node[-1].output[0]),
    )


def _edit_type(model: ModelProto, path: Path, kind: Any) -> Iterator[tuple[str, str, Effect, Edit]]:
    if any(field in ("tp", "type_protos") for field, _ in path) and kind.HasField("tensor_type"):
        place, effect = "attribute TYPE_PROTO", Effect.COMPUTED
        yield (
            place,
            "dtype",
            effect,
            lambda m, t, files: setattr(t.tensor_type, "elem_type", TensorProto.INT32),
        )
        yield (
            place,
            "size",
            effect,
            lambda m, t, files: setattr(t.tensor_type.shape.dim[0], "dim_value", 9),
        )
        yield place, "rank", effect, lambda m, t, files: t.tensor_type.shape.dim.add(dim_value=1)
    elif path[-2][0] == "input" and path[-3][0] == "g":
        place = "type of an input of a body"
        yield place, "dtype", Effect.DECLARED, lambda m, t, files: _cast(_resolve(m, path[:-1]))


_EDITS: dict[str, Callable[[ModelProto, Path, Any], Iterator[tuple[str, str, Effect, Edit]]]] = {
    "TensorProto": _edit_tensor,
    "SparseTensorProto": _edit_sparse,
    "AttributeProto": _edit_attribute,
    "NodeProto": _edit_operator,
    "GraphProto": _edit_graph,
    "FunctionProto": _edit_function,
    "OperatorSetIdProto": _edit_opset,
    "TensorAnnotation": _edit_annotation,
    "TypeProto": _edit_type,
}


# Changes of nothing.


def _list_meaningless(name: str) -> Iterator[Mutant]:
    edits: dict[str, Callable[[ModelProto], object]] = {
        "nothing": lambda m: None,
        "documentation": document,
        "who made it": sign,
        "names in bodies": _rename_bodies,
        "names of nodes": _rename_nodes,
        "order of lists": _reorder,
        "types of inner values": _declare_inner,
        "spelling of numbers": _respell,
        "names of graphs": _rename_graphs,
        "absent inputs at the end": _append_absent,
    }
    for what, edit in edits.items():
        yield Mutant(
            name, "model", what, "graph", what, Effect.NOTHING, lambda m, files, edit=edit: edit(m)
        )


def _list_messages(model: Any, kind: str) -> list[Any]:
    return [message for _, message in _walk(model) if message.DESCRIPTOR.name == kind]


_WEIGHT = 8  # floats of a parameter


def _rename_bodies(model: ModelProto) -> None:
    """Give what a body makes, takes or holds other names, in all that is in it; parameters have names that count."""
    for number, graph in enumerate(_list_messages(model, "GraphProto")[1:]):
        own = {value.name for value in graph.input} | {
            output for node in graph.node for output in node.output if output
        }
        own |= {tensor.name for tensor in graph.initializer if np.prod(tensor.dims) < _WEIGHT}
        own -= {
            node.output[0]
            for node in graph.node
            for part in node.attribute
            if np.prod(part.t.dims) >= _WEIGHT
        }
        for _, message in _walk(graph):
            kind = message.DESCRIPTOR.name
            if kind == "NodeProto":
                message.input[:] = [
                    f"r{number}_{each}" if each in own else each for each in message.input
                ]
                message.output[:] = [
                    f"r{number}_{each}" if each in own else each for each in message.output
                ]
            elif kind in ("ValueInfoProto", "TensorProto") and message.name in own:
                message.name = f"r{number}_{message.name}"


def _rename_nodes(model: ModelProto) -> None:
    for node in _list_messages(model, "NodeProto"):
        node.name = f"label {node.name}"


def _reorder(model: ModelProto) -> None:
    reorder(model.opset_import)
    reorder(model.functions)
    for graph in _list_messages(model, "GraphProto"):
        reorder(graph.initializer)
        reorder(graph.value_info)
    for node in _list_messages(model, "NodeProto"):
        reorder(node.attribute)


def _declare_inner(model: ModelProto) -> None:
    declared = {value.name for value in model.graph.value_info}
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    model.graph.value_info.extend(value for value in inferred if value.name not in declared)


def _respell(model: ModelProto) -> None:
    """Write bytes as numbers, and numbers as bytes, and state no kind of an attribute's value."""
    for tensor in _list_messages(model, "TensorProto"):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type == TensorProto.STRING:
            continue
        array, name = numpy_helper.to_array(tensor), tensor.name
        if tensor.raw_data:
            spelled = helper.make_tensor(
                name, tensor.data_type, tensor.dims, array.ravel().astype(array.dtype)
            )
        else:
            spelled = numpy_helper.from_array(array, name)
        tensor.CopyFrom(spelled)


def _rename_graphs(model: ModelProto) -> None:
    for graph in _list_messages(model, "GraphProto"):
        graph.name = "zzz"


def _append_absent(model: ModelProto) -> None:
    """Write an absent input behind the last one of an operator that has more."""
    for node in _list_messages(model, "NodeProto"):
        if len(node.input) < {
            "Clip": 3,
            "Gemm": 3,
            "Pad": 4,
            "Slice": 5,
            "LSTM": 8,
            "GRU": 6,
            "Strange": 9,
        }.get(node.op_type, 0):
            node.input.append("")
