"""What folding did: which BatchNorms are in which weight now, and which were left, with the reason."""

from __future__ import annotations

import msgspec

from graphshare.text.format import format_count
from graphshare.text.short_repr import ShortRepr


class Folded(msgspec.Struct, frozen=True):
    """``norms`` that are in ``weight`` and ``bias`` now; ``layers`` are the operators before them, in the same order."""

    weight: str
    bias: str
    layers: tuple[str, ...]
    norms: tuple[str, ...]


class Unfolded(msgspec.Struct, frozen=True):
    """A BatchNorm that was left, and why, as the end of a sentence about it."""

    norm: str
    reason: str


class Folding(ShortRepr, msgspec.Struct, frozen=True):
    """The weights that changed, and the BatchNorms that were left."""

    folded: tuple[Folded, ...]
    left: tuple[Unfolded, ...]

    @property
    def count(self) -> int:
        """How many BatchNorms are gone."""
        return sum(len(one.norms) for one in self.folded)

    def _summary(self) -> str:
        return f"{format_count(self.count, 'BatchNorm')} folded, {len(self.left)} left"
