"""The style of a symbol file (a graph keeps it), and a writer of JSON in that style; layout.py
describes MXNet's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, Graph, Node, NodeForm, Source

_BREAK = rb"\{ *(\r?\n)([ \t]*)\""
_BLANK_BEFORE_BREAK = rb", \r?\n"
_FIRST_COLON = rb"\{ *\"(?:[^\"\\]|\\.)*\"( *: ?)"
# json.dumps with an indent writes neither a list on the line of its key, nor an entry on one line.
# A line break cannot stand inside a string, nor a backslash before the quote that ends a key.
_LIST_ON_ONE_LINE = rb"[^\\]\": \[[\[\d]|\n[ \t]*\[\d"
# Escapes of JSON that MXNet cannot read.
_ESCAPE = rb"\\[ubf/]"
_SAMPLE = 1 << 16

VERSION = "mxnet_version"
"""The key of the graph's attributes that holds ``["int", major*10000 + minor*100 + patch]``."""
ATTRIBUTE_KEYS = ("attrs", "attr", "param")
"""The keys under which a node has attributes, by the generation of the file, the newest first."""
# Nodes joined at a time, about 100 KiB of text; the system would take larger pieces back each time
CHUNK = 512
SPECIAL = re.compile(r"[^ !#-\[\]-~]")  # all but printable ASCII without quote and backslash
_MXNET_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class JsonStyle(msgspec.Struct, frozen=True):
    """White space and escapes of a JSON text.

    ``layout`` is ``mxnet`` (MXNet's own), ``trimmed`` (without blanks at line ends), ``compact``
    (no white space), ``spaced`` (json.dumps without arguments) or ``indent`` (json.dumps with
    ``indent`` blanks). ``escapes`` names the escaped characters: ``mxnet`` the five that MXNet
    reads, ``json`` also control characters as in json.dumps, ``ascii`` also those outside ASCII;
    MXNet cannot read the last two. ``tail`` follows the last brace.
    """

    layout: str = "mxnet"
    indent: int = 2
    newline: str = "\n"
    tail: str = ""
    escapes: str = "mxnet"


class NodesText(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The text of the first ``count`` nodes: ``data[start:end]``, from the first brace to the last.

    A rewrite that keeps these nodes in their places copies the bytes.
    """

    data: bytes
    start: int
    end: int
    count: int


class FileText(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A file's bytes and the graph read from them; ``images`` map its nodes through later rewrites.

    Unchanged parts keep their text in a file that no layout reproduces.
    """

    data: bytes
    graph: Graph
    images: tuple[Mapping[Node, Node], ...] = ()

    def after(self, images: Mapping[Node, Node] | None) -> FileText | None:
        return None if images is None else replace(self, images=(*self.images, images))


class MxnetSource(Source, frozen=True):
    """The facts that a graph keeps from its symbol file.

    ``keys`` are the graph object's keys in order, ``form`` serves nodes without one. ``irregular``
    keeps an ``arg_nodes`` or ``node_row_ptr`` that does not follow from the nodes.
    ``params_layout`` is the form of parameter records for an older MXNet, empty for any.
    ``nodes_text`` is set if the file's own text can be copied, ``text`` if the file keeps its text.
    """

    version_key: ClassVar[str] = VERSION

    style: JsonStyle = JsonStyle()
    keys: tuple[str, ...] = ("nodes", "arg_nodes", "node_row_ptr", "heads", "attrs")
    form: NodeForm = NodeForm(("op", "name", "attrs", "inputs"))
    irregular: Mapping[str, Any] = EMPTY
    nodes_text: NodesText | None = None
    text: FileText | None = None
    params_layout: str = ""

    def after_rename(self, images: Mapping[Node, Node] | None = None) -> MxnetSource:
        """New strings are escaped as MXNet reads them."""
        text = self.text.after(images) if self.text is not None else None
        return replace(self, style=replace(self.style, escapes="mxnet"), nodes_text=None, text=text)

    def after_rewrite(
        self, images: Mapping[Node, Node] | None = None, *, unchanged: int = 0
    ) -> MxnetSource:
        """The new nodes determine ``arg_nodes`` and ``node_row_ptr``."""
        kept = self.nodes_text is not None and self.nodes_text.count <= unchanged
        return replace(
            self.after_rename(images), irregular=EMPTY, nodes_text=self.nodes_text if kept else None
        )

    def after_join(self, others: Sequence[Source]) -> MxnetSource:
        more = [key for other in others if isinstance(other, MxnetSource) for key in other.keys]
        return replace(self, keys=tuple(dict.fromkeys((*self.keys, *more))))


def get_source(graph: Graph) -> MxnetSource:
    """Return the source of ``graph``; without one, MXNet 1.9.1's style."""
    return graph.source if isinstance(graph.source, MxnetSource) else MxnetSource()


def restyle(graph: Graph, **changes: Any) -> Graph:
    """Replace fields of the graph's :class:`JsonStyle`; all of its text is written anew."""
    source = get_source(graph)
    return replace(
        graph,
        source=replace(source, style=replace(source.style, **changes), nodes_text=None, text=None),
    )


def recognize_style(data: bytes) -> JsonStyle:
    """Return layout, line ends and escapes of a text, and the white space after its last brace.

    An unknown layout becomes the nearest known one.
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
        # MXNet's, through an editor that strips line ends
        return JsonStyle(layout="trimmed", newline=newline, tail=tail)
    return JsonStyle(
        layout="indent",
        indent=len(broken[2]),
        newline=newline,
        tail=tail,
        escapes=_recognize_escapes(data),
    )


def _recognize_escapes(data: bytes) -> str:
    if re.search(_ESCAPE, data) is None:
        return "mxnet"
    # json.dumps escapes DEL with the characters beyond ASCII
    ascii_only = data.isascii() and b"\x7f" not in data
    return "ascii" if ascii_only else "json"


def can_copy_text(data: bytes, style: JsonStyle) -> bool:
    """Whether a rewrite may copy nodes' text: in MXNet's layout, with only MXNet's escapes."""
    if style.layout != "mxnet" or style.newline != "\n":
        return False
    return b"\\" not in data or re.search(_ESCAPE, data) is None


class JsonWriter:
    """Formats arrays, objects and strings in one style."""

    def __init__(self, style: JsonStyle) -> None:
        layout = style.layout
        self.comma = "," if layout == "compact" else ", "
        self.colon = ":" if layout == "compact" else ": "
        self.indent = " " * (style.indent if layout == "indent" else 2)
        self.break_comma = ", \n" if layout == "mxnet" else ",\n"
        self.newline = style.newline
        self.quote: Callable[[str], str] = _QUOTES[style.escapes]
        # From how many elements on an array or map has lines of its own.
        least = {"mxnet": (2, 11, 1), "trimmed": (2, 11, 1), "indent": (1, 1, 1)}.get(layout)
        self.break_map, self.break_list, self.break_record = least or (1 << 62,) * 3
        self.break_entry = 1 if layout == "indent" else 1 << 62

    def end_lines(self, text: str) -> str:
        """Apply the style's line ends; a line break cannot stand inside a string."""
        return text if self.newline == "\n" else text.replace("\n", self.newline)

    def array(self, items: Sequence[str], level: int, least: int) -> str:
        """Return ``items`` in brackets, broken into lines from ``least`` items on."""
        if len(items) < least:
            return f"[{self.comma.join(items)}]"
        start, end = self._breaks(level)
        return f"[{start}{(self.break_comma + start[1:]).join(items)}{end}]"

    def object(self, pairs: Sequence[tuple[str, str]], level: int, least: int) -> str:
        """Return ``pairs`` of a key and its value's text, in braces."""
        items = [f"{self.quote(key)}{self.colon}{value}" for key, value in pairs]
        if len(items) < least:
            return f"{{{self.comma.join(items)}}}"
        start, end = self._breaks(level)
        return f"{{{start}{(self.break_comma + start[1:]).join(items)}{end}}}"

    def _breaks(self, level: int) -> tuple[str, str]:
        return "\n" + self.indent * (level + 1), "\n" + self.indent * level

    def map(self, values: Mapping[str, str], level: int) -> str:
        return self.object(
            [(key, self.quote(value)) for key, value in values.items()], level, self.break_map
        )

    def id_pieces(self, values: Iterable[int], count: int, level: int) -> Iterator[str]:
        """Yield an array of numbers in pieces: a large graph has millions."""
        start, end = self._breaks(level) if count >= self.break_list else ("", "")
        comma = self.break_comma + start[1:] if start else self.comma
        numbers = iter(values)
        yield "[" + start
        # The text of a list takes half the time of as many texts of numbers
        for i in range(0, count, CHUNK):
            yield (comma if i else "") + repr(list(islice(numbers, CHUNK)))[1:-1].replace(
                ", ", comma
            )
        yield end + "]"

    def value(self, value: Any, level: int) -> str:
        if isinstance(value, str):
            return self.quote(value)
        if isinstance(value, Mapping):
            return self.object(
                [(k, self.value(v, level + 1)) for k, v in value.items()], level, self.break_map
            )
        if isinstance(value, (list, tuple)):
            return self.array(
                [self.value(item, level + 1) for item in value], level, self.break_list
            )
        return str(value) if type(value) is int else _dump_json(value)


def _quote_for_mxnet(text: str) -> str:
    if SPECIAL.search(text) is None:
        return f'"{text}"'
    if "\0" in text:
        hint = "MXNet ends a string at NUL; rename it first, or write another layout with its escapes kept"
        raise RefusedError(
            Fault(f"{text!r} holds a NUL character, which MXNet cannot read", hint=hint)
        )
    return f'"{text.translate(_MXNET_ESCAPES)}"'


def _quote_json(text: str) -> str:
    return _dump_json(text, ascii_only=False)


def _dump_json(value: object, *, ascii_only: bool = True) -> str:
    from json import dumps  # start-up: MXNet's own files do not need it

    return dumps(value, ensure_ascii=ascii_only)


_QUOTES: dict[str, Callable[[str], str]] = {
    "mxnet": _quote_for_mxnet,
    "json": _quote_json,
    "ascii": _dump_json,
}
