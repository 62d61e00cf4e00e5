"""How a symbol file was written: what a graph keeps of it, so that it is written back in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from graphshare.ir.graph import EMPTY, Graph, Node, NodeForm, Source

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
