"""Rewrites of ONNX models, each with an account of what it has to keep; what is lost without a word
raises :class:`Lost`.

What a value's owner says goes where the owner goes: entries of a value that a rewrite removes may
be removed with it. What the second model of a group says of itself may be left out, where a note
says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import graphshare as gs
from tests.fuzz.accounts import (
    ANNOTATION,
    GRAPH,
    GRAPH_NAME,
    INFO,
    INITIALIZER,
    INPUT,
    LISTS,
    NODE,
    OUTPUT,
    Names,
    Renaming,
    count_fields,
    describe_field,
    find_difference,
    find_needed,
    get_graph,
    list_all_names,
    list_bodies,
    list_defined,
    list_entries,
    list_nodes,
    list_texts,
    name_of,
    sort_nodes,
)
from tests.onnx_files.made import dense
from tests.onnx_files.wire import Field, Group, Message, encode, parse

IR, OPSETS, METADATA = 1, 8, 14
TOOL = frozenset((IR, 2, 3, 4, 5, GRAPH, OPSETS))
"""Fields of a ModelProto that are joined or those of the first model: versions, the graph, and who made the file."""
_DATA = frozenset((4, 5, 6, 7, 9, 10, 11, 13, 14))
"""Fields of a TensorProto that hold its data, or say where it is."""


class Lost(Exception):
    """A rewrite has lost, changed or added a message without a word; the text says which."""


class Part(NamedTuple):
    """A model in the result of a rewrite, with the new names of its values and nodes."""

    model: Message
    names: Names
    prefix: str = ""


def _save(model: gs.Checkpoint, path: Path) -> Message:
    gs.save(model, path)
    return parse(path.read_bytes())


def _raise_lost(faults: Sequence[str]) -> None:
    if faults:
        raise Lost("; ".join(dict.fromkeys(faults[:4])))


def _expect_equal(wanted: Message, result: Message) -> None:
    """Raise Lost unless two models have the same fields, in any order of their numbers."""
    ordered = sort_nodes(wanted)
    a, b = (
        ordered.group(),
        (result if ordered is wanted else sort_nodes(result, always=True)).group(),
    )
    if a != b:
        left, right = (count_fields(get_graph(each)) for each in (wanted, result))
        words = [f"lost {describe_field('GraphProto', one)}" for one in left - right]
        words += [f"added {describe_field('GraphProto', one)}" for one in right - left]
        raise Lost(f"{'; '.join(words[:4])} at {find_difference(a, b)}")


def _replace_graph(model: Message, graph: Message) -> Message:
    return Message(
        model.kind,
        [Field(f.number, f.wire, graph if f.number == GRAPH else f.value) for f in model.fields],
    )


def _expect_renamed(part: Part, result: Message, model: gs.Checkpoint) -> None:
    """Raise Lost unless the result is a model under its new names, and in the order that it was."""
    renaming = Renaming(part.names, part.prefix.__add__, part.prefix, list(model.notes))
    wanted = _replace_graph(part.model, renaming.apply(get_graph(part.model), get_graph(result)))
    _raise_lost(renaming.faults)
    _expect_equal(wanted, result)


def expect_parts(parts: Sequence[Part], result: Message, notes: Sequence[str]) -> None:
    """Raise Lost unless the lists of the main graph have the entries of all parts, those of tied
    values once, and no others.
    """
    made, faults, moved = get_graph(result), list[str](), set[str]()
    wanted, shared = (count_fields(made, lambda number: False) for _ in range(2))
    for i, part in enumerate(parts):
        renaming = Renaming(part.names, part.prefix.__add__, part.prefix, notes)
        graph = renaming.apply(get_graph(part.model), made)
        faults += renaming.faults
        moved |= renaming.moved
        if i and part.model is parts[0].model and parts[0].prefix == "":
            _drop_shared(graph, {new for old, new in part.names.items() if old != new})
        fields = count_fields(graph, LISTS.__contains__)
        shared += wanted & fields
        wanted |= fields
    lists = LISTS.keys() - {NODE}
    kept = [
        f for f in made.fields if f.number not in lists or name_of(f.number, f.value) not in moved
    ]
    present = count_fields(Message(made.kind, kept), LISTS.__contains__)
    faults += [
        f"lost {describe_field('GraphProto', one)}{_describe_twin(made, one)}"
        for one in wanted - present
    ]
    extra = present - wanted
    if parts[0].prefix:  # each of the parts may have its own entry on a value that none has
        extra -= shared
    faults += [f"added {describe_field('GraphProto', one)}" for one in extra]
    _raise_lost(faults)
    _expect_statements([part.model for part in parts], result, notes)


def _drop_shared(graph: Message, copied: set[str]) -> None:
    """Drop entries on tied values, and on none: they are there once for all branches."""
    entries = (INFO, ANNOTATION)
    graph.fields[:] = [
        f for f in graph.fields if f.number not in entries or name_of(f.number, f.value) in copied
    ]


def _describe_twin(made: Message, one: tuple[int, int, Group]) -> str:
    """Return how a node differs from that of the result with the same outputs."""
    number, _, value = one
    if number != NODE or not isinstance(value, tuple):
        return ""
    outputs = [text for at, _, text in value if at == 2]
    return next(
        (
            f" at {find_difference(value, node.group())}"
            for node in list_nodes(made)
            if node.list(2) == outputs
        ),
        "",
    )


def _expect_statements(models: Sequence[Message], result: Message, notes: Sequence[str]) -> None:
    """Raise Lost unless the result has what the first model says of itself and its graph, and the
    others as well, or notes.
    """
    faults = []
    for i, model in enumerate(models):
        is_joined = any(each is not models[0] for each in models)
        levels = [
            (model, result, TOOL if is_joined else frozenset((GRAPH,))),
            (get_graph(model), get_graph(result), LISTS),
        ]
        for source, made, skipped in levels:
            for one in count_fields(
                source, lambda number, skipped=skipped: number not in skipped
            ) - count_fields(made):  # type: ignore[misc]
                if i and source.name == "GraphProto" and one[0] == GRAPH_NAME:
                    continue
                if not (i and _is_noted(one, source, notes)):
                    faults.append(f"lost {describe_field(source.name, one)} of model {i + 1}")
    _raise_lost(faults)


def _is_noted(one: tuple[int, int, object], source: Message, notes: Sequence[str]) -> bool:
    is_metadata = one[0] == (METADATA if source.name == "ModelProto" else 16)
    if is_metadata and isinstance(one[2], tuple):
        keys = [
            value.decode(errors="surrogateescape") for number, _, value in one[2] if number == 1
        ] or [""]
        return any(keys[-1] in note for note in notes)
    return bool(notes)


def _expect_rest(
    part: Part,
    result: Message,
    notes: Sequence[str],
    *,
    outputs: Sequence[str] = (),
    gone: str = "",
) -> None:
    """Raise Lost unless a model has all that ``outputs`` need, or all but the value ``gone``, and
    what was said of it.
    """
    renaming, made = Renaming(part.names, notes=notes), get_graph(result)
    graph = get_graph(part.model).copy()
    named = LISTS.keys() - {NODE}
    graph.fields[:] = [
        f
        for f in graph.fields
        if f.number not in named or not gone or name_of(f.number, f.value) != gone
    ]
    graph = renaming.apply(graph, made)
    present, there, defined = (
        count_fields(made),
        list_defined(made).keys(),
        list_defined(graph).keys(),
    )
    needed = find_needed(graph, outputs) if outputs else defined
    typed = {name_of(n, entry) for n, entry in list_entries(made) if n in (INPUT, OUTPUT, INFO)}
    faults = renaming.faults
    for each in graph.fields:
        one = Message(graph.kind, [each]).group()[0]
        if present[one]:
            present[one] -= 1
            continue
        is_gone = False
        if each.number == NODE:
            is_gone = not needed & {*list_texts(each.value, 2)}
        elif each.number in LISTS:
            name = name_of(each.number, each.value)
            is_gone = name in defined - there - needed
            if each.number == OUTPUT and outputs:  # it is asked for no more, or is there twice
                is_gone = is_gone or name in typed
            if each.number == INFO:  # a value that becomes an output
                other = Message(graph.kind, [Field(OUTPUT, each.wire, each.value)]).group()[0]
                is_gone = is_gone or present[other] > 0
        if not is_gone:
            faults.append(f"lost {describe_field('GraphProto', one)}{_describe_twin(made, one)}")
    _raise_lost(faults)
    _expect_statements([part.model], result, [])


def list_names(model: Message, prefix: str = "") -> dict[str, str]:
    """Return the names of the values of a main graph, each with the one that a prefix makes of it."""
    return {name: prefix + name for name in list_defined(get_graph(model))}


def rename(path: Path, source: Message) -> None:
    """All names get a prefix, and all else stays."""
    model = gs.rename(gs.load(path), prefix="p_")
    _expect_renamed(
        Part(source, list_names(source, "p_"), "p_"),
        _save(model, path.with_name("out.onnx")),
        model,
    )


def rename_back(path: Path, source: Message) -> None:
    """Without the prefix, by the map or as text, the model has the bytes that it had."""
    out, back, names = (path.with_name(name) for name in ("out.onnx", "back.onnx", "map.json"))
    renamed = gs.rename(gs.load(path), prefix="p_")
    if any("is left out" in note for note in renamed.notes):
        return
    gs.save(renamed, out, map=names)
    graph = get_graph(source)
    made = {f"p_{name}" for name in list_all_names(graph)}
    own = {
        name
        for node in list_nodes(graph)
        for body in list_bodies(node)
        for name in list_all_names(body)
    }
    if made & own or _defines_twice(graph, frozenset()):
        return  # names of bodies that have given way stay so
    for options in ({"map": names, "inverse": True}, {"strip_prefix": "p_"}):
        result = _save(gs.rename(gs.load(out), **options), back)
        try:
            _expect_equal(source, result)
            if source.is_ordered() and back.read_bytes() != path.read_bytes():
                raise Lost("other bytes")
        except Lost as lost:
            raise Lost(f"by {next(iter(options))}: {lost}") from None


def _defines_twice(graph: Message, around: frozenset[str]) -> bool:
    """Return whether a node of a body defines a value that is defined around it, which ONNX does not allow."""
    inner = around | {*list_defined(graph)}
    nodes = list_nodes(graph)
    defined = {name for node in nodes for name in list_texts(node, 2)}
    return bool(defined & around) or any(
        _defines_twice(body, inner) for node in nodes for body in list_bodies(node)
    )


def rename_one(path: Path, source: Message) -> None:
    """One value gets another name, and all else stays."""
    nodes = [node for node in list_nodes(get_graph(source)) if node.text(4) != "Constant"]
    named = ((name, node.text(3)) for node in nodes for name in list_texts(node, 2) if name)
    # The name of a node that is that of its value, or begins with it, is renamed too.
    names = [
        name for name, label in named if not re.match(re.escape(name) + r"([^a-zA-Z0-9]|$)", label)
    ]
    if not names:
        return
    name = names[0]
    model = gs.rename(gs.load(path), names={name: "zz"})
    _expect_renamed(
        Part(source, {**list_names(source), name: "zz"}),
        _save(model, path.with_name("out.onnx")),
        model,
    )


def duplicate(path: Path, source: Message, mode: str) -> None:
    """The model is there twice, its weights once if they are tied."""
    model = gs.duplicate(gs.load(path), "b_", mode=mode)  # type: ignore[arg-type]
    result, names = _save(model, path.with_name("out.onnx")), list_names(source, "b_")
    if mode == "tie":
        there, defined = list_defined(get_graph(result)), list_defined(get_graph(source))
        tied = {name for name, kind in defined.items() if "initializer" in kind}
        tied |= {
            name for name, kind in defined.items() if kind == "Constant" != there.get(f"b_{name}")
        }
        names = {name: name if name in tied else new for name, new in names.items()}
    expect_parts(
        [Part(source, list_names(source)), Part(source, names, "b_")], result, list(model.notes)
    )


def share(path: Path, source: Message) -> None:
    """An initializer is tied to an equal one, and is gone with what is said of it; all else stays."""
    graph = get_graph(source)
    inputs = {
        name_of(number, entry) for number, entry in list_entries(graph) if number in (INPUT, OUTPUT)
    }
    tensors: dict[Group, str] = {}
    for number, entry in list_entries(graph):
        name = name_of(number, entry)
        if number == INITIALIZER and name and name not in inputs:
            kept = tensors.setdefault(
                Message(
                    entry.kind, [f for f in entry.fields if f.number not in (8, 12, 16)]
                ).group(),
                name,
            )
            if kept != name:
                model = gs.share(gs.load(path), aliases={name: kept})
                names = {**list_names(source), name: kept}
                _expect_rest(
                    Part(source, names),
                    _save(model, path.with_name("out.onnx")),
                    list(model.notes),
                    gone=name,
                )
                return


def extract(path: Path, source: Message, *, whole: bool) -> None:
    """What is said of the values that an inner value, or all outputs, need stays."""
    graph = get_graph(source)
    names = [name for node in list_nodes(graph) for name in list_texts(node, 2) if name]
    names = names[len(names) // 2 :][:1]
    if whole:
        names = list(
            dict.fromkeys(
                name_of(number, entry) for number, entry in list_entries(graph) if number == OUTPUT
            )
        )
    if names:
        model = gs.extract(gs.load(path), [f"={name}" for name in names])
        result = _save(model, path.with_name("out.onnx"))
        _expect_rest(Part(source, list_names(source)), result, list(model.notes), outputs=names)


def group(path: Path, source: Message, *, second: bool) -> None:
    """The model twice side by side, or after another model, whose statements are those of the result."""
    first = source
    other = path.with_name("other.onnx")
    if second:
        stated = dense()
        del stated.opset_import[:]
        first = parse(stated.SerializeToString())
        first.fields += [each for each in source.fields if each.number == OPSETS]
    other.write_bytes(encode(first))
    model = gs.group([other, path], prefixes=["a_", "b_"])
    parts = [
        Part(each, list_names(each, prefix), prefix)
        for each, prefix in ((first, "a_"), (source, "b_"))
    ]
    result = _save(model, path.with_name("out.onnx"))
    for part in parts:
        _leave_open(result, part)
    expect_parts(parts, result, list(model.notes))


def _leave_open(result: Message, part: Part) -> None:
    """Take the types from outputs of a result that the file of a part states without one: a group gives them one."""
    ends = [
        entry
        for number, entry in list_entries(get_graph(part.model))
        if number == OUTPUT and not entry.list(2)
    ]
    names = {part.prefix + entry.text(1) for entry in ends}
    for number, entry in list_entries(get_graph(result)):
        if number == OUTPUT and entry.text(1) in names:
            entry.fields[:] = [each for each in entry.fields if each.number != 2]


def pool(path: Path, source: Message) -> None:
    """With its weights in a pool a model says the same, and embedded again it has the bytes that it had."""
    folders = path.with_name("pooled"), path.with_name("embedded")
    gs.pool([path], folders[0], verify=False)
    _expect_equal(
        *(_drop_data(parse(each.read_bytes())) for each in (path, folders[0] / path.name))
    )
    gs.pool([folders[0] / path.name], folders[1], embed=True, verify=False)
    result = parse((folders[1] / path.name).read_bytes())
    if any(each.list(13) for each in source.walk() if each.name == "TensorProto"):
        # What was in a file of its own is in the model
        _expect_equal(_drop_data(source), _drop_data(result))
        return
    _expect_equal(source, result)
    if source.is_ordered() and (folders[1] / path.name).read_bytes() != path.read_bytes():
        raise Lost("other bytes")


def _drop_data(model: Message) -> Message:
    """Take the data out of tensors, and what a pool notes in metadata."""
    model = model.copy()
    for each in model.walk():
        if each.name == "TensorProto":
            each.fields[:] = [one for one in each.fields if one.number not in _DATA]
        each.fields[:] = [one for one in each.fields if not _is_note(one)]
    return model


def _is_note(one: Field) -> bool:
    is_pair = isinstance(one.value, Message) and one.value.name == "StringStringEntryProto"
    return is_pair and one.value.text(1).startswith("graphshare.")


REWRITES: dict[str, Callable[[Path, Message], None]] = {
    "rename": rename,
    "rename and back": rename_back,
    "rename one": rename_one,
    "duplicate, copy": lambda path, source: duplicate(path, source, "copy"),
    "duplicate, tie": lambda path, source: duplicate(path, source, "tie"),
    "share": share,
    "extract": lambda path, source: extract(path, source, whole=False),
    "extract, all": lambda path, source: extract(path, source, whole=True),
    "group": lambda path, source: group(path, source, second=False),
    "group, second": lambda path, source: group(path, source, second=True),
    "pool": pool,
}
"""The rewrites by name."""
