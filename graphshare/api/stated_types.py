"""Types of inner values that become inputs or outputs: stated by the user, or computed by
onnxruntime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name, resolve_targets
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, GraphshareError, UsageError
from graphshare.formats.model_format import Operation, find_format, require
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import DTYPE_CODES
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import topological
from graphshare.text.names import did_you_mean

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[\w?]+(?:,[\w?]+)*)?\]")
_HINT = "write `types={'gelu': 'float32[n,3]'}`"
Place = tuple[Node, int]
Types = dict[Place, tuple[str, Sequence[int | str | None]]]


def state_types(
    source: Checkpoint, graph: Graph, names: Sequence[str], types: Mapping[str, str]
) -> Rewrite | None:
    """State types of those values ``names`` that have none; return None if all have one.

    Raises:
        UsageError: a type is malformed, or given for a value that already has one.
    """
    refuse_types(graph, types)
    try:
        untyped = find_untyped(
            graph, resolve_targets(names, topological(graph), option="`targets`")
        )
    except GraphshareError:  # the caller rejects these names with its own message
        return None
    stated = parse_types(
        types, [(output_name(entry), entry) for entry in untyped], "a target or cut"
    )
    return state_untyped(source, graph, untyped, stated)


def refuse_types(graph: Graph, types: Mapping[str, str]) -> None:
    """Reject types for a graph whose format states none. Raises RefusedError."""
    if types:
        require(graph, Operation.STATED_TYPES, what="`types`")


def find_untyped(graph: Graph, entries: Sequence[Entry]) -> list[Entry]:
    """Return the operator outputs of unknown type in an ONNX graph: neither stated nor inferred."""
    return [
        *find_format(graph).types.list_untyped(graph, [entry for entry in entries if entry.node.op])
    ]


def state_untyped(
    source: Checkpoint, graph: Graph, untyped: Sequence[Entry], stated: Types
) -> Rewrite | None:
    """State types of the values ``untyped``, taken from ``stated`` or else from onnxruntime."""
    places = {(entry.node, entry.index): entry for entry in untyped}
    kinds = {place: stated[place] for place in places if place in stated}
    measured = [entry for place, entry in places.items() if place not in kinds]
    if measured:
        # Start-up: few values have no type
        from graphshare.verification.measured_types import measure_types

        kinds |= measure_types(msgspec.structs.replace(source, graph=graph), measured)
    if not kinds:
        return None
    by_node: dict[Node, list[int]] = {}
    for node, index in kinds:
        by_node.setdefault(node, []).append(index)

    editing = find_format(graph).editing

    def change(node: Node) -> Node:
        image = node
        for index in by_node.get(node, ()):
            image = editing.state_type(image, index, *kinds[node, index])
        return image

    changed, images = rebuild_graph(graph, change)
    return Rewrite(changed, (Branch("", graph, images),))


def parse_types(types: Mapping[str, str], untyped: Sequence[tuple[str, Entry]], what: str) -> Types:
    """Return the types of the values ``untyped``, by name; ``what`` describes these values in
    messages.

    Raises:
        UsageError: a type is malformed, or given for a different value.
    """
    stated: Types = {}
    faults = []
    known = {name for name, _ in untyped}
    for name, text in types.items():
        match = _TYPE.fullmatch(text.replace(" ", ""))
        if match is None or match["dtype"] not in DTYPE_CODES:
            message = f"`types` gives {name!r} the type {text!r}, which cannot be read"
            faults.append(Fault(message, hint=_HINT))
        elif name not in known:
            message = f"`types` {name!r} is not {what} without a type"
            faults.append(Fault(message, hint=did_you_mean(name, known)))
        else:
            texts = match["sizes"].split(",") if match["sizes"] else []
            sizes = list(map(_parse_size, texts))
            for own, entry in untyped:
                if own == name:
                    stated[entry.node, entry.index] = (match["dtype"], sizes)
    if faults:
        raise UsageError(faults)
    return stated


def _parse_size(text: str) -> int | str | None:
    """Return a number, the name of a free size, or None for ``?``."""
    if text == "?":
        return None
    return int(text) if text.isdecimal() else text
