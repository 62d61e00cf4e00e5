"""Operators of one kind that share some of their parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from graphshare.checks.context import CheckContext
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical


class SharingPair(NamedTuple):
    """Two operators of one kind, the formal inputs at which they share a variable, and those at which each has its own."""

    first: Node
    second: Node
    shared: list[str]
    separate: list[str]


def find_sharing_pairs(context: CheckContext, formals: Collection[str]) -> Iterator[SharingPair]:
    """Yield each operator with the first of its kind that has the same variable at the same one of ``formals``."""
    if not context.shared_parameters:
        return
    owner: dict[tuple[str, str, Node], Node] = {}
    for node in context.reachable:
        if node.is_variable:
            continue
        mine = find_parameters(context, node, formals)
        op = canonical(node.op)
        met = (owner.get((op, formal, variable)) for formal, variable in mine.items())
        first = next((other for other in met if other is not None), None)
        if first is not None:
            theirs = find_parameters(context, first, formals)
            both = [formal for formal in mine if formal in theirs]
            shared = [formal for formal in both if mine[formal] is theirs[formal]]
            yield SharingPair(first, node, shared, [formal for formal in both if mine[formal] is not theirs[formal]])
        for formal, variable in mine.items():
            owner.setdefault((op, formal, variable), node)


def find_parameters(context: CheckContext, node: Node, formals: Collection[str]) -> dict[str, Node]:
    """Return the variables at the inputs of ``node`` that are among ``formals``, by formal name."""
    inputs = context.named_inputs(node)
    return {formal: entry.node for formal, entry in inputs if formal in formals and entry.node.is_variable}
