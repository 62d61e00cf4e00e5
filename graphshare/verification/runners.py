"""Sources of values to compare: a computation, a part of another run, and existing values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from traceback import clear_frames
from typing import Any

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.errors import InputError, MemoryLimitError, RefusedError
from graphshare.execute.backends.backend import REFERENCE, Computation, Look
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ir.terms import Place
from graphshare.ops.kernel import Array

ABSENT = object()
"""Stands for a value that a record lacks."""


class Refused(msgspec.Struct, frozen=True):
    """Stands for outputs if a side rejects its inputs with an ``error``."""

    error: InputError | RefusedError

    @property
    def reason(self) -> str:
        """The first fault."""
        return str(self.error.faults[0])


Outputs = Sequence[Any] | Refused


def has_refused(outputs: Iterable[Any]) -> bool:
    """Whether one side rejects its inputs."""
    return any(isinstance(each, Refused) for each in outputs)


def try_run(
    computation: Computation, values: Mapping[Node, Array], seed: int | None = None
) -> Outputs:
    """Return the outputs of a computation, or its refusal. Raises MemoryLimitError."""
    try:
        return computation.run(values, seed=seed).outputs
    except MemoryLimitError:
        raise
    except (InputError, RefusedError) as error:
        cause: BaseException | None = error
        while cause is not None:
            clear_frames(cause.__traceback__)  # or they would keep all values of the run in memory
            cause = cause.__cause__ or cause.__context__
        return Refused(error)


class Runner(ABC):
    """Computes one side of a comparison, for fixed inputs.

    ``title`` is for messages, ``inputs`` are the values that it computes from, ``variables`` are
    values to compare, ``peak_bytes`` is the peak memory of computed values.
    """

    title: str = ""
    engine: str = REFERENCE
    inputs: Mapping[Node, Any] = EMPTY
    variables: Mapping[Node, Any] = EMPTY
    peak_bytes: int = 0

    @abstractmethod
    def run(self) -> Sequence[Any]:
        """Return the outputs, computed once."""

    @abstractmethod
    def watch(self, look: Look) -> None:
        """Call ``look`` with each node, output index and value, in topological order.

        Values may be overwritten later.
        """

    def label(self, node: Node, index: int) -> str:
        """Name an inner output of a reference."""
        return node.name


class ComputationRunner(Runner):
    """A computation for ``values`` of its variables, with ``outputs`` if already computed.

    ``seed`` is for operators that draw numbers. With ``by_output`` inner outputs have their own
    names.
    """

    def __init__(
        self,
        computation: Computation,
        values: Mapping[Node, Array],
        outputs: Outputs | None = None,
        *,
        seed: int | None = None,
        by_output: bool = False,
    ) -> None:
        self.computation, self.inputs, self.engine = computation, values, computation.engine
        self._outputs = (
            [outputs] * len(computation.graph.heads) if isinstance(outputs, Refused) else outputs
        )
        self._seed, self._by_output = seed, by_output

    def run(self) -> Sequence[Any]:
        """Raises RefusedError."""
        if self._outputs is None:
            done = self.computation.run(self.inputs, seed=self._seed)
            self._outputs, self.peak_bytes = done.outputs, done.peak_bytes
        return self._outputs

    @property
    def variables(self) -> Mapping[Node, Any]:  # type: ignore[override]
        return self.computation.complete(self.inputs)[0]

    def watch(self, look: Look) -> None:
        self.computation.watch(self.inputs, look, seed=self._seed)

    def label(self, node: Node, index: int) -> str:
        return output_name(Entry(node, index)) if self._by_output else node.name


class PartRunner(Runner):
    """Outputs of another run by their ``places``, such as one branch's."""

    def __init__(self, whole: Runner, places: Sequence[int]) -> None:
        self.engine, self.inputs = whole.engine, whole.inputs
        self._whole, self._places = whole, places

    def run(self) -> Sequence[Any]:
        outputs = self._whole.run()
        # Parts of a batch cannot be measured.
        self.peak_bytes = self._whole.peak_bytes
        return [outputs[place] for place in self._places]

    def watch(self, look: Look) -> None:
        """Do nothing: a single branch's inner values are unknown."""


class RecordRunner(Runner):
    """Values of a record or a finished run: ``outputs``, and named ``inner`` values by place."""

    def __init__(
        self, title: str, outputs: Sequence[Any], inner: Mapping[Place, tuple[str, Any]] = EMPTY
    ) -> None:
        self.title = title
        self._outputs, self._inner = outputs, inner

    def run(self) -> Sequence[Any]:
        return self._outputs

    def watch(self, look: Look) -> None:
        for (node, index), (_, value) in self._inner.items():
            look(node, index, value)

    def label(self, node: Node, index: int) -> str:
        return self._inner[node, index][0]


class Round(msgspec.Struct, frozen=True, eq=False):
    """One set of inputs, at the sizes of ``sizes_of``: reference and counterpart by engine."""

    runners: Mapping[str, tuple[Runner, Runner]]
    sizes_of: str | None = None
