"""Make a node of one node record of a symbol file, whatever generation wrote it.

Equal attribute maps become one object and so do equal operator names: real graphs repeat both, and the writer formats each
distinct map once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphshare.formats.mxnet import document
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeForm


class Shape:
    """How records with these keys come apart."""

    __slots__ = ("attr_key", "extra", "form", "only_attrs", "param")

    def __init__(self, keys: tuple[str, ...]) -> None:
        maps = [key for key in keys if key in ("attrs", "attr")]
        # MXNet reads both keys into one map and the later replaces the earlier; ``param`` only fills in what is absent.
        self.attr_key = maps[-1] if maps else "param" if "param" in keys else ""
        self.param = "param" in keys and bool(maps)
        inert = {*maps[:-1], "backward_source_id"}
        self.extra = tuple(key for key in keys if key in inert or key not in document.NODE_KEYS)
        self.only_attrs = not (self.param or self.extra or "control_deps" in keys or "subgraphs" in keys)
        self.form = NodeForm(keys)


class _Shapes(dict[tuple[str, ...], Shape]):
    """Keys of a record to how it comes apart."""

    def __missing__(self, keys: tuple[str, ...]) -> Shape:
        shape = self[keys] = Shape(keys)
        return shape


class NodeReader:
    """Makes nodes of the records of one graph. ``read_graph`` links a subgraph in a record.

    ``texts`` and ``maps`` hold the one object for each operator name and attribute map read so far; a variable has no operator.
    """

    def __init__(self, read_graph: Callable[[dict[str, Any]], Graph]) -> None:
        self._read_graph = read_graph
        self.shapes = _Shapes()
        self.texts: dict[str, str] = {document.VARIABLE_OP: ""}
        self.maps: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {(): EMPTY}
        self.maps_by_text = _MapsByText(self)
        self._extras: dict[tuple[tuple[str, int], ...], Mapping[str, Any]] = {(): EMPTY}

    def node(self, record: dict[str, Any], inputs: tuple[Entry, ...], deps: tuple[Node, ...], count: int | None) -> Node:
        """Return the node of ``record``; ``inputs`` and ``deps`` are linked; ``count`` outputs, None if unknown."""
        shape = self.shapes[tuple(record)]
        _check_kinds(record)
        attrs = self.intern(record[shape.attr_key]) if shape.attr_key else EMPTY
        form, extra = shape.form, self._extra(record, shape)
        if shape.param:
            param = record["param"]
            if attrs.keys() & param.keys():  # an attribute that ``attr`` overrides: keep what it hides
                extra = {**extra, "param": param}
            form = NodeForm(form.keys, tuple([key for key in param if key not in attrs]))
            attrs = self.intern({**attrs, **{key: value for key, value in param.items() if key not in attrs}})
        subgraphs = tuple(self._read_graph(graph) for graph in record.get("subgraphs", ()))
        op = self.texts.setdefault(record["op"], record["op"])
        return Node(op, record["name"], attrs, inputs, count, deps, subgraphs, extra, form)

    def intern(self, attrs: Mapping[str, str]) -> Mapping[str, str]:
        """Return the one object for maps equal to ``attrs``, order of keys included."""
        return self.maps.setdefault(tuple(attrs.items()), attrs)

    def _extra(self, record: dict[str, Any], shape: Shape) -> Mapping[str, Any]:
        if shape.extra == ("backward_source_id",):  # every node of a 2015 file has it, nearly always -1
            extra = {"backward_source_id": record["backward_source_id"]}
            return self._extras.setdefault(tuple(extra.items()), extra)
        document.check_nesting(record[key] for key in shape.extra)
        return {key: record[key] for key in shape.extra} or EMPTY


class _MapsByText(dict[bytes, tuple[Mapping[str, str], NodeForm]]):
    """The text of an attribute map, empty where the record has none, to the map and the form of a node with the usual keys."""

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader

    def __missing__(self, text: bytes) -> tuple[Mapping[str, str], NodeForm]:
        attrs = document.decode_map(text) if text else EMPTY
        form = self._reader.shapes[("op", "name", "attrs", "inputs") if text else ("op", "name", "inputs")].form
        pair = self[text] = (self._reader.intern(attrs), form)
        return pair


_KINDS = {"op": str, "name": str, "inputs": list, "control_deps": list, "subgraphs": list, "backward_source_id": int}


def _check_kinds(record: Mapping[str, Any]) -> None:
    """Check the values of a record against their keys, which the typed decode leaves open. Raises TypeError."""
    for key, value in record.items():
        if type(value) is not (_KINDS.get(key) or (dict if key in ("attrs", "attr", "param") else type(value))):
            raise TypeError(key)
