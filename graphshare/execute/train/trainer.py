"""Steps of training: forward and backward passes, then updates of parameters and moving statistics."""

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
from graphshare.execute.plan import ExecutionPlan, make_plan
from graphshare.execute.train.sgd import Momentum, Sgd
from graphshare.execute.train.tape import Streams, Tape, needs_head_gradient
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ops.gradient import Gradients
from graphshare.ops.kernel import Array, Shape


class NodeStreams(msgspec.Struct, frozen=True):
    """Random streams by seed, step and a node's ``name``; equal names draw the same numbers."""

    seed: int = 0
    name: Callable[[Node], str] = lambda node: node.name

    def start(self, step: int) -> Streams:
        """Return the streams of one step, at their beginning."""

        def stream(node: Node) -> np.random.Generator:
            # crc32, because hash() differs from process to process.
            key = zlib.crc32(self.name(node).encode("utf-8", "surrogateescape"))
            lazy: Any = _LazyGenerator([self.seed, step, key])
            generator: np.random.Generator = lazy
            return generator

        return stream


class _LazyGenerator:
    """A generator created at the first draw: few nodes draw, and creation takes longer than a small kernel."""

    def __init__(self, seed: list[int]) -> None:
        self._seed = seed

    def __getattr__(self, name: str) -> Any:
        generator = np.random.default_rng(self._seed)
        self.__dict__.update(
            {key: getattr(generator, key) for key in dir(generator) if not key.startswith("_")}
        )
        return getattr(generator, name)


def _head(node: Node, gradient: Array | None, out: Array) -> Array | None:
    """Return the given gradient in the output's dtype, or ones unless the head is a loss."""
    if gradient is not None:
        return gradient.astype(out.dtype, copy=False)
    return np.ones_like(out) if needs_head_gradient(node) else None


def list_last(targets: Sequence[Entry]) -> list[int]:
    """Return the position of the last listing of each distinct target."""
    return list({(entry.node, entry.index): i for i, entry in enumerate(targets)}.values())


def check_heads(targets: Sequence[Entry], heads: Gradients, outputs: Sequence[Array]) -> None:
    """Compare the given gradients of targets with their values.

    Raises:
        RefusedError: some have another shape; all are listed.
    """
    faults = [
        Fault(
            f"the head gradient of {output_name(entry)!r} has the shape {head.shape}, but the output has {out.shape}",
            hint="give an array of the output's shape",
        )
        for entry, head, out in zip(targets, heads, outputs, strict=True)
        if head is not None and head.shape != out.shape
    ]
    if faults:
        raise RefusedError(faults)


def first_data(
    inputs: Iterable[Node], values: Mapping[Node, Array], roles: Mapping[Node, Role]
) -> Node | None:
    """Return the first data input (neither label nor state) with an axis: Module divides by its batch."""
    data = (node for node in inputs if not roles[node].is_optional)
    return next((node for node in data if values[node].ndim), None)


def batch_rescale(data: Node | None, values: Mapping[Node, Array]) -> float:
    """Return the default factor of gradients: 1 / batch of ``data``; 1 without data."""
    return 1.0 if data is None else 1 / max(1, values[data].shape[0])


class Backpropagation(msgspec.Struct, eq=False):
    """The result of a forward pass, in training mode, and a backward pass.

    ``gradients`` has the wanted variables that one reached; ``states`` are new auxiliary states and
    overwritten variables.
    """

    outputs: list[Array]
    gradients: dict[Node, Array]
    states: dict[Node, Array]


def backpropagate(
    plan: ExecutionPlan,
    targets: Sequence[Entry],
    values: Mapping[Node, Array],
    wanted: Sequence[Node],
    *,
    heads: Gradients,
    streams: Streams,
    shapes: Mapping[Node, Sequence[Shape]] | None = None,
) -> Backpropagation:
    """Run a forward and a backward pass over ``plan`` of ``targets``; never write to ``values``.

    ``heads`` are the gradients of the targets, ones where None; losses ignore them. As in MXNet,
    only the last listing of a repeated target starts a gradient.

    Raises:
        RefusedError: a kernel cannot take its inputs, an operator has no gradient, or a head's has
            another shape.
    """
    tape = Tape(plan, values, wanted, streams=streams, shapes=shapes)
    check_heads(targets, heads, tape.outputs)
    starts: list[Array | None] = [None] * len(heads)
    for i in list_last(targets):
        starts[i] = _head(targets[i].node, heads[i], tape.outputs[i])
    result = tape.backward(starts)
    return Backpropagation(tape.outputs, result.gradients, {**tape.overwritten, **result.updates})


def fill_zeros(
    gradients: Mapping[Node, Array], wanted: Sequence[Node], values: Mapping[Node, Array]
) -> dict[Node, Array]:
    """Return read-only gradients of all ``wanted`` variables, zeros if unreached, as in MXNet."""
    filled = {}
    for node in wanted:
        gradient = gradients.get(node)
        # A view: other code may still write to the array itself.
        view = np.zeros_like(values[node]) if gradient is None else gradient.view()
        view.setflags(write=False)
        filled[node] = view
    return filled


class Trainer:
    """A graph in training. ``values`` are its variables' current values; arrays passed in are not
    changed.

    ``without_gradient`` are the parameters that no gradient reached in the last step.
    """

    def __init__(
        self,
        targets: Sequence[Entry],
        values: Mapping[Node, Array],
        trained: Sequence[Node],
        settings: Sgd,
        *,
        heads: Gradients | None = None,
        streams: NodeStreams = NodeStreams(),  # noqa: B008 - it is frozen
        shapes: Mapping[Node, Sequence[Shape]] | None = None,
    ) -> None:
        """Prepare the first step; ``trained`` are the parameters, ``heads`` as in
        :func:`backpropagate`.

        Raises:
            UnsupportedError: operators without a kernel.
            RefusedError: a parameter is boolean; all are listed.
        """
        hint = "convert it to float32 first, or leave it out of the training"
        booleans = [node.name for node in trained if values[node].dtype == np.bool_]
        if booleans:
            raise RefusedError(
                [Fault("is boolean, so it cannot be trained", node=n, hint=hint) for n in booleans]
            )
        self.plan = make_plan(targets)
        self.values = dict(values)
        self._targets, self._trained = list(targets), list(trained)
        self._heads = list(heads) if heads is not None else [None] * len(self._targets)
        self._momentum = Momentum(settings, self._trained)
        self._streams = streams
        self._shapes = EMPTY if shapes is None else shapes
        self._steps = 0
        self.without_gradient: list[Node] = []

    def gradients(self) -> Backpropagation:
        """Run a forward and a backward pass, with the errors of :func:`backpropagate`."""
        streams = self._streams.start(self._steps)
        return backpropagate(
            self.plan,
            self._targets,
            self.values,
            self._trained,
            heads=self._heads,
            streams=streams,
            shapes=self._shapes,
        )

    def step(self) -> list[Array]:
        """Train one step; return the outputs of its forward pass, computed before the update."""
        result = self.gradients()
        self.without_gradient = [node for node in self._trained if node not in result.gradients]
        self.values.update(result.states)
        self.values.update(self._momentum.update(self.values, result.gradients))
        self._steps += 1
        return result.outputs

    def outputs(self) -> list[Array]:
        """Return the current outputs, computed as for inference."""
        rng = np.random.default_rng(self._streams.seed)
        return run_plan(self.plan, self.values, shapes=self._shapes, rng=rng).outputs
