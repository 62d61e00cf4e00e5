"""Models in sessions of onnxruntime, and errors of a session in terms of the model: its file, node and input."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.errors import GraphshareError, InputError, RefusedError
from graphshare.execute.prepare.memory import check_memory
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array, Shape
from graphshare.ops.registry import visible_outputs
from graphshare.resources import can_limit_process

if TYPE_CHECKING:
    from graphshare.execute.engines.confined_session import ConfinedSession
    from graphshare.execute.engines.onnx_session import OnnxSession

# The forms in which onnxruntime names a node in its messages.
_NODE = re.compile(r"Name:'([^']+)'|Node ?\(([^)]+)\)")
_HINT = "give sizes that the model computes with `shapes={NAME: SIZES}`, or values with `feeds={NAME: FILE}`"


class OpenModel(ABC):
    """A model in a session of onnxruntime; ``where`` is its name in messages."""

    session: OnnxSession
    where: str = ""

    @abstractmethod
    def open_inner(self) -> tuple[Sequence[Entry], OnnxSession]:
        """Return the outputs of operators in topological order, and a session that has them as its outputs."""

    def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Return the outputs. Raises RefusedError with the options that give other inputs where onnxruntime fails."""
        try:
            with self.locate():
                return self.session.run(feeds)
        except InputError as error:
            raise RefusedError([msgspec.structs.replace(fault, hint=fault.hint or _HINT) for fault in error.faults]) from None

    def compute_inner(self, feeds: Mapping[str, Array]) -> Sequence[tuple[Entry, Any]]:
        """Return the outputs of operators in topological order, with their values. Raises InputError or RefusedError."""
        entries, session = self.open_inner()
        with self.locate():
            return list(zip(entries, session.run(feeds), strict=True))

    @contextmanager
    def locate(self) -> Iterator[None]:
        """Name the model, and the node that onnxruntime names in its text, in errors that do not."""
        try:
            yield
        except GraphshareError as error:
            faults = []
            for fault in error.faults:
                match = _NODE.search(fault.message) if fault.node is None else None
                faults.append(msgspec.structs.replace(fault, node=match[1] or match[2]) if match else fault)
            raise type(error)(faults).with_location(self.where) from None


class SessionPart(OpenModel):
    """The part of a graph that ``heads`` need in a session of onnxruntime, where equal nodes are computed each for itself.

    ``options`` are those of :class:`OnnxSession`.

    Raises:
        UsageError: onnxruntime is not installed.
        InputError: it refuses the part.
        RefusedError: the part has external data in several directories.
    """

    session: ConfinedSession
    _checked: Mapping[str, Sequence[int]] | None = None

    def __init__(
        self, graph: Graph, heads: Sequence[Entry], params: ParameterFile | None, where: str = "", **options: Any
    ) -> None:
        self._options = options
        nodes = tuple(post_order(entry.node for entry in heads))
        self.graph = Graph(nodes, tuple(heads), graph.attrs, graph.source)
        self.where, self.parameters = where, params
        self.session = self.open(heads)

    def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        if not self.session.is_open:
            self.session = self.open(self.graph.heads)
        self.check_sizes(feeds)
        return super().run(feeds)

    def select(self, heads: Sequence[Entry]) -> SessionPart:
        """Return the part that ``heads`` need."""
        return SessionPart(self.graph, heads, self.parameters, self.where)

    def open(self, heads: Sequence[Entry]) -> ConfinedSession:
        """Return a session in which ``heads`` of the part are the outputs."""
        from graphshare.execute.engines.confined_session import ConfinedSession
        from graphshare.formats.onnx.staging import encode_for_session  # start-up: few runs are of ONNX models

        part = Graph(self.graph.nodes, tuple(heads), self.graph.attrs, self.graph.source)
        self.check_sizes(EMPTY)
        with self.locate():
            model, folder = encode_for_session(part, self.parameters)
            # Equal branches must both be computed, or a comparison would compare a branch with itself.
            # Threads sleep: in the other process they would spin while this one computes.
            return ConfinedSession(model, folder, merge_equal=False, awake=False, **self._options)

    def check_sizes(self, feeds: Mapping[str, Array]) -> None:
        """Compare sizes inferred from ``feeds`` with the limit of memory, where onnxruntime's process cannot have that limit.

        Shapes that the file states for the values of operators are not trusted. Raises MemoryLimitError.
        """
        arrays = {name: array for name, array in feeds.items() if hasattr(array, "shape")}  # others are sequences, or nothing
        shapes = {name: array.shape for name, array in arrays.items() if name in self.session.inputs}
        if can_limit_process() or shapes == self._checked:
            return
        nodes = self.graph.nodes
        inference = infer_by_format(self.graph, list(nodes), shapes, independent=True)
        sized = {node: [_keep_numbers(shape) for shape in row] for node, row in inference.shapes.items()}
        inference = msgspec.structs.replace(inference, shapes=sized)
        with self.locate():
            check_memory(nodes, self.graph.heads, inference, EMPTY)
        self._checked = shapes

    def open_inner(self) -> tuple[Sequence[Entry], OnnxSession]:
        entries = [entry for node in self.graph.nodes if not node.is_variable for entry in visible_outputs(node)]
        session = self.open(entries)
        # numpy has no arrays of some dtypes, such as bfloat16; with one of them as an output no run succeeds.
        if session.unreadable:
            entries = [entry for entry in entries if output_name(entry) not in session.unreadable]
            session = self.open(entries)
        return entries, session


def _keep_numbers(shape: Sequence[int | str | None] | None) -> Shape:
    return None if shape is None else tuple(size if isinstance(size, int) else None for size in shape)


def infer_by_format(
    part: Graph, nodes: list[Node], shapes: Mapping[str, Sequence[int | None]], *, independent: bool = False
) -> Inference:
    """Return the types of values that the format of a graph can infer, for ``shapes`` of inputs by name.

    A size may be a name. With ``independent`` shapes that the file states for the values of operators are not trusted.
    """
    entries = [entry for node in nodes for entry in visible_outputs(node)]
    types = find_format(part).find_types(part, entries, shapes=shapes, independent=independent)
    known = {
        node: [types[node, i].parts if (node, i) in types else (None, None) for i in range(node.num_outputs or 1)]
        for node in nodes
    }
    dtypes = {node: [dtype for dtype, _ in row] for node, row in known.items()}
    return Inference(nodes, {node: [shape for _, shape in row] for node, row in known.items()}, dtypes)
