"""Changes of one message of an ONNX model, as bytes allow them: also what ONNX's own library would not write."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.fuzz.accounts import (
    ANNOTATION,
    INFO,
    LISTS,
    NODE,
    list_all_names,
    list_captured,
    list_defined,
    list_entries,
    name_of,
    rename_values,
    set_name,
)
from tests.onnx_files.wire import BYTES, FIXED32, FIXED64, VARINT, Field, Message

PREFIXES = ("p_", "a_", "b_")
"""What the rewrites put before names: values that have one already clash with those that they make."""
_INTEGERS = (0, 1, 2, 7, 11, 16, 1 << 63)
_TEXTS = (b"", b"\xff\xfe", b"x" * 600, b"\xc3\xa9")
_UNKNOWN = ((VARINT, 7), (BYTES, b"unknown"), (FIXED32, b"1234"), (FIXED64, b"12345678"))


def change_message(model: Message, chance: random.Random) -> str:
    """Change one message of a model; return what was changed, in words, and nothing where the
    change that was drawn is none.

    Each type of message is as likely as another, however many of it there are.
    """
    by_kind: dict[str, list[Message]] = {}
    for each in model.walk():
        by_kind.setdefault(each.name, []).append(each)
    message = chance.choice(by_kind[chance.choice(sorted(by_kind))])
    way = chance.choice(list(CHANGES))
    if way in _IN_MESSAGE:
        what = _IN_MESSAGE[way](message, chance)
        return f"{way} {what} of {message.name}" if what else ""
    graph = chance.choice(by_kind.get("GraphProto", [message]))
    what = _IN_GRAPH[way](graph, _list_names(model), chance) if graph.name == "GraphProto" else ""
    return f"{way} {what} in {graph.text(2)!r}" if what else ""


def _remove(message: Message, chance: random.Random) -> str:
    # Without its version a model has none of the rules of a version: initializers would have to be inputs.
    places = [
        i
        for i, one in enumerate(message.fields)
        if message.kind.name != "ModelProto" or one.number != 1
    ]
    return f"field {message.fields.pop(chance.choice(places)).number}" if places else ""


def _repeat(message: Message, chance: random.Random) -> str:
    if not message.fields:
        return ""
    at = chance.randrange(len(message.fields))
    again = Message(message.kind, [message.fields[at]]).copy().fields
    message.fields[at + 1 : at + 1] = again
    return f"field {again[0].number}"


def _state_default(message: Message, chance: random.Random) -> str:
    present = {each.number for each in message.fields}
    absent = [
        each for each in message.kind.fields if each.number not in present and not each.is_repeated
    ]
    if not absent:
        return ""
    field = chance.choice(absent)
    value: int | bytes | Message = 0
    wire = VARINT
    if field.message_type is not None:
        wire, value = BYTES, Message(field.message_type)
    elif field.cpp_type == field.CPPTYPE_STRING:
        wire, value = BYTES, b""
    elif field.cpp_type == field.CPPTYPE_FLOAT:
        wire, value = FIXED32, bytes(4)
    _insert(message, Field(field.number, wire, value))
    return str(field.name)


def _insert(message: Message, field: Field) -> None:
    """Insert a field where protobuf writes it, behind those of lower numbers and its own."""
    at = next(
        (i for i, each in enumerate(message.fields) if each.number > field.number),
        len(message.fields),
    )
    message.fields.insert(at, field)


def _add_unknown(message: Message, chance: random.Random) -> str:
    number = chance.choice((99, 5000, 1 << 20))
    message.fields.insert(
        chance.choice((0, len(message.fields))), Field(number, *chance.choice(_UNKNOWN))
    )
    return f"field {number}"


def _retype(message: Message, chance: random.Random) -> str:
    if not message.fields:
        return ""
    one = chance.choice(message.fields)
    if isinstance(one.value, int):
        one.value = chance.choice(_INTEGERS)
    elif isinstance(one.value, Message):
        one.value.fields.clear()
    elif one.wire == BYTES:
        one.value = chance.choice((*_TEXTS, one.value + b"_1"))
    return f"field {one.number}"


def _reorder(message: Message, chance: random.Random) -> str:
    if len(message.fields) < 2:
        return ""
    nodes = iter(
        [one for one in message.fields if message.kind.name == "GraphProto" and one.number == NODE]
    )
    message.fields.reverse() if chance.random() < 0.5 else chance.shuffle(message.fields)
    # Nodes stay in their order: where that is no order of definition, they are sorted.
    message.fields[:] = [next(nodes, one) if one.number == NODE else one for one in message.fields]
    return "fields"


def _list_names(model: Message) -> list[str]:
    """Return the names of all graphs, and those that rewrites make of them."""
    names = list_all_names(model)
    return sorted(
        {prefix + name for name in names for prefix in ("", *PREFIXES)}
        | {f"{name}_1" for name in names}
    )


def _rename_entry(graph: Message, name: str, chance: random.Random) -> str:
    entries = list(list_entries(graph))
    if not entries:
        return ""
    number, entry = chance.choice(entries)
    old = name_of(number, entry)
    set_name(number, entry, name)
    return f"{LISTS[number]} {old!r} as {name!r}"


def _add_entry(graph: Message, names: list[str], chance: random.Random) -> str:
    """Add an entry for a value of the graph, of another one, or of none; a value may have one already."""
    number, name = chance.choice((INFO, ANNOTATION)), chance.choice((*names, *list_defined(graph)))
    entry = Message(graph.kind.fields_by_number[number].message_type)
    entry.set_text(1, name)
    entry.fields.append(Field(3, BYTES, b"added"))
    _insert(graph, Field(number, BYTES, entry))
    return f"{LISTS[number]} {name!r}"


def _rename_value(graph: Message, names: list[str], chance: random.Random) -> str:
    """Give a value a name of another scope, or one that a rewrite makes, wherever it is used."""
    defined = sorted(list_defined(graph))
    if not defined:
        return ""
    old, new = chance.choice(defined), chance.choice(names)
    if list_captured(graph, {new: new}):  # it would be read before and after it is defined
        return ""
    rename_values(graph, {old: new})
    return f"{old!r} as {new!r}"


_IN_MESSAGE: dict[str, Callable[[Message, random.Random], str]] = {
    "remove": _remove, "repeat": _repeat, "state": _state_default, "add": _add_unknown, "retype": _retype, "reorder": _reorder,
}  # fmt: skip
_IN_GRAPH: dict[str, Callable[[Message, list[str], random.Random], str]] = {
    "orphan": lambda graph, names, chance: _rename_entry(graph, "nothing", chance),
    "empty": lambda graph, names, chance: _rename_entry(graph, "", chance),
    "name another": lambda graph, names, chance: _rename_entry(
        graph, chance.choice(names or ["x"]), chance
    ),
    "add an entry": _add_entry,
    "call": _rename_value,
}
CHANGES = (*_IN_MESSAGE, *_IN_GRAPH)
"""The changes by name."""
