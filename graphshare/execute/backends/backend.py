"""The interface of backends: a backend opens a graph as a computation and runs it on input values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import msgspec

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.executor import Executor
from graphshare.execute.interpreter import Run
from graphshare.execute.prepare.assignment import DEFAULT, Assignment, DrawOptions
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.facets import Integers
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array

Look = Callable[[Node, int, Any], None]
"""Receives an operator, an output's index and its value, which may be valid only during the call."""
Encode = Callable[[Graph], tuple[bytes | Iterable[bytes | memoryview], str]]
"""Returns the bytes of a graph's file, and the directory of its external data."""
ChosenEngine = Executor | None
"""The executor of operators with kernels; None if a backend computes the graph as a whole."""
ChosenEngines = Mapping[str | None, ChosenEngine]
"""The engines that compute one model, by name; None is the name of the default."""
REFERENCE = "numpy"
"""The backend with which others are compared; reports name only other backends."""


class EngineOptions(msgspec.Struct, frozen=True):
    """Arguments of :class:`~graphshare.execute.engines.executor.Executor` of these names."""

    strict: bool = False
    forwards: int = 1
    alone: bool = True
    fixed: bool = False


class Computation(ABC):
    """The heads of ``graph``, open for runs on its variables' values; ``where`` names it in
    messages.

    ``engine`` names the computing program, ``notes`` are for the user. No run succeeds with
    ``unreadable`` outputs. With ``infers_sizes`` inputs' shapes follow from weights.
    """

    graph: Graph
    where: str = ""
    engine: str = REFERENCE
    unreadable: Collection[str] = ()
    infers_sizes: bool = False

    @property
    def version(self) -> str:
        """Return the program's own version, if any."""
        return ""

    @property
    def notes(self) -> Sequence[str]:
        """Return the decisions of runs for the user."""
        return ()

    @abstractmethod
    def draw(
        self,
        feeds: Mapping[Node, Array] = EMPTY,
        shapes: Mapping[Node, GivenShape] = EMPTY,
        options: DrawOptions = DEFAULT,
    ) -> Assignment:
        """Return a value for each input: the feed, or a drawn value as in :func:`assign_values`.

        Raises:
            RefusedError: values are missing, or shapes do not fit or follow; all of a kind are
                listed.
            InputError: ``batch`` is above 1, and no tried size can be computed.
            MemoryLimitError: the values, or the run, exceed the memory limit.
        """

    def list_lacks(
        self, fed: Collection[str] = (), params_seed: int | None = None
    ) -> Sequence[Fault]:
        """Return faults that drawing cannot fix: missing outputs, parameters without a value."""
        return ()

    @abstractmethod
    def run(
        self, values: Mapping[Node, Array], *, seed: int | None = None, profile: bool = False
    ) -> Run:
        """Return the outputs for values of inputs; ``seed`` is for random operators.

        Values that the heads do not need are ignored. Parameters come from the file, unless
        ``values`` has others.

        Raises:
            RefusedError: values are missing or do not fit, or the computation fails.
        """

    @abstractmethod
    def watch(self, values: Mapping[Node, Array], look: Look, *, seed: int | None = None) -> None:
        """Call ``look`` with each operator's outputs, in topological order. Raises InputError or RefusedError."""

    @abstractmethod
    def select(self, heads: Sequence[Entry]) -> Computation:
        """Return the computation of other ``heads``."""

    def complete(self, values: Mapping[Node, Array]) -> tuple[Mapping[Node, Array], Inference]:
        """Return ``values`` with all known values of variables, and their inference."""
        return values, Inference([], {}, {})

    def list_defaults(self) -> Collection[str]:
        """Return the inputs with a value in the model."""
        return ()

    def find_integers(self) -> Mapping[str, Sequence[Integers]]:
        """Return the integers that inputs need, by name."""
        return EMPTY

    def is_parameter(self, node: Node) -> bool:
        """Return whether a variable has a value in a file."""
        return bool(node.details.holds_value)

    def is_constant(self, node: Node) -> bool:
        """Return whether an unfed variable has the same value in all runs, from a file or zeros."""
        return bool(node.details.holds_value)

    def vary(self) -> Iterator[Computation]:
        """Yield the same computation with other settings, such as threads, that may round differently."""
        return iter(())

    def close(self) -> None:  # noqa: B027  (most have nothing to release)
        """Release memory; the next run allocates it again."""


class Backend(ABC):
    """A program that computes graphs: ``name`` in options and reports.

    A format names modules of backends; each has a stateless ``BACKEND``.
    """

    name: ClassVar[str]

    @abstractmethod
    def open(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        where: str,
        executor: ChosenEngine,
        **options: Any,
    ) -> Computation:
        """Return a computation of a graph's heads, with the ``options`` of
        :func:`open_computation`.

        Raises:
            UsageError: the backend is not installed.
            InputError: it refuses the graph.
        """

    def choose_executor(
        self,
        graph: Graph,
        engine: str | None,
        others: Mapping[str, bool],
        where: str,
        options: EngineOptions,
    ) -> ChosenEngine:
        """Return None: graphs are computed as a whole. Raises RefusedError for options of kernels."""
        chosen = {
            f"`engine={engine!r}`": engine not in (None, self.name, "auto"),
            "`strict_engine`": options.strict,
            **others,
        }
        names = [what for what, is_chosen in chosen.items() if is_chosen]
        if faults := find_format(graph).find_lacks(Operation.NUMPY, names, where=where):
            raise RefusedError(faults)
        return None

    def list_unsupported(self, nodes: Sequence[Node]) -> list[Fault]:
        """Return a fault for each node known not to be supported, before a graph is opened."""
        return []

    def find_obstacle(self) -> str:
        """Return why the backend cannot be used here, with a fix; empty if it can."""
        return ""

    def warm_up(self) -> None:  # noqa: B027  (most have nothing to start)
        """Start the computing process while the caller goes on."""


def open_computation(
    model: Checkpoint,
    executor: ChosenEngine = None,
    *,
    exact: bool = False,
    whole: bool = False,
    encode: Encode | None = None,
    own: bool = False,
    as_input: Collection[str] = (),
) -> Computation:
    """Open the heads of a model's graph in the first backend that its format lists.

    ``executor`` comes from :func:`choose_executor`. With ``exact`` nodes are computed as written,
    without optimizations across nodes; with ``whole``, nodes that no head needs stay. ``as_input``
    names inputs that may look like parameters. ``encode`` replaces the encoding of a graph's file
    for backends that read files. A file of our ``own`` translation is computed in this process
    unless memory is limited.

    Raises:
        UsageError: the backend is not installed.
        RefusedError: the format has none.
        InputError: it refuses the graph.
    """
    graph = model.graph
    backend = _require_backend(graph, model.where)
    nodes = graph.nodes if whole else tuple(post_order(entry.node for entry in graph.heads))
    part = msgspec.structs.replace(graph, nodes=nodes)
    options = {"exact": exact, "encode": encode, "own": own, "as_input": as_input}
    return backend.open(part, model.parameter_file, model.where, executor, **options)


def choose_executor(
    graph: Graph,
    engine: str | None,
    others: Mapping[str, bool] = EMPTY,
    *,
    where: str = "",
    options: EngineOptions,
) -> ChosenEngine:
    """Return the executor of ``engine``; None if the backend computes the graph as a whole.

    ``others`` maps options that need kernels to whether they are chosen.

    Raises:
        RefusedError: the format has no backend, or does not support ``engine`` or one of
            ``others``.
        UsageError: the engine is unknown, or it or the backend is not installed.
    """
    if (
        engine is None
        and not any(others.values())
        and not find_format(graph).supports(Operation.RUN)
    ):
        return None  # structure and parameters are compared without a run
    return _require_backend(graph, where).choose_executor(graph, engine, others, where, options)


def list_unsupported(graph: Graph, nodes: Sequence[Node]) -> list[Fault]:
    """Return a fault for each node that the graph's backend is known not to compute."""
    backend = _find_backend(find_format(graph).backends)
    return [] if backend is None else backend.list_unsupported(nodes)


def find_obstacle(graph: Graph) -> str:
    """Return why no backend of a graph can be used here, with a fix; empty if one can."""
    if lacks := find_format(graph).find_lacks(Operation.RUN, [""]):
        return lacks[0].message
    return _require_backend(graph).find_obstacle()


def warm_up(backends: Sequence[str]) -> None:
    """Start the process of the first backend, if any, while the caller goes on."""
    backend = _find_backend(backends)
    if backend is not None:
        backend.warm_up()


def _find_backend(backends: Sequence[str]) -> Backend | None:
    backend: Backend | None = import_module(backends[0]).BACKEND if backends else None
    return backend


def _require_backend(graph: Graph, where: str = "") -> Backend:
    """Return a graph's first backend. Raises RefusedError without one."""
    format_ = find_format(graph)
    return format_.demand(_find_backend(format_.backends), Operation.RUN, where=where)
