"""Names of values in bodies beside those of the values around them.

ONNX lets an input or an initializer of a body have the name of a value around it, and an operator of a body that of a value
which is defined after the body. Names are kept, because BeamSearch needs those of its bodies, unless a new name around is in
their way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from graphshare.formats.onnx.messages import choose_new_name
from graphshare.formats.onnx.stored import OnnxFile, Span, TakenNames, find_stored, list_output_names, list_read_names
from graphshare.ir.graph import Node


class Around(NamedTuple):
    """The values of a graph around a body, see ``_GraphWriter``, and the position and the new prefix of the body's owner."""

    definitions: Mapping[str, tuple[int, OnnxFile | None]]
    owner: int
    new_names: Mapping[str, Sequence[str]]
    prefix: str

    def defines(self, name: str, file: OnnxFile) -> bool:
        """Return whether a value of this name, which ``file`` does not have, is defined before the body."""
        position, known = self.definitions.get(name, (self.owner, None))
        return position < self.owner and known is not file

    def find_new_name(self, name: str) -> str:
        """Return the name that a value of the file has now, beside the body's owner; empty for no value."""
        return choose_new_name(self.new_names[name], name, self.prefix) if name in self.new_names else ""


def find_prefix(node: Node) -> str:
    """Return what the name of the first output of an operator has before the name in its file."""
    pairs = zip(list_output_names(node), list_read_names(node), strict=False)
    return next((new.removesuffix(old) for new, old in pairs if new and new.endswith(old)), "")


def find_span(node: Node) -> Span | None:
    """Return a message of a node in its file."""
    stored = find_stored(node.details)
    return stored.node or stored.tensor or stored.input


def find_free_names(clashes: Iterable[str], names: Set[str], around: tuple[Around, ...]) -> dict[str, str]:
    """Return another name for each of ``clashes`` that neither ``names`` nor a graph around has."""
    taken = TakenNames(names)
    renamed: dict[str, str] = {}
    for name in sorted(clashes):
        free = taken.take(name)
        while any(free in level.definitions for level in around):
            free = taken.take(name)
        renamed[name] = free
    return renamed
