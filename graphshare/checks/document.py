"""The readable part of a symbol file's JSON, duplicate keys, and the faults of the failed stage.

A file that is not a graph is checked in stages: it must be JSON, match the schema, refer only to
nodes that exist, and have no cycle. A stage lists all its faults; a stage with faults is the last
one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.schema import find_violations
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_format import ModelFormat
from graphshare.formats.mxnet.source import recognize_style, restyle
from graphshare.formats.mxnet.symbol import building_order, check_ids, read_symbol
from graphshare.formats.wrong_file import refuse_json
from graphshare.ir.graph import VARIABLE_OP, Graph
from graphshare.reports.model import Steps, format_path, parse_path

BOM = b"\xef\xbb\xbf"


class Reading(msgspec.Struct, eq=False):
    """The readable part of a file, and the faults of each stage.

    ``graph`` is None if a stage has faults, except that a wrong ``arg_nodes`` is corrected here.
    ``value`` is the JSON value; ``duplicate_keys`` are the places of keys that occur twice in one
    object; ``has_raw_controls`` says whether strings contain raw control characters.
    ``missing_arguments`` are the ids in ``arg_nodes`` without a node, ``operator_arguments`` the
    ids of operators.
    """

    text: str | None = None
    value: Any = None
    duplicate_keys: list[Steps] = []
    has_raw_controls: bool = False
    json_faults: list[Fault] = []
    schema_faults: list[Fault] = []
    id_faults: list[Fault] = []
    missing_arguments: list[Fault] = []
    operator_arguments: list[Fault] = []
    cycles: list[Fault] = []
    model_faults: list[Fault] = []
    graph: Graph | None = None


def read_model_file(format_: ModelFormat, file: ModelFile) -> Reading:
    """Read as much as possible of a model's file."""
    if format_.is_text:
        return read_document(format_.read_text(file), where=file.where)
    try:
        return Reading(graph=format_.read(file, complete=False))
    except InputError as error:
        return Reading(model_faults=list(error.faults))


def read_document(data: bytes, *, where: str = "") -> Reading:
    """Read as much as possible of a symbol file, after an optional byte order mark."""
    body = data.removeprefix(BOM)
    reading = Reading()
    error = InputError("is not JSON")
    try:
        reading.graph = read_symbol(body, where=where)
    except InputError as refusal:
        error = refusal
    try:
        reading.text = body.decode("utf-8")
        reading.value, reading.duplicate_keys, reading.has_raw_controls = _load(reading.text)
    except (ValueError, RecursionError):
        reading.graph = None  # the fast reader accepts more than JSON
        reading.json_faults = list(error.faults)
        return reading
    if reading.graph is None:
        _classify_faults(reading, error, body)
    return reading


def _classify_faults(reading: Reading, error: InputError, body: bytes) -> None:
    fault = refuse_json(reading.value) if isinstance(reading.value, dict) else None
    if fault is not None:
        reading.schema_faults = [msgspec.structs.replace(fault, hint=error.faults[0].hint)]
        return
    try:
        reading.schema_faults = find_violations(reading.value, "symbol")
    except RecursionError:
        reading.json_faults = list(error.faults)
        return
    if reading.schema_faults:
        return
    for steps, graph in walk_documents(reading.value):
        _check_references(reading, steps, graph)
    if reading.id_faults or reading.cycles:
        return
    if reading.missing_arguments or reading.operator_arguments:
        _correct_arguments(reading, body)
    else:
        reading.json_faults = list(error.faults)  # nested too deeply, or half of a character


def _check_references(reading: Reading, steps: Steps, graph: dict[str, Any]) -> None:
    try:
        check_ids(graph, graph["nodes"])
    except InputError as error:
        for fault in error.faults:
            _find_stage(reading, graph, fault).append(_relocate(steps, fault))
        return
    try:
        building_order(graph["nodes"])
    except InputError as error:
        reading.cycles += [_relocate(steps, fault) for fault in error.faults]


def _find_stage(reading: Reading, graph: dict[str, Any], fault: Fault) -> list[Fault]:
    key, *rest = parse_path(fault.path) or ("",)
    if key != "arg_nodes":
        return reading.id_faults
    names_a_node = graph["arg_nodes"][rest[0]] < len(graph["nodes"])
    return reading.operator_arguments if names_a_node else reading.missing_arguments


def _relocate(steps: Steps, fault: Fault) -> Fault:
    inner = parse_path(fault.path)
    if inner is None:
        return fault
    return msgspec.structs.replace(fault, path=format_path((*steps, *inner)))


def _correct_arguments(reading: Reading, body: bytes) -> None:
    """Read the graph with ``arg_nodes`` derived from the nodes."""
    for _, document in walk_documents(reading.value):
        document["arg_nodes"] = [
            i for i, node in enumerate(document["nodes"]) if node["op"] == VARIABLE_OP
        ]
    try:
        graph = read_symbol(json.dumps(reading.value).encode())
    except InputError as error:
        reading.json_faults = list(error.faults)
        return
    # json.dumps() wrote a different layout, and a fix would adopt it.
    reading.graph = restyle(graph, **msgspec.structs.asdict(recognize_style(body)))


def walk_documents(value: Any) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Yield the graph objects of a document that matches the schema, subgraphs after their parents."""
    pending: list[tuple[Steps, dict[str, Any]]] = [((), value)]
    while pending:
        steps, graph = pending.pop()
        yield steps, graph
        for i, node in enumerate(graph["nodes"]):
            inner = node.get("subgraphs", ())
            pending.extend(
                ((*steps, "nodes", i, "subgraphs", k), part) for k, part in enumerate(inner)
            )


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its pairs, including repeated keys."""


def _load(text: str) -> tuple[Any, list[Steps], bool]:
    """Return the value (the last of repeated keys wins), the places of repeated keys, and whether
    raw controls occur.

    Raises:
        ValueError: the text is not JSON, apart from raw controls.
    """
    has_duplicates = False

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        value = dict(pairs)
        has_duplicates = has_duplicates or len(value) != len(pairs)
        return value

    has_raw_controls = False
    try:
        value = json.loads(text, object_pairs_hook=hook, parse_constant=_refuse_constant)
    except json.JSONDecodeError:
        # Strict reading would stop at raw control characters in strings, but they are only a
        # finding (GS009).
        value = json.loads(
            text, strict=False, object_pairs_hook=hook, parse_constant=_refuse_constant
        )
        has_raw_controls = True
    return value, _find_duplicate_keys(text) if has_duplicates else [], has_raw_controls


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _find_duplicate_keys(text: str) -> list[Steps]:
    places: list[Steps] = []
    pending: list[tuple[Steps, Any]] = [
        ((), json.loads(text, strict=False, object_pairs_hook=_Pairs))
    ]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, part in value:
                if key in seen:
                    places.append((*steps, key))
                seen.add(key)
                pending.append(((*steps, key), part))
        elif isinstance(value, list):
            pending.extend(((*steps, i), part) for i, part in enumerate(value))
    return places
