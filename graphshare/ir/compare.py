"""Compare nodes by content: two branches in lock-step from their heads, or nodes with their images.

Edges decide, not names, in subgraphs too. Unknown operators are accepted. ``exempt`` maps operators
to attributes that may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.errors import BUG, Fault, SelfCheckError
from graphshare.ir.graph import EMPTY, Entry, Kept, Node, NodeDetails, Rewrite
from graphshare.ir.walk import Body, count_inputs, list_bodies, own_inputs, post_order
from graphshare.text.format import format_count

Exempt = Mapping[str, Collection[str]]
EntryPairs = list[tuple[Entry, Entry]]


class Change(msgspec.Struct, frozen=True):
    """One changed value, with both texts; None where one side has none."""

    what: str
    key: str
    old: str | None
    new: str | None

    def describe(self) -> str:
        return (
            f"{self.what} {self.key}".rstrip() + f" {self.old or 'none'} and {self.new or 'none'}"
        )


def _compare_fact(what: str, old: str, new: str) -> Iterator[Change]:
    if old != new:
        yield Change(what, "", old or None, new or None)


class NodeDifference(msgspec.Struct, frozen=True, eq=False):
    """A pair of nodes that differ, and how, in words."""

    left: Node
    right: Node
    what: str

    def describe(self) -> str:
        return f"{self.left.shown_name!r} and {self.right.shown_name!r}: {self.what}"


class Pairing(msgspec.Struct, eq=False):
    """``pairs`` of nodes in topological order of the left branch; a shared node is its own partner.

    ``statements`` are differences outside of the nodes.
    """

    pairs: list[tuple[Node, Node]]
    differences: list[NodeDifference]
    statements: list[str] = []

    def __bool__(self) -> bool:
        return not self.differences and not self.statements

    @property
    def variables(self) -> list[tuple[Node, Node]]:
        return [(a, b) for a, b in self.pairs if a.is_variable and b.is_variable]

    def describe(self) -> tuple[str, ...]:
        return (*[difference.describe() for difference in self.differences], *self.statements)


def compare_structure(
    left: Sequence[Entry], right: Sequence[Entry], *, exempt: Exempt = EMPTY
) -> Pairing:
    """Pair the nodes behind the heads ``left`` and ``right`` in lock-step.

    Untyped attributes of variables are not compared.
    """
    partner: dict[Node, Node] = {}
    pairing = Pairing([], [])
    back: dict[Node, Node] = {}
    pending: list[tuple[Node, Node]] = []
    for head, twin in zip(left, right, strict=True):
        if head.index != twin.index:
            what = f"heads are output {head.index} and output {twin.index}"
            pairing.differences.append(NodeDifference(head.node, twin.node, what))
        pending.append((head.node, twin.node))
    while pending:
        a, b = pending.pop()
        if partner.get(a) is b:
            continue
        if a in partner or back.get(b, a) is not a:
            what = "one branch uses a single node where the other uses two"
            pairing.differences.append(NodeDifference(a, b, what))
            continue
        partner[a], back[b] = b, a
        inputs: EntryPairs = []
        # A shared node's inputs must still be paired with themselves.
        what = (
            a is not b and describe_content(a, b, exempt, attributes=not a.is_variable)
        ) or _pair_inputs(a, b, inputs)
        if what:
            pairing.differences.append(NodeDifference(a, b, what))
            continue
        pending.extend([(x.node, y.node) for x, y in inputs])
        pending.extend(zip(a.control_deps, b.control_deps, strict=True))
    # Topological order puts the first difference first.
    pairing.pairs = [
        (node, partner[node])
        for node in post_order(entry.node for entry in left)
        if node in partner
    ]
    return pairing


def _may_have_changed(node: Node, image: Node) -> bool:
    # Unchanged nodes keep their objects: identity is tested first.
    if (
        image.attrs is not node.attrs
        or image.op != node.op
        or image.subgraphs is not node.subgraphs
    ):
        return True
    details, new_details = node.details, image.details
    if new_details is details:
        return False
    return (
        bool(node.subgraphs)
        or new_details.values is not details.values
        or _may_differ(details, new_details)
    )


def compare_images(
    images: Mapping[Node, Node],
    *,
    exempt: Exempt = EMPTY,
    tied: Collection[Node] = (),
    copies: Mapping[Node, Node] = EMPTY,
    replaced: Mapping[Node, Entry] = EMPTY,
) -> Iterator[NodeDifference]:
    """Yield each node whose image differs in more than its name, with images as its inputs.

    ``tied`` variables were replaced by a kept one, whose attributes may differ. ``copies`` maps
    copies to their images, ``replaced`` source variables to the new entries read in their place.
    """
    sources = (
        {**images, **{variable: entry.node for variable, entry in replaced.items()}}
        if replaced
        else images
    )
    outputs = {variable: entry.index for variable, entry in replaced.items()}
    for node, image in images.items():
        # An unchanged node is still wrong if an input was replaced by a different node.
        if image is node and all(sources[e.node] is e.node for e in node.inputs):
            continue
        what = _describe_inputs(node, image, sources, outputs, copies)
        if not what and _may_have_changed(node, image) and not (node in tied and image.is_variable):
            what = describe_content(node, image, exempt) or _pair_bodies(node, image, [])
        if what:
            yield NodeDifference(node, image, what)


def _describe_inputs(
    node: Node,
    image: Node,
    sources: Mapping[Node, Node],
    outputs: Mapping[Node, int],
    copies: Mapping[Node, Node],
) -> str:
    if len(image.inputs) != len(node.inputs):
        return f"{len(node.inputs)} and {format_count(len(image.inputs), 'input')}"
    if node.control_deps and [sources[dep] for dep in node.control_deps] != list(
        image.control_deps
    ):
        return "control dependencies"
    what = ""
    for position, new in enumerate(image.inputs):  # zip with `strict` takes three times as long
        entry = node.inputs[position]
        source, index = sources[entry.node], outputs.get(entry.node, entry.index)
        if (
            source is not (copies.get(new.node, new.node) if copies else new.node)
            or index != new.index
        ):
            what = (
                f"an input is output {new.index} of {new.node.shown_name!r}, not output {index} "
                f"of {source.shown_name!r}"
            )
    return what


def find_content_changes(
    a: Node, b: Node, exempt: Exempt = EMPTY, *, attributes: bool = True
) -> Iterator[Change]:
    """Yield the differences between two nodes, except names, inputs and subgraphs.

    A variable's operator is None. Without ``attributes`` only typed ones are compared.
    """
    yield from _compare_fact("operator", a.op, b.op)
    if (attributes and a.attrs is not b.attrs) or a.details is not b.details:
        olds, news = _list_values(a, attributes), _list_values(b, attributes)
        if olds is not news and olds != news:
            allowed = exempt.get(a.op, ())
            for key in {**olds, **news}:
                if key not in allowed and olds.get(key) != news.get(key):
                    yield _make_attribute_change(key, olds.get(key), news.get(key))
    if a.details is not b.details and _may_differ(a.details, b.details):
        for (what, old), (_, new) in zip(_list_typed_facts(a), _list_typed_facts(b), strict=True):
            yield from _compare_fact(what, old, new)


def describe_content(a: Node, b: Node, exempt: Exempt = EMPTY, *, attributes: bool = True) -> str:
    """Return the result of :func:`find_content_changes` in words; empty if nothing differs."""
    changes = list(find_content_changes(a, b, exempt, attributes=attributes))
    if not changes:
        return ""
    if changes[0].what == "operator":
        return f"operators {changes[0].old or 'none (a variable)'} and {changes[0].new or 'none (a variable)'}"
    values = [
        f"{change.key} {change.old!r} and {change.new!r}"
        for change in changes
        if change.what == "attribute"
    ]
    others = [change.describe() for change in changes if change.what != "attribute"]
    return ", ".join([*([f"attributes {', '.join(values)}"] if values else []), *others])


def make_content_key(node: Node) -> Hashable:
    """Return a key of all that :func:`find_content_changes` compares; it reads large values.

    Variables' untyped attributes do not count.
    """
    values = _list_values(node, attributes=not node.is_variable)
    return (
        node.op,
        tuple(sorted(values.items())),
        tuple([fact for _, fact in _list_typed_facts(node)]),
    )


def _list_values(node: Node, attributes: bool) -> Mapping[str, Any]:
    return node.details.values or (node.attrs if attributes else EMPTY)


def _make_attribute_change(key: str, old: object, new: object) -> Change:
    texts = [None if value is None else str(value) for value in (old, new)]
    return Change(
        "attribute",
        key,
        texts[0],
        f"{texts[1]} (another value or type)" if texts[0] == texts[1] else texts[1],
    )


def _may_differ(a: NodeDetails, b: NodeDetails) -> bool:
    """A cheap test that seldom holds."""
    return a.domain != b.domain or a.absent != b.absent or len(a.outputs) != len(b.outputs)


def _list_typed_facts(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the domain, absent inputs before the last input, and outputs up to the last named
    one.
    """
    details = node.details
    absent, count = details.absent, count_inputs(node) + len(details.absent)
    # ONNX files may omit absent inputs and unused outputs at the end.
    while absent and absent[-1] == count - 1:
        absent, count = absent[:-1], count - 1
    outputs = len(details.outputs) if node.op else 0
    while outputs and not details.outputs[outputs - 1]:
        outputs -= 1
    return (
        ("domain", details.domain),
        ("absent inputs", ", ".join(map(str, absent))),
        ("outputs", str(outputs or "")),
    )


def _pair_inputs(a: Node, b: Node, inputs: EntryPairs) -> str:
    """Pair two nodes' inputs, captured ones by use in subgraphs; return a difference in words."""
    captured: EntryPairs = []
    what = _pair_bodies(a, b, captured)
    if what:
        return what
    left, right = own_inputs(a), own_inputs(b)
    if len(left) != len(right) or len(a.control_deps) != len(b.control_deps):
        return f"{len(left)} and {format_count(len(right), 'input')}"
    inputs.extend(zip(left, right, strict=True))
    inputs.extend(captured)
    for position, (x, y) in enumerate(inputs):
        if x.index != y.index:
            return f"input {position} takes output {x.index} and output {y.index}"
    return ""


def _pair_bodies(a: Node, b: Node, captured: EntryPairs) -> str:
    """Pair what two nodes' subgraphs capture; return a difference, except names, in words."""
    if not a.subgraphs and not b.subgraphs:
        return ""
    lefts, rights = list_bodies(a), list_bodies(b)
    if lefts.keys() != rights.keys():
        return f"subgraphs {', '.join(lefts) or 'none'} and {', '.join(rights) or 'none'}"
    for key, body in lefts.items():
        what = _compare_bodies(body, rights[key], captured)
        if what:
            return f"subgraph {key}: {what}"
    return ""


def _compare_bodies(left: Body, right: Body, captured: EntryPairs) -> str:
    if left.graph is right.graph:
        captured.extend(zip(left.captured.values(), right.captured.values(), strict=True))
        return ""
    x, y = left.graph, right.graph
    if len(x.heads) != len(y.heads):
        return f"{len(x.heads)} and {format_count(len(y.heads), 'output')}"
    pairing = compare_structure(x.heads, y.heads)  # the file's nesting bounds this recursion
    if not pairing:
        return pairing.differences[0].describe()
    for p, q in pairing.pairs:
        entries = left.captured.get(p), right.captured.get(q)
        if entries[0] is not None and entries[1] is not None:
            captured.append((entries[0], entries[1]))
        elif entries[0] is not entries[1]:
            return f"{p.name!r} and {q.name!r}: only one is a value of the graph around it"
    return ""


_REPORTED = 20


def check_isomorphic(
    rewrite: Rewrite,
    *,
    exempt: Exempt = EMPTY,
    tied: Collection[Node] = (),
    copies: Mapping[Node, Node] = EMPTY,
    replaced: Mapping[tuple[int, Node], Entry] = EMPTY,
) -> None:
    """Check that images differ from their source nodes only in name, and that their inputs are
    images.

    Arguments are as for :func:`compare_images`; keys of ``replaced`` include the branch number.

    Raises:
        SelfCheckError: a branch is not isomorphic to its source.
    """
    faults: list[Fault] = []
    for number, branch in enumerate(rewrite.branches):
        if isinstance(branch.images, Kept):  # every node is its own image
            continue
        own = {node: entry for (i, node), entry in replaced.items() if i == number}
        for wrong in compare_images(
            branch.images, exempt=exempt, tied=tied, copies=copies, replaced=own
        ):
            message = f"is not what node {wrong.left.shown_name!r} became: {wrong.what}"
            faults.append(Fault(message, node=wrong.right.name, hint=BUG))
    if faults:
        raise SelfCheckError(faults[:_REPORTED])
