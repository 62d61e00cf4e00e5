"""How the family files state their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshare.operators.signature import Signature

if TYPE_CHECKING:
    from graphshare.operators.signature import InputRule


def define(names: str, inputs: str | InputRule = "", attributes: str | None = None, **facts: Any) -> list[Signature]:
    """One row for every operator of ``names`` (parted by blanks), all with the same facts."""
    return [Signature(name=name, inputs=inputs, attributes=attributes, **facts) for name in names.split()]
