"""The path of the batch axis through a graph, and the operators that mix samples.

The batch axis is followed through transposes and reshapes. A reshape may fold other axes into axis
0 behind the samples: one sample's data stays contiguous, so equal parts of the axis are equal parts
of the batch.
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
    """An operator whose result for a sample depends on others, or on their number; ``why`` in words."""

    node: Node
    why: str
    only_training: bool = False


Placed = tuple[Sequence[Place | None], Coupling | None]
"""The batch axis in each output of an operator, and the coupling if it mixes samples."""


def follow_batch(
    nodes: Sequence[Node],
    inputs: Mapping[Node, int],
    *,
    rank: int | None = None,
    np_shape: bool = False,
) -> tuple[dict[tuple[Node, int], At], list[Coupling]]:
    """Return the batch axis of outputs that depend on the batch, and operators that mix samples.

    ``nodes`` are in topological order; ``inputs`` maps batched variables to the axis; ``rank`` is
    their rank, ``np_shape`` marks NumPy shapes. After mixing, the batch axis is assumed to be 0:
    one coupling is not reported again downstream.
    """
    places_at = {}
    for node, axis in inputs.items():
        declared = read_declared_shape(node.attrs.get("__shape__", ""), np_shape=np_shape)
        own_rank = rank
        if rank is None and declared is not None:
            own_rank = len(declared)
        places_at[node, 0] = At(axis, own_rank)

    def place(node: Node, inputs_at: Sequence[At | None]) -> Placed[At]:
        outcome = _check_axes(_outcome(node, inputs_at))
        if isinstance(outcome, str):
            return [At(0)] * (total_outputs(node) or 1), Coupling(node, outcome)
        if isinstance(outcome, Mixes):
            return outcome.places, Coupling(node, outcome.why, outcome.only_training)
        if isinstance(outcome, list):
            return outcome, None
        return [outcome] * (total_outputs(node) or 1), None

    return places_at, follow(nodes, places_at, place)


def follow(
    nodes: Sequence[Node],
    known: dict[tuple[Node, int], Place],
    find_places: Callable[[Node, Sequence[Place | None]], Placed[Place]],
) -> list[Coupling]:
    """Extend ``known`` by the places of dependent outputs; return the operators that mix samples.

    ``find_places`` maps a node and its inputs' places to its outputs' places and its coupling.
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
    """Attributes can contain any number, so some axes do not exist."""
    if isinstance(outcome, Mixes):
        return outcome
    places = outcome if isinstance(outcome, list) else [outcome]
    for at in places:
        if not isinstance(at, At):
            continue
        is_beyond = at.rank is not None and at.axis >= at.rank
        if at.axis < 0 or is_beyond:
            return "moves the samples to an axis that there is not"
    return outcome


def _outcome(node: Node, inputs: Sequence[At | None]) -> Outcome:
    signature = find_signature(node)
    if signature is None or not signature.inputs_known:
        return "it is not a registered operator, so whether it mixes samples is unknown"
    use = Use(node, signature, inputs)
    if signature.parse(node.attrs)[1]:
        return "has attributes that cannot be read"
    rule = find_batch_rule(node.op)
    return rule(use) if rule is not None else default_rule(use)
