"""Rules for the batch axis: operators keep it, move it, or mix samples.

Families state theirs in ``RULES``; the others follow from ``couples_batch`` of the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from graphshare.ir.graph import Node
from graphshare.ops.signature import PARAMETER_FORMALS, Signature

UNKNOWN = "has an unknown effect on the batch axis"


class At(NamedTuple):
    """The samples lie on ``axis`` of ``rank`` axes.

    With an unknown rank, ``more`` counts axes added to an input's.
    """

    axis: int
    rank: int | None = None
    more: int = 0

    def is_axis(self, axis: int) -> bool:
        """Whether ``axis`` is, or may be, the batch axis."""
        if axis >= 0:
            return axis == self.axis
        # -1 is assumed not to be axis 0: a batch of single numbers is rare.
        if self.rank is None:
            return axis < -1 or self.axis > 0
        return axis + self.rank == self.axis

    def count_before(self, axes: Iterable[int]) -> int:
        """Return how many of ``axes`` precede the batch axis; negative ones count from the end."""
        return sum(0 <= axis + (self.rank or 0) * (axis < 0) < self.axis for axis in axes)

    def with_axis(self, axis: int, ranks: int = 0) -> At:
        """Return samples on ``axis`` of an array with ``ranks`` more axes."""
        if self.rank is None:
            return At(axis, None, self.more + ranks)
        return At(axis, self.rank + ranks)


class Use:
    """One operator with its inputs' batch axes (None: no samples); ``first`` is not None."""

    def __init__(self, node: Node, signature: Signature, inputs: Sequence[At | None]) -> None:
        self.node = node
        self.signature = signature
        self.inputs = inputs
        self.first: At = next(at for at in inputs if at is not None)

    def value(self, key: str) -> Any:
        """Return a typed attribute."""
        return self.signature.value(self.signature.current_attributes(self.node.attrs), key)

    def input(self, slot: int) -> At | None:
        return self.inputs[slot] if slot < len(self.inputs) else None

    @property
    def axes_differ(self) -> bool:
        return len({at.axis for at in self.inputs if at is not None}) > 1

    def formals_with_samples(self) -> list[str]:
        names = self.signature.formal_inputs(self.node.attrs, subgraphs=self.node.subgraphs)
        return [name for name, at in zip(names, self.inputs, strict=False) if at is not None]


class Mixes(NamedTuple):
    """The reason why samples are mixed, and their assumed axis; perhaps only in training."""

    why: str
    places: list[At | None]
    only_training: bool = False


Outcome = At | None | str | list[At | None] | Mixes
"""The batch axis of the outputs (one for all, or a list); a text says why samples are mixed."""


Rule = Callable[[Use], Outcome]


def default_rule(use: Use) -> Outcome:
    """Return the outcome that follows from the signature."""
    kind = use.signature.couples_batch
    may_be_misaligned = kind == "elementwise" and _broadcast_apart(use)
    if use.axes_differ or may_be_misaligned:
        return "has the samples on different axes of its inputs"
    if kind == "always":
        return "mixes the samples of a batch"
    if kind not in ("never", "elementwise"):
        return UNKNOWN
    # A parameter that depends on the batch makes a layer per sample.
    wrong = [name for name in use.formals_with_samples() if name in PARAMETER_FORMALS]
    if wrong:
        return f"has a {wrong[0]} that depends on the batch"
    if use.first.axis and kind != "elementwise":
        return f"expects the samples on axis 0, but they are on axis {use.first.axis}"
    return use.first if kind == "elementwise" else At(use.first.axis)


def _broadcast_apart(use: Use) -> bool:
    """Whether inputs of different ranks would misalign the batch axis."""
    ranks = {(at.rank, at.more) for at in use.inputs if at is not None}
    known = {rank for rank, _ in ranks if rank is not None}
    if len(known) > 1:
        return True
    # An unknown rank is assumed to equal a known one other than 1: data with a single axis is rare.
    return len(ranks) > 1 and (1 in known or not known)


def along_axis_rule(use: Use) -> Outcome:
    """Return the outcome of a function along an axis, such as softmax or a sort."""
    axis = use.value("axis")
    if axis is None:
        return "works on all samples in one row"
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    if any(map(use.first.is_axis, axes)):
        return "works along the samples"
    return use.first


def window_rule(use: Use) -> Outcome:
    """Return the outcome of convolution or pooling; the kernel gives the rank."""
    outcome = default_rule(use)
    kernel = tuple(use.value("kernel") or ())
    return At(0, len(kernel) + 2) if isinstance(outcome, At) and kernel else outcome


def require_axes(*wanted: int, out: At) -> Rule:
    """Return a rule: samples on the axes ``wanted`` move to ``out``."""

    def rule(use: Use) -> Outcome:
        for slot, axis in enumerate(wanted):
            at = use.input(slot)
            if at is not None and at.axis != axis:
                return f"expects the samples on axis {axis} of input {slot}, but they are on axis {at.axis}"
        return out if use.input(0) is not None else UNKNOWN

    return rule


def without_samples(use: Use) -> Outcome:
    """No output has samples."""
    return None


def mixing_rule(why: str) -> Rule:
    """Return the rule of an operator that always mixes samples."""
    return lambda use: why
