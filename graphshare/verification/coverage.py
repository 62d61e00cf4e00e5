"""Which bodies of a model's Ifs a proof computes: values say nothing about the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np

from graphshare.errors import InputError, RefusedError
from graphshare.execute.backends.backend import Computation
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ops.kernel import Array
from graphshare.text.format import format_names

_NAMED = 6


class BodyCoverage:
    """The bodies that each If of a main graph computed, over all rounds."""

    def __init__(self) -> None:
        self._taken: dict[str, set[bool]] = {}

    def look(self, computation: Computation, values: Mapping[Node, Array]) -> Mapping[str, bool]:
        """Compute the condition of each If, by name.

        In a separate run: extra outputs change a model's last bits.
        """
        graph = computation.graph
        find_switch = find_format(graph).bodies.find_switch
        entries: dict[str, Entry] = {}
        for node in graph.nodes:
            switch = find_switch(node)
            if switch is not None:
                entries[node.name] = switch[0]
        places = {(entry.node, entry.index): entry for entry in entries.values()}
        with suppress(InputError, RefusedError):  # only the outputs are required
            outputs = (
                computation.select(list(places.values())).run(values).outputs if places else ()
            )
            sides = {
                place: bool(np.any(value)) for place, value in zip(places, outputs, strict=True)
            }
            taken = {name: sides[entry.node, entry.index] for name, entry in entries.items()}
            for name, side in taken.items():
                self._taken.setdefault(name, set()).add(side)
            return taken
        return EMPTY

    def describe(self) -> Iterator[str]:
        for side, word in ((True, "then"), (False, "else")):
            names = [repr(name) for name, sides in self._taken.items() if sides == {side}]
            if names:
                yield f"If {format_names(names, _NAMED)}: only the {word} branch was computed"
        if self._taken:
            yield f"bodies computed: {sum(map(len, self._taken.values()))} of {2 * len(self._taken)}"
