"""The fields of a NodeProto: its names, and what it says beside them, which most nodes have in common with others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from graphshare.formats.onnx.attributes import NO_ATTRIBUTES, AttributeReader, Attributes, ReadGraph
from graphshare.formats.onnx.protobuf import Field, once, scan, text_at
from graphshare.formats.onnx.stored import OnnxFile

_SINGLE = once(3, 4, 6, 7, 8)
_SHORT = 512  # bytes up to which what a NodeProto says behind its names is shared with others
_NAME = rb"(.[^\x00-\x1f\"]*)"  # the length of a text and the text, up to a byte that may be the tag of the next field
_NAMES = re.compile(
    rb"(?:\x0a%b)?(?:\x0a%b)?(?:\x0a%b)?\x12%b(?:\x1a%b)?(\".*)" % ((_NAME,) * 5),  # inputs, an output, a label
    re.DOTALL,
).fullmatch


class NodeKind(NamedTuple):
    """What a NodeProto says beside its names.

    ``fields`` are the attributes until they are read, ``known`` what they say then. ``key`` are the bytes of all this where
    these follow the names and are few.
    """

    op: str
    domain: str
    overload: str
    fields: Sequence[Field]
    key: bytes
    known: Attributes = NO_ATTRIBUTES


class _Texts(dict[bytes, str]):
    """Texts by a byte that counts their bytes and these, the same object for equal ones: names repeat at every use."""

    def __missing__(self, field: bytes) -> str:
        """Return the text of a field. Raises KeyError for one of another length: a byte in it was taken for a tag."""
        if field[0] != len(field) - 1 or field[0] > 127:
            raise KeyError(field)
        text = self[field] = field[1:].decode("utf-8", "surrogateescape")
        return text


class NodeReader:
    """Reads the nodes of one file; what several have in common is read once."""

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        self._attributes = AttributeReader(file)
        self._texts = _Texts()
        self._kinds: dict[bytes, NodeKind] = {}

    def read(self, start: int, end: int) -> tuple[list[str], list[str], str, NodeKind]:
        """Return inputs, outputs and label of the NodeProto at ``start``, and what it says beside them. Raises WireError."""
        head = self._file.data[start:end] if end - start <= _SHORT else b""
        match, texts = _NAMES(head), self._texts
        # Long nodes, more than three inputs, several outputs, and names with control characters or quotes.
        if match is None:
            return self._read_any(start, end)
        one, two, three, output, label, rest = match.groups()
        try:
            inputs = [] if one is None else [texts[one]]
            if two is not None:
                inputs.append(texts[two])
                if three is not None:
                    inputs.append(texts[three])
            outputs, text = [texts[output]], "" if label is None else texts[label]
        except KeyError:
            return self._read_any(start, end)
        kind = self._kinds.get(rest)
        if kind is None:
            others, results, name, kind = self._read_any(end - len(rest), end)
            # A name is among the rest: the fields are in another order than protobuf writes them.
            if others or results or name or not kind.op:
                return self._read_any(start, end)
            kind = kind._replace(key=rest)
            if not kind.fields:
                self._kinds[rest] = kind
        return inputs, outputs, text, kind

    def read_attributes(self, kind: NodeKind, read_graph: ReadGraph) -> Attributes:
        """Return the attributes of a node; those that say nothing of other parts of the file are kept. Raises WireError."""
        if not kind.fields:
            return kind.known
        known = self._attributes.read(kind.fields, read_graph)
        if kind.key and not known.graphs and known.weight is None:
            self._kinds[kind.key] = kind._replace(known=known, fields=())
        return known

    def _read_any(self, start: int, end: int) -> tuple[list[str], list[str], str, NodeKind]:
        """Return the same of a NodeProto in which fields stand in any order."""
        data, label, op, domain, overload = self._file.data, "", "", "", ""
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: list[Field] = []
        for field in scan(data, start, end, _SINGLE):
            number = field[0]
            if number == 1:
                inputs.append(text_at(data, field))
            elif number == 2:
                outputs.append(text_at(data, field))
            elif number == 3:
                label = text_at(data, field)
            elif number == 4:
                op = text_at(data, field)
            elif number == 5:
                attributes.append(field)
            elif number == 7:
                domain = text_at(data, field)
            elif number == 8:
                overload = text_at(data, field)
        return inputs, outputs, label, NodeKind(op, name_domain(domain), overload, attributes, b"")


def name_domain(domain: str) -> str:
    """Return a domain; ONNX's own, which has two names, by the empty one."""
    return "" if domain == "ai.onnx" else domain
