"""What a rewrite has to keep: the messages of an ONNX file under the names that their values have in the result.

Nothing here comes from the package: the fields are those of the bytes
(``tests/onnx_files/wire.py``), and names are looked up as ONNX's specification says, a body's own
before those around it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.onnx_files.wire import BYTES, Field, Group, Message

NODE, GRAPH_NAME, INITIALIZER, DOC, INPUT, OUTPUT, INFO, ANNOTATION, SPARSE = (
    1,
    2,
    5,
    10,
    11,
    12,
    13,
    14,
    15,
)
GRAPH = 7
NAMES = {INITIALIZER: 8, INPUT: 1, OUTPUT: 1, INFO: 1, ANNOTATION: 1}
"""The lists of a GraphProto whose messages have a name, and the field of the name."""
LISTS = {
    NODE: "node", INITIALIZER: "initializer", INPUT: "input", OUTPUT: "output", INFO: "value_info",
    ANNOTATION: "quantization_annotation", SPARSE: "sparse_initializer",
}  # fmt: skip
_WEIGHTS = ("initializer", "sparse_initializer", "Constant")
Names = Mapping[str, str]


def get_graph(model: Message) -> Message:
    """Return the main graph of a model; an empty one where it has none."""
    graphs = [each for each in model.list(GRAPH) if isinstance(each, Message)]
    return graphs[-1] if graphs else Message(model.kind.fields_by_number[GRAPH].message_type)


def name_of(number: int, entry: Message) -> str:
    """Return the name of the value that an entry of a list is about."""
    if number != SPARSE:
        return entry.text(NAMES[number])
    values = [each for each in entry.list(1) if isinstance(each, Message)]
    return values[-1].text(8) if values else ""


def set_name(number: int, entry: Message, name: str) -> None:
    """Give an entry of a list another name."""
    if number != SPARSE:
        entry.set_text(NAMES[number], name)
    elif values := [each for each in entry.list(1) if isinstance(each, Message)]:
        values[-1].set_text(8, name)


def list_entries(graph: Message) -> Iterator[tuple[int, Message]]:
    """Yield the entries of the lists that have a name, each with the number of its list."""
    return (
        (one.number, one.value)
        for one in graph.fields
        if one.number in (*NAMES, SPARSE) and isinstance(one.value, Message)
    )


def list_nodes(graph: Message) -> list[Message]:
    """Return the nodes of a graph."""
    return [each for each in graph.list(NODE) if isinstance(each, Message)]


def list_bodies(node: Message) -> list[Message]:
    """Return the graphs in the attributes of a node."""
    attributes = [each for each in node.list(5) if isinstance(each, Message)]
    return [
        one.value
        for each in attributes
        for one in each.fields
        if one.number in (6, 11) and isinstance(one.value, Message)
    ]


def list_texts(node: Message, number: int) -> list[str]:
    """Return the names of a node's inputs (1) or outputs (2)."""
    return [
        text.decode("utf-8", "surrogateescape")
        for text in node.list(number)
        if isinstance(text, bytes)
    ]


def list_defined(graph: Message) -> dict[str, str]:
    """Return the names of a graph's own values, each with what defines it: the name of a list, or an operator."""
    entries = [(n, name_of(n, entry)) for n, entry in list_entries(graph)]
    defined = {
        name: LISTS[n]
        for kinds in ((INPUT,), (INITIALIZER, SPARSE))
        for n, name in entries
        if n in kinds
    }
    for node in list_nodes(graph):
        defined.update(dict.fromkeys(list_texts(node, 2), node.text(4)))
    defined.pop("", None)
    return defined


def list_all_names(graph: Message) -> set[str]:
    """Return the names of the values of a graph and the bodies in it."""
    return {
        name for each in graph.walk() if each.name == "GraphProto" for name in list_defined(each)
    }


def list_captured(body: Message, around: Names) -> set[str]:
    """Return the names of values around a body that it or a body in it uses."""
    own = list_defined(body)
    outside = {name: "" for name in around if name not in own}
    captured = {entry.text(1) for number, entry in list_entries(body) if number == OUTPUT}
    for node in list_nodes(body):
        captured.update(list_texts(node, 1))
        for inner in list_bodies(node):
            captured |= list_captured(inner, outside)
    return captured & outside.keys()


def sort_nodes(message: Message, *, always: bool = False) -> Message:
    """Return a model whose graphs have their nodes sorted by their bytes, if one reads a value before it is defined."""
    graphs = [each for each in message.walk() if each.name == "GraphProto"]
    if not always and all(map(_is_in_order, graphs)):
        return message
    message = message.copy()
    for graph in (each for each in message.walk() if each.name == "GraphProto"):
        graph.fields.sort(
            key=lambda each: (each.number, str(each.value.group()) if each.number == NODE else "")
        )
    return message


def _is_in_order(graph: Message) -> bool:
    later = {name for node in list_nodes(graph) for name in list_texts(node, 2)} - {""}
    for node in list_nodes(graph):
        captured = (list_captured(body, dict.fromkeys(later, "")) for body in list_bodies(node))
        if later & {*list_texts(node, 1)}.union(*captured):
            return False
        later -= {*list_texts(node, 2)}
    return True


def find_needed(graph: Message, outputs: Iterable[str]) -> set[str]:
    """Return the names of the values that are needed to compute some values, and theirs."""
    defined, needed = list_defined(graph), {*outputs}
    for node in reversed(list_nodes(graph)):
        if needed & {*list_texts(node, 2)} - {""}:
            needed.update(name for name in list_texts(node, 1) if name)
            for body in list_bodies(node):
                needed |= list_captured(body, defined)
    return needed


def index_nodes(graph: Message) -> dict[tuple[str, ...], Message]:
    """Return the nodes of a graph by the names of their outputs."""
    return {tuple(list_texts(node, 2)): node for node in list_nodes(graph)}


def count_fields(
    message: Message, numbers: Callable[[int], bool] = lambda number: True
) -> Counter[tuple[Any, ...]]:
    """Return the fields of a message that have such ``numbers``, each as often as it is there."""
    return Counter(
        Message(message.kind, [each]).group()[0] for each in message.fields if numbers(each.number)
    )


@dataclass
class Renaming:
    """New names for the values and nodes of a main graph. In bodies captured values get theirs, and
    a body's own keep them.

    There are three exceptions. A name is free where it would hide a value that the body captures or
    a weight of it, or where a node of the body would define what is defined around it. Weights of
    bodies are parameters of the model, have its prefix, or a number where another one has their
    name, and are the main graph's where several bodies share one, with what is said of them.
    Entries on values that do not exist may have the prefix, and must where a value has got their
    name, unless a note says what is lost.
    """

    names: Names
    label: Callable[[str], str] = str
    prefix: str = ""
    notes: Sequence[str] = ()
    faults: list[str] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    """The names of weights of bodies that the main graph has instead."""

    def apply(self, graph: Message, result: Message) -> Message:
        """Return a main graph under the new names; what a rewrite may choose is taken from its ``result``."""
        graph, made = graph.copy(), index_nodes(result)
        labels = {node.text(3) for node in made.values()}
        self._result, self._taken = result, list_defined(result)
        self._weights = {
            name: content for name, content in map(_find_weight, result.fields) if content
        }
        for node in list_nodes(graph):
            before = list_texts(node, 2)
            _rename_node(node, self.names)
            # A node that is tied to itself stays as it is
            if node.text(3) and list_texts(node, 2) != before:
                node.set_text(3, self.label(node.text(3)))
            twin = made.get(tuple(list_texts(node, 2)))
            if twin is not None and self._has_number(node.text(3), twin.text(3), labels):
                node.set_text(3, twin.text(3))
            self._apply_bodies(node, node if twin is None else twin, self.names)
        self._rename_lists(graph, result, self.names, {*list_defined(result)})
        return graph

    @staticmethod
    def _has_number(label: str, new: str, taken: set[str]) -> bool:
        """Return whether a node has a number behind its name because another node has that name."""
        return label in taken and re.fullmatch(re.escape(label) + r"_\d+", new) is not None

    def _apply_bodies(self, node: Message, twin: Message, scope: Names) -> None:
        for body, other in zip(list_bodies(node), list_bodies(twin), strict=False):
            self._apply_body(body, other, scope)

    def _apply_body(self, body: Message, other: Message, around: Names) -> None:
        hidden = {around[name] for name in list_captured(body, around)}
        # A value gives way to a weight
        hidden |= {name for name, kind in list_defined(other).items() if kind in _WEIGHTS}
        lifted = self._drop_lifted(body, other)
        own = {name: name for name in list_defined(body)}
        for name, kind, new in _pair_names(body, other):
            if new != name:
                own[name] = new
                is_around = name in around.values() or name in self._taken
                hides = (
                    name in hidden
                    or name in self._weights
                    or (is_around and kind not in LISTS.values())
                )
                is_free = hides and re.fullmatch(re.escape(name) + r"_\d+", new)
                is_weight = kind in _WEIGHTS and re.fullmatch(
                    f".*{re.escape(name)}|{re.escape(name)}_[0-9]+", new
                )
                if not is_free and not is_weight:
                    self.faults.append(f"in body {body.text(2)!r} {kind} {name!r} became {new!r}")
        scope = {**around, **lifted, **own}
        nodes, twins = list_nodes(body), list_nodes(other)
        for node, twin in zip(nodes, twins if len(twins) == len(nodes) else nodes, strict=True):
            self._apply_bodies(node, twin, scope)
            _rename_node(node, scope)
        self._rename_lists(body, other, scope, {*list_defined(other), *around.values()})

    def _drop_lifted(self, body: Message, other: Message) -> dict[str, str]:
        """Take weights out of a body that only the main graph of the result has; return their names there."""
        there = {content for each in other.fields if (content := _find_weight(each)[1])}
        captured, lifted = list_captured(other, dict.fromkeys(self._weights, "")), dict[str, str]()
        for each in list(body.fields):
            name, content = _find_weight(each)
            if content and content not in there:
                names = [new for new, held in self._weights.items() if held == content]
                names.sort(key=lambda new: new not in captured)
                if names:
                    lifted[name] = names[0]
                    body.fields.remove(each)
        self.moved.update(lifted.values())
        for each in list(body.fields):
            if (
                each.number in (INFO, ANNOTATION)
                and (name := name_of(each.number, each.value)) in lifted
            ):
                body.fields.remove(each)
                set_name(each.number, each.value, lifted[name])
                if not count_fields(self._result)[Message(body.kind, [each]).group()[0]]:
                    self.faults.append(
                        f"lost {LISTS[each.number]} {name!r} of a weight that the main graph has"
                    )
        return lifted

    def _rename_lists(self, graph: Message, other: Message, scope: Names, taken: set[str]) -> None:
        """Rename the entries of a graph; those on values that do not exist get the names that they
        may have in the result.
        """
        entries = [each for each in graph.fields if each.number in (INFO, ANNOTATION)]
        orphans = [
            (one, name) for one in entries if (name := name_of(one.number, one.value)) not in scope
        ]
        _rename_entries(graph, scope)
        there = count_fields(other)
        for one, name in orphans:
            prefixed = Message(graph.kind, [one]).copy()
            set_name(one.number, prefixed.fields[0].value, self.prefix + name)
            is_same = there[Message(graph.kind, [one]).group()[0]] > 0 and name not in taken
            if name and not is_same and there[prefixed.group()[0]]:
                set_name(one.number, one.value, self.prefix + name)
            elif not is_same and any(f"'{name}'" in note for note in self.notes):
                graph.fields.remove(one)
            elif name in taken:
                self.faults.append(
                    f"{LISTS[one.number]} {name!r} of no value is lost, or became that of a value"
                )


def _find_weight(one: Field) -> tuple[str, Group]:
    """Return the name of an initializer or a Constant, and what it holds without its name; nothing of another field."""
    entry = one.value
    if not isinstance(entry, Message) or one.number not in (INITIALIZER, SPARSE, NODE):
        return "", ()
    if one.number != NODE:
        return name_of(one.number, entry), _drop_name(entry)
    tensors = [
        f.value
        for each in entry.list(5)
        for f in each.fields
        if f.number in (5, 22) and isinstance(f.value, Message)
    ]
    outputs = list_texts(entry, 2)
    return (
        (outputs[0], _drop_name(tensors[0]))
        if entry.text(4) == "Constant" and len(tensors) == len(outputs) == 1
        else ("", ())
    )


def _drop_name(tensor: Message) -> Group:
    tensor = tensor.copy()
    for each in tensor.walk():
        if each.name == "TensorProto":
            each.fields[:] = [one for one in each.fields if one.number != 8]
    return tensor.group()


def _pair_names(body: Message, other: Message) -> Iterator[tuple[str, str, str]]:
    """Yield the names of a body's values, with what defines them, and the names in another body at their places."""
    for number in (INPUT, INITIALIZER, SPARSE):
        pairs = zip(body.list(number), other.list(number), strict=False)
        yield from ((name_of(number, a), LISTS[number], name_of(number, b)) for a, b in pairs)
    nodes, twins = list_nodes(body), list_nodes(other)
    made = index_nodes(other)
    if made.keys() == index_nodes(body).keys():  # nodes that were not in order are sorted
        twins = [made[tuple(list_texts(node, 2))] for node in nodes]
    for a, b in zip(nodes, twins, strict=False):
        pairs = zip(list_texts(a, 2), list_texts(b, 2), strict=False)
        yield from ((name, a.text(4), new) for name, new in pairs if name)


def rename_values(graph: Message, names: Names) -> None:
    """Give values of a graph other names wherever it or a body in it uses them."""
    _rename_entries(graph, names)
    for node in list_nodes(graph):
        _rename_node(node, names)
        for body in list_bodies(node):
            own = list_defined(body)
            rename_values(body, {old: new for old, new in names.items() if old not in own})


def _rename_node(node: Message, names: Names) -> None:
    for each in node.fields:
        if each.number in (1, 2) and each.wire == BYTES:
            each.value = _rename_text(names, each.value)


def _rename_entries(graph: Message, names: Names) -> None:
    for number, entry in list_entries(graph):
        old = name_of(number, entry)
        if names.get(old, old) != old:
            set_name(number, entry, names[old])
        for pair in entry.list(2) if number == ANNOTATION else ():
            for each in pair.fields if isinstance(pair, Message) else ():
                if each.number == 2 and each.wire == BYTES:
                    each.value = _rename_text(names, each.value)


def _rename_text(names: Names, value: bytes) -> bytes:
    text = value.decode("utf-8", "surrogateescape")
    return names.get(text, text).encode("utf-8", "surrogateescape")


def describe_field(kind: str, one: tuple[Any, ...]) -> str:
    """Return a field of a graph or model in words: its list and the name in it, or its number."""
    number, _, value = one
    if kind == "GraphProto" and number in LISTS and isinstance(value, tuple):
        texts = [
            each for at, _, each in value if at == NAMES.get(number, 2) and isinstance(each, bytes)
        ]
        return f"{LISTS[number]} {b' '.join(texts).decode(errors='replace')!r}"
    return f"field {number} of {kind}"


def find_difference(a: Group, b: Group, where: str = "") -> str:
    """Return where two messages differ: the numbers of the fields that lead to the first difference, and what it is."""
    for number in sorted({each[0] for each in (*a, *b)}):
        ours, theirs = ([value for at, _, value in group if at == number] for group in (a, b))
        if len(ours) != len(theirs):
            return f"{where}/{number}: {len(ours)} became {len(theirs)}"
        for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            if x != y:
                at = f"{where}/{number}[{i}]"
                is_inner = isinstance(x, tuple) and isinstance(y, tuple)
                return (
                    find_difference(x, y, at)
                    if is_inner
                    else f"{at}: {str(x)[:60]} became {str(y)[:60]}"
                )
    return f"{where}: wire types"
