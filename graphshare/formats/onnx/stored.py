"""The places of a graph's messages in its ONNX file, to write their bytes back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from graphshare.errors import Fault
from graphshare.files.byte_source import ByteSource, HeldBytes, Identity, SourceBytes
from graphshare.files.open_source import reopen_source
from graphshare.files.paths import split
from graphshare.formats.onnx.protobuf import Data, once, scan, text_at
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeDetails, Source
from graphshare.ir.walk import list_output_names, list_value_places
from graphshare.text.format import format_names
from graphshare.text.urls import redact

_CHUNK = 1 << 20
_LARGE = 1 << 25  # bytes from which on only the needed parts of a file are read


class OnnxFile:
    """The bytes of an ONNX file; of a large one only needed parts are read.

    ``held`` are the bytes of a file that cannot be opened again: a pipe, or one unpacked from gzip.
    ``folder`` is the directory of external data; it must exist only with ``seeks_data``. A file
    ``is_own`` if this program is writing it; its data is put in place later, replacing older files.
    ``sizes`` maps paths of data files to their sizes in bytes (None if absent), and ``missing``
    maps absent or short ones to a reason. ``disorder`` is the first fault of nodes that were sorted
    in memory.
    """

    disorder: Fault | None = None

    def __init__(
        self, source: ByteSource, *, seeks_data: bool = True, is_own: bool = False
    ) -> None:
        self.folder = split(source.name)[0] or "."
        self.seeks_data, self.is_own = seeks_data and not is_own, is_own
        self.sizes: dict[str, int | None] = {}
        self.missing: dict[str, str] = {}
        self.path = source.name
        self.size = source.size
        self.identity: Identity = source.identity
        self.held = source.content if isinstance(source, HeldBytes) else b""
        self.data: Data
        if source.size < _LARGE or self.held:
            self.data = source.read_at(0, source.size)
        else:
            self.data = SourceBytes(reopen_source(source.name, source.identity))

    @property
    def real_folder(self) -> str:
        """The directory of the file, links resolved."""
        return os.path.dirname(os.path.realpath(self.path))

    def __getstate__(self) -> dict[str, Any]:
        # An open file cannot be pickled; the receiving process opens it again.
        return {**self.__dict__, "data": self.data if isinstance(self.data, bytes) else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.data is None:
            self.data = SourceBytes(reopen_source(self.path, self.identity))

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield bytes in pieces of at most 1 MiB. Raises InputError if the file has changed."""
        if isinstance(self.data, bytes) or end - start <= _CHUNK:
            yield self.data[start:end]
            return
        with reopen_source(self.path, self.identity) as source:
            for place in range(start, end, _CHUNK):
                yield source.read_at(place, min(_CHUNK, end - place))


class MemoryFile(OnnxFile):
    """The bytes of a message that is in no file."""

    folder = path = ""
    seeks_data = is_own = False
    identity = ()

    def __init__(self, data: bytes) -> None:
        self.data = self.held = data
        self.size, self.sizes, self.missing = len(data), {}, {}


class Span(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Bytes ``start`` to ``end`` of ``file``, read on demand."""

    file: OnnxFile
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def pieces(self) -> Iterator[bytes]:
        return self.file.pieces(self.start, self.end)

    def read(self) -> bytes:
        return self.file.data[self.start : self.end]

    def find_field(self, number: int) -> Span | None:
        """Return the value of the first field of this number in a message, or None."""
        fields = scan(self.file.data, self.start, self.end)
        return next(
            (Span(self.file, field[3], field[4]) for field in fields if field[0] == number), None
        )

    def read_texts(self, *numbers: int, single: int = 0) -> list[str]:
        """Return the text of the last field of each number in a message, empty where there is none.

        ``single`` is that of :func:`scan`. Raises WireError for a malformed message.
        """
        data = self.file.data
        texts = dict.fromkeys(numbers, "")
        for field in scan(data, self.start, self.end, single):
            if field[0] in texts:
                texts[field[0]] = text_at(data, field)
        return [*texts.values()]

    def open_field(self) -> tuple[int, Span]:
        """Return the number and the value of the one field in these bytes."""
        ((number, _, _, start, end),) = scan(self.file.data, self.start, self.end)
        return number, Span(self.file, start, end)


class NamesSpan(Span, frozen=True, eq=False, gc=False):
    """A NodeProto that begins with its names; ``rest`` is the text of the fields from ``names_end`` on."""

    names_end: int
    rest: str


class TensorPlace(msgspec.Struct, frozen=True, gc=False):
    """The shape, dtype and data place of a TensorProto.

    ``data`` is the data's field number, ``start`` to ``end`` its bytes in the file ``path`` (empty
    for the model); ``external`` are the pairs that locate external data. ``pieces`` counts the
    data's fields; several are not contiguous.
    """

    shape: tuple[int, ...]
    code: int
    data: int = 0
    start: int = 0
    end: int = 0
    pieces: int = 0
    path: str = ""
    external: tuple[tuple[str, str], ...] = ()

    @property
    def file_range(self) -> FileRange:
        return FileRange(self.path, self.start, self.end)


class NamedMessage(Span, frozen=True, eq=False, gc=False):
    """A message without its tag, and the place of a name in it.

    ``number`` is the name's field number; the field is at ``name_start`` to ``name_end``, both
    equal if it is missing. ``rank`` is the message's position in its list, ``place`` an
    initializer's data once located. ``rest`` are the bytes after a leading name in a short message,
    shared by equal ones, else None.
    """

    name: str
    number: int
    name_start: int
    name_end: int
    rank: int
    place: TensorPlace | None = None
    rest: bytes | None = None


class FileRange(msgspec.Struct, frozen=True):
    """Bytes ``start`` to ``end`` of the file ``path``."""

    path: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class ValueMessages(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The messages of a file on the outputs of a node, by output index.

    ``infos`` are from value_info, ``results`` from the graph's outputs, ``annotations`` on
    quantization. The last message of a list on an output counts; ``repeated`` has earlier ones with
    list number and output index.
    """

    infos: Mapping[int, NamedMessage] = EMPTY
    results: Mapping[int, NamedMessage] = EMPTY
    annotations: Mapping[int, NamedMessage] = EMPTY
    repeated: tuple[tuple[int, int, NamedMessage], ...] = ()

    @property
    def has_others(self) -> bool:
        """Whether there is more than ``infos``; nearly every value has value_info only."""
        return self.results is not EMPTY or self.annotations is not EMPTY or bool(self.repeated)


NO_MESSAGES = ValueMessages()


def list_results(values: ValueMessages, index: int, count: int) -> list[NamedMessage]:
    """Return the graph-output messages on an output that the graph has ``count`` times, the last ones."""
    last = [values.results[index]] if index in values.results else []
    earlier = [
        message for number, place, message in values.repeated if (number, place) == (OUTPUT, index)
    ]
    return [*earlier, *last][-count:] if count else []


class Stored(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The messages of a node in its file, and their places.

    An operator has its NodeProto ``node`` and the names as read: ``inputs`` (except in a
    :class:`NamesSpan`), ``outputs`` and ``label``. ``outer`` are its attributes' tensors, except in
    bodies, with data in another file. A variable has a ``tensor`` (an initializer; ``is_sparse``
    for a SparseTensorProto), an ``input`` that declares it, or both. ``values`` are the messages on
    outputs.

    A weight in a Constant is a variable with ``tensor`` and ``node``. A weight of a body is a
    variable of the main graph whose ``home`` is the body's GraphProto. ``outputs`` has the name of
    either as read. In its home a weight is called as in ``tensor``; the model may use that name
    elsewhere.

    New nodes are stored likewise, in memory: an operator without inputs, and a ``tensor`` without
    data if ``data_in_record``, that is, in the model's parameter file.
    """

    values: ValueMessages = NO_MESSAGES
    node: Span | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    label: str = ""
    tensor: NamedMessage | None = None
    place: TensorPlace | None = None
    is_sparse: bool = False
    data_in_record: bool = False
    input: NamedMessage | None = None
    outer: tuple[TensorPlace, ...] = ()
    home: Span | None = None


OUTPUT = 12
"""Field number of a GraphProto."""
_IR_VERSION, OPSET, METADATA, TRAINING, FUNCTION = 1, 8, 14, 20, 25
"""Field numbers of a ModelProto."""
GRAPH_METADATA = 16
"""Field number of a GraphProto."""
OWN_KEYS = "graphshare."
"""The start of the keys of metadata that state digests of files beside a model."""
FIRST_CONSTANTS = 4
"""The IR version from which on an initializer need not be an input; without an input it is a constant."""


def list_read_names(node: Node) -> tuple[str, ...]:
    """Return the names of a node's outputs as read from its file."""
    stored = find_stored(node.details)
    declared = stored.tensor or stored.input
    return stored.outputs if node.op else (declared.name if declared is not None else node.name,)


class OnnxSource(Source, frozen=True, eq=False):
    """The facts that a graph keeps of its ONNX file.

    ``fields`` are the model's fields except the graph, ``rest`` the graph's own fields (name,
    documentation, metadata), each with its number, tag included. ``orphans`` are messages on values
    that do not exist, by list number. A graph with the ``nodes`` and ``heads`` as read is written
    as a copy of ``span``. ``opsets`` are versions by domain. ``is_ordered`` tells that fields are
    in the order of their numbers, as protobuf writes them. ``counts`` maps numbers of the
    GraphProto's lists to their lengths.
    """

    format: ClassVar[str] = "onnx"

    file: OnnxFile
    span: Span
    fields: tuple[tuple[int, Span], ...] = ()
    rest: tuple[tuple[int, Span], ...] = ()
    orphans: tuple[tuple[int, NamedMessage], ...] = ()
    nodes: tuple[Node, ...] = ()
    heads: tuple[Entry, ...] = ()
    ir_version: int = 0
    opsets: Mapping[str, int] = EMPTY
    is_ordered: bool = True
    counts: Mapping[int, int] = EMPTY

    def after_join(self, others: Sequence[Source]) -> OnnxSource:
        """Add operator sets, functions and metadata of ``others``, and take the highest IR version.

        The first of metadata with equal keys stays.
        """
        fields, rest, opsets, version = (
            list(self.fields),
            list(self.rest),
            dict(self.opsets),
            self.ir_version,
        )
        joined = [other for other in others if isinstance(other, OnnxSource)]
        functions = _NewFields(FUNCTION, Span.read, self.fields)
        metadata = _NewFields(METADATA, _read_key, self.fields)
        graph_metadata = _NewFields(GRAPH_METADATA, _read_key, self.rest)
        for other in joined:
            if other.ir_version > version:
                version = other.ir_version
                fields = [field for field in fields if field[0] != _IR_VERSION] + _select(
                    other.fields, _IR_VERSION
                )
            sets, missing = (
                _select(other.fields, OPSET),
                [domain not in opsets for domain in other.opsets],
            )
            # A damaged model may import a domain twice: fields and versions are then not pairs.
            fields += compress(sets, missing) if len(sets) == len(missing) else ()
            opsets = {**other.opsets, **opsets}
            fields += functions.take(other.fields) + metadata.take(other.fields)
            # A graph has only one name and documentation: the first graph's.
            rest += graph_metadata.take(other.rest)
        orphans = tuple(chain.from_iterable(source.orphans for source in (self, *joined)))
        return replace(
            self,
            fields=tuple(fields),
            rest=tuple(rest),
            opsets=opsets,
            ir_version=version,
            orphans=orphans,
        )

    def mismatches(self, other: Source) -> Iterator[tuple[str, str]]:
        """Yield the operator sets that both import in different versions."""
        if isinstance(other, OnnxSource):
            for domain, version in self.opsets.items():
                theirs = other.opsets.get(domain, version)
                if theirs != version:
                    align = "`align=True` brings the older model up, with a proof"
                    hint = "export both models with one version of it" if domain else align
                    yield (
                        f"operator set {domain or 'ai.onnx'} is {version} in one and {theirs} in the other",
                        hint,
                    )

    def count_parts(self, nodes: Collection[Node]) -> Mapping[str, int]:
        """Count operators and initializers; inputs are neither."""
        initializers = sum(node.is_variable and node.details.holds_value is True for node in nodes)
        return {"node": sum(not node.is_variable for node in nodes), "initializer": initializers}

    def list_labels(self, graph: Graph) -> Mapping[Node, str]:
        """Return operators' names; onnxruntime makes nameless initializers of Constants."""
        return {
            node: node.details.label
            for node in graph.nodes
            if node.details.label and node.op not in ("", "Constant")
        }

    def name_faults(self, graph: Graph) -> Iterator[tuple[str, str, Node]]:
        """Yield names shared by two values or outputs, but not outputs repeated in the file itself."""
        taken: set[str] = set()
        hint = "choose another name or prefix, or rename one of them first"
        names = [*filter(None, chain.from_iterable(map(list_output_names, graph.nodes)))]
        # Searched only if a name repeats.
        for node in graph.nodes if len(set(names)) < len(names) else ():
            for name in filter(None, list_output_names(node)):
                if name in taken:
                    yield (
                        f"two values would be called {name!r}, and a name stands for one value",
                        hint,
                        node,
                    )
                taken.add(name)
        hint = "leave its parameter copied and its input unshared, or take other outputs with `gs.extract` first"
        if not _list_repeated(self.heads):
            for node, index in _list_repeated(graph.heads):
                yield (
                    (
                        f"two outputs would be the value {list_output_names(node)[index]!r}, and "
                        f"outputs need different names"
                    ),
                    hint,
                    node,
                )

    def list_notes(self) -> Iterator[str]:
        """Yield notes on parts that are written in another form, or that rewrites do not follow."""
        missing = [f"{redact(path)} {reason}" for path, reason in self.file.missing.items()]
        if missing:
            yield f"{self.file.path}: has no weights ({format_names(missing)}); what does not read them works"
        if self.file.disorder is not None:
            yield f"{self.file.path}: its nodes are not in topological order; a rewritten model has them sorted"
        if not self.is_ordered:
            yield (
                f"{self.file.path}: its fields are not in protobuf's own order; a rewritten model "
                f"has them in that order"
            )
        if any(number == TRAINING for number, _ in self.fields):
            yield f"{self.file.path}: its training information is kept as it is, with the names that values had there"

    def describe(self) -> str:
        sets = ", ".join(
            f"{domain or 'ai.onnx'} {number}" for domain, number in self.opsets.items()
        )
        return f"ONNX (IR {self.ir_version}, opset {sets or 'missing'})"


def _select(fields: Iterable[tuple[int, Span]], number: int) -> list[tuple[int, Span]]:
    return [field for field in fields if field[0] == number]


class _NewFields:
    """Collects fields of one number that are new by the part that ``identify`` returns."""

    def __init__(
        self, number: int, identify: Callable[[Span], Hashable], fields: Iterable[tuple[int, Span]]
    ) -> None:
        self._number, self._identify = number, identify
        self._known = {identify(span) for _, span in _select(fields, number)}

    def take(self, fields: Iterable[tuple[int, Span]]) -> list[tuple[int, Span]]:
        """Return the new fields of one model, the last of equal ones."""
        own = {self._identify(field[1]): field for field in _select(fields, self._number)}
        new = [field for key, field in own.items() if key not in self._known]
        self._known.update(own)
        return new


def _read_key(span: Span) -> str:
    return read_metadata(span)[0]


def read_metadata(span: Span) -> tuple[str, str]:
    """Return key and value of a metadata field that begins with its tag."""
    _, pair = span.open_field()
    key, value = pair.read_texts(1, 2, single=once(1, 2))
    return key, value


def _list_repeated(heads: Iterable[Entry]) -> list[tuple[Node, int]]:
    counts = Counter(list_value_places(heads))
    return [place for place, count in counts.items() if count > 1]


_NO_STORED = Stored()


def find_stored(details: NodeDetails) -> Stored:
    """Return the messages of a node in its file; empty without a file."""
    stored = details.stored
    return stored if isinstance(stored, Stored) else _NO_STORED


def replace_stored(node: Node, /, **changes: Any) -> Node:
    """Return a node with different data from the file."""
    stored = replace(find_stored(node.details), **changes)
    return replace(node, details=replace(node.details, stored=stored))


_NOTHING = MemoryFile(b"")
NO_SOURCE = OnnxSource(_NOTHING, Span(_NOTHING, 0, 0))


def get_source(graph: Graph) -> OnnxSource:
    """Return the source of ``graph``, an empty one if it comes from no ONNX file."""
    return graph.source if isinstance(graph.source, OnnxSource) else NO_SOURCE
