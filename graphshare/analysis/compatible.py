"""Whether graphs and their parameter files fit into one file: one version, one generation, one kind of shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphshare.errors import Fault
from graphshare.formats.mxnet.generations import recognize_generation
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph

_UPGRADE = "add --upgrade, or bring them to one version with `graphshare upgrade` first"


def incompatibilities(members: Sequence[tuple[str, Graph, ParameterFile | None]]) -> list[Fault]:
    """Return every reason why the graphs (each with its name) do not fit into one file.

    A file has one ``mxnet_version``, which decides how MXNet reads all of its nodes, one set of graph attributes (np-shape is
    one) and one generation of keys; a parameter file is read under np-shape (V3 records) or not.
    """
    first, graph, _ = members[0]
    faults = []
    for where, other, _ in members[1:]:
        if graph.source.format != other.source.format:
            hint = "export the MXNet model first: graphshare export GRAPH -o model.onnx"
            faults.append(Fault(f"{first} and {where} are of different formats, ONNX and MXNet", hint=hint))
            continue
        faults += [Fault(f"{first} and {where}: {what}", hint=hint) for what, hint in graph.source.mismatches(other.source)]
        for key, ours, theirs in _differences(graph.attrs, other.attrs):
            message = f"{key} is {_format_value(ours)} in {first} and {_format_value(theirs)} in {where}"
            faults.append(Fault(message, hint=_UPGRADE if key == "mxnet_version" else "graphs of one file have one such value"))
        ours, theirs = recognize_generation(graph), recognize_generation(other)
        if _shows_generation(graph) and _shows_generation(other) and ours != theirs:
            faults.append(Fault(f"{first} is of {ours} and {where} of {theirs}", hint=_UPGRADE))
    modern = [path for path, is_v3 in _v3_files(members) if is_v3]
    plain = [path for path, is_v3 in _v3_files(members) if not is_v3]
    if modern and plain:
        hint = "MXNet reads a file with np-shape or without; write one anew with `graphshare params convert`"
        faults.append(Fault(f"{modern[0]} holds V3 arrays (np-shape) and {plain[0]} does not", hint=hint))
    return faults


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in {**ours, **theirs}:
        a, b = _plain(ours.get(key)), _plain(theirs.get(key))
        if a != b and not (key == "is_np_shape" and {a, b} <= {None, ("int", 0)}):
            yield key, a, b


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _format_value(value: Any) -> str:
    if value is None:
        return "not given"
    return str(value[1]) if isinstance(value, tuple) and len(value) == 2 else repr(value)


def _shows_generation(graph: Graph) -> bool:
    """Whether the nodes show the generation: a few variables without attributes do not."""
    return any(key in ("param", "attr", "attrs") for node in graph.nodes if node.form is not None for key in node.form.keys)


def _v3_files(members: Sequence[tuple[str, Graph, ParameterFile | None]]) -> Iterator[tuple[str, bool]]:
    for _, _, params in members:
        if params is not None and params.format == "params" and params.records:
            yield params.path, any(record.layout == "V3" for record in params.records)
