"""What a map file says, read from its bytes; what becomes of it is for the command that asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from graphshare.errors import Fault, InputError


class Place(msgspec.Struct):
    """A node by its id, which is None in a plain map of names, and its name."""

    id: int | None
    name: str


class MapEntry(msgspec.Struct, rename={"source": "from", "target": "to"}):
    """Where a node was, where it is now (None: dropped), in which branch, and the number of the source graph."""

    source: Place
    target: Place | None
    branch: str = ""
    graph: int = 0


class Source(msgspec.Struct):
    """A file that the map is of."""

    sha256: str


class MapFile(msgspec.Struct):
    """A graphshare map file."""

    entries: list[MapEntry]
    sources: list[Source] = []


def map_file_of(data: bytes) -> MapFile | None:
    """The map file that ``data`` is, None for a plain object of old names and new ones.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: it is neither.
    """
    if msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys() >= {"version", "entries"}:
        return msgspec.json.decode(data, type=MapFile)
    msgspec.json.decode(data, type=dict[str, str])
    return None


@contextmanager
def refused_unless_map(where: str) -> Iterator[None]:
    """Says of what cannot be decoded inside that it is no map. Raises InputError then."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = 'a map is a graphshare map file, or an object {"old name": "new name"}'
        raise InputError(Fault(f"is no map: {error}", where=where, hint=hint)) from None


def entries_of(data: bytes, where: str) -> list[MapEntry]:
    """The entries of a map file, or of a plain object as entries without ids.

    Raises:
        InputError: it is neither.
    """
    with refused_unless_map(where):
        found = map_file_of(data)
        if found is not None:
            return found.entries
        plain = msgspec.json.decode(data, type=dict[str, str])
        return [MapEntry(Place(None, old), Place(None, new)) for old, new in plain.items()]
