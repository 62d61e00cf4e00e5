"""What the judge of a generated graph found."""

from __future__ import annotations

from typing import NamedTuple


class Disagreement(NamedTuple):
    """One difference: the name of the node at fault (or "graph"), what was compared, and how the answers differ.

    ``known`` where it is in one of the tables of known differences.
    """

    seed: int
    node: str
    what: str
    how: str
    known: bool = False


class Verdict(NamedTuple):
    """What was compared of one graph: by kind, how often; and the differences that were found."""

    seed: int
    refused: bool
    counts: dict[str, int]
    disagreements: list[Disagreement]

    @property
    def is_of_the_graph(self) -> bool:
        """Whether single nodes have yet to be asked for the reason."""
        return any(found.what in ("refusal", "crash", "gradient") for found in self.disagreements)
