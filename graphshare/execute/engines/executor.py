"""What computes graphs for ``run``, ``bind`` and ``verify``: numpy's plans, or programs of an engine, each compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.analysis.roles import Role
from graphshare.execute.engines.engine import Engine, Part, Selective
from graphshare.execute.engines.program import Program, compile_program
from graphshare.execute.interpreter import Run, run_plan
from graphshare.execute.plan import make_plan
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs

_MANY = 6
"""The number of forward passes from which on an engine's own work at compilation pays."""
_KEPT = 16
"""The number of programs that are cached."""
Watch = Callable[[Node, Sequence[Array]], None]


class Executor:
    """Computes heads of graphs with ``engine``; None is numpy.

    ``notes`` say what an engine left to numpy; with ``strict`` it is refused instead. ``forwards`` is how often a graph will be
    computed, about; ``alone`` is that of :class:`~graphshare.execute.engines.engine.Part`. With ``fixed`` the parameters of a
    graph are the same in all calls, else a graph is compiled again for other arrays.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        strict: bool = False,
        forwards: int = 1,
        alone: bool = True,
        fixed: bool = False,
    ) -> None:
        self.engine = engine
        self.notes: dict[str, None] = {}
        self._strict, self._forwards, self._alone, self._fixed = strict, forwards, alone, fixed
        self._programs: dict[Any, tuple[Program | None, Mapping[Node, Array]]] = {}

    def run(
        self,
        heads: Sequence[Entry],
        values: Mapping[Node, Array],
        inference: Inference,
        roles: Mapping[Node, Role],
        *,
        rng: np.random.Generator | None = None,
        watch: Watch | None = None,
    ) -> Run:
        """Return ``heads`` for values of the variables, whose shapes and dtypes led to ``inference``.

        ``watch`` is called with each operator and its outputs, in topological order.

        Raises:
            RefusedError: with ``strict``, nodes that the engine cannot take; a kernel refuses its inputs.
        """
        if self.engine is None:
            return run_plan(make_plan(heads), values, shapes=inference.shapes, rng=rng, watch=watch)
        nodes = post_order(entry.node for entry in heads)
        inner = [list(visible_outputs(node)) for node in nodes if not node.is_variable] if watch is not None else []
        wanted = [*heads, *(entry for outputs in inner for entry in outputs)]
        program = self.find_program(wanted, values, inference, roles)
        if program is None:
            return run_plan(make_plan(heads), values, shapes=inference.shapes, rng=rng, watch=watch)
        done = program.run(values, rng)
        if watch is not None:
            rest = iter(done.outputs[len(heads) :])
            for outputs in inner:
                watch(outputs[0].node, [next(rest) for _ in outputs])
        return Run(done.outputs[: len(heads)], {}, done.peak_bytes, [])

    def find_program(
        self, heads: Sequence[Entry], values: Mapping[Node, Array], inference: Inference, roles: Mapping[Node, Role]
    ) -> Program | None:
        """Return the program for these heads and shapes, None where numpy computes them; cached."""
        if self.engine is None:
            return None
        nodes = post_order(entry.node for entry in heads)
        variables = [node for node in nodes if node.is_variable]
        constants = {node: values[node] for node in variables if node in roles and roles[node].is_parameter}
        key = (
            tuple((entry.node, entry.index) for entry in heads),
            tuple((values[node].shape, values[node].dtype) for node in variables if node not in constants),
            () if self._fixed else tuple(map(id, constants.values())),
        )
        if key not in self._programs:
            if len(self._programs) >= _KEPT:
                del self._programs[next(iter(self._programs))]
            part = Part(
                Graph(tuple(nodes), tuple(heads)),
                Inference(nodes, inference.shapes, inference.types),
                constants,
                repeated=self._forwards >= _MANY,
                alone=self._alone,
            )
            self._programs[key] = self._compile(part), constants  # which keeps the arrays, and so their ids
        return self._programs[key][0]

    def _compile(self, part: Part) -> Program | None:
        """Return a part as the engine computes it; None where it leaves it to numpy."""
        assert self.engine is not None
        if isinstance(self.engine, Selective) and not self.engine.takes(part, self._forwards):
            self.notes[f"auto: numpy computes; {self.engine.name} would take longer to open than it saves"] = None
            return None
        program = compile_program(self.engine, part, strict=self._strict)
        if isinstance(self.engine, Selective):
            self.notes[f"auto: {self.engine.name} computes"] = None
        self.notes.update(dict.fromkeys(filter(None, [program.note()])))
        return program
