"""What an operator's signature tells of one node."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from graphshare.ir.graph import Graph, Node
from graphshare.ops.registry import lookup
from graphshare.ops.signature import AttributeFault, OutputList


class Facts(NamedTuple):
    """What a signature tells of one node.

    ``faults`` are the attributes that MXNet refuses; ``formals`` (inputs) and ``outputs`` are None where only code outside the
    file knows them. ``named``: MXNet registers the names of the inputs, and so adds the missing ones of an old file.
    """

    known: bool
    registered: bool
    faults: tuple[AttributeFault, ...]
    formals: tuple[str, ...] | None
    named: bool
    slots: tuple[int, ...]
    outputs: OutputList | None


_UNKNOWN = Facts(False, False, (), None, False, (), None)


def read_facts(node: Node) -> Facts:
    """Return what the signature of an operator node tells of it; equal operators with equal attributes are read once."""
    items = tuple(node.attrs.items())
    return _read_facts(node.op, items, node.subgraphs) if node.subgraphs else _read_facts_once(node.op, items)


@lru_cache(maxsize=1 << 14)
def _read_facts_once(op: str, attrs: tuple[tuple[str, str], ...]) -> Facts:
    return _read_facts(op, attrs, ())


def _read_facts(op: str, items: tuple[tuple[str, str], ...], subgraphs: tuple[Graph, ...]) -> Facts:
    signature = lookup(op)
    if signature is None:
        return _UNKNOWN
    attrs = dict(items)
    faults = tuple(signature.parse(attrs)[1])
    formals = signature.formal_inputs(attrs, subgraphs=subgraphs) if signature.inputs_known else None
    slots = signature.auxiliary_slots(attrs, len(formals) if formals is not None else 0, subgraphs=subgraphs)
    return Facts(
        True, signature.registered, faults, formals, signature.registers_inputs, tuple(slots), signature.outputs(attrs)
    )
