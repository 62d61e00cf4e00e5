"""The comparison of graphs modulo names: two branches in lock-step from their heads, or nodes with their images.

Names pair nothing: edges decide. Both hold for unknown operators too. ``exempt`` maps operators to attributes that may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.text.format import format_count

Exempt = Mapping[str, Collection[str]]


class Difference(msgspec.Struct, frozen=True, eq=False):
    """A pair of nodes that are not the same, and what differs, in words."""

    left: Node
    right: Node
    what: str


class Pairing(msgspec.Struct, eq=False):
    """``pairs`` of nodes in topological order of the left branch; the same node twice where branches share it."""

    pairs: list[tuple[Node, Node]]
    differences: list[Difference]

    def __bool__(self) -> bool:
        return not self.differences


def compare_structure(left: Sequence[Entry], right: Sequence[Entry], *, exempt: Exempt = EMPTY) -> Pairing:
    """Pair the nodes behind the heads ``left`` and ``right`` in lock-step. Attributes of variables are not compared."""
    partner: dict[Node, Node] = {}
    pairing = Pairing([], [])
    back: dict[Node, Node] = {}
    pending: list[tuple[Node, Node]] = []
    for head, twin in zip(left, right, strict=True):
        if head.index != twin.index:
            what = f"heads are output {head.index} and output {twin.index}"
            pairing.differences.append(Difference(head.node, twin.node, what))
        pending.append((head.node, twin.node))
    while pending:
        a, b = pending.pop()
        if partner.get(a) is b:
            continue
        if a in partner or back.get(b, a) is not a:
            what = "one branch uses a single node where the other uses two"
            pairing.differences.append(Difference(a, b, what))
            continue
        partner[a], back[b] = b, a
        what = _describe_difference(a, b, exempt)
        if what:
            pairing.differences.append(Difference(a, b, what))
            continue
        pending.extend((x.node, y.node) for x, y in zip(a.inputs, b.inputs, strict=True))
        pending.extend(zip(a.control_deps, b.control_deps, strict=True))
    pairing.pairs = [(node, partner[node]) for node in post_order(entry.node for entry in left) if node in partner]
    return pairing


def compare_images(
    images: Mapping[Node, Node],
    *,
    exempt: Exempt = EMPTY,
    tied: Collection[Node] = (),
    copies: Mapping[Node, Node] = EMPTY,
    replaced: Mapping[Node, Entry] = EMPTY,
) -> Iterator[Difference]:
    """Yield each node whose image is more than the node under another name, with images as its inputs.

    ``tied`` variables became another one, whose attributes hold. ``copies`` maps a copy to the image that it stands for,
    ``replaced`` a source variable to the entry of the new graph that is read in its place.
    """
    for node, image in images.items():
        if image is node and all(images[e.node] is e.node and e.node not in replaced for e in node.inputs):
            continue
        what = ""
        if (
            image.attrs is not node.attrs
            or image.op != node.op
            or image.subgraphs is not node.subgraphs
            or image.details is not node.details
        ):
            what = "" if node in tied and image.is_variable else _describe_content(node, image, exempt, attributes=True)
        if len(image.inputs) != len(node.inputs):
            what = f"{len(node.inputs)} and {format_count(len(image.inputs), 'input')}"
        for entry, new in zip(node.inputs, image.inputs, strict=False):
            other = replaced.get(entry.node) if replaced else None
            source, index = (images[entry.node], entry.index) if other is None else (other.node, other.index)
            if source is not (copies.get(new.node, new.node) if copies else new.node) or index != new.index:
                what = f"an input is output {new.index} of {new.node.name!r}, not output {index} of {source.name!r}"
        if node.control_deps and [images[dep] for dep in node.control_deps] != list(image.control_deps):
            what = "control dependencies"
        if what:
            yield Difference(node, image, what)


def _describe_difference(a: Node, b: Node, exempt: Exempt) -> str:
    """Describe what differs between two nodes, their names and what feeds them aside; empty when nothing does."""
    if a is b:
        return ""
    what = _describe_content(a, b, exempt, attributes=not a.is_variable)
    if what:
        return what
    if len(a.inputs) != len(b.inputs) or len(a.control_deps) != len(b.control_deps):
        return f"{len(a.inputs)} and {format_count(len(b.inputs), 'input')}"
    for position, (x, y) in enumerate(zip(a.inputs, b.inputs, strict=True)):
        if x.index != y.index:
            return f"input {position} takes output {x.index} and output {y.index}"
    return ""


def _describe_content(a: Node, b: Node, exempt: Exempt, *, attributes: bool) -> str:
    """Describe the difference of operators, ``attributes`` and subgraphs."""
    if a.op != b.op:
        return f"operators {a.op or 'none (a variable)'} and {b.op or 'none (a variable)'}"
    if attributes and a.attrs is not b.attrs and a.attrs != b.attrs:
        allowed = exempt.get(a.op, ())
        keys = [key for key in {**a.attrs, **b.attrs} if a.attrs.get(key) != b.attrs.get(key) and key not in allowed]
        if keys:
            return "attributes " + ", ".join(f"{key} {a.attrs.get(key)!r} and {b.attrs.get(key)!r}" for key in keys)
    if a.details is not b.details and _details_key(a) != _details_key(b):
        return "domain, typed attributes or absent inputs"
    if len(a.subgraphs) != len(b.subgraphs) or not all(map(_is_same_subgraph, a.subgraphs, b.subgraphs)):
        return "subgraphs"
    return ""


def _details_key(node: Node) -> tuple[object, ...]:
    details = node.details
    return (details.domain, details.values, details.absent)


def _is_same_subgraph(a: Graph, b: Graph) -> bool:
    """Whether two subgraphs are the same, names included: no transform renames what is inside."""
    if a is b:
        return True
    if len(a.heads) != len(b.heads):
        return False
    pairing = compare_structure(a.heads, b.heads)
    return bool(pairing) and all(x.name == y.name for x, y in pairing.pairs)
