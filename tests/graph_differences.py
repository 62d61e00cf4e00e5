"""The changes between two graphs whose nodes are paired by structure."""

from __future__ import annotations

from graphshare.differences.alignment import align
from graphshare.differences.changes import GraphDiff, PairedBranch, list_changes
from graphshare.ir.graph import Graph


def diff_graphs(left: Graph, right: Graph, *, renames: bool = True) -> GraphDiff:
    return list_changes(left, right, [PairedBranch("", align(left, right, renames=renames).images)])
