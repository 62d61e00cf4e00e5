"""Sources of values to compare: a graph in the executor, an ONNX model in onnxruntime, a part of another run, a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Role
from graphshare.execute.engines.executor import Executor
from graphshare.execute.engines.registry import NUMPY, ONNXRUNTIME
from graphshare.execute.engines.session_model import OpenModel
from graphshare.execute.prepare.variable_values import random_stream
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs

ABSENT = object()
"""Stands in a record for a value that was not recorded."""

Look = Callable[[Node, int, Any], None]


class Runner(ABC):
    """Computes one side of a comparison, for inputs that it was made with.

    ``title`` is what messages call it, ``engine`` what computes it, and ``variables`` are values of variables to compare.
    ``peak_bytes`` is the most memory that its computed values took.
    """

    title: str = ""
    engine: str = NUMPY
    variables: Mapping[Node, Any] = EMPTY
    peak_bytes: int = 0

    @abstractmethod
    def run(self) -> Sequence[Any]:
        """Return the outputs; they are computed once."""

    @abstractmethod
    def watch(self, look: Look) -> None:
        """Call ``look`` with each node, the index of an output and its value, in topological order; the value may not stay."""

    def label(self, node: Node, index: int) -> str:
        """Return what an inner output is called as a reference."""
        return node.name


class GraphRunner(Runner):
    """``heads`` of a graph in an executor, for values of its variables.

    ``seed`` is that of operators which draw numbers. With ``by_output`` inner outputs are called by their names.
    """

    def __init__(
        self,
        heads: Sequence[Entry],
        values: Mapping[Node, Array],
        inference: Inference,
        roles: Mapping[Node, Role],
        executor: Executor,
        *,
        engine: str = NUMPY,
        seed: int | None = None,
        by_output: bool = False,
    ) -> None:
        self.variables, self.engine, self._by_output = values, engine, by_output
        self._heads, self._inference, self._roles, self._executor, self._seed = heads, inference, roles, executor, seed
        self._outputs: list[Array] | None = None

    def run(self) -> Sequence[Any]:
        if self._outputs is None:
            done = self._executor.run(self._heads, self.variables, self._inference, self._roles, rng=self._draw())
            self._outputs, self.peak_bytes = done.outputs, done.peak_bytes
        return self._outputs

    def watch(self, look: Look) -> None:
        def watch(node: Node, outputs: Sequence[Array]) -> None:
            for entry, value in zip(visible_outputs(node), outputs, strict=False):
                look(node, entry.index, value)

        self._executor.run(self._heads, self.variables, self._inference, self._roles, rng=self._draw(), watch=watch)

    def label(self, node: Node, index: int) -> str:
        return output_name(Entry(node, index)) if self._by_output else node.name

    def _draw(self) -> Any:
        return None if self._seed is None else random_stream(self._seed)


class SessionRunner(Runner):
    """A model in onnxruntime, for ``feeds`` by name; ``outputs`` if they were computed already."""

    engine = ONNXRUNTIME

    def __init__(self, model: OpenModel, feeds: Mapping[str, Array], outputs: Sequence[Any] | None = None) -> None:
        self._model, self._feeds, self._outputs = model, feeds, outputs

    def run(self) -> Sequence[Any]:
        """Return the outputs. Raises RefusedError where onnxruntime fails."""
        if self._outputs is None:
            self._outputs = self._model.run(self._feeds)
        return self._outputs

    def watch(self, look: Look) -> None:
        for entry, value in self._model.compute_inner(self._feeds):
            look(entry.node, entry.index, value)


class PartRunner(Runner):
    """Some outputs of another run, by their ``places``: those of one branch."""

    def __init__(self, whole: Runner, places: Sequence[int]) -> None:
        self.engine = whole.engine
        self._whole, self._places = whole, places

    def run(self) -> Sequence[Any]:
        outputs = self._whole.run()
        # The memory of the run as a whole: the parts of one batch cannot be told apart.
        self.peak_bytes = self._whole.peak_bytes
        return [outputs[place] for place in self._places]

    def watch(self, look: Look) -> None:
        """Call nothing: the inner values of one branch are not known by themselves."""


class RecordRunner(Runner):
    """Values that exist already: ``outputs``, and ``inner`` ones with their ``names``; of a record, or of a finished run."""

    def __init__(
        self, title: str, outputs: Sequence[Any], inner: Mapping[tuple[Node, int], Any], names: Mapping[tuple[Node, int], str]
    ) -> None:
        self.title = title
        self._outputs, self._inner, self._names = outputs, inner, names

    def run(self) -> Sequence[Any]:
        return self._outputs

    def watch(self, look: Look) -> None:
        for (node, index), value in self._inner.items():
            look(node, index, value)

    def label(self, node: Node, index: int) -> str:
        return self._names[node, index]


class Round(msgspec.Struct, frozen=True, eq=False):
    """One set of inputs, at the sizes of the branch ``sizes_of``: by engine the reference and what is compared with it."""

    runners: Mapping[str, tuple[Runner, Runner]]
    sizes_of: str | None = None
