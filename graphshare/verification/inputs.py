"""What ``verify`` is given, and the values that both branches run on: equal inputs, and each branch with its own parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.analysis.shapes import Inference
from graphshare.errors import Fault, RefusedError
from graphshare.execute.feeds import GivenShape
from graphshare.execute.prepare import Assignment, assign_values, describe_sizes, refuse_missing
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import ParameterPair, RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.text.names import did_you_mean

T = TypeVar("T")


class Settings(msgspec.Struct, frozen=True):
    """The keyword arguments of :func:`graphshare.verification.verify.verify`."""

    seed: int
    rounds: int
    atol: float
    rtol: float
    feeds: Mapping[str, Array]
    shapes: Mapping[str, GivenShape]
    params_seed: int | None
    allow_unsupported: bool
    train_step: bool
    expect_tied: bool


class Side(msgspec.Struct, frozen=True, eq=False):
    """A graph with its parameter file."""

    graph: Graph
    params: ParameterFile | None


class Sides:
    """The graphs, records and roles of the reference and of the branch that is compared with it, often in one file."""

    def __init__(self, left: Side, right: Side) -> None:
        self.graph = left.graph
        self.files = (left.params, right.params)
        first = RecordsByName(left.params) if left.params is not None else None
        second = first if left is right else RecordsByName(right.params) if right.params is not None else None
        self.records: tuple[RecordsByName | None, RecordsByName | None] = (first, second)
        self.roles = assign_roles(left.graph, held=None if first is None else frozenset(first.names()))

    def is_auxiliary(self, node: Node) -> bool:
        """Whether a variable of the reference is an auxiliary state."""
        return self.roles[node].kind is Kind.AUXILIARY


class RoundValues(msgspec.Struct, frozen=True, eq=False):
    """The values of both branches' variables, inputs equal, and the inference of the reference."""

    left: dict[Node, Array]
    right: dict[Node, Array]
    inference: Inference


def assign_round(
    pair: HeadPairs,
    inputs: Sequence[tuple[Node, Node]],
    parameters: Sequence[ParameterPair],
    sides: Sides,
    settings: Settings,
    number: int,
    notes: dict[str, None],
) -> RoundValues:
    """Return the values of round ``number``: equal inputs for both branches, and each with its own parameters."""
    left, right = _load_parameters(parameters, sides, settings.feeds, may_miss=settings.params_seed is not None)
    fed = {a: array for a, b in inputs if (array := _by_name(settings.feeds, a, b)) is not None}
    shapes = {a: shape for a, b in inputs if a not in fed and (shape := _by_name(settings.shapes, a, b)) is not None}
    part = Graph(tuple(post_order(entry.node for entry in pair.left)), pair.left, sides.graph.attrs, sides.graph.source)
    assigned = assign_values(
        part,
        sides.roles,
        left,
        feeds=fed,
        shapes=shapes,
        seed=settings.seed + number,
        params_seed=settings.params_seed,
        params=sides.files[0],
    )
    add_notes(notes, assigned, settings.seed)
    values = assigned.values
    copies = {b: values[a] for a, b in inputs} | {p.right: values[p.left] for p in parameters if p.right not in right}
    return RoundValues(values, {**right, **copies}, assigned.inference)


def add_notes(notes: dict[str, None], assigned: Assignment, seed: int) -> None:
    """Add to ``notes``, each once, what was chosen and made up for inputs."""
    notes.update(dict.fromkeys(describe_sizes(assigned)))
    for nodes, source in ((assigned.inputs, f"seeded ({seed})"), (assigned.zeros, "zeros")):
        for node in nodes:
            value = assigned.values[node]
            notes[f"{node.name!r} is {source}, {value.shape} {value.dtype}"] = None


def check_names(graphs: Sequence[Graph], settings: Settings) -> None:
    """Refuse feeds and shapes with a name that belongs to no variable. Raises RefusedError with all such names."""
    known = {node.name for graph in graphs for node in graph.variables()}
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, known))
        for option, given in (("--feed", settings.feeds), ("--shape", settings.shapes))
        for name in given
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)


def _by_name(given: Mapping[str, T], a: Node, b: Node) -> T | None:
    return given.get(a.name, given.get(b.name))


def _load_parameters(
    pairs: Sequence[ParameterPair], sides: Sides, feeds: Mapping[str, Array], *, may_miss: bool
) -> tuple[dict[Node, Array], dict[Node, Array]]:
    """Return the parameters of both branches, fed or from their files.

    Where they may be missing, a side that has no value takes the other's.

    Raises:
        RefusedError: parameters that no file holds, unless they may be missing; all are listed.
    """
    values: tuple[dict[Node, Array], dict[Node, Array]] = ({}, {})
    for loaded, records, nodes in zip(values, sides.records, ([p.left for p in pairs], [p.right for p in pairs]), strict=True):
        if records is not None:
            with ArrayReader(records.file) as reader:
                for node, pair in zip(nodes, pairs, strict=True):
                    record = records.of(node, auxiliary=sides.is_auxiliary(pair.left))
                    if record is not None:
                        loaded[node] = reader.read(record)
    left, right = values
    for pair in pairs:
        for loaded, node in ((left, pair.left), (right, pair.right)):
            array = _by_name(feeds, node, pair.left)
            if array is not None:
                loaded[node] = array
    if may_miss:
        left.update({p.left: right[p.right] for p in pairs if p.left not in left and p.right in right})
        return values
    roles: dict[Node, Role] = {node: sides.roles[p.left] for p in pairs for node in (p.right, p.left)}
    refuse_missing([p.left for p in pairs if p.left not in left], roles, 0, None, sides.files[0])
    refuse_missing([p.right for p in pairs if p.right not in right], roles, 0, None, sides.files[1])
    return values
