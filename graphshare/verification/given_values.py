"""Find parameters of two models that are fed or drawn, and so get one value in both, and parameters without a value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Computation
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Node
from graphshare.verification.pairing import ModelPairs

_HELD = "is not an input of both: a model contains its value"


def pair_parameters(
    sides: tuple[Computation, Computation],
    pairs: ModelPairs,
    structure: Pairing | None,
    held: Sequence[Collection[str]],
    sets: Sequence[Mapping[str, Any]],
    params_seed: int | None,
) -> list[tuple[Node, Node]]:
    """Return the parameters that are fed in ``sets``, and those drawn because neither file contains them.

    Pairs have the same place in graphs of one ``structure``, or else the same name. ``held`` are the names in each
    file. Raises RefusedError with all parameters that lack a value, or have one and are fed.
    """
    fed, inputs = set().union(*sets), dict(pairs.inputs)

    @cache
    def find_defaults() -> set[str]:
        # Defaults need an open session, so they are looked up only if they matter.
        return {name for side in sides for name in side.list_defaults()}

    def takes_value(a: Node, b: Node) -> bool:
        values = {node.name for node in (a, b) if node.details.holds_value}
        if a.name in fed or b.name in fed:
            return not values or values <= find_defaults()
        return params_seed is not None and not values and a.name not in held[0] and b.name not in held[1]

    variables = structure.variables if structure else _pair_names(sides)
    chosen = [(a, b) for a, b in variables if a not in inputs and takes_value(a, b)]
    names = [[pair[side].name for pair in chosen] for side in (0, 1)]
    faults = [fault for side, own in zip(sides, names, strict=True) for fault in side.list_lacks(own, params_seed)]
    known = {node.name for node in chain(*chosen, *pairs.inputs)}
    others = {node.name for side in sides for node in side.graph.variables() if side.is_parameter(node)} - known
    faults += [Fault(f"`feeds` {name!r} {_HELD}") for name in sorted(fed & others)]
    if faults:
        raise RefusedError(faults)
    return chosen


def _pair_names(sides: tuple[Computation, Computation]) -> list[tuple[Node, Node]]:
    """Return pairs of variables with the same name in both models."""
    twins = {node.name: node for node in sides[1].graph.variables()}
    return [(node, twins[node.name]) for node in sides[0].graph.variables() if node.name in twins]
