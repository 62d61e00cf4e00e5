"""Optional parts of a model format, one class each. Default answers describe a format without it.

A format sets an instance of a derived class as its attribute
(:class:`graphshare.formats.model_format.ModelFormat`). Facets without a useful default are None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from graphshare.errors import Fault
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import Dimensions, Tensor
from graphshare.ir.walk import Body, iter_nodes

if TYPE_CHECKING:  # start-up: few commands make terms
    from graphshare.ir.terms import Facts, NormalForm, Place, ReadContent, TermTable


Dimension = int | str | None


class TensorType(msgspec.Struct, frozen=True):
    """A dtype (empty if not stated) and a shape: None if even the rank is open, a text for a named
    size.
    """

    dtype: str = ""
    shape: tuple[Dimension, ...] | None = None

    def __str__(self) -> str:
        sizes = (
            ""
            if self.shape is None
            else f" ({', '.join('?' if size is None else str(size) for size in self.shape)})"
        )
        return f"{self.dtype or 'any dtype'}{sizes}"

    @property
    def parts(self) -> tuple[str | None, tuple[Dimension, ...] | None]:
        return self.dtype or None, self.shape

    def contradicts(self, other: StaticType) -> bool:
        """Whether no tensor is of both types."""
        if isinstance(other, NestedType):
            return True
        if self.dtype and other.dtype and self.dtype != other.dtype:
            return True
        if self.shape is None or other.shape is None:
            return False
        sizes = zip(self.shape, other.shape, strict=False)
        unequal = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes)
        return len(self.shape) != len(other.shape) or unequal


class NestedType(msgspec.Struct, frozen=True):
    """A type of other values: a sequence, optional, map or sparse tensor of ``inner``."""

    kind: str
    inner: StaticType

    def __str__(self) -> str:
        return f"{self.kind} of {self.inner}"

    @property
    def parts(self) -> tuple[str, None]:
        return str(self), None

    def contradicts(self, other: StaticType) -> bool:
        """Whether no value is of both types."""
        return (
            isinstance(other, TensorType)
            or self.kind != other.kind
            or self.inner.contradicts(other.inner)
        )


StaticType = TensorType | NestedType
"""The type of a value."""


class Integers(msgspec.Struct, frozen=True):
    """The integers that an input needs, and ``why``: one of ``values``, or from ``low`` to below
    ``high``.

    A mask is 0 and 1, with a 1 in every row, unless the same input needs something else. Without
    ``why`` the range counts only if the input needs nothing.
    """

    why: str
    values: tuple[int, ...] = ()
    low: int = 0
    high: int = 0
    is_mask: bool = False


class Types:
    """The types of values: stated in a file, or inferred.

    With ``are_stated`` files state the types of inputs and outputs, with ``are_inferred`` the
    format infers others; with ``can_change`` fixed sizes can be changed.
    """

    are_stated: ClassVar[bool] = False
    are_inferred: ClassVar[bool] = False
    can_change: ClassVar[bool] = False

    def list_replaceable(self, graph: Graph) -> Iterator[Node]:
        """Yield the declared inputs, also those with a value."""
        return iter(())

    def list_types(self, graph: Graph) -> Mapping[str, StaticType]:
        """Return the stated types of inputs and outputs."""
        return {}

    def list_input_types(self, graph: Graph) -> Mapping[str, StaticType]:
        return {}

    def find_types(
        self,
        graph: Graph,
        entries: Iterable[Entry],
        *,
        shapes: Mapping[str, Sequence[int | None]] = EMPTY,
        independent: bool = False,
    ) -> Mapping[tuple[Node, int], StaticType]:
        """Return the known types of values by node and index.

        ``shapes`` are shapes of inputs by name. With ``independent`` inferred types take precedence
        over stated ones.

        Raises:
            RefusedError: ``shapes`` contradict the file or name no input; all are listed.
        """
        return {}

    def list_untyped(self, graph: Graph, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the values whose type is unknown, if the format needs it."""
        return ()

    def list_untyped_outputs(self, graph: Graph) -> Sequence[str]:
        """The same for a graph's outputs."""
        return ()

    def explain_unknown_types(self, names: Collection[str]) -> str:
        """Return a note on values without a known type."""
        return ""

    def find_integers(self, graph: Graph) -> Mapping[str, Sequence[Integers]]:
        """Return the integers that a graph's inputs need; files state dtypes only."""
        return {}


class Editing:
    """The nodes that rewrites add to a graph."""

    def make_inputs(
        self, graph: Graph, cuts: Mapping[tuple[Node, int], str]
    ) -> Mapping[tuple[Node, int], Node]:
        """Return a variable for each output in ``cuts``, with the name in ``cuts``.

        Raises:
            RefusedError: the format needs the type of an output, and it is not known; all are
            listed.
        """
        return {key: Node("", name, num_outputs=1) for key, name in cuts.items()}

    def make_input(self, name: str, dtype: str, shape: Sequence[int | str | None] | None) -> Node:
        """Return a new variable; of any rank, if ``shape`` is None."""
        return Node("", name, num_outputs=1)

    def make_parameter(self, graph: Graph, name: str, dtype: str, shape: tuple[int, ...]) -> Node:
        """Return a new variable of ``graph`` whose value is the parameter of its name."""
        return Node("", name, num_outputs=1)

    def make_constant(self, graph: Graph, node: Node, value: Tensor) -> Node:
        """Return the operator or new parameter that replaces an operator with this ``value``."""
        return self.make_parameter(graph, node.name, value.dtype, value.shape)

    def state_type(self, node: Node, index: int, dtype: str, shape: Dimensions) -> Node:
        return node

    def restate_shapes(self, node: Node, shapes: Mapping[int, Dimensions]) -> Node:
        """Return a node with other stated shapes, by output, if it states one.

        An unknown size stays unchanged unless it is a number.
        """
        return node

    def declare_output(self, graph: Graph, dtype: str, shape: tuple[int, ...]) -> Graph:
        """Return a graph with a stated type of its only output."""
        return graph

    def take_outputs(self, node: Node, other: Node) -> Node:
        """Return ``node`` with the outputs of ``other``: their names and stated types."""
        return msgspec.structs.replace(node, name=other.name)

    def open_input(self, node: Node, types: Sequence[StaticType | None]) -> Node:
        """Return an input for values of all ``types``: unequal sizes are open."""
        return node


class Bodies:
    """Graphs inside graphs: bodies of switches and loops, and functions that operators call."""

    def find_calls(self, graph: Graph) -> Callable[[Node], Body | None]:
        """Return a function that finds the body of a call; body inputs capture operator inputs."""
        return lambda node: None

    def index_functions(
        self, graph: Graph, nodes: Iterable[Node] | None = None
    ) -> Sequence[Record]:
        """Return the records of weights in a model's functions, or in those that ``nodes`` call.

        All calls of a function share them, so no rewrite moves or copies them.
        """
        return ()

    def find_switch(self, node: Node) -> tuple[Entry, tuple[Body, Body]] | None:
        """Return a switch's condition, and its bodies for true and for false."""
        return None

    def start_body(
        self, node: Node, operands: Sequence[Any], counters: Sequence[Any]
    ) -> list[Any] | None:
        """Return the values of an operator's body inputs in the first pass, if known.

        ``operands`` are its own inputs by position, None for absent ones, ``counters`` the number
        of the first pass and whether there is one.
        """
        return None


class Switches(ABC):
    """Operators that compute one of two graphs, to group models behind a switch."""

    @abstractmethod
    def make_switch(
        self,
        name: str,
        bodies: tuple[Graph, Graph],
        outputs: Sequence[tuple[str, Sequence[StaticType | None]]],
    ) -> tuple[Node, Node]:
        """Return a boolean input, and an operator that computes the first body if it is true, else
        the second.

        The operator has no inputs yet. ``outputs`` has the name of each output, and its types in
        the bodies.
        """

    @abstractmethod
    def find_switch_version(self, kind: StaticType) -> int | None:
        """Return the first operator set version whose switch returns values of a type."""


class Inlined(msgspec.Struct, frozen=True):
    """A graph with nodes in place of ``count`` calls; ``defined`` of them were fused operators."""

    graph: Graph
    count: int = 0
    defined: int = 0


class Meaning:
    """The meaning of operators, to show that unlike graphs compute the same.

    With ``is_known`` rewrites may replace operators by equivalent ones.
    """

    is_known: ClassVar[bool] = False

    def make_normal_form(
        self, graph: Graph, table: TermTable, facts: Facts, read: ReadContent
    ) -> NormalForm | None:
        """Return the terms of a graph's nodes, if the format has a normal form.

        ``read`` returns the content of a variable whose array is outside of the graph's file.
        """
        return None

    def list_converted_names(self, graph: Graph) -> Mapping[Place, str]:
        """Return the names that nameless values get in another format."""
        return EMPTY

    def draws_numbers(self, node: Node) -> bool:
        """Whether an operator draws random numbers that no seed of ours determines."""
        return False

    def list_drawing(self, graph: Graph) -> list[Node]:
        """Return the operators that draw such numbers, themselves or in their bodies."""
        drawing = []
        for node in graph.nodes:
            inner = chain.from_iterable(map(iter_nodes, node.subgraphs))
            if node.op and any(map(self.draws_numbers, chain([node], inner))):
                drawing.append(node)
        return drawing

    def inline_calls(
        self,
        graph: Graph,
        heads: Sequence[Entry],
        fused: Collection[str] = (),
        known: Collection[str] = (),
    ) -> Inlined:
        """Return the graph of ``heads`` with calls, and ``fused`` operators with definitions,
        inlined.

        The standard's definitions are used if they contain only ``known`` operators. Raises
        RefusedError.
        """
        return Inlined(graph)

    def find_computable(
        self, graph: Graph, types: Mapping[Place, StaticType]
    ) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
        """Return the outputs that depend on constants alone and feed other operators, and known
        sizes.
        """
        return [], {}


class Description:
    """Texts about a file and its nodes in pictures and reports."""

    def print_file(self, data: bytes) -> str:
        return data.decode("utf-8", "backslashreplace")

    def describe_operator(self, node: Node) -> list[str]:
        """Return the most telling attributes, abbreviated."""
        return []

    def describe_constant(self, node: Node) -> str:
        """Return the value of a small constant in a few characters."""
        return ""

    def measure_attributes(self, node: Node) -> Mapping[str, int]:
        """Return the bytes of each attribute that is an array or a list."""
        return EMPTY

    def name_operand(self, node: Node, position: int) -> str:
        return f"input {position}"


class OperatorSets(ABC):
    """Versions of a set of operators, for joining models."""

    @abstractmethod
    def find_used_version(self, graph: Graph) -> int | None:
        """Return the version that a graph is written for, if it uses the set."""

    @abstractmethod
    def raise_version(self, graph: Graph, version: int) -> Rewrite:
        """Raises RefusedError with all reasons why the graph cannot be converted."""


class Content(msgspec.Struct, frozen=True):
    """The SHA-256 and the number of an array's bytes."""

    digest: str
    size: int


class StagedModel(msgspec.Struct, frozen=True, eq=False):
    """A model written beside its ``target``, with ``size`` bytes; ``contents`` are its arrays in
    the pool.

    ``kept`` counts the bytes of other arrays that are large enough for a pool. ``read`` returns the
    model's bytes in a computable form, and the folder of its weights.
    """

    target: str
    size: int
    contents: Sequence[Content]
    kept: int
    read: Callable[[], tuple[bytes, str]]


class ModelPooling(ABC):
    """Many models on one file of weights, with equal arrays once."""

    @abstractmethod
    def find_faults(self, graph: Graph, parameters: ParameterFile | None) -> Sequence[Fault]:
        """Return why weights in a pool do not belong to a model. Raises InputError: files of
        weights are missing.
        """

    @abstractmethod
    def hash_arrays(self, graph: Graph, parameters: ParameterFile | None) -> Sequence[Content]:
        """Return the content of each array that a pool takes. Raises InputError for one that cannot
        be read.
        """

    @abstractmethod
    def stage(
        self,
        models: Sequence[tuple[Graph, ParameterFile | None, str]],
        path: str,
        stage: OutputTransaction,
    ) -> tuple[Sequence[StagedModel], int]:
        """Write models beside their targets, and their weights into the file ``path``; return its
        size.

        Without a path each model's file gets its weights. All are compared with their sources.

        Raises:
            InputError: a file cannot be read.
            RefusedError: the file of weights is not one of a pool; a model would be too large.
            SelfCheckError: a model or an array does not read back as it was.
        """

    @abstractmethod
    def count_orphans(self, path: str) -> int:
        """Count a weight file's bytes that no model beside it uses; 0 if unknown."""


class TextLayout(ABC):
    """The layout of a file that is a text."""

    @abstractmethod
    def relayout(self, graph: Graph, layout: str | None) -> Graph:
        """Return ``graph`` to be written in a layout; None keeps its own.

        Raises UsageError: there is no such layout.
        """
