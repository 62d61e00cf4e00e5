"""The JSON of a symbol file as far as it can be read: the document, keys that stand twice, and faults in order of their depth.

A file that cannot become a graph is looked at stage by stage: is it JSON, has it the form of a graph, do its ids refer to
nodes, is it free of circles. Each stage lists all its faults; the first that has any is the last that is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.mxnet.dialects import dialect_of
from graphshare.formats.mxnet.links import building_order, check_ids
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import VARIABLE, Graph
from graphshare.reports.model import Step, format_path, parse_path

BOM = b"\xef\xbb\xbf"
Steps = tuple[Step, ...]


class Reading(msgspec.Struct, eq=False):
    """What could be read. ``graph`` is None unless everything holds, a wrong ``arg_nodes`` aside, which is set right here.

    ``value`` is the JSON value, ``doubled`` the places of keys that stand twice in one object, ``controls`` whether strings
    hold raw control characters.
    """

    text: str | None = None
    value: Any = None
    doubled: list[Steps] = []
    controls: bool = False
    malformed: list[Fault] = []
    misshapen: list[Fault] = []
    unlinked: list[Fault] = []
    wrong_arguments: list[Fault] = []
    circles: list[Fault] = []
    graph: Graph | None = None


def read(data: bytes) -> Reading:
    """Reads as much of a symbol file as there is; a byte order mark is passed over."""
    body = data.removeprefix(BOM)
    found = Reading()
    refusal = InputError("is not JSON")
    try:
        found.graph = read_symbol(body)
    except InputError as error:
        refusal = error
    try:
        found.text = body.decode("utf-8")
        found.value, found.doubled, found.controls = _load(found.text)
    except (ValueError, RecursionError):
        found.graph = None  # what the fast pass lets through must be JSON all the same
        found.malformed = list(refusal.faults)
        return found
    if found.graph is None:
        _classify(found, refusal, body)
    return found


def _classify(found: Reading, refusal: InputError, body: bytes) -> None:
    """Sorts the faults of a document that is JSON and no sound graph."""
    from graphshare.formats.schema import explain

    try:
        found.misshapen = explain(found.value, "symbol")
    except RecursionError:
        found.malformed = list(refusal.faults)
        return
    if found.misshapen:
        return
    for steps, graph in graphs_of(found.value):
        try:
            check_ids(graph, graph["nodes"])
            building_order(graph["nodes"])
        except InputError as error:
            for fault in error.faults:
                moved = msgspec.structs.replace(fault, path=_moved(steps, fault.path))
                _kind_of(found, fault).append(moved)
    if found.wrong_arguments and not (found.unlinked or found.circles):
        _set_arguments_right(found, body)
    elif not (found.unlinked or found.circles):
        found.malformed = list(refusal.faults)  # nested too deeply, or half of a character


def _kind_of(found: Reading, fault: Fault) -> list[Fault]:
    if "needs its own output" in fault.message:
        return found.circles
    return found.wrong_arguments if fault.path.startswith("$.arg_nodes") else found.unlinked


def _set_arguments_right(found: Reading, body: bytes) -> None:
    """Goes on with ``arg_nodes`` as they should be: they carry nothing that the nodes do not say."""
    for _, inner in graphs_of(found.value):
        inner["arg_nodes"] = [i for i, node in enumerate(inner["nodes"]) if node["op"] == VARIABLE]
    try:
        graph = read_symbol(json.dumps(found.value).encode())
    except InputError as error:
        found.malformed = list(error.faults)
        return
    dialect = dialect_of(body)
    changes = {key: getattr(dialect, key) for key in ("layout", "indent", "newline", "tail", "escapes")}
    found.graph = msgspec.structs.replace(graph, dialect=msgspec.structs.replace(graph.dialect, **changes), verbatim=None)


def graphs_of(value: Any) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """The graph objects of a document of the right form, sub-graphs after the graph they are in."""
    pending: list[tuple[Steps, dict[str, Any]]] = [((), value)]
    while pending:
        steps, graph = pending.pop()
        yield steps, graph
        for i, node in enumerate(graph["nodes"]):
            inner = node.get("subgraphs", ())
            pending.extend(((*steps, "nodes", i, "subgraphs", k), part) for k, part in enumerate(inner))


def _moved(steps: Steps, path: str) -> str:
    inner = parse_path(path)
    return path if inner is None else format_path((*steps, *inner))


class _Pairs(list[tuple[str, Any]]):
    """An object with all its pairs, those of a key that comes again too."""


def _load(text: str) -> tuple[Any, list[Steps], bool]:
    """The value, of keys that stand twice the last; where such keys stand; whether strings hold raw control characters.

    Raises:
        ValueError: the text is no JSON, those characters aside.
    """
    twice = False

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        found = dict(pairs)
        twice = twice or len(found) != len(pairs)
        return found

    controls = False
    try:
        value = json.loads(text, object_pairs_hook=hook, parse_constant=_no_constant)
    except json.JSONDecodeError:
        value = json.loads(text, strict=False, object_pairs_hook=hook, parse_constant=_no_constant)
        controls = True
    return value, _doubled(text) if twice else [], controls


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _doubled(text: str) -> list[Steps]:
    found: list[Steps] = []
    pending: list[tuple[Steps, Any]] = [((), json.loads(text, strict=False, object_pairs_hook=_Pairs))]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, part in value:
                if key in seen:
                    found.append((*steps, key))
                seen.add(key)
                pending.append(((*steps, key), part))
        elif isinstance(value, list):
            pending.extend(((*steps, i), part) for i, part in enumerate(value))
    return found
