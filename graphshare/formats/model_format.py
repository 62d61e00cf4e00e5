"""The interface of a model format: one object per format, with everything that differs between formats.

A graph names its format in ``graph.source``; :func:`find_format` returns the object, :func:`recognize_format` that of a file,
by its content. Code outside ``formats`` and ``checkpoint`` never tests the name of a format: it tests a capability, or calls a
method of the format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec

from graphshare.errors import BUG, Fault, InputError, OutputError, RefusedError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_names import FORMAT_NAMES, FormatNames
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.compare import Change
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import Body

if TYPE_CHECKING:  # start-up: few commands make terms
    from graphshare.ir.terms import Facts, NormalForm, Place, ReadContent, TermTable

_REPORTED = 20


class Capability(Enum):
    """Something that a format may not support; the value is its name in a refusal."""

    COSTS = "a count of multiply-adds"
    KERNELS = "a run in numpy"
    TRAINING = "training"
    BATCH = "a batch of branches"
    FOLD_VALUES = "the comparison of values of a fold"
    UPGRADE = "an upgrade"
    LAYOUT = "a choice of layout"
    EXPORT = "an export"
    PARAMETER_FILE = "a parameter file"
    EXTERNAL_DATA = "a choice for external data"
    POOL = "a pool of weights"
    SWITCH = "a switch between graphs"
    RESHAPE = "a choice of sizes that a file fixes"


WeightPlace = Literal["embed", "external", "params"]
"""The place of weights that no ONNX file holds: in the model, in one file beside it, or still in their parameter file."""
CopiedWeights = Literal["share", "copy"]
"""Whether copies of an initializer point at the one range of its data, or have ranges of their own."""


Origins = Sequence[tuple[Graph, Mapping[Node, Node]]]
"""Graphs with the images of their nodes."""


class RemovedMessage(msgspec.Struct, frozen=True):
    """A part of a file that a rewritten graph does not have: its kind in words of the format, the value, and the reason."""

    kind: str
    name: str
    reason: str
    file: str


class SaveOptions(msgspec.Struct, frozen=True):
    """Options for writing a model: ``weights`` is the place of those that no file of its format holds.

    ``copies`` of an initializer share its data or not; ``no_copy`` refuses to copy external data, ``verify_bytes`` compares
    copies.
    """

    copies: CopiedWeights = "share"
    no_copy: bool = False
    verify_bytes: bool = False
    weights: WeightPlace = "embed"


class Integers(msgspec.Struct, frozen=True):
    """The integers that an input of a graph needs, and ``why``: one of ``values``, or from ``low`` to below ``high``.

    A mask is 0 and 1, with a 1 in every row, unless the same input needs something else.
    """

    why: str
    values: tuple[int, ...] = ()
    low: int = 0
    high: int = 0
    is_mask: bool = False


class Inlined(msgspec.Struct, frozen=True):
    """A graph with nodes in place of ``count`` calls, of which ``defined`` were fused operators."""

    graph: Graph
    count: int = 0
    defined: int = 0


class NamedModel(msgspec.Struct, frozen=True):
    """The name of a model's file in a folder, and those of its parameter files there by epoch, the newest last."""

    name: str
    params: Mapping[int, str]


class StaticType(Protocol):
    """The type of a value, shown as a text. The size of an axis is a number, a text that is its name, or None."""

    @property
    def parts(self) -> tuple[str | None, Any]:
        """Return the dtype and the shape, each None where it is not known; of a sequence or map the whole type as a text."""

    def contradicts(self, other: Any) -> bool:
        """Return whether no value is of both types."""


class ModelFormat(ABC):
    """One model format. Instances have no state.

    ``name`` is that of :attr:`graphshare.ir.graph.Source.format`, ``title`` the name of one model in messages, with its
    article, ``plural`` that of several, and ``file`` that of the file that is written. ``backends`` are the names of those that
    compute its graphs (:mod:`graphshare.execute.backends`), the default first. With ``holds_parameters`` the values of
    parameters are in that file; with ``is_text`` it is a JSON text, in which rules find places. ``missing`` maps each
    capability that the format lacks to an alternative.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    plural: ClassVar[str]
    file: ClassVar[str]
    backends: ClassVar[Sequence[str]] = ()
    holds_parameters: ClassVar[bool] = False
    is_text: ClassVar[bool] = False
    missing: ClassVar[Mapping[Capability, str]] = {}

    @property
    def names(self) -> FormatNames:
        """Return the suffixes of files of this format."""
        return FORMAT_NAMES[self.name]

    def supports(self, capability: Capability) -> bool:
        """Return whether models of this format have a capability."""
        return capability not in self.missing

    def require(self, capability: Capability, *, what: str = "", where: str = "") -> None:
        """Refuse a model of this format if it lacks a capability. ``what`` is the name of the option that asked for it, if any.

        Raises:
            RefusedError: the format lacks it; the formats that have it are named, and an alternative.
        """
        if faults := self.find_lacks(capability, [what], where=where):
            raise RefusedError(faults)

    def find_lacks(self, capability: Capability, options: Iterable[str], *, where: str = "") -> list[Fault]:
        """Return a fault for each of ``options`` that ask for a capability which the format lacks, as :meth:`require`."""
        if self.supports(capability):
            return []
        able = " and ".join(other.plural for other in iter_formats() if other.supports(capability))
        return [
            Fault(
                f"{what or capability.value} is for {able}, and this is {self.title}",
                where=where,
                hint=self.missing[capability],
            )
            for what in options
        ]

    # Files that are read

    @abstractmethod
    def fits(self, start: bytes) -> bool:
        """Return whether a file that begins with ``start`` looks like a model of this format."""

    @abstractmethod
    def read(self, file: ModelFile, *, complete: bool = True) -> Graph:
        """Return the graph of a file. Unless ``complete``, data beside it need not be there. Raises InputError."""

    def read_text(self, file: ModelFile) -> bytes:
        """Return the bytes of a file if it begins like a text; otherwise a sample, by which it is recognized and refused."""
        return file.read() if self.fits(file.start) else file.sample()

    def index_parameters(self, graph: Graph, *, complete: bool = True) -> ParameterFile | None:
        """Return the index of the parameters in a model's own file; None where there are none.

        Unless ``complete``, also where data beside it is missing. Raises InputError.
        """
        return None

    def index_functions(self, graph: Graph, nodes: Iterable[Node] | None = None) -> Sequence[Record]:
        """Return the records of weights in functions that a model defines, or in those that ``nodes`` call.

        No rewrite moves or copies them: all calls of a function share them.
        """
        return ()

    def list_models(self, names: Collection[str]) -> Iterator[NamedModel]:
        """Yield the models among the names of the files in a folder."""
        endings = self.names.model_endings
        yield from (NamedModel(name, {}) for name in names if name.endswith(endings))

    # Files that are written

    @abstractmethod
    def encode(self, graph: Graph) -> Iterable[bytes | memoryview]:
        """Return the bytes of the file of ``graph`` in pieces."""

    @abstractmethod
    def stage(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        target: str,
        stage: OutputTransaction,
        options: SaveOptions,
    ) -> list[bytes]:
        """Write the file of ``graph`` beside ``target``, and read it back; bytes for stdout are returned instead.

        Raises:
            RefusedError: the format cannot express the graph.
            SelfCheckError: it does not read back as the graph that it was made from.
        """

    def list_spellings(self, graph: Graph) -> Iterator[Graph]:
        """Yield ``graph`` in each way in which a file of it may have been written before a rewrite was undone."""
        yield graph

    def list_as_read(self, graph: Graph) -> Sequence[Node]:
        """Return the nodes in the order that they have when the graph is written and read again."""
        return graph.nodes

    def make_inputs(self, graph: Graph, cuts: Mapping[tuple[Node, int], str]) -> Mapping[tuple[Node, int], Node]:
        """Return a variable for each output in ``cuts``, by node and index, with the name that ``cuts`` gives it.

        Raises:
            RefusedError: the format needs the type of an output, and it is not known; all are listed.
        """
        return {key: Node("", name, num_outputs=1) for key, name in cuts.items()}

    def make_input(self, name: str, dtype: str, shape: Sequence[int | str | None] | None) -> Node:
        """Return a new variable that takes values of this type; of any rank, if ``shape`` is None."""
        return Node("", name, num_outputs=1)

    def declare_output(self, graph: Graph, dtype: str, shape: tuple[int, ...]) -> Graph:
        """Return a graph whose file states the type of its only output."""
        return graph

    def make_parameter(self, graph: Graph, name: str, dtype: str, shape: tuple[int, ...]) -> Node:
        """Return a new variable for ``graph``, whose value a model's parameters have under its name."""
        return Node("", name, num_outputs=1)

    def take_outputs(self, node: Node, other: Node) -> Node:
        """Return ``node`` with the outputs of ``other`` in place of its own: their names and stated types."""
        return msgspec.structs.replace(node, name=other.name)

    def make_switch(
        self, name: str, bodies: tuple[Graph, Graph], outputs: Sequence[tuple[str, Sequence[StaticType | None]]]
    ) -> tuple[Node, Node]:
        """Return a boolean input, and an operator that computes the first body where it is true, and else the second.

        The operator has no inputs yet. ``outputs`` has the name of each output, and its types in the bodies.
        """
        raise NotImplementedError

    def find_switch_version(self, kind: StaticType) -> int | None:
        """Return the first version of the operator set in which a switch returns values of a type; None where none does."""
        raise NotImplementedError

    def open_input(self, node: Node, types: Sequence[StaticType | None]) -> Node:
        """Return an input that takes the values of all ``types``: sizes that are not the same are open."""
        return node

    def find_switch(self, node: Node) -> tuple[Entry, tuple[Body, Body]] | None:
        """Return the condition of a switch, and its bodies for true and for false; None for other operators."""
        return None

    def start_body(self, node: Node, operands: Sequence[Any], counters: Sequence[Any]) -> list[Any] | None:
        """Return the values that the bodies of an operator are given in their first pass; None where that is not known.

        ``operands`` are the values of its own inputs by position, None for those that are absent, ``counters`` are the number
        of the first pass and that there is one.
        """
        return None

    # Facts

    def list_replaceable(self, graph: Graph) -> Iterator[Node]:
        """Yield the variables, also some with a value, that the file declares to be inputs; none where it declares none."""
        return iter(())

    @abstractmethod
    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        """Return the nodes whose variables name lists have, in the order of the lists."""

    @abstractmethod
    def describe(self, graph: Graph) -> str:
        """Return the generation of a graph's file, in words."""

    def describe_operator(self, node: Node) -> list[str]:
        """Return the most telling attributes of an operator, abbreviated."""
        return []

    def describe_constant(self, node: Node) -> str:
        """Return the value of a small constant in a few characters; empty for any other node."""
        return ""

    def name_operand(self, node: Node, position: int) -> str:
        """Return the name of an input of an operator in a picture."""
        return f"input {position}"

    def find_calls(self, graph: Graph) -> Callable[[Node], Body | None]:
        """Return a function that finds the body that an operator calls; inputs of the body capture those of the operator."""
        return lambda node: None

    def describe_version(self, graph: Graph) -> str:
        """Return the generation of a graph's file and the version that it states, in words."""
        return self.describe(graph)

    def operator_set(self, graph: Graph) -> int | None:
        """Return the version of ONNX's operator set that a graph imports; None for a graph of other operators."""
        return None

    def list_types(self, graph: Graph) -> Mapping[str, object]:
        """Return the types that the file states of inputs and outputs, by name."""
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

        ``shapes`` are those of inputs by name. With ``independent`` inferred types come before those that the file states.

        Raises:
            RefusedError: a name of ``shapes`` is not that of an input, or the file states another shape of it; all are listed.
        """
        return {}

    def list_untyped_outputs(self, graph: Graph) -> Sequence[str]:
        """Return the outputs without a stated or known type, where the format needs one."""
        return ()

    def explain_unknown_types(self, names: Collection[str]) -> str:
        """Return a note on values whose types :meth:`find_types` does not find."""
        return ""

    def find_integers(self, graph: Graph) -> Mapping[str, Sequence[Integers]]:
        """Return the integers that the inputs of a graph need, by name; the file itself states dtypes only."""
        return {}

    def draws_numbers(self, node: Node) -> bool:
        """Return whether an operator draws random numbers that no seed of ours determines."""
        return False

    def account(self, graph: Graph, origins: Origins) -> Iterator[RemovedMessage | Fault | str]:
        """Yield the parts of the files of ``origins`` that ``graph`` does not have: they went with their owners, or are lost.

        Texts are notes on what the file of ``graph`` has otherwise without being asked for it.
        """
        return iter(())

    def find_changes(
        self, left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
    ) -> Iterator[Change]:
        """Yield the differences between two graphs of this format in statements of their files beyond nodes and parameters.

        ``pairs`` are the nodes that belong together. With ``computed`` only differences that change computed values.
        """
        return iter(())

    def make_normal_form(self, graph: Graph, table: TermTable, facts: Facts, read: ReadContent) -> NormalForm | None:
        """Return the terms of the nodes of a graph; None for a format without a normal form.

        ``read`` returns the content of a variable whose array is another one than that of its file.
        """
        return None

    def inline_calls(
        self, graph: Graph, heads: Sequence[Entry], fused: Collection[str] = (), known: Collection[str] = ()
    ) -> Inlined:
        """Return the graph of ``heads`` with nodes in place of calls, and of ``fused`` operators that have definitions.

        Those of the format's standard are used where they have ``known`` operators alone. Raises RefusedError.
        """
        return Inlined(graph)

    def find_computable(
        self, graph: Graph, types: Mapping[Place, StaticType]
    ) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
        """Return the outputs that depend on constants alone and are read by other operators, and the sizes that are known."""
        return [], {}

    def separate(self, graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Mapping[str, str]]]:
        """Yield each graph, its nodes in their order, as it can be joined to the others, and the new names by the old ones."""
        yield from ((graph, EMPTY) for graph in graphs)

    def mismatches(self, first: str, graph: Graph, second: str, other: Graph) -> Iterator[Fault]:
        """Yield why two graphs of this format, each after its name, do not fit into one file."""
        yield from (Fault(f"{first} and {second}: {what}", hint=hint) for what, hint in graph.source.mismatches(other.source))


def iter_formats() -> Iterator[ModelFormat]:
    """Yield all formats, each loaded when it is reached."""
    return map(load_format, FORMAT_NAMES)


def load_format(name: str) -> ModelFormat:
    """Return a format by its name."""
    format_: ModelFormat = import_module(FORMAT_NAMES[name].module).FORMAT
    return format_


def find_format(graph: Graph) -> ModelFormat:
    """Return the format of a graph."""
    return load_format(graph.source.format)


def list_mismatches(first: str, graph: Graph, second: str, other: Graph) -> Iterator[Fault]:
    """Yield why two graphs, each after its name, do not fit into one file."""
    format_, another = find_format(graph), find_format(other)
    if format_ is another:
        yield from format_.mismatches(first, graph, second, other)
        return
    hint = "export the MXNet model first: graphshare export GRAPH -o model.onnx"
    yield Fault(f"{first} is {format_.title} and {second} {another.title}", hint=hint)


def find_statement_changes(
    left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
) -> Iterator[Change]:
    """Yield the changes of :meth:`ModelFormat.find_changes`; none for two formats, whose statements cannot be compared."""
    format_ = find_format(left)
    return format_.find_changes(left, right, pairs, computed=computed) if format_ is find_format(right) else iter(())


def require(graph: Graph, capability: Capability, *, what: str = "", where: str = "") -> None:
    """Refuse a graph whose format lacks a capability; see :meth:`ModelFormat.require`."""
    find_format(graph).require(capability, what=what, where=where)


def recognize_format(file: ModelFile) -> tuple[ModelFormat, ModelFile]:
    """Return the format of a file by its content, and the file to read: the unpacked one, if gzip packed a model.

    A file of no known kind gets the format of its suffix. Any other is taken for a symbol file, and refused when it is read.
    """
    for format_ in iter_formats():
        if format_.fits(file.start):
            return format_, file
    unpacked = file.unpack()
    if unpacked is not None:
        for format_ in iter_formats():
            if format_.fits(unpacked.start):
                return format_, unpacked
    named = next((name for name, names in FORMAT_NAMES.items() if file.where.lower().endswith(names.extension)), None)
    if named is not None:
        from graphshare.formats.wrong_file import recognize  # start-up: only files of no format need it

        # A known kind is named better by the first format, whose reader explains wrong files.
        if recognize(file.sample()) is None:
            return load_format(named), file
    return next(iter_formats()), file


def refuse_differences(find: Callable[[], Iterable[Fault]], *, where: str) -> None:
    """Refuse a written file in which ``find`` finds differences from the graph that it came from.

    Raises:
        SelfCheckError: it does not read back as that graph.
        OutputError: the system cannot read it.
    """
    try:
        faults = list(islice(find(), _REPORTED))
    except InputError as error:
        faults = list(error.faults)
        if isinstance(error.__cause__, OSError):  # the system fails, not this program
            raise OutputError([Fault(f"{fault.message}; nothing was written", where=where) for fault in faults]) from error
    if faults:
        raise SelfCheckError([Fault(f.message, where=where, path=f.path, node=f.node, hint=BUG) for f in faults])
