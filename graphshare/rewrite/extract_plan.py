"""``extract``: what some outputs need."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.targets import resolve_targets
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Graph, Node, Rewrite
from graphshare.ir.walk import topological
from graphshare.rewrite.extract import extract as cut_out


def extract(graph: Graph, targets: Sequence[str], *, cuts: Sequence[str] = ()) -> Rewrite:
    """The minimal sub-graph that computes ``targets``, with the outputs ``cuts`` turned into input variables of those names.

    Raises:
        RefusedError: names that nothing bears, or that no target needs; all are listed.
    """
    nodes = topological(graph)
    faults: list[Fault] = []
    found = []
    for names, option in ((targets, "--target"), (cuts, "--cut")):
        try:
            found.append(resolve_targets(names, nodes, option=option))
        except RefusedError as error:
            faults.extend(error.faults)
    if not targets:
        faults.append(Fault("nothing is asked for", hint="name an output with --target; `graphshare inspect` lists them"))
    if faults:
        raise RefusedError(faults)
    named: dict[tuple[Node, int], str] = {}
    for entry in found[1]:
        named[entry.node, entry.index] = output_name(entry)
    return cut_out(graph, found[0], cuts=named)
