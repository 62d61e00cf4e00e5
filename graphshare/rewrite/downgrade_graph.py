"""A graph as an older MXNet reads it.

Facts about versions come from their own libraries (``benchmarks/old_versions.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import msgspec

from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.formats.mxnet.source import VERSION, MxnetSource
from graphshare.ir.graph import Branch, Graph, Node, NodeForm, Rewrite, freeze
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ops.attributes import has_np_shape
from graphshare.ops.registry import lookup
from graphshare.ops.signature import Signature
from graphshare.rewrite.old_numbers import NOTED, REFUSED, find_differences
from graphshare.rewrite.upgrade_graph import upgrade_graph

# The versions that brought NumPy shapes, and the key `attrs` of nodes
_NP_SHAPE, _ATTRS = 10500, 10000
_ESCAPES = 1200  # before it, readers knew fewer escapes
# With these values an operator computes the same as before it had the attribute.
_NEUTRAL = {
    "Pooling.layout": ("NCW", "NCHW", "NCDHW"),
    "Pooling.count_include_pad": (True,),
    "BatchNorm.cudnn_off": (True,),
}
_WINDOW = ("pad", "stride")
# The newest form of records in .params before each version
_LAYOUTS = ((1100, "V0"), (1200, "V1"), (10500, "V2"))


class _Tables(msgspec.Struct):
    """Lists have one row per version, with its additions.

    Other tables name the last row for which an entry is valid.
    """

    versions: list[str]
    operators: list[str]
    attributes: list[str]
    choices: list[str]
    aliases: dict[str, tuple[int, str]]
    explicit: dict[str, int]
    nonnegative: dict[str, int]
    not_none: dict[str, int]


@cache
def _read_tables() -> tuple[_Tables, dict[str, int]]:
    tables = msgspec.json.decode(
        files(__package__).joinpath("old_versions.json").read_bytes(), type=_Tables
    )
    rows = (tables.operators, tables.attributes, tables.choices)
    return tables, {
        name: row for texts in rows for row, text in enumerate(texts) for name in text.split()
    }


class OldVersion:
    """A version of MXNet, 0.9.5 to 1.8; the table row ``row`` of version ``measured`` applies to
    it.

    Raises:
        UsageError: it is out of range.
    """

    def __init__(self, version: str) -> None:
        self.name, self._faults, self._notes = version, list[Fault](), dict[str, str]()
        self.tables, self._since = _read_tables()
        match = re.fullmatch(r"(\d{1,3})\.(\d{1,2})(?:\.(\d{1,2}))?", version)
        self.number = _number(match[0]) if match else 0
        self.row = sum(_number(each) <= self.number for each in self.tables.versions) - 1
        if self.row < 0 or self.number >= 10900:
            hint = "versions go from 0.9.5 to 1.8; `gs.upgrade` writes files of 1.9.1"
            raise UsageError(Fault(f"there is no downgrade to MXNet {version!r}", hint=hint))
        self.measured = self.tables.versions[self.row]
        self.layout = next((layout for before, layout in _LAYOUTS if self.number < before), "")

    def has(self, name: str) -> bool:
        """Whether the version has an operator, an attribute or a choice. Unlisted names are in
        every one.
        """
        return self._since.get(name, 0) <= self.row

    def downgrade(self, graph: Graph) -> Rewrite:
        """Return the graph with this version's attribute key and names, and no later attributes.

        Raises:
            RefusedError: the version lacks operators, or attributes and values that are not the
                defaults, or computes them otherwise.
        """
        modern = upgrade_graph(graph, keep_amp_cast=True)
        for node in modern.graph.nodes if self.number < _ESCAPES else ():
            texts = "".join((node.name, *node.attrs, *node.attrs.values()))
            if "\t" in texts or "\r" in texts:
                self._lack(node, "tabs and carriage returns in texts", "")
        result, images = rebuild_graph(modern.graph, self._change)
        if has_np_shape(result.attrs) and self.number < _NP_SHAPE:
            self._faults.append(Fault(f"the graph has NumPy shapes, which MXNet {self.name} lacks"))
        if self._faults:
            raise RefusedError(self._faults)
        form = NodeForm(("op", "name", "attr" if self.number < _ATTRS else "attrs", "inputs"))
        source = MxnetSource(form=form, params_layout=self.layout)
        attrs = freeze({**result.attrs, VERSION: ["int", self.number]})
        result = msgspec.structs.replace(result, attrs=attrs, source=source)
        notes = tuple(f"{what}, as in {name!r}" for what, name in self._notes.items())
        return modern.then(Rewrite(result, (Branch("", modern.graph, images),), notes=notes))

    def _change_attribute(
        self, node: Node, signature: Signature, key: str, attrs: dict[str, str]
    ) -> None:
        name, text = f"{node.op}.{key}", node.attrs[key]
        value = signature.value(node.attrs, key)
        is_unused = (
            key in _WINDOW and node.op == "Pooling" and signature.value(node.attrs, "global_pool")
        )
        if is_unused or (name == "Deconvolution.target_shape" and not any(value)):
            del attrs[key]  # older versions pad a global pooling too, and read 0 as a size
            return
        if isinstance(value, tuple) and not text.startswith(("(", "[")):
            attrs[key] = f"({text},)"  # older versions read a tuple of one number in parentheses
        choice, described = f"{name}={text}", f"{key}={text} of {node.op}"
        if not self.has(name) or (value is None and self._holds(name, self.tables.not_none)):
            del attrs[key]
            neutral = (signature.value({}, key), *_NEUTRAL.get(name, ()))
            if value not in neutral:
                self._lack(node, described, name)
        elif not self.has(choice) or (self._holds(name, self.tables.nonnegative) and value < 0):
            self._lack(node, described, choice)

    def _change(self, node: Node) -> Node:
        signature = lookup(node.op) if node.op else None
        if signature is None:
            return node
        if node.op not in self._since or not self.has(node.op):
            self._lack(node, f"the operator {node.op}", node.op)
            return node
        measured = _number(self.measured)
        for what in find_differences(REFUSED, node, signature, measured):
            self._faults.append(
                Fault(f"MXNet {self.name} computes {node.op} otherwise with {what}", node=node.name)
            )
        for what in find_differences(NOTED, node, signature, measured):
            self._notes.setdefault(f"{node.op} of MXNet {self.name} {what}", node.name)
        attrs = dict(node.attrs)
        # A parameter of None is a hidden key, or one that no parser reads.
        for key in (key for key in node.attrs if signature.parameter(key) is not None):
            self._change_attribute(node, signature, key, attrs)
        attrs.update(self._list_explicit(signature, node))
        until, old = self.tables.aliases.get(node.op, (0, ""))
        bodies = tuple([rebuild_graph(body, self._change)[0] for body in node.subgraphs])
        op = old if self.row < until else node.op
        return msgspec.structs.replace(
            node, op=op, attrs=freeze(dict(sorted(attrs.items()))), subgraphs=bodies
        )

    def _list_explicit(self, signature: Signature, node: Node) -> Iterable[tuple[str, str]]:
        """Yield absent attributes that the version requires or has another default for."""
        for parameter in signature.parameters or ():
            name, default = parameter.name, parameter.default
            if name in node.attrs or default is None:
                continue
            if self._holds(f"{node.op}.{name}", self.tables.explicit):
                # A global pooling needs a kernel there, but does not use it.
                is_unused = name == "kernel" and signature.value(node.attrs, "global_pool")
                yield name, "(1, 1)" if is_unused else default

    def _holds(self, name: str, table: dict[str, int]) -> bool:
        return self.row < table.get(name, 0)

    def _lack(self, node: Node, what: str, name: str) -> None:
        versions = self.tables.versions
        row = self._since.get(name, len(versions))
        is_later = self.row < row < len(versions)
        hint = f"MXNet {versions[row]} has it" if is_later else ""
        self._faults.append(Fault(f"MXNet {self.name} lacks {what}", node=node.name, hint=hint))


def _number(version: str) -> int:
    major, minor, patch = (*map(int, version.split(".")), 0)[:3]
    return major * 10000 + minor * 100 + patch
