"""Where the samples of a batch are while they pass through a graph, and which operators mix them.

The batch is followed from the inputs: on which axis of each output its samples lie, as transposes
and reshapes move them. A reshape may fold other axes into axis 0 behind the samples; the data of
one sample then still lies together, so that equal parts of the axis are equal parts of the batch.
An operator that mixes samples, or may mix them, is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from graphshare.ir.graph import Node
from graphshare.ops.attributes import read_declared_shape
from graphshare.ops.batch_axis import At, Mixes, Outcome, Use, default_rule
from graphshare.ops.registry import find_batch_rule, find_signature, total_outputs

Place = TypeVar("Place")


class Coupling(msgspec.Struct, frozen=True, eq=False):
    """An operator whose result for one sample depends on others, or on how many there are; ``why`` in words."""

    node: Node
    why: str
    only_training: bool = False


Placed = tuple[Sequence[Place | None], Coupling | None]
"""The place of the samples in each output of an operator, and the coupling where it mixes them."""


def follow_batch(
    nodes: Sequence[Node],
    inputs: Mapping[Node, int],
    *,
    rank: int | None = None,
    np_shape: bool = False,
) -> tuple[dict[tuple[Node, int], At], list[Coupling]]:
    """Return the batch axis of every output of ``nodes`` that depends on the batch, and every
    operator that mixes samples.

    ``nodes`` stand in topological order; ``inputs`` are the variables that hold a batch, with its
    axis; ``rank`` is theirs, where it is known; ``np_shape`` says that the graph has NumPy shapes.
    After an operator that mixes samples the batch axis is assumed to be 0, so that one coupling is
    not reported for everything that follows.
    """
    declared = {
        node: read_declared_shape(node.attrs.get("__shape__", ""), np_shape=np_shape)
        for node in inputs
    }
    ranks = {
        node: len(shape) if rank is None and shape is not None else rank
        for node, shape in declared.items()
    }
    places_at = {(node, 0): At(axis, ranks[node]) for node, axis in inputs.items()}

    def place(node: Node, inputs_at: Sequence[At | None]) -> Placed[At]:
        outcome = _check_axes(_outcome(node, inputs_at))
        if isinstance(outcome, str):
            return [At(0)] * (total_outputs(node) or 1), Coupling(node, outcome)
        coupling = None
        if isinstance(outcome, Mixes):
            coupling = Coupling(node, outcome.why, outcome.only_training)
            outcome = outcome.places
        return outcome if isinstance(outcome, list) else [outcome] * (
            total_outputs(node) or 1
        ), coupling

    return places_at, follow(nodes, places_at, place)


def follow(
    nodes: Sequence[Node],
    known: dict[tuple[Node, int], Place],
    find_places: Callable[[Node, Sequence[Place | None]], Placed[Place]],
) -> list[Coupling]:
    """Follow the places of inputs in ``known`` to all outputs that depend on them; return the
    operators that mix samples.

    The places of outputs are added to ``known``. ``find_places`` takes a node and the places of its
    inputs and returns the places of its outputs, and the coupling where it mixes samples.
    """
    couplings = []
    for node in nodes:
        inputs_at = [known.get((entry.node, entry.index)) for entry in node.inputs]
        if node.is_variable or not any(at is not None for at in inputs_at):
            continue
        places, coupling = find_places(node, inputs_at)
        if coupling is not None:
            couplings.append(coupling)
        known.update({(node, index): at for index, at in enumerate(places) if at is not None})
    return couplings


def _check_axes(outcome: Outcome) -> Outcome:
    """Return the outcome, unless it puts the samples where no axis is: attributes can say anything."""
    if isinstance(outcome, Mixes):
        return outcome
    places = outcome if isinstance(outcome, list) else [outcome]
    lost = (
        isinstance(at, At) and (at.axis < 0 or (at.rank is not None and at.axis >= at.rank))
        for at in places
    )
    return "moves the samples to an axis that there is not" if any(lost) else outcome


def _outcome(node: Node, inputs: Sequence[At | None]) -> Outcome:
    signature = find_signature(node)
    if signature is None or not signature.inputs_known:
        return "it is not a registered operator, so whether it mixes samples is unknown"
    use = Use(node, signature, inputs)
    if signature.parse(node.attrs)[1]:
        return "has attributes that cannot be read"
    rule = find_batch_rule(node.op)
    return rule(use) if rule is not None else default_rule(use)
