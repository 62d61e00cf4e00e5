"""Operators of one kind that share some of their parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from graphshare.checks.subject import Subject
from graphshare.ir.graph import Node
from graphshare.ops.registry import canonical


class Pair(NamedTuple):
    """Two operators, the formal inputs at which one node feeds both, and those at which each has its own."""

    first: Node
    second: Node
    shared: list[str]
    apart: list[str]


def pairs_sharing(subject: Subject, formals: Collection[str]) -> Iterator[Pair]:
    """Each operator with the first of its kind that has one of its nodes at the same one of ``formals``."""
    if not subject.sound or not subject.shared:
        return
    owner: dict[tuple[str, str, Node], Node] = {}
    for node in subject.reachable:
        if node.is_variable:
            continue
        mine = parameters_of(subject, node, formals)
        op = canonical(node.op)
        met = (owner.get((op, formal, variable)) for formal, variable in mine.items())
        first = next((other for other in met if other is not None), None)
        if first is not None:
            theirs = parameters_of(subject, first, formals)
            both = [formal for formal in mine if formal in theirs]
            shared = [formal for formal in both if mine[formal] is theirs[formal]]
            yield Pair(first, node, shared, [formal for formal in both if mine[formal] is not theirs[formal]])
        for formal, variable in mine.items():
            owner.setdefault((op, formal, variable), node)


def parameters_of(subject: Subject, node: Node, formals: Collection[str]) -> dict[str, Node]:
    """The variables at those of an operator's inputs that are called so."""
    names = subject.facts(node).formals or ()
    return {
        formal: entry.node
        for formal, entry in zip(names, node.inputs, strict=False)
        if formal in formals and entry.node.is_variable
    }
