"""One short line for ``repr``: objects that refer to whole graphs or arrays must not print them."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.text.format import shorten

LONGEST_NAME = 60


class ShortRepr:
    """A base class for records whose fields are too large to print: ``<Graph: 31 nodes, 1 head>``."""

    __slots__ = ()

    def _summary(self) -> str:
        """Return what the line says after the name of the class."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def __rich_repr__(self) -> Iterator[str]:
        yield self._summary()


def quote_name(name: str) -> str:
    """Return ``name`` in quotes, cut to ``LONGEST_NAME`` characters."""
    return repr(shorten(name, LONGEST_NAME))
