"""The values that ``verify`` runs both branches on: each with its own parameters, and equal inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from graphshare.analysis.branches import HeadPairs
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.analysis.shapes import Inference, infer
from graphshare.analysis.sizes import settle_sizes
from graphshare.errors import Fault, RefusedError
from graphshare.execute.values import check_shapes, fill_inputs, seeded_parameter, unknown_shapes
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import ParameterPair, RecordsByName
from graphshare.ir.graph import Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.verification.options import Options, Side


class Sides:
    """What both sides know of their variables."""

    def __init__(self, left: Side, right: Side) -> None:
        self.same = left is right
        self.graphs = (left.graph, right.graph)
        self.records: tuple[RecordsByName | None, RecordsByName | None]
        first = RecordsByName(left.params) if left.params is not None else None
        second = first if self.same else RecordsByName(right.params) if right.params is not None else None
        self.records = (first, second)
        held = [None if r is None else frozenset(r.names()) for r in self.records]
        roles = assign_roles(left.graph, held=held[0])
        self.roles: tuple[dict[Node, Role], dict[Node, Role]] = (
            roles,
            roles if self.same else assign_roles(right.graph, held=held[1]),
        )


class RoundValues(msgspec.Struct, frozen=True, eq=False):
    """The values of both branches' variables, inputs equal, and what follows from them for the left one."""

    left: dict[Node, Array]
    right: dict[Node, Array]
    inference: Inference


def values_of_round(
    pair: HeadPairs,
    inputs: Sequence[tuple[Node, Node]],
    parameters: Sequence[ParameterPair],
    sides: Sides,
    options: Options,
    number: int,
    notes: dict[str, None],
) -> RoundValues:
    """The values of one round: equal inputs for both branches, each with its own parameters."""
    nodes = post_order(entry.node for entry in pair.left)
    left, right = _parameter_values(parameters, sides, may_miss=options.params_seed is not None)
    fed = {a: array for a, b in inputs if (array := _by_name(options.feeds, a, b)) is not None}
    shapes: dict[Node, tuple[int | None, ...]] = {node: array.shape for node, array in {**left, **fed}.items()}
    shapes.update({a: shape for a, b in inputs if a not in fed and (shape := _by_name(options.shapes, a, b)) is not None})
    types = {node: str(array.dtype) for node, array in {**left, **fed}.items()}
    inference: Inference = infer(sides.graphs[0], shapes, types, nodes=nodes)
    settled = settle_sizes(sides.graphs[0], shapes, types, nodes, inference)
    if settled is not None:
        inference, chosen = settled
        for node in chosen:
            notes[f"{node.name!r} could have other sizes; --shape {node.name}=... sets them"] = None
    if options.params_seed is not None:
        drawn = _drawn([pair for pair in parameters if pair.left not in left], inference, options.params_seed)
        left.update((a, value) for a, _, value in drawn)
        right.update((b, value) for _, b, value in drawn)
    check_shapes(fed, inference)
    values = fill_inputs(nodes, {**left, **fed}, inference, sides.roles[0], seed=options.seed + number)
    for a, _ in inputs:
        role = sides.roles[0][a]
        if a not in fed:
            zeros = role.is_label or role.is_state
            notes[f"{a.name!r} is {'zeros' if zeros else f'seeded ({options.seed})'}, {values[a].shape} {values[a].dtype}"] = (
                None
            )
    return RoundValues(values, {**right, **{b: values[a] for a, b in inputs}}, inference)


T = TypeVar("T")


def _by_name(given: Mapping[str, T], a: Node, b: Node) -> T | None:
    return given.get(a.name, given.get(b.name))


def _drawn(pairs: Sequence[ParameterPair], inference: Inference, seed: int) -> list[tuple[Node, Node, Array]]:
    """Seeded values for parameters that no file holds; twins get the same.

    Raises:
        RefusedError: a shape is not known; all are listed.
    """
    faults = unknown_shapes(inference, [pair.left for pair in pairs])
    if faults:
        raise RefusedError(faults)
    found = []
    for pair in pairs:
        shape = tuple(d or 0 for d in inference.shapes[pair.left][0] or ())
        dtype = inference.types[pair.left][0] or "float32"
        found.append((pair.left, pair.right, seeded_parameter(pair.left, shape, dtype, seed=seed)))
    return found


def _parameter_values(
    found: Sequence[ParameterPair], sides: Sides, *, may_miss: bool
) -> tuple[dict[Node, Array], dict[Node, Array]]:
    """The parameters of both branches from their files.

    Raises:
        RefusedError: parameters that no file holds; all are listed.
    """
    values: tuple[dict[Node, Array], dict[Node, Array]] = ({}, {})
    missing: dict[str, None] = {}
    for side, nodes in enumerate(([p.left for p in found], [p.right for p in found])):
        records = sides.records[side]
        if records is None:
            missing.update(dict.fromkeys(node.name for node in nodes))
            continue
        with ArrayReader(records.file) as reader:
            for node, pair in zip(nodes, found, strict=True):
                record = records.of(node, auxiliary=sides.roles[0][pair.left].kind is Kind.AUXILIARY)
                if record is None:
                    missing[node.name] = None
                else:
                    values[side][node] = reader.read(record)
    if missing and not may_miss:
        hint = "give the parameter file with --params, or draw them with --random-params 0"
        raise RefusedError([Fault(f"there is no value for parameter {name!r}", hint=hint) for name in missing])
    return values
