"""The text of a file that no layout reproduces: unchanged parts keep it.

Of a node, or of the frame around the nodes, only changed values are written anew; of names only
changed characters, of inputs only ids. A value has changed if old and new graph differ in it when
formatted in one layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile

from graphshare.formats.mxnet.places import ValueSpan, find_elements, find_members, skip_blanks
from graphshare.formats.mxnet.source import FileText, JsonWriter
from graphshare.ir.graph import Node

Pairs = Mapping[str, str]
"""Each key of an object with the text of its value in some layout."""

_ID = re.compile(r"(\[[ \t\n\r]*)([^][, \t\n\r]+)")
# A character beyond U+FFFF may be two escapes in a row.
_HALF = r"\\u[dD][89abAB]..(?=\\u[dD][c-fC-F])"
_CHARACTER = re.compile(rf"(?:{_HALF})?(?:\\u.{{4}}|\\.|.)", re.DOTALL)


class OwnText:
    """The text of a file in parts: its nodes, and the frame around them."""

    def __init__(self, file: FileText) -> None:
        self._text = text = file.data.decode()
        self._members = find_members(text, skip_blanks(text, 0))
        self._nodes = list(find_elements(text, self._members["nodes"].start))
        self._ids = _find_sources(file)

    def source(self, node: Node) -> int | None:
        """Return the id in the file of the node that became ``node``."""
        return self._ids.get(node)

    def node(self, i: int, old: Pairs, new: Pairs, texts: JsonWriter) -> str | None:
        """Return the text of node ``i`` with the values of ``new``; None if its keys changed."""
        text = self._text[self._nodes[i].start : self._nodes[i].end]
        if old == new:
            return text
        # Another key changes the text between keys.
        if old.keys() != new.keys():
            return None
        return _replace(text, find_members(text, 0), old, new, texts)

    def array(
        self, sources: Sequence[int | None], nodes: Iterable[str], start: str, comma: str
    ) -> Iterator[str]:
        """Yield the array of nodes from the texts of ``nodes``; ``sources`` are their ids in the
        file.

        White space between nodes is the file's own, else ``start`` before the first and ``comma``
        between others.
        """
        text, spans, last = self._text, self._nodes, len(self._nodes) - 1
        yield "["
        before, after = start, ""
        for position, (i, node) in enumerate(zip(sources, nodes, strict=True)):
            begin = end = ""
            if i is not None:
                begin, end = self._blanks(i)
            # The first node has no comma before it, so white space is kept by a node that is first
            # in both, or in neither.
            if i is not None and (i == 0) == (position == 0):
                before = begin if position == 0 else f",{begin}"
            else:
                before = comma if position else start
            yield f"{after if position else ''}{before}{node}"
            after = end if i != last else ""
        close = spans[-1].end
        yield text[close : self._members["nodes"].end]

    def frame(self, old: Pairs, new: Pairs, texts: JsonWriter) -> tuple[str, str]:
        """Return the texts before and after the array of nodes, with the values of ``new``."""
        nodes = self._members["nodes"]
        others = {key: value for key, value in self._members.items() if key != "nodes"}
        before = {key: value for key, value in others.items() if value.start < nodes.start}
        behind = {
            key: ValueSpan(v.start - nodes.end, v.end - nodes.end)
            for key, v in others.items()
            if v.start > nodes.start
        }
        return (
            _replace(self._text[: nodes.start], before, old, new, texts),
            _replace(self._text[nodes.end :], behind, old, new, texts),
        )

    def _blanks(self, i: int) -> tuple[str, str]:
        text, spans = self._text, self._nodes
        begin = spans[i - 1].end if i else self._members["nodes"].start
        before = text[begin : spans[i].start].partition("," if i else "[")[2]
        end = spans[i + 1].start if i + 1 < len(spans) else spans[i].end
        return before, text[spans[i].end : end].partition(",")[0]


def _find_sources(file: FileText) -> dict[Node, int]:
    ids: dict[Node, int] = {}
    for i, node in enumerate(file.graph.nodes):
        image: Node | None = node
        for images in file.images:
            image = images.get(image) if image is not None else None
        # If several nodes became one, its text comes from the one whose name was kept.
        if image is not None and (image not in ids or image.name == node.name):
            ids[image] = i
    return ids


def _replace(
    text: str, members: Mapping[str, ValueSpan], old: Pairs, new: Pairs, texts: JsonWriter
) -> str:
    pieces, end = [], 0
    for key, value in sorted(members.items(), key=lambda item: item[1]):
        if old[key] != new[key]:
            own = text[value.start : value.end]
            pieces += [text[end : value.start], _change(own, old[key], new[key], texts)]
            end = value.end
    return "".join([*pieces, text[end:]])


def _change(own: str, old: str, new: str, texts: JsonWriter) -> str:
    """Change ``own``, the text of a value, as ``old`` changed to ``new`` in one layout."""
    if own.startswith('"'):
        return _change_string(own, json.loads(new, strict=False), texts)
    # Lists of entries that differ in ids
    if own.startswith("[") and _ID.sub("[", old) == _ID.sub("[", new):
        pairs = zip(_ID.finditer(old), _ID.finditer(new), strict=True)
        changes = iter([None if a[2] == b[2] else b[2] for a, b in pairs])
        return _ID.sub(lambda match: match[1] + (next(changes) or match[2]), own)
    return texts.end_lines(new)


def _change_string(own: str, new: str, texts: JsonWriter) -> str:
    """Return the string ``new`` as JSON; characters at both ends keep the escapes of ``own``."""
    escaped = _CHARACTER.findall(own, 1, len(own) - 1)
    old = [json.loads(f'"{character}"', strict=False) for character in escaped]
    most = min(len(old), len(new))
    suffix = sum(
        1
        for _ in takewhile(
            lambda pair: pair[0] == pair[1], zip(reversed(old), reversed(new), strict=False)
        )
    )
    prefix = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    # Both ends may match the same characters: "a-" before "a-a" gives "a-a-a".
    prefix = min(prefix, most - suffix)
    middle = texts.quote(new[prefix : len(new) - suffix])[1:-1]
    return "".join(chain('"', escaped[:prefix], middle, escaped[len(escaped) - suffix :], '"'))
