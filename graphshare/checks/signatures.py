"""What an operator's signature says of one node, remembered by operator and attributes: real graphs repeat both."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from graphshare.ir.graph import Graph, Node
from graphshare.ops.registry import lookup
from graphshare.ops.signature import AttributeFault, Outputs

#: Keys that MXNet sets aside before it parses the attributes of a file older than itself.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


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
    outputs: Outputs | None


_UNKNOWN = Facts(False, False, (), None, False, (), None)


def facts_of(node: Node) -> Facts:
    """What is known of an operator node."""
    if node.subgraphs:
        return _facts(node.op, tuple(node.attrs.items()), node.subgraphs)
    return _remembered(node.op, tuple(node.attrs.items()))


@lru_cache(maxsize=1 << 14)
def _remembered(op: str, attrs: tuple[tuple[str, str], ...]) -> Facts:
    return _facts(op, attrs, ())


def _facts(op: str, items: tuple[tuple[str, str], ...], subgraphs: tuple[Graph, ...]) -> Facts:
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


def is_hidden(key: str) -> bool:
    """Whether MXNet sets ``key`` aside while it loads an older file."""
    return key.startswith(HIDDEN) or key.endswith(HIDDEN)
