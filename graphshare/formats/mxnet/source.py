"""How a symbol file was written: what a graph keeps of it, so that it is written back in the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from graphshare.ir.graph import EMPTY, Graph, Node, NodeForm, Source

_BREAK = rb"\{ *(\r?\n)([ \t]*)\""
_BLANK_BEFORE_BREAK = rb", \r?\n"
_FIRST_COLON = rb"\{ *\"(?:[^\"\\]|\\.)*\"( *: ?)"
# A list that begins on the line of its key, or an entry on one line: json.dumps with an indent writes neither. A line break
# cannot stand inside a string, and the quote that ends a key has no backslash before it.
_LIST_ON_ONE_LINE = rb"[^\\]\": \[[\[\d]|\n[ \t]*\[\d"
_ESCAPE = rb"\\[ubf/]"
_SAMPLE = 1 << 16

VERSION = "mxnet_version"
"""The key of the graph's attributes that holds ``["int", major*10000 + minor*100 + patch]``."""


class JsonStyle(msgspec.Struct, frozen=True):
    """White space and escapes of a JSON text.

    ``layout`` is ``mxnet`` (MXNet's own), ``trimmed`` (the same without blanks at line ends), ``compact`` (no white space),
    ``spaced`` (json.dumps without arguments) or ``indent`` (json.dumps with ``indent`` blanks). ``escapes`` tells which
    characters strings escape: ``mxnet`` the five that MXNet reads, ``json`` those and control characters as json.dumps does,
    ``ascii`` what is outside ASCII too; MXNet reads neither of the last two. ``tail`` follows the last brace.
    """

    layout: str = "mxnet"
    indent: int = 2
    newline: str = "\n"
    tail: str = ""
    escapes: str = "mxnet"


class NodesText(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The text of the first ``count`` nodes of a file: ``data[start:end]``, from the first brace to the last.

    A rewrite that keeps these nodes in their places copies the bytes.
    """

    data: bytes
    start: int
    end: int
    count: int


class FileText(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The bytes of a file and the graph that was read from them; ``images`` are what rewrites made of its nodes since, in turn.

    What did not change keeps its text in a file that no layout reproduces.
    """

    data: bytes
    graph: Graph
    images: tuple[Mapping[Node, Node], ...] = ()

    def after(self, images: Mapping[Node, Node] | None) -> FileText | None:
        """Return this text for the graph of a rewrite; None where it is not known what became of the nodes."""
        return None if images is None else replace(self, images=(*self.images, images))


class MxnetSource(Source, frozen=True):
    """What a graph keeps of its symbol file.

    ``keys`` are the keys of the graph object in order, ``form`` serves nodes without one. ``irregular`` keeps an ``arg_nodes``
    or ``node_row_ptr`` that does not follow from the nodes. ``nodes_text`` is None unless the file's own text can be copied,
    ``text`` is None for a graph whose file has no text of its own, as one that is written anew.
    """

    version_key: ClassVar[str] = VERSION

    style: JsonStyle = JsonStyle()
    keys: tuple[str, ...] = ("nodes", "arg_nodes", "node_row_ptr", "heads", "attrs")
    form: NodeForm = NodeForm(("op", "name", "attrs", "inputs"))
    irregular: Mapping[str, Any] = EMPTY
    nodes_text: NodesText | None = None
    text: FileText | None = None

    def after_rename(self, images: Mapping[Node, Node] | None = None) -> MxnetSource:
        """Return how the graph is written under other names: new strings are escaped as MXNet reads them."""
        text = self.text.after(images) if self.text is not None else None
        return replace(self, style=replace(self.style, escapes="mxnet"), nodes_text=None, text=text)

    def after_rewrite(self, images: Mapping[Node, Node] | None = None, *, unchanged: int = 0) -> MxnetSource:
        """Return how a graph of other nodes is written: ``arg_nodes`` and ``node_row_ptr`` follow from the nodes."""
        kept = self.nodes_text is not None and self.nodes_text.count <= unchanged
        return replace(self.after_rename(images), irregular=EMPTY, nodes_text=self.nodes_text if kept else None)


def source_of(graph: Graph) -> MxnetSource:
    """Return the source of ``graph``; for a graph from elsewhere, how MXNet 1.9.1 writes."""
    return graph.source if isinstance(graph.source, MxnetSource) else MxnetSource()


def restyle(graph: Graph, **changes: Any) -> Graph:
    """Return ``graph`` with fields of its :class:`JsonStyle` replaced; all of its text is written anew."""
    source = source_of(graph)
    return replace(graph, source=replace(source, style=replace(source.style, **changes), nodes_text=None, text=None))


def recognize_style(data: bytes) -> JsonStyle:
    """Return layout, line ends, escapes, and what follows the last brace of a text.

    A layout that cannot be written is taken for the nearest one that can.
    """
    start, end = data[:_SAMPLE], data[-64:]
    tail = end[len(end.rstrip()) :].decode("ascii")
    broken = re.match(_BREAK, start.lstrip())
    if broken is None:
        colon = re.match(_FIRST_COLON, start.lstrip())
        layout = "compact" if colon is None or colon[1] == b":" else "spaced"
        return JsonStyle(layout=layout, tail=tail, escapes=_recognize_escapes(data))
    newline = broken[1].decode()
    if re.search(_BLANK_BEFORE_BREAK, start):
        return JsonStyle(layout="mxnet", newline=newline, tail=tail)
    if re.search(_LIST_ON_ONE_LINE, start) or re.search(_LIST_ON_ONE_LINE, data[-_SAMPLE:]):
        return JsonStyle(layout="trimmed", newline=newline, tail=tail)  # MXNet's, through an editor that strips line ends
    return JsonStyle(layout="indent", indent=len(broken[2]), newline=newline, tail=tail, escapes=_recognize_escapes(data))


def _recognize_escapes(data: bytes) -> str:
    """Return which characters the strings of a json.dumps file escape."""
    if re.search(_ESCAPE, data) is None:
        return "mxnet"
    ascii_only = data.isascii() and b"\x7f" not in data  # json.dumps escapes DEL with the characters beyond ASCII
    return "ascii" if ascii_only else "json"


def can_copy_text(data: bytes, style: JsonStyle) -> bool:
    """Return whether a rewrite may copy the text of nodes: MXNet's layout, and no escape that MXNet cannot read."""
    if style.layout != "mxnet" or style.newline != "\n":
        return False
    return b"\\" not in data or re.search(_ESCAPE, data) is None
