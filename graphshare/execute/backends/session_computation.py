"""Computations of sessions: graphs that a program computes as a whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, ClassVar

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import assign_roles
from graphshare.errors import GraphshareError, InputError, RefusedError
from graphshare.execute.backends.backend import Computation, Look
from graphshare.execute.backends.session import BackendSession, SessionSettings
from graphshare.execute.interpreter import Run
from graphshare.execute.prepare.assignment import DEFAULT, Assignment, DrawOptions, refuse_missing
from graphshare.execute.prepare.declared_inputs import (
    OPEN_SIZES,
    SIZES_OF_BATCH,
    InputDrawer,
    convert_inputs,
    infer_by_format,
)
from graphshare.execute.prepare.fed_values import find_dtypes
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.memory import check_memory
from graphshare.formats.facets import Integers
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array, Shape
from graphshare.ops.registry import visible_outputs
from graphshare.resources import can_limit_process

_HINT = "give sizes that the model computes with `shapes={NAME: SIZES}`, or values with `feeds={NAME: array}`"


class SessionComputation(Computation):
    """Heads of a graph in a session with these ``settings``; equal nodes are computed separately.

    Raises:
        UsageError: the program is not installed.
        InputError: it refuses the graph.
    """

    variants: ClassVar[Sequence[SessionSettings]]
    """Settings that may change how the program rounds."""
    _checked: Mapping[str, Sequence[int]] | None = None

    def __init__(
        self, graph: Graph, parameters: ParameterFile | None, where: str, settings: SessionSettings
    ) -> None:
        self.graph, self.parameters, self.where, self._settings = graph, parameters, where, settings
        self._variables = {node.name: node for node in graph.nodes if node.is_variable}
        self.session = self._open(graph.heads)

    @property
    def unreadable(self) -> Collection[str]:  # type: ignore[override]
        return self.session.unreadable

    @property
    def version(self) -> str:
        return self.session.version

    def draw(
        self,
        feeds: Mapping[Node, Array] = EMPTY,
        shapes: Mapping[Node, GivenShape] = EMPTY,
        options: DrawOptions = DEFAULT,
    ) -> Assignment:
        nodes = self._variables
        missing = [nodes[name] for name in self.session.inputs if nodes[name] not in feeds]
        if missing:
            refuse_missing(missing, assign_roles(self.graph), options.seed, None, None)
        drawer = self._open_drawer(feeds, shapes, options)
        drawn, outputs = self._try_sizes(drawer, options)
        values = {nodes[name]: value for name, value in drawn.items()}
        converted: dict[Node, Any] = {}
        for node, array in feeds.items():
            own = find_dtypes(array)
            if own and own != find_dtypes(values[node]):
                converted[node] = next(iter(own))
        sized = [node for node in missing if node.name in drawer.open_names]
        return Assignment(
            values,
            Inference([], {}, {}),
            inputs=missing,
            sized=sized,
            converted=converted,
            outputs=outputs,
            notes=list(drawer.notes.values()),
        )

    def _open_drawer(
        self, feeds: Mapping[Node, Array], shapes: Mapping[Node, GivenShape], options: DrawOptions
    ) -> InputDrawer:
        by_name = {node.name: array for node, array in feeds.items()}
        sizes = {node.name: shape for node, shape in shapes.items()}
        with self.locate():
            integers: dict[str, Sequence[Integers]] = {}
            if self.session.inputs.keys() - by_name.keys():
                integers.update(self.find_integers())
            for name, more in options.wishes.items():
                integers[name] = tuple(dict.fromkeys((*integers.get(name, ()), *more)))
            return InputDrawer(
                self.session, by_name, sizes, options.seed or 0, integers, self.graph, options.order
            )

    def _try_sizes(
        self, drawer: InputDrawer, options: DrawOptions
    ) -> tuple[dict[str, Any], list[Any] | None]:
        """Return a value for each input, and the outputs if computed here.

        Open sizes are the first of ``OPEN_SIZES`` that works; for a batch above 1, of
        ``SIZES_OF_BATCH``, with different numbers for different names if possible.

        Raises:
            RefusedError: as :class:`InputDrawer`.
            InputError: no size for a batch above 1 is computed.
            MemoryLimitError: inputs or, where no process can have a limit, inner values exceed the
                limit.
        """
        # Open sizes are first taken as image or text sizes, then as a batch.
        sizes: Sequence[int] = ()
        if drawer.open_names:
            sizes = OPEN_SIZES if options.batch == 1 else SIZES_OF_BATCH
        choices = (True, False) if options.batch > 1 else (False,)
        failure: InputError | None = None
        for is_batch, size, differ in product((False, True), sizes, choices):
            with self.locate():
                values = drawer.draw(size, is_batch=is_batch, batch=options.batch, differ=differ)
            self.check_sizes(values)
            try:
                if options.attempt is None:
                    return values, self.session.run(values)
                options.attempt({self._variables[name]: value for name, value in values.items()})
                return values, []
            except InputError as error:
                failure = failure or error
        if failure is not None and options.batch > 1:
            raise failure
        with self.locate():
            # No size works: the caller's run reports the error.
            return drawer.draw(OPEN_SIZES[-1]), None

    def run(
        self, values: Mapping[Node, Array], *, seed: int | None = None, profile: bool = False
    ) -> Run:
        if not self.session.is_open:
            self.session = self._open(self.graph.heads)
        try:
            with self.locate():
                feeds = self._convert(values)
                self.check_sizes(feeds)
                return Run(self.session.run(feeds))
        except InputError as error:
            raise RefusedError(
                [msgspec.structs.replace(fault, hint=fault.hint or _HINT) for fault in error.faults]
            ) from None

    def watch(self, values: Mapping[Node, Array], look: Look, *, seed: int | None = None) -> None:
        entries = self._list_watched()
        session = self._open_watched(entries)
        # Runs with outputs in dtypes without numpy arrays, such as bfloat16, fail.
        if session.unreadable:
            entries = [entry for entry in entries if output_name(entry) not in session.unreadable]
            session = self._open_watched(entries)
        with self.locate():
            outputs = session.run(self._convert(values, session))
        for entry, value in zip(entries, outputs, strict=True):
            if value is not None:
                look(entry.node, entry.index, value)

    def select(self, heads: Sequence[Entry]) -> SessionComputation:
        nodes = tuple(post_order(entry.node for entry in heads))
        part = msgspec.structs.replace(self.graph, nodes=nodes, heads=tuple(heads))
        return self._copy(part, self._settings)

    def vary(self) -> Iterator[Computation]:
        for settings in self.variants:
            yield self._copy(self.graph, settings)

    def _copy(self, graph: Graph, settings: SessionSettings) -> SessionComputation:
        return type(self)(graph, self.parameters, self.where, settings)

    def complete(self, values: Mapping[Node, Array]) -> tuple[Mapping[Node, Array], Inference]:
        converted = self._convert(values)
        by_node = {self._variables[name]: array for name, array in converted.items()}
        return by_node, Inference([], {}, {})

    def _convert(
        self, values: Mapping[Node, Array], session: BackendSession | None = None
    ) -> dict[str, Any]:
        """Return the values for a session, by default this one, by name and in its dtypes."""
        session = session or self.session
        named = {node.name: array for node, array in values.items() if node.name in session.dtypes}
        return convert_inputs(session, named)

    def find_integers(self) -> Mapping[str, Sequence[Integers]]:
        return find_format(self.graph).types.find_integers(self.graph)

    def list_defaults(self) -> Collection[str]:
        return self.session.defaults

    def close(self) -> None:
        self.session.close()

    @abstractmethod
    def _open(self, heads: Sequence[Entry]) -> BackendSession:
        """Return a session with ``heads`` as outputs."""

    def _open_watched(self, heads: Sequence[Entry]) -> BackendSession:
        """Return a session whose outputs are inner values; None if unreadable."""
        return self._open(heads)

    def _list_watched(self) -> list[Entry]:
        entries: list[Entry] = []
        for node in self.graph.nodes:
            if not node.is_variable:
                entries += visible_outputs(node)
        return entries

    def check_sizes(self, feeds: Mapping[str, Array]) -> None:
        """Compare sizes inferred from ``feeds`` with the memory limit, if the process cannot
        enforce it.

        Shapes of inner values in the file are not trusted. Raises MemoryLimitError.
        """
        # Feeds without a shape are sequences, or nothing.
        shapes: dict[str, tuple[int, ...]] = {}
        for name, array in feeds.items():
            if hasattr(array, "shape") and name in self.session.inputs:
                shapes[name] = array.shape
        if can_limit_process() or shapes == self._checked:
            return
        nodes = self.graph.nodes
        inference = infer_by_format(self.graph, list(nodes), shapes, independent=True)
        sized = {
            node: [_keep_numbers(shape) for shape in row] for node, row in inference.shapes.items()
        }
        inference = msgspec.structs.replace(inference, shapes=sized)
        with self.locate():
            check_memory(nodes, self.graph.heads, inference, EMPTY)
        self._checked = shapes

    @contextmanager
    def locate(self) -> Iterator[None]:
        """Add the model, and the node in the program's message, to errors without them."""
        try:
            yield
        except GraphshareError as error:
            faults = []
            for fault in error.faults:
                name = self._find_node(fault.message) if fault.node is None else None
                faults.append(msgspec.structs.replace(fault, node=name) if name else fault)
            raise type(error)(faults).with_location(self.where) from None

    def _find_node(self, message: str) -> str | None:
        """Return the node in a message of the program, if any."""
        return None


def _keep_numbers(shape: Sequence[int | str | None] | None) -> Shape:
    if shape is None:
        return None
    return tuple(size if isinstance(size, int) else None for size in shape)
