"""What a variable is made with, and what it inherits from the scopes around it."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Reuse(Enum):
    """What happens when a name of a parameter comes a second time."""

    FORBID = "forbid"
    REQUIRE = "require"
    AUTO = "auto"


AUTO_REUSE: Final = Reuse.AUTO
ReuseLike = Reuse | bool | None
"""None inherits, True requires that the parameter exists, ``AUTO_REUSE`` takes it if it does, False forbids."""


def reuse_of(given: ReuseLike, inherited: Reuse | None) -> Reuse | None:
    """The policy inside of a scope. As in TensorFlow, False does not undo what an outer scope allows."""
    if isinstance(given, Reuse) and given is not Reuse.FORBID:
        return given
    if given is True:
        return Reuse.REQUIRE
    forbids = given is False or given is Reuse.FORBID
    return Reuse.FORBID if forbids and inherited is None else inherited


class Settings(msgspec.Struct, frozen=True):
    """Properties of a parameter; None where nothing was said, and then a scope further out may say it.

    ``initializer`` is MXNet's text for ``__init__`` (:mod:`graphshare.builder.initializers`), ``regularizer`` the multiplier
    of weight decay (``__wd_mult__``), ``dtype`` a numpy name; ``trainable=False`` becomes a learning rate multiplier of 0.
    """

    initializer: str | None = None
    regularizer: float | None = None
    dtype: str | None = None
    trainable: bool | None = None

    def within(self, outer: Settings) -> Settings:
        """These settings, completed by those of ``outer``."""
        own = {field: value for field in self.__struct_fields__ if (value := getattr(self, field)) is not None}
        return msgspec.structs.replace(outer, **own)
