"""Which values belong together: heads and variables of branches or of two graphs, and names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_by_prefix
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.checkpoint.map_file import NodeFinder, read_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.execute.prepare.prepare import unique_names
from graphshare.formats.model_format import find_statement_changes
from graphshare.formats.params.lookup import RecordsByName, compare_parameters
from graphshare.ir.compare import Pairing, compare_structure
from graphshare.ir.graph import Entry, Graph, Node, Rewrite
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.text.format import format_count, format_names

T = TypeVar("T")


def pair_branches(graph: Graph, prefixes: Sequence[str], map_file: str | None) -> list[HeadPairs]:
    """Return the branches of a grouped graph: by ``map_file``, by ``prefixes``, or by the names of the outputs.

    Raises:
        InputError: the map cannot be read or is of another graph.
        RefusedError: heads have no counterpart, or the branches cannot be told apart.
    """
    if map_file:
        return _pair_by_map(graph, map_file)
    return pair_by_prefix(graph, prefixes or find_prefixes(graph))


def pair_by_rewrite(rewrite: Rewrite) -> list[HeadPairs]:
    """Pair the heads of a rewrite's branches: those that came from one source node; the first branch is the reference.

    Raises:
        RefusedError: there is one branch only.
        InputError: a branch has no head that came from a node of the first.
    """
    first, *others = rewrite.branches
    if not others:
        raise RefusedError(Fault("there is only one branch", hint="`graphshare duplicate` adds one"))
    reference = {image: node for node, image in first.images.items()}
    return [
        _pair_images(rewrite.graph, reference, branch.images, first.label, branch.label, "the rewrite") for branch in others
    ]


def pair_nodes(pair: HeadPairs, left: Checkpoint, right: Checkpoint) -> Pairing:
    """Pair the nodes of two branches; of two files also compare what else they state about the values that are computed."""
    pairing = compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)
    if left is not right:
        changes = find_statement_changes(left.graph, right.graph, pairing.pairs, computed=True)
        pairing.statements += [change.describe() for change in changes]
    return pairing


def find_exchanged(pairs: Sequence[tuple[str, str]], noun: str) -> Iterator[str]:
    """Yield, in words, which of two files' inputs or outputs have each other's names: who feeds by name gets other values."""
    names = {old for old, _ in pairs}
    yield from (f"{noun} {old} is {noun} {new} of the other" for old, new in pairs if old != new and new in names)


def _pair_by_map(graph: Graph, path: str) -> list[HeadPairs]:
    """Pair heads whose nodes came from one source node; the first branch of the map is the reference."""
    images: dict[str, dict[tuple[int, int], Node]] = {}
    finder = NodeFinder(graph)
    for entry in read_map(path).entries:
        if entry.target is None or entry.target.id is None or entry.source.id is None:
            continue
        node = finder.find(entry.target)
        if node is None and not 0 <= entry.target.id < len(graph.nodes):
            raise InputError(Fault(f"refers to node {entry.target.id}, which the graph does not have", where=path))
        images.setdefault(entry.branch, {})[entry.graph, entry.source.id] = node or graph.nodes[entry.target.id]
    labels = list(images)
    if len(labels) < 2:
        raise InputError(
            Fault("has one branch only", where=path, hint="give the map that `graphshare duplicate --map-out` wrote")
        )
    reference = {node: source for source, node in images[labels[0]].items()}
    return [_pair_images(graph, reference, images[label], labels[0], label, path) for label in labels[1:]]


Origin = TypeVar("Origin")


def _pair_images(
    graph: Graph,
    reference: Mapping[Node, Origin],
    images: Mapping[Origin, Node],
    name: str,
    label: str,
    path: str,
) -> HeadPairs:
    origins = {node: source for source, node in images.items()}
    back = {source: node for node, source in reference.items()}
    heads = [entry for entry in graph.heads if entry.node in origins and origins[entry.node] in back]
    twins = [Entry(back[origins[entry.node]], entry.index, entry.version) for entry in heads]
    # Heads of an output that is listed several times are one pair.
    pairs = {(entry.node, entry.index): (twin, entry) for twin, entry in zip(twins, heads, strict=True)}.values()
    if all(twin.node is entry.node for twin, entry in pairs):
        raise InputError(Fault(f"pairs no head of branch {label!r} with one of {name!r}", where=path))
    return HeadPairs(name, label, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def pair_names(left: Sequence[str], right: Sequence[str], noun: str) -> dict[str, str]:
    """Return the names of ``right`` for those of ``left``: equal ones, or in their order where the names differ.

    Raises:
        RefusedError: there are not as many on both sides; ``noun`` is what they name.
    """
    if len(left) != len(right):
        counts = f"{format_count(len(left), noun)} ({format_names(left, 4)}) and {len(right)} ({format_names(right, 4)})"
        raise RefusedError(Fault(f"the models have {counts}", hint="`graphshare extract` cuts out what both have"))
    return dict(zip(left, left if set(left) == set(right) else right, strict=True))


def pair_heads(left: Checkpoint, right: Checkpoint) -> tuple[dict[str, str], list[Entry]]:
    """Return the names of the heads on the right for those on the left, and the right heads in the order of the left ones."""
    # A model may list an output twice.
    names, others = (unique_names([output_name(entry) for entry in side.graph.heads]) for side in (left, right))
    outputs = pair_names(names, others, "output")
    return outputs, order_heads(right.graph, list(outputs.values()))


def order_heads(graph: Graph, names: Sequence[str]) -> list[Entry]:
    """Return the heads of a graph in the order of their ``names``; equal names have the endings of ``unique_names``."""
    heads = dict(zip(unique_names([output_name(entry) for entry in graph.heads]), graph.heads, strict=True))
    return [heads[name] for name in names]


class SidePair:
    """The graphs, records and roles of the reference and of the branch that is compared with it, often in one file.

    ``as_input`` are the names of variables that are inputs, whatever they look like.
    """

    def __init__(self, left: Checkpoint, right: Checkpoint, as_input: Collection[str] = ()) -> None:
        self.members = (left, right)
        self.graphs = (left.graph, right.graph)
        self.files = (left.parameter_file, right.parameter_file)
        first = RecordsByName(left.parameter_file) if left.parameter_file is not None else None
        second = first if left is right else RecordsByName(right.parameter_file) if right.parameter_file is not None else None
        self.records: tuple[RecordsByName | None, RecordsByName | None] = (first, second)
        self.roles: dict[Node, Role] = {}
        for graph, records in zip(self.graphs, self.records, strict=True):
            held = None if records is None else frozenset(records.names())
            self.roles.update(assign_roles(graph, held=held, as_input=as_input))

    def is_auxiliary(self, node: Node) -> bool:
        """Whether a variable is an auxiliary state."""
        return self.roles[node].kind is Kind.AUXILIARY

    def is_parameter(self, a: Node, b: Node) -> bool:
        """Whether a variable or its twin is a parameter."""
        return self.roles[a].is_parameter or self.roles[b].is_parameter


def find_changes(left: Checkpoint, right: Checkpoint, *, across_dtypes: bool) -> tuple[Pairing, tuple[str, ...]]:
    """Return the pairs of nodes of two models, whose outputs are paired by name or in their order, and what differs, in words.

    With ``across_dtypes`` weights of unlike dtypes are not a difference.
    """
    _, heads = pair_heads(left, right)
    pairing = pair_nodes(HeadPairs("", "the other model", tuple(left.graph.heads), tuple(heads)), left, right)
    sides = SidePair(left, right)
    parameters = [(a, b) for a, b in pairing.variables if sides.is_parameter(a, b)]
    compared = compare_parameters(parameters, sides.is_auxiliary, *sides.records)
    # A weight in another dtype has other bytes by intent; values decide there.
    different = [p for p in compared if p.how == "different" and not (across_dtypes and p.detail.startswith("types "))]
    return pairing, (*pairing.describe(), *(f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in different))
