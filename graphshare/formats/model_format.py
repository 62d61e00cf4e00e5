"""The interface of a model format: one object per format, a small core and optional facets.

A graph names its format in ``graph.source`` (:func:`find_format`); a file shows it by its content
(:func:`recognize_format`). The core recognizes, lists, reads, writes, and places parameters. Code
outside ``formats`` and ``checkpoint`` never tests a format's name: it asks for a facet
(:mod:`graphshare.formats.facets`), or a supported :class:`Operation`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from importlib import import_module
from typing import ClassVar, Literal, TypeVar

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.facets import (
    Bodies,
    Description,
    Editing,
    Meaning,
    ModelPooling,
    OperatorSets,
    Switches,
    TextLayout,
    Types,
)
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_names import DEFAULT_FORMAT, FORMAT_NAMES, PACKED, FormatNames
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.compare import Change
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.text.format import join_words

F = TypeVar("F")


class Operation(Enum):
    """An operation that only some formats support; the value is its name in a refusal."""

    RUN = "a run"
    NUMPY = "a run in numpy"
    TRAINING = "training"
    BATCH = "a batch of branches"
    FOLD_VALUES = "the comparison of values of a fold"
    UPGRADE = "an upgrade"
    DOWNGRADE = "a downgrade"
    FOLD = "a fold"
    LAYOUT = "a choice of layout"
    EXPORT = "an export"
    PARAMETER_FILE = "a parameter file"
    EXTERNAL_DATA = "a choice for external data"
    POOL = "a pool of weights"
    SWITCH = "a switch between graphs"
    RESHAPE = "a choice of sizes that a file fixes"
    SHAPES = "the sizes of values"
    FINGERPRINT = "a fingerprint"
    STATED_TYPES = "the types of values"


_SUPPORTS: Mapping[Operation, Callable[[ModelFormat], bool]] = {
    Operation.RUN: lambda format_: bool(format_.backends),
    Operation.NUMPY: lambda format_: format_.knows_operators,
    Operation.TRAINING: lambda format_: format_.knows_operators,
    Operation.BATCH: lambda format_: format_.knows_operators,
    Operation.FOLD_VALUES: lambda format_: format_.types.are_inferred,
    Operation.UPGRADE: lambda format_: format_.knows_operators,
    Operation.DOWNGRADE: lambda format_: format_.knows_operators,
    Operation.FOLD: lambda format_: format_.knows_operators or format_.meaning.is_known,
    Operation.LAYOUT: lambda format_: format_.layout is not None,
    Operation.EXPORT: lambda format_: format_.knows_operators,
    Operation.PARAMETER_FILE: lambda format_: not format_.holds_parameters,
    Operation.EXTERNAL_DATA: lambda format_: format_.shares_data,
    Operation.POOL: lambda format_: format_.shares_data,
    Operation.SWITCH: lambda format_: format_.switches is not None,
    Operation.RESHAPE: lambda format_: format_.types.can_change,
    Operation.FINGERPRINT: lambda format_: format_.knows_operators or format_.meaning.is_known,
    Operation.STATED_TYPES: lambda format_: format_.types.are_inferred,
    Operation.SHAPES: lambda format_: format_.knows_operators or format_.types.are_inferred,
}
"""The facets that an operation needs."""

WeightPlace = Literal["embed", "external", "params"]
"""The place of weights that no ONNX file holds: in the model, in one file beside it, or in their
parameter file.
"""
CopiedWeights = Literal["share", "copy"]
"""Whether copies of an initializer share one range of its data, or have their own."""


Origins = Sequence[tuple[Graph, Mapping[Node, Node]]]
"""Graphs with the images of their nodes."""


class RemovedMessage(msgspec.Struct, frozen=True):
    """A part of a file that a rewritten graph lacks: its kind in the format's terms, the value, and
    the reason.
    """

    kind: str
    name: str
    reason: str
    file: str


class SaveOptions(msgspec.Struct, frozen=True):
    """Options for writing a model: ``weights`` is the place of weights outside of the format's
    files.

    ``copies`` of an initializer share its data or not; ``no_copy`` refuses to copy external data,
    ``verify_bytes`` compares copies.
    """

    copies: CopiedWeights = "share"
    no_copy: bool = False
    verify_bytes: bool = False
    weights: WeightPlace = "embed"


class NamedModel(msgspec.Struct, frozen=True):
    """A model's file in a folder, and its parameter files there by epoch, the newest last."""

    name: str
    params: Mapping[int, str]


class ModelFormat(ABC):
    """One model format. Instances have no state.

    ``name`` is the value of :attr:`graphshare.ir.graph.Source.format`. In messages ``title`` is one
    model, with its article, ``plural`` several, and ``file`` the written file. ``backends`` are the
    modules that compute its graphs (:mod:`graphshare.execute.backends`), the default first. With
    ``is_text`` its file is a JSON text, and rules find places in it. With ``knows_operators`` its
    operators are in :mod:`graphshare.ops`; with ``shares_data`` copies of a parameter may be one
    range of a file. ``alternatives`` are hints for missing operations. The other attributes are its
    facets.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    plural: ClassVar[str]
    file: ClassVar[str]
    backends: ClassVar[Sequence[str]] = ()
    is_text: ClassVar[bool] = False
    knows_operators: ClassVar[bool] = False
    shares_data: ClassVar[bool] = False
    alternatives: ClassVar[Mapping[Operation, str]] = {}

    types: Types = Types()
    editing: Editing = Editing()
    bodies: Bodies = Bodies()
    meaning: Meaning = Meaning()
    description: Description = Description()
    switches: Switches | None = None
    layout: TextLayout | None = None

    @property
    def operator_sets(self) -> OperatorSets | None:
        return None

    @property
    def pooling(self) -> ModelPooling | None:
        return None

    @property
    def names(self) -> FormatNames:
        return FORMAT_NAMES[self.name]

    @property
    def holds_parameters(self) -> bool:
        """Whether a model's file has the values of parameters."""
        return not self.names.parameters

    def supports(self, operation: Operation) -> bool:
        return _SUPPORTS[operation](self)

    def require(self, operation: Operation, *, what: str = "", where: str = "") -> None:
        """Refuse an unsupported operation. ``what`` is the name of the option that asked for it, if
        any.

        Raises:
            RefusedError: it names the formats that support it, and an alternative.
        """
        if faults := self.find_lacks(operation, [what], where=where):
            raise RefusedError(faults)

    def demand(
        self, facet: F | None, operation: Operation, *, what: str = "", where: str = ""
    ) -> F:
        """Return a facet that an operation needs. Raises RefusedError as :meth:`require` if it is
        None.
        """
        if facet is None:
            self.require(operation, what=what, where=where)
            raise AssertionError(operation)
        return facet

    def find_lacks(
        self, operation: Operation, options: Iterable[str], *, where: str = ""
    ) -> list[Fault]:
        """Return a fault for each of ``options`` if the format lacks the operation."""
        if self.supports(operation):
            return []
        able = join_words([other.plural for other in iter_formats() if other.supports(operation)])
        return [
            Fault(
                f"{what or operation.value} is for {able}, and this is {self.title}",
                where=where,
                hint=self.alternatives.get(operation, ""),
            )
            for what in options
        ]

    # Files that are read

    @abstractmethod
    def fits(self, start: bytes) -> bool:
        """Whether a file that begins with ``start`` is a model of this format, and of no other."""

    def may_fit(self, start: bytes) -> bool:
        """Whether this format reads, or explains, a file with this ``start`` that fits no
        format.
        """
        return self.fits(start)

    @abstractmethod
    def read(self, file: ModelFile, *, complete: bool = True) -> Graph:
        """Return the graph of a file. Unless ``complete``, data beside it need not be there. Raises
        InputError.
        """

    def read_text(self, file: ModelFile) -> bytes:
        """Return the bytes of a file that begins like a text; else a sample for its refusal."""
        return file.read() if self.may_fit(file.start) else file.sample()

    def index_parameters(self, graph: Graph, *, complete: bool = True) -> ParameterFile | None:
        """Return the index of the parameters in a model's own file, if any.

        Unless ``complete``, also if data beside it is missing. Raises InputError.
        """
        return None

    def name_records(self, graph: Graph, file: ParameterFile) -> ParameterFile:
        """Name the records of a nameless file after a graph's parameters.

        Raises:
            InputError: the records do not belong to the graph; all that differ are listed.
        """
        return file

    def list_models(self, names: Collection[str]) -> Iterator[NamedModel]:
        for name in names:
            if name.endswith(self.names.model_endings):
                params = self.names.params_path(
                    name.removesuffix(PACKED).removesuffix(self.names.suffix), 0
                )
                yield NamedModel(
                    name, {0: params} if params in names and not self.holds_parameters else {}
                )

    # Files that are written

    @abstractmethod
    def encode(self, graph: Graph) -> Iterable[bytes | memoryview]:
        """Return the bytes of the file in pieces. Raises RefusedError with all that the format
        cannot express.
        """

    def stage(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        target: str,
        stage: OutputTransaction,
        options: SaveOptions,
    ) -> list[bytes]:
        """Write the file of ``graph`` beside ``target``, and read it back; return bytes for stdout
        instead.

        Raises:
            RefusedError: the format cannot express the graph.
            SelfCheckError: it does not read back as that graph.
        """
        # Start-up: what only reads needs no writer
        from graphshare.formats.read_back import stage_file

        return stage_file(b"".join(self.encode(graph)), self.read, graph, target, stage)

    def list_spellings(self, graph: Graph) -> Iterator[Graph]:
        """Yield ``graph`` in each style that its file may have had before a rewrite was undone."""
        yield graph

    def list_as_read(self, graph: Graph) -> Sequence[Node]:
        """Return the nodes in the order that the file will have."""
        return graph.nodes

    # Facts

    @abstractmethod
    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        """Return the nodes whose variables name lists have, in the order of the lists."""

    @abstractmethod
    def describe(self, graph: Graph) -> str:
        """Return the generation of a graph's file, in words."""

    def describe_version(self, graph: Graph) -> str:
        return self.describe(graph)

    def operator_set(self, graph: Graph) -> int | None:
        """Return the version of ONNX's operator set, if the graph imports one."""
        return None

    def account(self, graph: Graph, origins: Origins) -> Iterator[RemovedMessage | Fault | str]:
        """Yield the parts of files of ``origins`` that ``graph`` lacks: removed with their owners,
        or lost.

        Texts are notes on unrequested changes in its file.
        """
        return iter(())

    def find_changes(
        self,
        left: Graph,
        right: Graph,
        pairs: Iterable[tuple[Node, Node]],
        *,
        computed: bool = False,
    ) -> Iterator[Change]:
        """Yield the differences between two graphs' files beyond nodes and parameters.

        ``pairs`` are corresponding nodes. ``computed`` keeps only changes of computed values.
        """
        return iter(())

    def separate(self, graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Mapping[str, str]]]:
        """Yield each graph in a form that can be joined to the others, and its new names by old
        ones.
        """
        yield from ((graph, EMPTY) for graph in graphs)

    def mismatches(self, first: str, graph: Graph, second: str, other: Graph) -> Iterator[Fault]:
        """Yield why two graphs of this format, each after its name, do not fit into one file."""
        yield from (
            Fault(f"{first} and {second}: {what}", hint=hint)
            for what, hint in graph.source.mismatches(other.source)
        )


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
    """Yield why two graphs of any formats do not fit into one file."""
    format_, another = find_format(graph), find_format(other)
    if format_ is another:
        yield from format_.mismatches(first, graph, second, other)
        return
    names = {format_.name, another.name}
    hint = (
        "export the MXNet model first: `gs.export(GRAPH, out='model.onnx')`"
        if names == {"mxnet", "onnx"}
        else ""
    )
    yield Fault(f"{first} is {format_.title} and {second} {another.title}", hint=hint)


def find_statement_changes(
    left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
) -> Iterator[Change]:
    """Yield the changes of :meth:`ModelFormat.find_changes`; two formats are not comparable."""
    format_ = find_format(left)
    return (
        format_.find_changes(left, right, pairs, computed=computed)
        if format_ is find_format(right)
        else iter(())
    )


def require(graph: Graph, operation: Operation, *, what: str = "", where: str = "") -> None:
    """Apply :meth:`ModelFormat.require` to a graph's format."""
    find_format(graph).require(operation, what=what, where=where)


def find_fitting(start: bytes) -> ModelFormat | None:
    """Return the format of a file that begins with ``start``, if any."""
    certain = (format_ for format_ in iter_formats() if format_.fits(start))
    likely = (format_ for format_ in iter_formats() if format_.may_fit(start))
    return next(certain, None) or next(likely, None)


def recognize_format(file: ModelFile) -> tuple[ModelFormat, ModelFile]:
    """Return the format of a file by its content, and the file to read, unpacked if gzip packed a
    model.

    A file of no known kind gets the format of its suffix. Others are read, and refused, as symbol
    files.
    """
    for candidate in (file, file.unpack()):
        format_ = find_fitting(candidate.start) if candidate is not None else None
        if candidate is not None and format_ is not None:
            return format_, candidate
    named = next(
        (
            name
            for name, names in FORMAT_NAMES.items()
            if file.where.lower().endswith(names.extension)
        ),
        None,
    )
    if named is not None:
        # Start-up: only files of no format need it
        from graphshare.formats.wrong_file import recognize

        # The reader of symbol files explains files of known kinds better.
        if recognize(file.sample()) is None:
            return load_format(named), file
    return load_format(DEFAULT_FORMAT), file
