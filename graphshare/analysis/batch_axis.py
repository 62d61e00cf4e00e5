"""Where the samples of a batch are while they pass through a graph, and which operators mix them.

The batch is followed from the inputs: on which axis of each output its samples lie, as transposes and reshapes move them. A
reshape may fold other axes into axis 0 behind the samples; what belongs to one sample then still lies together, so that equal
parts of the axis are equal parts of the batch. An operator that mixes samples, or that nobody can tell of, is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from graphshare.ir.graph import VARIABLE, Node
from graphshare.ops.registry import canonical, lookup
from graphshare.ops.signature import Signature

UNKNOWN = "nothing is known of what it does with a batch"


class At(NamedTuple):
    """The samples lie on ``axis``; ``rank`` is the number of axes, where it is known, else ``more`` counts those that were
    added to an input's."""

    axis: int
    rank: int | None = None
    more: int = 0

    def is_(self, axis: int) -> bool:
        """Whether an attribute's ``axis`` is, or may be, the samples'. Without a rank, -1 is taken for another than axis 0: a
        batch of single numbers is rare."""
        if axis >= 0:
            return axis == self.axis
        if self.rank is None:
            return axis < -1 or self.axis > 0
        return axis + self.rank == self.axis

    def moved(self, axis: int, ranks: int = 0) -> At:
        """Samples on ``axis`` of an array with ``ranks`` more axes."""
        return At(axis, None, self.more + ranks) if self.rank is None else At(axis, self.rank + ranks)


class Coupling(msgspec.Struct, frozen=True, eq=False):
    """An operator whose result for one sample depends on others, or on how many there are; ``why`` in words."""

    node: Node
    why: str


class Use:
    """One operator with where the samples are in its inputs; ``first`` is the first input that has any."""

    def __init__(self, node: Node, signature: Signature, inputs: Sequence[At | None]) -> None:
        self.node = node
        self.signature = signature
        self.inputs = inputs
        self.first: At = next(at for at in inputs if at is not None)

    def value(self, key: str) -> Any:
        """The typed value of an attribute."""
        return self.signature.value(self.signature.current_attributes(self.node.attrs), key)

    def input(self, slot: int) -> At | None:
        return self.inputs[slot] if slot < len(self.inputs) else None

    @property
    def axes_differ(self) -> bool:
        """Whether two inputs have the samples on different axes."""
        return len({at.axis for at in self.inputs if at is not None}) > 1

    def formals_with_samples(self) -> list[str]:
        """The formal inputs in which there are samples."""
        names = self.signature.formal_inputs(self.node.attrs, subgraphs=self.node.subgraphs)
        return [name for name, at in zip(names, self.inputs, strict=False) if at is not None]


class Mixes(NamedTuple):
    """Why an operator mixes samples, and where its outputs are taken to have them all the same."""

    why: str
    places: list[At | None]


Outcome = At | None | str | list[At | None] | Mixes
"""Where an operator's outputs have the samples (one answer for all, or a list); a text says why it mixes them."""
Rule = Callable[[Use], Outcome]


def follow_batch(nodes: Sequence[Node], inputs: Mapping[Node, int]) -> tuple[dict[tuple[Node, int], At], list[Coupling]]:
    """Where the samples are in every output of ``nodes`` that depends on the batch, and every operator that mixes samples.

    ``nodes`` stand in topological order; ``inputs`` are the variables that bear a batch, with its axis. Behind an operator that
    mixes samples they are taken to lie on axis 0, so that one coupling does not accuse all that follows.
    """
    found: dict[tuple[Node, int], At] = {(node, 0): At(axis, _declared_rank(node)) for node, axis in inputs.items()}
    couplings = []
    for node in nodes:
        if node.op == VARIABLE:
            continue
        inputs_at = [found.get((entry.node, entry.index)) for entry in node.inputs]
        if not any(at is not None for at in inputs_at):
            continue
        outcome = _placed(_outcome(node, inputs_at))
        if isinstance(outcome, str):
            couplings.append(Coupling(node, outcome))
            outcome = At(0)
        elif isinstance(outcome, Mixes):
            couplings.append(Coupling(node, outcome.why))
            outcome = outcome.places
        places = outcome if isinstance(outcome, list) else [outcome] * _outputs(node)
        found.update({(node, index): at for index, at in enumerate(places) if at is not None})
    return found, couplings


def _declared_rank(node: Node) -> int | None:
    """The rank that a variable's ``__shape__`` tells."""
    return sum(1 for part in node.attrs.get("__shape__", "").strip("()[] ").split(",") if part.strip()) or None


def _placed(outcome: Outcome) -> Outcome:
    """The outcome, unless it puts the samples where no axis is: attributes can say anything."""
    if isinstance(outcome, Mixes):
        return outcome
    places = outcome if isinstance(outcome, list) else [outcome]
    lost = (isinstance(at, At) and (at.axis < 0 or (at.rank is not None and at.axis >= at.rank)) for at in places)
    return "moves the samples to an axis that there is not" if any(lost) else outcome


def _outputs(node: Node) -> int:
    signature = lookup(node.op)
    outputs = signature.outputs(node.attrs) if signature is not None else None
    return outputs.total if outputs is not None else node.num_outputs or 1


def _outcome(node: Node, inputs: Sequence[At | None]) -> Outcome:
    from graphshare.analysis.batch_operators import RULES, usual

    signature = lookup(node.op)
    if signature is None or node.op == "Custom":
        return "nobody registered it, so that nothing tells whether it mixes samples"
    use = Use(node, signature, inputs)
    if any(p.default is None and use.value(p.name) is None for p in signature.parameters or ()):
        return "has attributes that cannot be read"
    rule = RULES.get(canonical(node.op))
    return rule(use) if rule is not None else usual(use)
