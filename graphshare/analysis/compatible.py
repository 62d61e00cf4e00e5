"""Whether graphs and their parameter files fit into one file: one version, one generation, one kind of shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphshare.errors import Fault
from graphshare.formats.model_format import list_mismatches
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph


def incompatibilities(members: Sequence[tuple[str, Graph, ParameterFile | None]]) -> list[Fault]:
    """Return every reason why the graphs (each with its name) do not fit into one file.

    A parameter file is read under np-shape (V3 records) or not.
    """
    first, graph, _ = members[0]
    faults = [fault for where, other, _ in members[1:] for fault in list_mismatches(first, graph, where, other)]
    modern = [path for path, is_v3 in _v3_files(members) if is_v3]
    plain = [path for path, is_v3 in _v3_files(members) if not is_v3]
    if modern and plain:
        hint = "MXNet reads a file with np-shape or without; write one anew with `graphshare params convert`"
        faults.append(Fault(f"{modern[0]} holds V3 arrays (np-shape) and {plain[0]} does not", hint=hint))
    return faults


def _v3_files(members: Sequence[tuple[str, Graph, ParameterFile | None]]) -> Iterator[tuple[str, bool]]:
    for _, _, params in members:
        if params is not None and params.format == "params" and params.records:
            yield params.path, any(record.layout == "V3" for record in params.records)
