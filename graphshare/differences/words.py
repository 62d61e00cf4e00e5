"""Nodes and changes in words."""

from __future__ import annotations

from collections.abc import Iterable

from graphshare.differences.changes import Change, NodeRef


def spelled(node: NodeRef) -> str:
    """An operator or the word variable, and the name."""
    return f"{'variable' if node.op == 'null' else node.op} {node.name or '(no name)'}"


def names_of(nodes: Iterable[NodeRef]) -> str:
    """The names, one behind the other."""
    return ", ".join(node.name for node in nodes)


def told(change: Change) -> str:
    """What changed, from what to what."""
    name = f"{change.what} {change.key}".rstrip()
    old, new = ("none" if value is None else value or "''" for value in (change.old, change.new))
    return f"{name}: {old} -> {new}"
