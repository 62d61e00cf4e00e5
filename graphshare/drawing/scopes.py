"""The scopes of operators, inferred from their names and from the bodies that contain them.

In names with ``/`` the parts before it are scopes. Otherwise ``_`` may separate scopes
(``stage1_unit2_conv1``), and then a scope needs several connected operators of more than one kind:
``broadcast_add0, broadcast_add1`` are not a scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.drawing.unfold import OpenBody
from graphshare.ir.graph import Node

_MAX_PARTS = 16
_NameParts = Sequence[tuple[Node, list[str]]]


class ScopedName(msgspec.Struct, frozen=True):
    """An operator's scopes from the outside in, and its name inside them."""

    scopes: tuple[str, ...]
    leaf: str


def infer_scopes(
    branches: Mapping[str, Sequence[Node]], *, separator: str | None = None
) -> dict[Node, ScopedName]:
    """Return the scopes of each operator; ``branches`` maps prefixes of names to operators.

    ``separator`` separates scopes; by default ``/`` if any name has one, otherwise ``_``.
    """
    names = {node: node.name[len(prefix) :] for prefix, nodes in branches.items() for node in nodes}
    strict = separator is None and not any("/" in name for name in names.values())
    mark = separator or ("_" if strict else "/")
    parts = {node: _split_name(name, mark) for node, name in names.items()}
    if strict:
        _adopt_scopes(names, parts)
    # A prefix of all names, such as the network's, would be one scope around everything.
    common = _count_common_parts(list(parts.values()))
    scoped: dict[Node, ScopedName] = {}
    for nodes in branches.values():
        own = [(node, parts[node][common:]) for node in nodes]
        scoped.update(_infer_branch_scopes(own, mark, strict))
    return scoped


def _infer_branch_scopes(parts: _NameParts, mark: str, strict: bool) -> dict[Node, ScopedName]:
    scoped: dict[Node, ScopedName] = {}
    pending: list[tuple[tuple[str, ...], _NameParts]] = [((), parts)]
    while pending:
        scopes, items = pending.pop()
        for name, members in _group_by_first(items).items():
            if _is_scope(members, strict):
                inner = [(node, rest[1:] or rest) for node, rest in members]
                pending.append(((*scopes, name), inner))
                continue
            longer: list[tuple[Node, list[str]]] = []
            for node, rest in members:
                if len(rest) == 1:
                    scoped[node] = ScopedName(scopes, rest[0])
                else:
                    # Join the first two parts; longer names may still have scopes inside.
                    longer.append((node, [mark.join(rest[:2]), *rest[2:]]))
            pending.append((scopes, longer))
    return scoped


def infer_body_scopes(
    names: dict[Node, ScopedName], operators: Mapping[OpenBody, list[Node]], separator: str | None
) -> None:
    """Add scopes of ``operators`` in bodies: one for the bodies' owner, and one for each body."""
    for body in sorted(operators, key=lambda body: body.depth):
        owner = names.get(body.owner, ScopedName((), ""))
        if owner.scopes[-1:] != (owner.leaf,):
            owner = names[body.owner] = ScopedName((*owner.scopes, owner.leaf), owner.leaf)
        for node, name in infer_scopes({"": operators[body]}, separator=separator).items():
            names[node] = ScopedName((*owner.scopes, body.key, *name.scopes), name.leaf)


def _split_name(name: str, mark: str) -> list[str]:
    parts = [part for part in name.split(mark) if part] or [name]
    first, rest = parts[: _MAX_PARTS - 1], parts[_MAX_PARTS - 1 :]
    return [*first, mark.join(rest)] if rest else first


def _adopt_scopes(names: Mapping[Node, str], parts: dict[Node, list[str]]) -> None:
    """Move operators with generated names (``_plus3``) into the scope of their first input that has
    one.
    """
    for node, name in names.items():  # inputs come first
        if not _is_generated(name, node.op):
            continue
        for entry in node.inputs:
            scopes = parts.get(entry.node, [])[:-1]
            if scopes:
                parts[node] = [*scopes, name]
                break


def _is_generated(name: str, op: str) -> bool:
    """Whether a name is a number behind ``_`` or the operator: ``_plus3``, ``convolution0``."""
    kind = name.rstrip("0123456789")
    if kind == name:
        return False
    return name.startswith("_") or kind.strip("_").lower() == op.strip("_").lower()


def _count_common_parts(names: Sequence[Sequence[str]]) -> int:
    """The last part does not count."""
    if len(names) < 2:
        return 0
    count = min(len(parts) for parts in names) - 1
    for parts in names[1:]:
        while names[0][:count] != parts[:count]:
            count -= 1
    return count


def _group_by_first(items: _NameParts) -> dict[str, list[tuple[Node, list[str]]]]:
    groups: dict[str, list[tuple[Node, list[str]]]] = {}
    for node, parts in items:
        groups.setdefault(parts[0], []).append((node, parts))
    return groups


def _is_scope(members: _NameParts, strict: bool) -> bool:
    if len(members) < 2 or all(len(parts) == 1 for _, parts in members):
        return False
    if not strict:
        return True
    nodes = [node for node, _ in members]
    kinds = {node.op for node in nodes}
    return len(kinds) > 1 and _are_connected(nodes)


def _are_connected(nodes: Sequence[Node]) -> bool:
    parent = {node: node for node in nodes}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            # Each walk halves the path to keep later walks short.
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    parts = len(nodes)
    for node in nodes:
        inputs = [entry.node for entry in node.inputs if entry.node in parent]
        for source in inputs:
            a, b = root(node), root(source)
            if a is not b:
                parent[a] = b
                parts -= 1
    return parts == 1
