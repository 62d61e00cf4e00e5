"""Types of inner values that become inputs or outputs: stated by the user, else as onnxruntime computes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.name_lists import output_name, resolve_targets
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, GraphshareError, UsageError
from graphshare.formats.model_format import find_format
from graphshare.formats.onnx.compose import state_type
from graphshare.formats.onnx.types import is_complete
from graphshare.ir.graph import Branch, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import DTYPE_CODES
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import topological
from graphshare.text.names import did_you_mean

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[\w?]+(?:,[\w?]+)*)?\]")
_HINT = "write `types={'gelu': 'float32[n,3]'}`"
_Types = dict[tuple[Node, int], tuple[str, Sequence[int | str | None]]]


def state_types(source: Checkpoint, graph: Graph, names: Sequence[str], types: Mapping[str, str]) -> Rewrite | None:
    """Return the rewrite that states types of the values ``names`` which have none; None where all have one.

    Raises:
        UsageError: a type is malformed, or of a value that has one already; all are listed.
    """
    if not graph.source.states_types:
        if types:
            raise UsageError(Fault("`types` is for ONNX models, and MXNet infers the types of a graph", hint="leave it out"))
        return None
    try:
        entries = resolve_targets(names, topological(graph), option="`targets`")
    except GraphshareError:  # the caller refuses these names in its own words
        return None
    known: Mapping[tuple[Node, int], Any] = find_format(graph).types.find_types(graph, entries)
    unknown = [e for e in entries if not e.node.is_variable and not is_complete(known.get((e.node, e.index)))]
    stated = _parse(types, {output_name(entry): entry for entry in unknown})
    measured = [entry for entry in unknown if (entry.node, entry.index) not in stated]
    if measured:
        from graphshare.verification.measured_types import measure_types  # start-up: few values have no type

        stated |= measure_types(msgspec.structs.replace(source, graph=graph), measured)
    if not stated:
        return None
    by_node: dict[Node, list[int]] = {}
    for node, index in stated:
        by_node.setdefault(node, []).append(index)

    def change(node: Node) -> Node:
        image = node
        for index in by_node.get(node, ()):
            image = state_type(image, index, *stated[node, index])
        return image

    changed, images = rebuild_graph(graph, change)
    return Rewrite(changed, (Branch("", graph, images),))


def _parse(types: Mapping[str, str], unknown: Mapping[str, Entry]) -> _Types:
    """Return types by value. Raises UsageError."""
    stated: _Types = {}
    faults = []
    for name, text in types.items():
        match = _TYPE.fullmatch(text.replace(" ", ""))
        if match is None or match["dtype"] not in DTYPE_CODES:
            faults.append(Fault(f"`types` gives {name!r} the type {text!r}, which cannot be read", hint=_HINT))
        elif name not in unknown:
            faults.append(Fault(f"`types` {name!r} is not a target or cut without a type", hint=did_you_mean(name, unknown)))
        else:
            sizes = [
                None if size == "?" else int(size) if size.isdecimal() else size for size in (match["sizes"] or "").split(",")
            ]
            entry = unknown[name]
            stated[entry.node, entry.index] = match["dtype"], sizes if match["sizes"] else []
    if faults:
        raise UsageError(faults)
    return stated
