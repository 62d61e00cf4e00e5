"""What computes graphs for ``run``, ``bind`` and ``verify``: numpy's plans, or programs of an engine, each compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.analysis.name_lists import visible_outputs
from graphshare.analysis.roles import Role
from graphshare.analysis.shapes import Inference
from graphshare.execute.engines.engine import Engine, Part
from graphshare.execute.engines.program import Program, compile_program
from graphshare.execute.interpreter import Run, run_plan
from graphshare.execute.plan import make_plan
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array

_KEPT = 16
"""The number of programs that are cached."""
Watch = Callable[[Node, Sequence[Array]], None]


class Executor:
    """Computes heads of graphs with ``engine``; None is numpy.

    ``notes`` say what an engine left to numpy; with ``strict`` it is refused instead. ``repeated`` and ``alone`` are those of
    :class:`~graphshare.execute.engines.engine.Part`. With ``fixed`` the parameters of a graph are the same in all calls, else
    a graph is compiled again for other arrays.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        strict: bool = False,
        repeated: bool = False,
        alone: bool = True,
        fixed: bool = False,
    ) -> None:
        self.engine = engine
        self.notes: dict[str, None] = {}
        self._strict, self._repeated, self._alone, self._fixed = strict, repeated, alone, fixed
        self._programs: dict[Any, tuple[Program, Mapping[Node, Array]]] = {}

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
        done = self._find_program(nodes, wanted, values, inference, roles).run(values, rng)
        rest = iter(done.outputs[len(heads) :])
        for outputs in inner if watch is not None else ():
            watch(outputs[0].node, [next(rest) for _ in outputs])
        return Run(done.outputs[: len(heads)], {}, done.peak_bytes, [])

    def _find_program(
        self,
        nodes: Sequence[Node],
        heads: Sequence[Entry],
        values: Mapping[Node, Array],
        inference: Inference,
        roles: Mapping[Node, Role],
    ) -> Program:
        """Return the program for these heads and shapes; cached."""
        assert self.engine is not None
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
                Inference(list(nodes), inference.shapes, inference.types),
                constants,
                repeated=self._repeated,
                alone=self._alone,
            )
            program = compile_program(self.engine, part, strict=self._strict)
            self._programs[key] = program, constants  # which keeps the arrays, and so their ids
            self.notes.update(dict.fromkeys(filter(None, [program.note()])))
        return self._programs[key][0]
