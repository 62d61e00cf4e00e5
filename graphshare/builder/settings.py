"""The settings of a variable, and the reuse policy, which are inherited from the surrounding scopes."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Reuse(Enum):
    """What happens when a parameter name is requested a second time."""

    FORBID = "forbid"
    REQUIRE = "require"
    AUTO = "auto"


AUTO_REUSE: Final = Reuse.AUTO
ReuseLike = Reuse | bool | None
"""None inherits, True requires that the parameter exists, ``AUTO_REUSE`` takes it if it does, False forbids."""


def resolve_reuse(reuse: ReuseLike, inherited: Reuse | None) -> Reuse | None:
    """Return the policy inside a scope. As in TensorFlow, False does not undo what an outer scope allows."""
    if isinstance(reuse, Reuse) and reuse is not Reuse.FORBID:
        return reuse
    if reuse is True:
        return Reuse.REQUIRE
    forbids = reuse is False or reuse is Reuse.FORBID
    return Reuse.FORBID if forbids and inherited is None else inherited


class Settings(msgspec.Struct, frozen=True):
    """Properties of a parameter; None is unset, and is then inherited from the next outer scope.

    ``initializer`` is the text of MXNet's ``__init__`` (:mod:`graphshare.builder.initializers`), ``regularizer`` the multiplier
    of weight decay (``__wd_mult__``), ``dtype`` a numpy name; ``trainable=False`` is a learning rate multiplier of 0.
    """

    initializer: str | None = None
    regularizer: float | None = None
    dtype: str | None = None
    trainable: bool | None = None

    def within(self, outer: Settings) -> Settings:
        """Return these settings, with unset ones taken from ``outer``."""
        own = {field: value for field in self.__struct_fields__ if (value := getattr(self, field)) is not None}
        return msgspec.structs.replace(outer, **own)
