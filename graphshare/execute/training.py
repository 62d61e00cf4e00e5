"""Steps of training: forward and backward over a plan, then the update of parameters and moving statistics."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.execute.gradient import Streams, Tape, needs_head_gradient
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.sgd import Momentum, Sgd
from graphshare.gradients.gradient import Gradients
from graphshare.ir.graph import Entry, Node
from graphshare.kernels.kernel import Array, Shape


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

    def gradients(self) -> tuple[list[Array], dict[Node, Array], dict[Node, Array]]:
        """The outputs of a forward pass in training mode, the parameters' gradients, and what is to be updated besides.

        Raises:
            RefusedError: a kernel cannot take its inputs, or an operator has no gradient.
        """
        streams = node_streams(self._seed, self._steps, self._name)
        tape = Tape(self.plan, self.values, self._trained, streams=streams, shapes=self._shapes)
        heads = [
            _head(entry.node, given, out) for entry, given, out in zip(self._targets, self._heads, tape.outputs, strict=True)
        ]
        found = tape.backward(heads)
        return tape.outputs, found.gradients, {**tape.overwritten, **found.updates}

    def step(self) -> list[Array]:
        """One step; the outputs of its forward pass, which ran before the update."""
        outputs, gradients, others = self.gradients()
        self.without_gradient = [node for node in self._trained if node not in gradients]
        self.values.update(others)
        self.values.update(self._momentum.updated(self.values, gradients))
        self._steps += 1
        return outputs

    def outputs(self) -> list[Array]:
        """The outputs as they stand now, computed as for inference."""
        rng = np.random.default_rng(self._seed)
        return run_plan(self.plan, self.values, shapes=self._shapes, rng=rng).outputs
