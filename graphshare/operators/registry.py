"""Operators by name: all of MXNet 1.9.1's forward registry (CPU build), and the foreign ones of real files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from graphshare.operators import (
    activation,
    binary,
    control,
    convolution,
    creation,
    detection,
    elementwise,
    foreign,
    graph,
    image,
    indexing,
    linear,
    loss,
    normalization,
    numpy_arrays,
    numpy_elementwise,
    numpy_random,
    optimizer,
    pooling,
    quantized,
    random,
    reduction,
    scalar,
    sequence,
    shape,
)
from graphshare.operators.aliases import ALIASES
from graphshare.operators.signature import Signature

_FAMILIES = (
    activation,
    binary,
    control,
    convolution,
    creation,
    detection,
    elementwise,
    graph,
    image,
    indexing,
    linear,
    loss,
    normalization,
    numpy_arrays,
    numpy_elementwise,
    numpy_random,
    optimizer,
    pooling,
    quantized,
    random,
    reduction,
    scalar,
    sequence,
    shape,
)

__all__ = ["ALIASES", "FOREIGN", "REGISTERED", "canonical", "known_names", "lookup"]

REGISTERED: Mapping[str, Signature] = MappingProxyType({row.name: row for family in _FAMILIES for row in family.OPERATORS})
FOREIGN: Mapping[str, Signature] = MappingProxyType({row.name: row for row in foreign.OPERATORS})


def canonical(name: str) -> str:
    """The name that MXNet writes back: an alias resolved, any other name as it is."""
    return ALIASES.get(name, name)


def lookup(name: str) -> Signature | None:
    """The signature behind a canonical name or an alias; None where nobody knows the operator.

    Foreign operators are found too; their ``registered`` is False.
    """
    name = ALIASES.get(name, name)
    return REGISTERED.get(name) or FOREIGN.get(name)


def known_names() -> Iterable[str]:
    """Every name that :func:`lookup` answers, aliases included: registered ones, aliases, foreign ones."""
    return (*REGISTERED, *ALIASES, *FOREIGN)
