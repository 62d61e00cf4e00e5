"""The backend ``numpy``: graphs of operators with kernels, in an executor with an optional engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.roles import assign_roles, find_auxiliary, find_constants, list_parameters
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, RefusedError, locate_refusals
from graphshare.execute.backends.backend import REFERENCE, Backend, Computation, EngineOptions, Look
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.registry import create_engine
from graphshare.execute.interpreter import Run, run_plan
from graphshare.execute.plan import ExecutionPlan, find_unsupported_operators
from graphshare.execute.prepare.assignment import (
    DEFAULT,
    Assignment,
    DrawOptions,
    assign_values,
    refuse_missing,
)
from graphshare.execute.prepare.feeds import GivenShape, parameter_values
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.variable_values import convert_feed, random_stream
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs

_KEPT = 16
"""The number of combinations of input shapes whose inference is cached."""


class KernelComputation(Computation):
    """Heads of a graph in an executor. Labels and states without a value become zeros.

    Parameters are read once, for the first run or draw.
    """

    def __init__(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        executor: Executor,
        *,
        as_input: Collection[str] = (),
    ) -> None:
        self.graph, self.parameters, self.where = graph, parameters, where
        self.roles = assign_roles(graph, held=list_parameter_names(parameters), as_input=as_input)
        self._parameter_nodes = frozenset(list_parameters(self.roles))
        self._auxiliary = find_auxiliary(self.roles)
        self._executor, self._as_input = executor, as_input
        self.engine = executor.title
        self._variables = [node for node in graph.nodes if node.is_variable]
        self._read: dict[Node, Array] = {}
        self._cases: dict[Any, Assignment] = {}

    @cached_property
    def _constants(self) -> frozenset[Node]:
        return find_constants(self.roles)

    @property
    def notes(self) -> Sequence[str]:
        return list(self._executor.notes)

    infers_sizes = True

    def draw(
        self,
        feeds: Mapping[Node, Array] = EMPTY,
        shapes: Mapping[Node, GivenShape] = EMPTY,
        options: DrawOptions = DEFAULT,
    ) -> Assignment:
        self._find_plan()  # for its errors, before parameters are drawn and inferred
        assigned = self._assign(feeds, shapes, options)
        if options.batch > 1 and assigned.sized:
            sizes = {node: assigned.values[node].shape for node in assigned.sized}
            batched = {node: (options.batch, *shape[1:]) for node, shape in sizes.items() if shape}
            assigned = self._assign(feeds, {**shapes, **batched}, options)
        self._keep(assigned.values, assigned)
        return assigned

    def list_lacks(
        self, fed: Collection[str] = (), params_seed: int | None = None
    ) -> Sequence[Fault]:
        known = {*fed, *(list_parameter_names(self.parameters) or ())}
        missing = [
            node
            for node in self._variables
            if node in self._parameter_nodes and node.name not in known
        ]
        try:
            with locate_refusals(self):
                self._find_plan()
                refuse_missing(missing, self.roles, 0, params_seed, self.parameters)
        except RefusedError as error:
            return error.faults
        return ()

    def is_parameter(self, node: Node) -> bool:
        return node in self._parameter_nodes

    def is_constant(self, node: Node) -> bool:
        return node in self._constants

    def complete(self, values: Mapping[Node, Array]) -> tuple[Mapping[Node, Array], Inference]:
        case, full = self._complete(values)
        return full, case.inference

    def run(
        self, values: Mapping[Node, Array], *, seed: int | None = None, profile: bool = False
    ) -> Run:
        case, full = self._complete(values)
        rng = self._open_stream(seed)
        if profile:
            shapes = case.inference.shapes
            return run_plan(self._find_plan(), full, shapes=shapes, rng=rng, profile=True)
        return self._executor.run(self.graph.heads, full, case.inference, self.roles, rng=rng)

    def watch(self, values: Mapping[Node, Array], look: Look, *, seed: int | None = None) -> None:
        case, full = self._complete(values)
        # Callers keep one side's values until they have seen the other's.
        check_memory(case.inference.nodes, self.graph.heads, case.inference, full, keeps_all=True)

        def watch(node: Node, outputs: Sequence[Array]) -> None:
            for entry, value in zip(visible_outputs(node), outputs, strict=False):
                look(node, entry.index, value)

        rng = self._open_stream(seed)
        self._executor.run(self.graph.heads, full, case.inference, self.roles, rng=rng, watch=watch)

    def select(self, heads: Sequence[Entry]) -> KernelComputation:
        part = msgspec.structs.replace(self.graph, heads=tuple(heads))
        return KernelComputation(
            part, self.parameters, self.where, self._executor, as_input=self._as_input
        )

    def close(self) -> None:
        self._read.clear()
        self._cases.clear()

    def _find_plan(self) -> ExecutionPlan:
        return self._executor.find_plan(self.graph.heads)

    def _open_stream(self, seed: int | None) -> np.random.Generator | None:
        return None if seed is None else random_stream(seed)

    def _read_parameters(self, values: Mapping[Node, Array]) -> dict[Node, Array]:
        wanted = [node for node in self._variables if node not in values]
        missing = [node for node in wanted if node not in self._read]
        self._read.update(parameter_values(missing, self.parameters, self._auxiliary))
        return {node: self._read[node] for node in wanted if node in self._read}

    def _complete(self, values: Mapping[Node, Array]) -> tuple[Assignment, dict[Node, Array]]:
        """Return the inference from inputs, and each variable's value in its dtype."""
        case = self._find_case(values)
        full = {**case.values, **self._read_parameters(values)}
        for node in self._variables:
            if node in values:
                full[node] = convert_feed(node.name, values[node], case.inference.types[node][0])
        return case, full

    def _find_case(self, values: Mapping[Node, Array]) -> Assignment:
        """Return the inference from these shapes and dtypes, and drawn values; cached."""
        key = self._make_key(values)
        if key not in self._cases:
            own = [node for node in self._variables if node in values]
            held = {node: values[node] for node in own if node in self._parameter_nodes}
            fed = {node: values[node] for node in own if node not in held}
            self._keep(values, self._assign(fed, EMPTY, DEFAULT, held))
        return self._cases[key]

    def _assign(
        self,
        feeds: Mapping[Node, Array],
        shapes: Mapping[Node, GivenShape],
        options: DrawOptions,
        held: Mapping[Node, Array] = EMPTY,
    ) -> Assignment:
        """Return a value for each variable; ``held`` replaces parameters of the file."""
        return assign_values(
            self.graph,
            self.roles,
            {**self._read_parameters({**feeds, **held}), **held},
            feeds=feeds,
            shapes=shapes,
            options=options,
            params=self.parameters,
        )

    def _keep(self, values: Mapping[Node, Array], assigned: Assignment) -> None:
        if len(self._cases) >= _KEPT:
            # The oldest: dicts keep the order of insertion
            del self._cases[next(iter(self._cases))]
        made_up = {
            node: assigned.values[node]
            for node in self._variables
            if node not in values and node not in self._read
        }
        self._cases[self._make_key(values)] = Assignment(made_up, assigned.inference)

    def _make_key(self, values: Mapping[Node, Array]) -> Any:
        known = ((node, values[node]) for node in self._variables if node in values)
        return tuple((node, array.shape, array.dtype) for node, array in known)


class NumpyBackend(Backend):
    """Our kernels. They compute every node as written."""

    name = REFERENCE

    def open(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        executor: Executor | None,
        *,
        as_input: Collection[str] = (),
        **_: Any,
    ) -> Computation:
        return KernelComputation(
            graph, parameters, where, executor or Executor(), as_input=as_input
        )

    def choose_executor(
        self,
        graph: Graph,
        engine: str | None,
        others: Mapping[str, bool],
        where: str,
        options: EngineOptions,
    ) -> Executor | None:
        """Return the executor of an engine. Raises UsageError if unknown or not installed."""
        name = REFERENCE if engine is None else engine
        return Executor(create_engine(name), title=name, **msgspec.structs.asdict(options))

    def list_unsupported(self, nodes: Sequence[Node]) -> list[Fault]:
        return find_unsupported_operators(nodes)


BACKEND = NumpyBackend()
