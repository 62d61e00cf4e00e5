"""``share --detect``: parameters that may be meant as one, by equal values, or by form and name."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from graphshare.analysis.roles import find_auxiliary, list_parameters
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.records import ITEM_SIZES, ParameterFile, Record
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import consumers
from graphshare.ops.attributes import has_np_shape, read_declared_shape
from graphshare.ops.registry import find_signature
from graphshare.rewrite.tie import assign_sharing_roles, index_records
from graphshare.text.format import format_dims
from graphshare.text.markup import quote_shell
from graphshare.text.summary import ShortRepr

_BOUNDARY = re.compile(r"[^0-9A-Za-z]+")
_MAX_BOUNDARIES = 64  # of one name: real names have fewer, and each costs a copy of the rest

_Uses = Mapping[Node, list[tuple[Node, int]]]
Likeness = Literal["values", "bytes", "transpose", "shape", "operator"]


class Candidates(ShortRepr, msgspec.Struct, frozen=True):
    """Parameters that may be meant as one, with the evidence ``why``; ``options`` tie all to the
    first.

    In an ONNX model they may be equal ``bytes`` of different shapes, or a table and its
    ``transpose``.
    """

    names: list[str]
    why: Likeness
    related: bool
    form: str
    options: list[str]


def find_candidates(
    graph: Graph,
    *,
    params: ParameterFile | None = None,
    as_input: Collection[str] = (),
    as_parameter: Collection[str] = (),
) -> list[Candidates]:
    """Return groups of parameters with equal values, then of equal form with related names; no pair
    twice.

    The form is the shape and dtype if known, else the attributes of the operator that uses the
    parameter. Names are related when one is the other with a prefix (``sha-fc_weight``), or only
    their first component differs (``left_fc_weight``, ``right_fc_weight``). Arrays of one repeated
    number, such as zeros, must have related names, too.
    """
    roles = assign_sharing_roles(graph, params, as_input, as_parameter)
    heads = {entry.node for entry in graph.heads}
    nodes = [node for node in list_parameters(roles) if node.name]
    # An output keeps its name: other parameters are tied to it.
    nodes.sort(key=lambda node: node not in heads)
    auxiliary = find_auxiliary(roles)
    records = index_records(params)
    relations = _list_relations(nodes)
    has_other_forms = find_format(graph).supports(Operation.POOL)
    groups = _group_by_value(nodes, auxiliary, records, params, has_other_forms)
    candidates: list[Candidates] = []
    done: list[frozenset[Node]] = []
    for (form, _, is_constant), group in groups.items():
        # Arrays of one repeated number, such as zeros, are equal by chance.
        for part in _group_related(group, relations) if is_constant else [group]:
            if len(part) > 1:
                done.append(frozenset(part))
                is_related = _are_related(part, relations)
                candidates += _list_candidates(part, heads, "values", form, is_related)
    if params is not None and has_other_forms:
        candidates += _list_other_forms(graph, params, groups, relations)
    for (form, _, why), group in _group_by_form(graph, nodes, auxiliary, records).items():
        for part in _group_related(group, relations):
            if not any(map(frozenset(part).issubset, done)):
                candidates += _list_candidates(part, heads, why, form, True)
    return candidates


def _list_candidates(
    nodes: list[Node], heads: Collection[Node], why: Likeness, form: str, related: bool
) -> Iterator[Candidates]:
    """Yield several candidates or none; only the first can be one of ``heads``."""
    names = [node.name for number, node in enumerate(nodes) if not number or node not in heads]
    options = [f"--alias {quote_shell(f'{_quote_alias(name)}={names[0]}')}" for name in names[1:]]
    if options:
        yield Candidates(names, why, related, form, options)


def _quote_alias(name: str) -> str:
    literal = name.replace("=", "\\=")
    return literal if not re.search(r"[*?\[]|^re:", name) else f"={literal}"


def _list_other_forms(
    graph: Graph,
    params: ParameterFile,
    groups: Mapping[tuple[str, str, bool], list[Node]],
    relations: Mapping[Node, list[str]],
) -> Iterator[Candidates]:
    """Yield ONNX parameters of equal bytes and different shapes, and tables with their transposes."""
    # Start-up: few models are ONNX models
    from graphshare.onnx_ops.transposed import LEAST, find_tables

    records = params.by_key()
    alike: dict[str, list[list[Node]]] = {}
    for (_, digest, is_constant), group in groups.items():
        if not is_constant:
            alike.setdefault(digest, []).append(group)
    for same in alike.values():
        part = [group[0] for group in sorted(same, key=len, reverse=True)]
        if len(part) > 1 and records[part[0].name].dense_size >= LEAST:
            forms = " and ".join(_format_array(records[node.name]) for node in part)
            yield from _list_candidates(part, (), "bytes", forms, _are_related(part, relations))
    for table, twin in find_tables(graph, params):
        names = [twin.name, table.name]
        is_related = _are_related([table, twin], relations)
        form = _format_array(records[twin.name])
        yield Candidates(names, "transpose", is_related, form, ["--transposed"])


def _group_by_value(
    nodes: Iterable[Node],
    auxiliary: Collection[Node],
    records: Mapping[str, Record],
    params: ParameterFile | None,
    has_other_forms: bool,
) -> dict[tuple[str, str, bool], list[Node]]:
    """Group parameters by form, contents, and whether all their numbers are equal.

    An array is read only if a second one has its form, or with ``has_other_forms`` its size.
    """
    if params is None:
        return {}
    groups: dict[tuple[str, str, bool], list[Node]] = {}
    sizes = {
        key: record.dense_size if has_other_forms else record.shape
        for key, record in records.items()
        if record.dtype
    }
    alike = Counter((size, records[key].dtype) for key, size in sizes.items())
    with ArrayReader(params) as reader:
        for node in nodes:
            record = records.get(node.name)
            if record is None or record.shape is None or record.dtype is None:
                continue
            if 0 in record.shape or alike[sizes[node.name], record.dtype] == 1:
                continue
            digest = hashlib.sha256()
            first: bytes | None = None
            constant = True
            for chunk in reader.chunks(record):
                digest.update(chunk)
                data = bytes(chunk)
                first = first or data[: ITEM_SIZES[record.dtype]]
                constant = constant and data == first * (len(data) // len(first))
            # A parameter and an auxiliary state cannot be tied.
            key = f"{record.element_type} {node in auxiliary} {digest.hexdigest()}"
            groups.setdefault((_format_array(record), key, constant), []).append(node)
    return groups


def _group_by_form(
    graph: Graph, nodes: Iterable[Node], auxiliary: Collection[Node], records: Mapping[str, Record]
) -> dict[tuple[str, bool, Likeness], list[Node]]:
    uses = consumers(graph.nodes)
    np_shape = has_np_shape(graph.attrs)
    groups: dict[tuple[str, bool, Likeness], list[Node]] = {}
    for node in nodes:
        why, form = _describe_form(node, records.get(node.name), uses, np_shape)
        if form:
            groups.setdefault((form, node in auxiliary, why), []).append(node)
    return groups


def _describe_form(
    node: Node, record: Record | None, uses: _Uses, np_shape: bool
) -> tuple[Likeness, str]:
    if record is not None and record.shape is not None:
        return "shape", _format_array(record)
    text = node.attrs.get("__shape__", "")
    shape = read_declared_shape(text, np_shape=np_shape)
    # Unknown sizes may be equal by chance.
    if shape is not None and None not in shape:
        return "shape", f"{text} {node.attrs.get('__dtype__', '')}".strip()
    if node not in uses:
        return "operator", ""
    user, slot = uses[node][0]
    signature = find_signature(user)
    operator = signature.name if signature else user.op
    attrs = [
        f"{key}={value}" for key, value in sorted(user.attrs.items()) if not key.startswith("__")
    ]
    return "operator", f"input {slot} of {operator} {' '.join(attrs)}".strip()


def _format_array(record: Record) -> str:
    return record.stated or f"{format_dims(record.shape or ())} {record.dtype}"


def _list_relations(nodes: Iterable[Node]) -> dict[Node, list[str]]:
    """Return texts shared by related names: tails that are names (=), all but the first part (~)."""
    nodes = list(nodes)
    names = {node.name for node in nodes}
    keys: dict[Node, list[str]] = {}
    for node in nodes:
        tails = [
            node.name[m.end() :]
            for m, _ in zip(_BOUNDARY.finditer(node.name), range(_MAX_BOUNDARIES), strict=False)
        ]
        texts = [f"={tail}" for tail in tails if tail in names] + [f"={node.name}"]
        if tails and _BOUNDARY.search(tails[0]):
            texts.append(f"~{tails[0]}")
        keys[node] = texts
    return keys


def _are_related(group: list[Node], relations: Mapping[Node, list[str]]) -> bool:
    return len(_group_related(group, relations)) == 1


def _group_related(group: list[Node], relations: Mapping[Node, list[str]]) -> list[list[Node]]:
    """Return the parts of several nodes that are related, directly or transitively."""
    leader: dict[Node, Node] = {node: node for node in group}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            # Path halving keeps a union of thousands of names nearly linear.
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    first: dict[str, Node] = {}
    for node in group:
        for key in relations[node]:
            leader[find(node)] = find(first.setdefault(key, node))
    parts: dict[Node, list[Node]] = {}
    for node in group:
        parts.setdefault(find(node), []).append(node)
    return [part for part in parts.values() if len(part) > 1]
