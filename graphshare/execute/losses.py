"""The losses of a training, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.loss.value import measure_loss
from graphshare.ops.registry import canonical, lookup
from graphshare.text.short_repr import ShortRepr


class LossHistory(ShortRepr, msgspec.Struct, eq=False):
    """The loss of one head before each step: the mean over samples of ``measure`` (``cross entropy``, ``squared error``...).

    ``mean`` is that of the output, for a head that is the loss itself, and for one that is not a loss.
    """

    name: str
    measure: str
    values: list[float]


StepListener = Callable[[int, Sequence[LossHistory]], None]
"""Receives the number of steps done and the losses so far, after each step."""


class Losses:
    """The losses of the heads, step by step."""

    def __init__(self, names: Sequence[str], heads: Sequence[Entry]) -> None:
        """``names`` are those of the outputs ``heads``."""
        self.histories = [LossHistory(name, "", []) for name in names]
        self._heads = [_describe_head(entry.node) for entry in heads]

    def add(self, outputs: Sequence[Array], values: Mapping[Node, Array]) -> None:
        """Add the losses of a step, of the outputs of its forward pass."""
        for history, (op, attrs, label), output in zip(self.histories, self._heads, outputs, strict=True):
            loss = measure_loss(op, attrs, output, values.get(label) if label is not None else None)
            history.measure = loss.measure
            history.values.append(loss.value)


def _describe_head(node: Node) -> tuple[str, Attrs, Node | None]:
    """Return the operator of a head, its attributes, and its label if that is a variable."""
    signature = lookup(node.op)
    if signature is None or node.is_variable:
        return "", {}, None
    label = node.inputs[1].node if len(node.inputs) == 2 else None
    return canonical(node.op), signature.parse(node.attrs)[0], label if label is not None and label.is_variable else None
