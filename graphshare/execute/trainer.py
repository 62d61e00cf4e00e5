"""Steps of training: forward and backward over a plan, then the update of parameters and moving statistics."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Role
from graphshare.errors import Fault, RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import Plan, make_plan
from graphshare.execute.sgd import Momentum, Sgd
from graphshare.execute.tape import Streams, Tape, needs_head_gradient
from graphshare.ir.graph import Entry, Node
from graphshare.ops.gradient import Gradients
from graphshare.ops.kernel import Array, Shape


def node_streams(seed: int, step: int, name: Callable[[Node], str] = lambda node: node.name) -> Streams:
    """Random numbers for each node, by seed, step and name; nodes of one name, as ``name`` gives it, draw the same."""

    def stream(node: Node) -> np.random.Generator:
        made: Any = _Begun([seed, step, zlib.crc32(name(node).encode("utf-8", "surrogateescape"))])
        generator: np.random.Generator = made
        return generator

    return stream


class _Begun:
    """A generator that is made when somebody draws: few nodes do, and making one takes longer than a small kernel."""

    def __init__(self, seed: list[int]) -> None:
        self._seed = seed

    def __getattr__(self, name: str) -> Any:
        generator = np.random.default_rng(self._seed)
        self.__dict__.update({key: getattr(generator, key) for key in dir(generator) if not key.startswith("_")})
        return getattr(generator, name)


def _head(node: Node, given: Array | None, out: Array) -> Array | None:
    """The gradient of a head: the one that is given, in its type, or ones unless it is a loss."""
    if given is not None:
        return given.astype(out.dtype, copy=False)
    return np.ones_like(out) if needs_head_gradient(node) else None


def check_heads(targets: Sequence[Entry], heads: Gradients, outputs: Sequence[Array]) -> None:
    """Holds given gradients of the targets against their values.

    Raises:
        RefusedError: some have another shape; all are listed.
    """
    faults = [
        Fault(f"the head gradient of {output_name(entry)!r} has the shape {head.shape}, where the output has {out.shape}")
        for entry, head, out in zip(targets, heads, outputs, strict=True)
        if head is not None and head.shape != out.shape
    ]
    if faults:
        raise RefusedError(faults)


def first_data(inputs: Iterable[Node], values: Mapping[Node, Array], roles: Mapping[Node, Role]) -> Node | None:
    """The first of ``inputs`` that is data, no label and no state, and has an axis: Module divides by its batch."""
    data = (node for node in inputs if not (roles[node].is_label or roles[node].is_state))
    return next((node for node in data if values[node].ndim), None)


def batch_rescale(data: Node | None, values: Mapping[Node, Array]) -> float:
    """What gradients are multiplied with by default: one divided by the batch of ``data``; 1 without any."""
    return 1.0 if data is None else 1 / max(1, values[data].shape[0])


class Backpropagation(msgspec.Struct, eq=False):
    """What one pass forward, in training mode, and back gave.

    ``gradients`` are of those of the wanted variables that one reached; ``states`` are new values of auxiliary states and of
    what the forward pass overwrote.
    """

    outputs: list[Array]
    gradients: dict[Node, Array]
    states: dict[Node, Array]


def backpropagated(
    plan: Plan,
    targets: Sequence[Entry],
    values: Mapping[Node, Array],
    wanted: Sequence[Node],
    *,
    heads: Gradients,
    streams: Streams,
    shapes: Mapping[Node, Sequence[Shape]] | None = None,
) -> Backpropagation:
    """One pass forward and back over ``plan``, that of ``targets``, which changes none of ``values``.

    ``heads`` are the gradients of the targets, ones where None. Losses ignore them.

    Raises:
        RefusedError: a kernel cannot take its inputs, an operator has no gradient, or a head's has another shape.
    """
    tape = Tape(plan, values, wanted, streams=streams, shapes=shapes)
    check_heads(targets, heads, tape.outputs)
    found = tape.backward(
        [_head(entry.node, given, out) for entry, given, out in zip(targets, heads, tape.outputs, strict=True)]
    )
    return Backpropagation(tape.outputs, found.gradients, {**tape.overwritten, **found.updates})


def with_zeros(gradients: Mapping[Node, Array], wanted: Sequence[Node], values: Mapping[Node, Array]) -> dict[Node, Array]:
    """The gradients of all that is ``wanted``, read-only: zeros where none is reached, as MXNet's gradient arrays are."""
    found = {}
    for node in wanted:
        gradient = gradients.get(node)
        view = np.zeros_like(values[node]) if gradient is None else gradient.view()
        view.setflags(write=False)
        found[node] = view
    return found


class Trainer:
    """A graph in training. ``values`` are those of all its variables as they stand now; the arrays given are not written to.

    ``without_gradient`` are the parameters that no gradient reached in the last step.
    """

    def __init__(
        self,
        targets: Sequence[Entry],
        values: Mapping[Node, Array],
        trained: Sequence[Node],
        settings: Sgd,
        *,
        seed: int = 0,
        heads: Gradients | None = None,
        name: Callable[[Node], str] = lambda node: node.name,
        shapes: Mapping[Node, Sequence[Shape]] | None = None,
    ) -> None:
        """``trained`` are the parameters; ``heads`` are the gradients of the targets, ones where None. Losses ignore them.

        ``name`` tells by which name a node draws random numbers: equal names draw equal ones.

        Raises:
            UnsupportedError: operators without a kernel.
        """
        self.plan = make_plan(targets)
        self.values = dict(values)
        self._targets, self._trained = list(targets), list(trained)
        self._heads = list(heads) if heads is not None else [None] * len(self._targets)
        self._momentum = Momentum(settings, self._trained)
        self._seed, self._name, self._shapes = seed, name, shapes
        self._steps = 0
        self.without_gradient: list[Node] = []

    def gradients(self) -> Backpropagation:
        """A pass forward, in training mode, and back.

        Raises:
            RefusedError: a kernel cannot take its inputs, or an operator has no gradient.
        """
        streams = node_streams(self._seed, self._steps, self._name)
        return backpropagated(
            self.plan, self._targets, self.values, self._trained, heads=self._heads, streams=streams, shapes=self._shapes
        )

    def step(self) -> list[Array]:
        """One step; the outputs of its forward pass, which ran before the update."""
        found = self.gradients()
        self.without_gradient = [node for node in self._trained if node not in found.gradients]
        self.values.update(found.states)
        self.values.update(self._momentum.updated(self.values, found.gradients))
        self._steps += 1
        return found.outputs

    def outputs(self) -> list[Array]:
        """The outputs as they stand now, computed as for inference."""
        rng = np.random.default_rng(self._seed)
        return run_plan(self.plan, self.values, shapes=self._shapes, rng=rng).outputs
