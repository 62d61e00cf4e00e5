"""Optional parts of a model format: one class for each facet. Its default answers describe a format without the facet.

A format that has a facet derives a class and sets an instance as its attribute
(:class:`graphshare.formats.model_format.ModelFormat`). Facets without a useful answer of their own are None by default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from graphshare.errors import Fault
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, Rewrite
from graphshare.ir.onnx import Dimensions, Tensor
from graphshare.ir.walk import Body

if TYPE_CHECKING:  # start-up: few commands make terms
    from graphshare.ir.terms import Facts, NormalForm, Place, ReadContent, TermTable


Dimension = int | str | None


class TensorType(msgspec.Struct, frozen=True):
    """A dtype (empty where none is stated) and a shape: None where even the rank is open, a text
    for a size with a name.
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
        """Return the dtype and the shape, each None where it is not known."""
        return self.dtype or None, self.shape

    def contradicts(self, other: StaticType) -> bool:
        """Return whether no tensor is of both types."""
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
    """A type of values that are not plain tensors: a sequence, an optional value, a map or a sparse
    tensor of ``inner``.
    """

    kind: str
    inner: StaticType

    def __str__(self) -> str:
        return f"{self.kind} of {self.inner}"

    @property
    def parts(self) -> tuple[str, None]:
        """Return the type as a text, and no shape."""
        return str(self), None

    def contradicts(self, other: StaticType) -> bool:
        """Return whether no value is of both types."""
        return (
            isinstance(other, TensorType)
            or self.kind != other.kind
            or self.inner.contradicts(other.inner)
        )


StaticType = TensorType | NestedType
"""The type of a value."""


class Integers(msgspec.Struct, frozen=True):
    """The integers that an input of a graph needs, and ``why``: one of ``values``, or from ``low`` to below ``high``.

    A mask is 0 and 1, with a 1 in every row, unless the same input needs something else.
    """

    why: str
    values: tuple[int, ...] = ()
    low: int = 0
    high: int = 0
    is_mask: bool = False


class Types:
    """The types of values: those that a file states, and those that follow from them.

    With ``are_stated`` files state the types of inputs and outputs, with ``are_inferred`` the
    format infers others from them; with ``can_change`` sizes that a file fixes can become others.
    """

    are_stated: ClassVar[bool] = False
    are_inferred: ClassVar[bool] = False
    can_change: ClassVar[bool] = False

    def list_replaceable(self, graph: Graph) -> Iterator[Node]:
        """Yield the variables, also some with a value, that the file declares to be inputs; none
        where it declares none.
        """
        return iter(())

    def list_types(self, graph: Graph) -> Mapping[str, StaticType]:
        """Return the types that the file states of inputs and outputs, by name."""
        return {}

    def list_input_types(self, graph: Graph) -> Mapping[str, StaticType]:
        """Return the types that the file states of inputs, by name."""
        return {}

    def find_types(
        self,
        graph: Graph,
        entries: Iterable[Entry],
        *,
        shapes: Mapping[str, Sequence[int | None]] = EMPTY,
        independent: bool = False,
    ) -> Mapping[tuple[Node, int], StaticType]:
        """Return the types of values by node and index, as far as the format has types and they are known.

        ``shapes`` are shapes of inputs by name. With ``independent`` inferred types come before
        those that the file states.

        Raises:
            RefusedError: a name of ``shapes`` names no input, or the file states a different shape
                for it; all are listed.
        """
        return {}

    def list_untyped(self, graph: Graph, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the values without a stated or known type, where an input or output of the format needs one."""
        return ()

    def list_untyped_outputs(self, graph: Graph) -> Sequence[str]:
        """Return the outputs without a stated or known type, where the format needs one."""
        return ()

    def explain_unknown_types(self, names: Collection[str]) -> str:
        """Return a note on values whose types :meth:`find_types` does not find."""
        return ""

    def find_integers(self, graph: Graph) -> Mapping[str, Sequence[Integers]]:
        """Return the integers that the inputs of a graph need, by name; the file itself states dtypes only."""
        return {}


class Editing:
    """The nodes that rewrites add to a graph."""

    def make_inputs(
        self, graph: Graph, cuts: Mapping[tuple[Node, int], str]
    ) -> Mapping[tuple[Node, int], Node]:
        """Return a variable for each output in ``cuts``, by node and index, with the name that ``cuts`` gives it.

        Raises:
            RefusedError: the format needs the type of an output, and it is not known; all are listed.
        """
        return {key: Node("", name, num_outputs=1) for key, name in cuts.items()}

    def make_input(self, name: str, dtype: str, shape: Sequence[int | str | None] | None) -> Node:
        """Return a new variable that takes values of this type; of any rank, if ``shape`` is None."""
        return Node("", name, num_outputs=1)

    def make_parameter(self, graph: Graph, name: str, dtype: str, shape: tuple[int, ...]) -> Node:
        """Return a new variable for ``graph``; a model's parameters have its value under its name."""
        return Node("", name, num_outputs=1)

    def make_constant(self, graph: Graph, node: Node, value: Tensor) -> Node:
        """Return the node that replaces an operator of ``graph`` with this ``value``: an operator,
        or a new parameter.
        """
        return self.make_parameter(graph, node.name, value.dtype, value.shape)

    def state_type(self, node: Node, index: int, dtype: str, shape: Dimensions) -> Node:
        """Return a node whose file states the type of an output."""
        return node

    def restate_shapes(self, node: Node, shapes: Mapping[int, Dimensions]) -> Node:
        """Return a node whose file states other shapes, by the index of the output, where it states one.

        An unknown size stays unchanged unless it is a number.
        """
        return node

    def declare_output(self, graph: Graph, dtype: str, shape: tuple[int, ...]) -> Graph:
        """Return a graph whose file states the type of its only output."""
        return graph

    def take_outputs(self, node: Node, other: Node) -> Node:
        """Return ``node`` with the outputs of ``other`` in place of its own: their names and stated types."""
        return msgspec.structs.replace(node, name=other.name)

    def open_input(self, node: Node, types: Sequence[StaticType | None]) -> Node:
        """Return an input that takes the values of all ``types``: sizes that are not the same are open."""
        return node


class Bodies:
    """Graphs inside graphs: the bodies of switches and loops, and the functions that operators call."""

    def find_calls(self, graph: Graph) -> Callable[[Node], Body | None]:
        """Return a function that finds the body that an operator calls; inputs of the body capture
        the operator's inputs.
        """
        return lambda node: None

    def index_functions(
        self, graph: Graph, nodes: Iterable[Node] | None = None
    ) -> Sequence[Record]:
        """Return the records of weights in functions that a model defines, or in those that ``nodes`` call.

        No rewrite moves or copies them: all calls of a function share them.
        """
        return ()

    def find_switch(self, node: Node) -> tuple[Entry, tuple[Body, Body]] | None:
        """Return the condition of a switch, and its bodies for true and for false; None for other operators."""
        return None

    def start_body(
        self, node: Node, operands: Sequence[Any], counters: Sequence[Any]
    ) -> list[Any] | None:
        """Return the values that the bodies of an operator are given in their first pass; None where that is not known.

        ``operands`` are the values of its own inputs by position, None for those that are absent,
        ``counters`` are the number of the first pass and that there is one.
        """
        return None


class Switches(ABC):
    """Operators that compute one of two graphs, for models that are grouped behind a switch."""

    @abstractmethod
    def make_switch(
        self,
        name: str,
        bodies: tuple[Graph, Graph],
        outputs: Sequence[tuple[str, Sequence[StaticType | None]]],
    ) -> tuple[Node, Node]:
        """Return a boolean input, and an operator that computes the first body where it is true, and else the second.

        The operator has no inputs yet. ``outputs`` has the name of each output, and its types in the bodies.
        """

    @abstractmethod
    def find_switch_version(self, kind: StaticType) -> int | None:
        """Return the first version of the operator set whose switch returns values of a type; None where none does."""


class Inlined(msgspec.Struct, frozen=True):
    """A graph with nodes in place of ``count`` calls; ``defined`` of them were fused operators."""

    graph: Graph
    count: int = 0
    defined: int = 0


class Meaning:
    """The meaning of operators: it shows that two graphs that are written differently compute the same.

    With ``is_known`` rewrites may replace operators by others that compute the same.
    """

    is_known: ClassVar[bool] = False

    def make_normal_form(
        self, graph: Graph, table: TermTable, facts: Facts, read: ReadContent
    ) -> NormalForm | None:
        """Return the terms of the nodes of a graph; None for a format without a normal form.

        ``read`` returns the content of a variable whose array is not in the file of its graph.
        """
        return None

    def list_converted_names(self, graph: Graph) -> Mapping[Place, str]:
        """Return the names that values without names get in another format, by their places; none
        where all have names.
        """
        return EMPTY

    def draws_numbers(self, node: Node) -> bool:
        """Return whether an operator draws random numbers that no seed of ours determines."""
        return False

    def inline_calls(
        self,
        graph: Graph,
        heads: Sequence[Entry],
        fused: Collection[str] = (),
        known: Collection[str] = (),
    ) -> Inlined:
        """Return the graph of ``heads`` with nodes in place of calls, and of ``fused`` operators that have definitions.

        Definitions in the format's standard are used if they contain only ``known`` operators. Raises RefusedError.
        """
        return Inlined(graph)

    def find_computable(
        self, graph: Graph, types: Mapping[Place, StaticType]
    ) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
        """Return the outputs that depend on constants alone and are read by other operators, and
        the sizes that are known.
        """
        return [], {}


class Description:
    """Texts about a file and its nodes in pictures and reports."""

    def print_file(self, data: bytes) -> str:
        """Return a file for people to read: a text unchanged."""
        return data.decode("utf-8", "backslashreplace")

    def describe_operator(self, node: Node) -> list[str]:
        """Return the most telling attributes of an operator, abbreviated."""
        return []

    def describe_constant(self, node: Node) -> str:
        """Return the value of a small constant in a few characters; empty for any other node."""
        return ""

    def measure_attributes(self, node: Node) -> Mapping[str, int]:
        """Return the bytes of each attribute that is an array or a list, by name."""
        return EMPTY

    def name_operand(self, node: Node, position: int) -> str:
        """Return the name of an input of an operator in a picture."""
        return f"input {position}"


class OperatorSets(ABC):
    """Versions of a set of operators, for models that are joined and have different ones."""

    @abstractmethod
    def find_used_version(self, graph: Graph) -> int | None:
        """Return the version that a graph is written for; None where it uses no operator of the set."""

    @abstractmethod
    def raise_version(self, graph: Graph, version: int) -> Rewrite:
        """Return a graph for a later version.

        Raises:
            RefusedError: it cannot be converted; all reasons are listed.
        """


class Content(msgspec.Struct, frozen=True):
    """The SHA-256 and the number of the bytes of an array: equal for arrays of equal bytes."""

    digest: str
    size: int


class StagedModel(msgspec.Struct, frozen=True, eq=False):
    """A model that is written beside its ``target``, with ``size`` bytes; ``contents`` are its arrays in the pool.

    ``kept`` counts the bytes of those that are large enough for a pool and are in the model.
    ``read`` returns the bytes of the model as it can be computed now, and the folder of its
    weights.
    """

    target: str
    size: int
    contents: Sequence[Content]
    kept: int
    read: Callable[[], tuple[bytes, str]]


class Pooling(ABC):
    """Many models on one file of weights: equal arrays are there once."""

    @abstractmethod
    def find_faults(self, graph: Graph, parameters: ParameterFile | None) -> Sequence[Fault]:
        """Return why weights in a pool do not belong to a model. Raises InputError: files of weights are missing."""

    @abstractmethod
    def hash_arrays(self, graph: Graph, parameters: ParameterFile | None) -> Sequence[Content]:
        """Return the content of each array that a pool takes. Raises InputError for one that cannot be read."""

    @abstractmethod
    def stage(
        self,
        models: Sequence[tuple[Graph, ParameterFile | None, str]],
        path: str,
        stage: OutputTransaction,
    ) -> tuple[Sequence[StagedModel], int]:
        """Write models beside their targets, and their weights into the file ``path``, whose size is returned.

        Without a path the models get their weights into their own files. All are compared with their sources.

        Raises:
            InputError: a file cannot be read.
            RefusedError: the file of weights is not one of a pool; a model would be too large.
            SelfCheckError: a model does not read back as it was, or an array has other bytes.
        """

    @abstractmethod
    def count_orphans(self, path: str) -> int:
        """Return how many bytes of a file of weights no model beside it points into; 0 where this cannot be known."""


class Layout(ABC):
    """The layout of a file that is a text."""

    @abstractmethod
    def relayout(self, graph: Graph, layout: str | None) -> Graph:
        """Return ``graph`` to be written in a layout; None keeps its own.

        Raises UsageError: there is no such layout.
        """
