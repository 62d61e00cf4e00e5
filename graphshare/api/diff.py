"""``diff``: the differences of two graphs and their parameter files, given a map, prefixes or
names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.analysis.name_lists import list_implied_variables, name_implied
from graphshare.arguments import NotNegative
from graphshare.checkpoint.load import Model, Names, StrPath, as_checkpoint
from graphshare.differences.changes import PairedBranch, list_changes
from graphshare.differences.difference import Difference, match_nodes, summarize_changes
from graphshare.errors import locate_refusals
from graphshare.formats.params.diff import diff_parameters, pair_records
from graphshare.ir.graph import Graph


def diff(
    left: Model,
    right: Model,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    renames: bool = True,
    ignore_names: bool = False,
    atol: NotNegative = 0.0,
    rtol: NotNegative = 0.0,
) -> Difference:
    """Find the differences between two graphs, and between their parameters if both have some.

    ``prefixes``: the right graph has nodes of the left one under these prefixes, beside or instead
    of the plain ones. ``map`` is the map file of the rewrite, or a JSON object of old and new
    names. Without ``renames`` the rest is paired by name alone; with ``ignore_names`` a changed
    name is not a difference. The result is true if anything differs; ``verdict`` is one line.

    Raises:
        UsageError: ``map`` and ``prefixes`` are both given.
        InputError: the map cannot be read or belongs to other graphs.
        RefusedError: no node has the prefix.
    """
    a, b = as_checkpoint(left), as_checkpoint(right)
    branches = match_nodes(a, b, prefixes=prefixes, map=map, renames=renames)
    with locate_refusals(b):
        changes = list_changes(a.graph, b.graph, branches)
        parameters = None
        if a.parameter_file is not None and b.parameter_file is not None:
            pairs = pair_records(
                a.parameter_file, b.parameter_file, _map_parameter_names(a.graph, branches)
            )
            parameters = diff_parameters(
                a.parameter_file, b.parameter_file, pairs, atol=atol, rtol=rtol, skips_missing=True
            )
        changes = changes.without_names() if ignore_names else changes
        lefts, rights = ([node.name for node in each.graph.nodes] for each in (a, b))
        return Difference(
            changes,
            parameters,
            summarize_changes(changes, parameters, left_names=lefts, right_names=rights),
        )


def _map_parameter_names(
    left: Graph, branches: Sequence[PairedBranch]
) -> Mapping[str, Sequence[str]]:
    names: dict[str, dict[str, None]] = {}
    for branch in branches:
        for node, image in branch.list_pairs(left.variables()):
            names.setdefault(node.name, {})[image.name] = None
        for implied in list_implied_variables(left):
            if implied.node in branch.images:
                new = name_implied(branch.images[implied.node].name, implied.formal)
                names.setdefault(implied.name, {})[new] = None
    return {old: tuple(new) for old, new in names.items()}
