"""Put the weights of many models into one file that stores equal bytes once.

The file only grows and its arrays keep their places, so models that point into it stay valid, even
if a run is killed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, partial

import msgspec
from msgspec.structs import replace

from graphshare.errors import BUG, Fault, RefusedError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.byte_source import ByteSource, hash_pieces
from graphshare.files.leftovers import list_temporaries, remove_leftovers
from graphshare.files.open_source import open_source, reopen_source
from graphshare.files.paths import base_name, find_identity
from graphshare.files.staged_file import StagedFile
from graphshare.formats.facets import Content, ModelPooling, StagedModel
from graphshare.formats.model_names import PARAMETER_ENDINGS
from graphshare.formats.onnx.accounts import check_kept
from graphshare.formats.onnx.compose import add_metadata
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.external import (
    RecordData,
    list_initializers,
    list_outside,
    refuse_missing_data,
)
from graphshare.formats.onnx.inner_tensors import list_inner_tensors, move_inner_data
from graphshare.formats.onnx.pool_ranges import list_arrays, list_orphans
from graphshare.formats.onnx.protobuf import Blob, Message
from graphshare.formats.onnx.read_back import check_written
from graphshare.formats.onnx.staging import LARGEST
from graphshare.formats.onnx.stored import (
    METADATA,
    FileRange,
    OnnxFile,
    Span,
    Stored,
    TensorPlace,
    find_stored,
    get_source,
    read_metadata,
)
from graphshare.formats.onnx.tensor_messages import ExternalRange, replace_data
from graphshare.formats.onnx.tensors import data_size, read_elements
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.formats.params.arrays import ArrayReader, have_equal_bytes
from graphshare.formats.params.byte_ranges import copy_ranges, write_all
from graphshare.formats.params.format import WriteOptions, choose_format
from graphshare.formats.params.records import Origin, ParameterFile, Record
from graphshare.ir.graph import Graph, Node
from graphshare.progress import task
from graphshare.text.format import escape_surrogates, format_bytes
from graphshare.text.names import TakenNames

LEAST = 1024
"""Arrays of at least this many bytes go into the file of the weights; shapes and axes must stay in
the model.
"""
_LARGE = 1 << 20
_MAPPED = 1 << 16  # alignment with which every system can map an array by itself
_ALIGNMENT = 64
_PADDING = 100  # padding is at most a hundredth of the arrays
_KEY = "graphshare.pool."
_WRITTEN, _METADATA = ".safetensors", "__metadata__"


class WeightArray(msgspec.Struct, frozen=True, eq=False):
    """An array of a model. ``key`` is an initializer, a Constant, or the file range of another tensor."""

    name: str
    key: Node | FileRange
    record: Record
    place: TensorPlace


class PoolMember:
    """A model to pool: its target, the arrays for the pool, and those that stay in the model."""

    def __init__(
        self, graph: Graph, parameters: ParameterFile | None, target: str, *, embeds: bool = False
    ) -> None:
        self.graph, self.target = graph, target
        self.file = parameters or ParameterFile("", 0, "onnx", (), named=True)
        weights = list(list_weights(graph, parameters))
        self.pooled: list[WeightArray] = []
        if not embeds:
            self.pooled = [weight for weight in weights if weight.record.dense_size >= LEAST]
        pooled = set(self.pooled)
        self.embedded = [weight for weight in weights if weight not in pooled and weight.place.path]
        self.contents: dict[WeightArray, Content] = {}

    def embed(self, weight: WeightArray) -> None:
        """Keep an array in the model."""
        del self.contents[weight]
        if weight.place.path:
            self.embedded.append(weight)

    @property
    def kept(self) -> int:
        """Bytes of weights that stay in the model although they are large enough for a pool."""
        return sum(
            weight.record.dense_size for weight in self.pooled if weight not in self.contents
        )


def list_weights(graph: Graph, parameters: ParameterFile | None) -> Iterator[WeightArray]:
    """Yield the arrays whose bytes can be outside a model: dense ones of known size."""
    records = {} if parameters is None else parameters.by_key()
    variables = set(graph.variables())
    files: dict[str, ParameterFile] = {}
    for node in list_initializers(graph):
        place = find_stored(node.details).place
        record = records.get(node.name) if node in variables else None
        if place is None or data_size(place) is None:
            continue
        if record is None and place.path:
            record = _make_record(node.name, place, files)
        if record is not None and record.shape is not None:
            yield WeightArray(node.name, node, record, place)
    for tensor in list_inner_tensors(graph):
        record = _make_record(tensor.name, tensor.place, files)
        yield WeightArray(tensor.name, tensor.place.file_range, record, tensor.place)


def _make_record(name: str, place: TensorPlace, files: dict[str, ParameterFile]) -> Record:
    if place.path not in files:
        with open_source(place.path) as data:
            files[place.path] = ParameterFile(
                place.path, data.size, "onnx", (), named=True, identity=data.identity
            )
    size, start = place.end - place.start, place.start
    return Record(
        name,
        (size,),
        "uint8",
        "onnx",
        start,
        size,
        start,
        size,
        origin=Origin(name, files[place.path]),
    )


class WeightPool:
    """The file of the weights at ``path``: the arrays in it, and ``new`` ones with their offsets.

    ``location`` is its name in the models. ``old`` is the existing file: if it is raw, new arrays
    are appended; a parameter file (``is_indexed``) is written as a whole or left unchanged. Models
    beside the file point into its first ``used`` bytes.
    """

    def __init__(
        self, path: str, location: str, *, is_indexed: bool, old: ParameterFile | None = None
    ) -> None:
        self.path, self.location, self.is_indexed, self.old = path, location, is_indexed, old
        self.places: dict[Content, int] = {}
        self.used = 0
        self.new: list[tuple[int, PoolMember, WeightArray]] = []
        self.size = 0 if old is None else old.size

    def add(self, members: Sequence[PoolMember]) -> None:
        """Place the arrays of ``members``, equal bytes once; an existing parameter file gets no new ones.

        Raises RefusedError for a file that another program has written.
        """
        arrays = [
            (content, member, weight)
            for member in members
            for weight, content in member.contents.items()
        ]
        sources: dict[Content, tuple[PoolMember, WeightArray]] = {}
        is_closed = self.is_indexed and self.old is not None
        for content, member, weight in arrays:
            if content in self.places:
                continue
            if is_closed:
                member.embed(weight)
            else:
                sources.setdefault(content, (member, weight))
        if self.old is not None and not self.is_indexed:
            self._find_left([content for content, _, _ in arrays], sources, self.old.size)
        for content, start in _lay_out(sources, self.size).items():
            self.places[content] = start
            self.new.append((start, *sources[content]))
            self.size = start + content.size

    def _find_left(
        self,
        wanted: Iterable[Content],
        sources: dict[Content, tuple[PoolMember, WeightArray]],
        size: int,
    ) -> None:
        """Find arrays in the file that no model points to, and remove them from ``sources``."""
        # A run killed before its models were in place may have left the same arrays.
        places = [
            *_lay_out(dict.fromkeys(wanted), 0).items(),
            *_lay_out(sources, self.used).items(),
        ]
        for content, start in places:
            end = start + content.size
            if content not in sources or end > size:
                continue
            if _hash_range(self.path, start, end) == content.digest:
                self.places[content] = start
                del sources[content]
        if sources and size and not (self.used or self.places):
            message = "is not a file of weights: no model beside it points into it"
            raise RefusedError(
                Fault(
                    message,
                    where=self.path,
                    hint="name another file with `data`, or remove this one",
                )
            )

    def locate(self, content: Content, name: str) -> ExternalRange:
        """Return the range for models to point to; ``name`` may be a temporary name of the file."""
        start = self.places[content]
        return name, start, start + content.size

    def write(self, out: StagedFile) -> None:
        with ExitStack() as stack:
            readers = {
                member: stack.enter_context(ArrayReader(member.file)) for _, member, _ in self.new
            }
            if self.is_indexed:
                self._write_indexed(out, readers)
                return
            end = 0
            if self.old is not None:
                with reopen_source(self.path, self.old.identity) as source:
                    copy_ranges(source, [(0, source.size)], out)
                end = self.old.size
            with task("copying", self.size - end, "B") as advance:
                for offset, member, weight in self.new:
                    write_all(out, bytes(offset - end))
                    _copy(weight.record, member.file, readers[member], out)
                    end = offset + weight.record.dense_size
                    advance(weight.record.dense_size)
        out.flush()

    def _write_indexed(self, out: StagedFile, readers: Mapping[PoolMember, ArrayReader]) -> None:
        """Write a parameter file; each array gets its first name."""
        names, format_ = TakenNames([_METADATA]), choose_format(self.path)
        arrays = {
            names.take(escape_surrogates(weight.name)): (member, weight)
            for _, member, weight in self.new
        }

        def read(record: Record) -> Iterable[bytes | memoryview]:
            member, weight = arrays[record.full_name]
            return readers[member].chunks(weight.record)

        format_.write(
            [(replace(w.record, key=name), name) for name, (_, w) in arrays.items()],
            out,
            read,
            WriteOptions(),
        )
        out.flush()
        with open_source(out.name) as source:
            self.size = source.size
            for record in format_.index(source).records:
                member, weight = arrays[record.full_name]
                self.places[member.contents[weight]] = record.data_offset or 0


def _lay_out(contents: Collection[Content], start: int) -> dict[Content, int]:
    """Return the places of arrays in a file from ``start`` on.

    Large arrays come first, aligned for mapping while the padding lasts. Then come sizes that are
    multiples of 64 bytes, of 32 and so on: aligned to their elements without gaps.
    """
    left = sum(content.size for content in contents) // _PADDING
    places: dict[Content, int] = {}
    # size & -size is the largest power of two that divides a size.
    for content in sorted(
        contents,
        key=lambda content: (content.size < _LARGE, -min(content.size & -content.size, _MAPPED)),
    ):
        # Only arrays from 1 MiB on are padded to a page: ``left + 1`` never fits.
        padding = -start % _MAPPED if content.size >= _LARGE else left + 1
        if padding > left:
            padding = -start % min(content.size & -content.size, _ALIGNMENT)
        left -= padding
        places[content] = start + padding
        start += padding + content.size
    return places


def hash_members(members: Sequence[PoolMember]) -> None:
    """Hash every array that may go into a pool. Raises InputError for one that cannot be read."""

    def hash_one(job: tuple[PoolMember, WeightArray]) -> Content:
        member, weight = job
        with ArrayReader(member.file) as reader:
            digest = hash_pieces(reader.chunks(weight.record))
        return Content(digest, weight.record.dense_size)

    arrays = [
        (_find_source(member, weight), member, weight)
        for member in members
        for weight in member.pooled
    ]
    # A range shared by many arrays is read once
    jobs = {source: (member, weight) for source, member, weight in arrays}
    total = sum(weight.record.dense_size for _, weight in jobs.values())
    # hashlib releases the GIL, so threads hash on all processors.
    threads = ThreadPoolExecutor(os.cpu_count())
    try:
        contents: dict[object, Content] = {}
        with task("reading", total, "B") as advance:
            for source, content in zip(jobs, threads.map(hash_one, jobs.values()), strict=True):
                contents[source] = content
                advance(content.size)
    finally:
        threads.shutdown(cancel_futures=True)
    for source, member, weight in arrays:
        member.contents[weight] = contents[source]


def _find_source(member: PoolMember, weight: WeightArray) -> object:
    """Return the file range of an array, or the array itself if it has none."""
    record = weight.record
    holder = member.file.find_holder(record)
    if holder is None or record.data_offset is None:
        return weight
    return holder.identity or holder.path, record.data_offset, record.dense_size


def _read_range(source: ByteSource, start: int, end: int) -> Iterator[bytes]:
    return (
        source.read_at(place, min(source.piece, end - place))
        for place in range(start, end, source.piece)
    )


def open_pool(path: str, location: str, members: Sequence[PoolMember]) -> WeightPool:
    """Return the pool at ``path`` with its arrays, found by its index or by the models beside it.

    Raises:
        InputError: it cannot be read.
        RefusedError: it is a link, or is missing in a format that is not written.
    """
    suffix = os.path.splitext(location)[1].lower()
    is_indexed = suffix in PARAMETER_ENDINGS
    # A killed run may leave a hard link of the file
    remove_leftovers(path, list_temporaries(os.path.dirname(path)))
    if not os.path.lexists(path):
        if is_indexed and suffix != _WRITTEN:
            hint = (
                f"models can point into an existing one; a new one is "
                f"{location.removesuffix(suffix)}{_WRITTEN}, or .data"
            )
            raise RefusedError(
                Fault(
                    f"does not exist, and new weights are not written as {suffix}",
                    where=path,
                    hint=hint,
                )
            )
        return WeightPool(path, location, is_indexed=is_indexed)
    if os.path.isfile(path) and os.stat(path).st_nlink > 1:
        hint = "name another file with `data`"
        raise RefusedError(
            Fault("is a link, which ONNX does not allow for weights", where=path, hint=hint)
        )
    ranges = list_arrays(path, is_indexed=is_indexed)
    sizes = {content.size for member in members for content in member.contents.values()}
    with open_source(path) as source:
        old = ParameterFile(path, source.size, "onnx", (), named=True, identity=source.identity)
        pool = WeightPool(path, location, is_indexed=is_indexed, old=old)
        pool.used = max((start + size for start, size in ranges), default=0)
        for start, size in ranges:
            end = start + size
            if size in sizes and end <= source.size:
                digest = hash_pieces(_read_range(source, start, end))
                pool.places.setdefault(Content(digest, size), start)
    return pool


def _read_staged(member: PoolMember, pool: WeightPool | None, location: str) -> tuple[bytes, str]:
    """Return a model's bytes, with weights in ``location`` for now, and its directory."""
    with ArrayReader(member.file) as reader:
        _, content = _encode(member, pool, reader, location)
        return b"".join(content.pieces()), os.path.dirname(member.target) or "."


def stage_models(
    models: Sequence[tuple[Graph, ParameterFile | None, str]], path: str, stage: OutputTransaction
) -> tuple[list[StagedModel], int]:
    """Write models and the file of their weights; see :meth:`graphshare.formats.facets.ModelPooling.stage`."""
    members = [PoolMember(*model, embeds=not path) for model in models]
    pool, written = None, ""
    if path:
        hash_members(members)
        pool = open_pool(path, base_name(path), members)
        pool.add(members)
        written = "" if pool.old is None else path
        if pool.new:
            out = stage.open(path)
            written = out.name
            pool.write(out)
    staged = []
    with ExitStack() as stack:
        data = stack.enter_context(open_source(written)) if written else None
        for member in members:
            reader = stack.enter_context(ArrayReader(member.file))
            graph, content = _encode(member, pool, reader, "" if pool is None else pool.location)
            check_kept(graph, member.graph)
            if content.size > LARGEST:
                message = (
                    f"the model would take {format_bytes(content.size)}, and the limit is 2 GiB"
                )
                raise RefusedError(Fault(message, where=member.target, hint="leave `embed` out"))
            out = stage.open(member.target, last=True)
            for piece in content.pieces():
                write_all(out, piece)
            out.flush()
            moved = {weight.name for weight in (*member.contents, *member.embedded)}
            check_written(out.name, graph, where=member.target, changed=moved)
            _compare(member, pool, reader, out.name, data)
            read = partial(_read_staged, member, pool, base_name(written))
            staged.append(
                StagedModel(
                    member.target, content.size, [*member.contents.values()], member.kept, read
                )
            )
    return staged, 0 if pool is None else pool.size


def _encode(
    member: PoolMember, pool: WeightPool | None, reader: ArrayReader, location: str
) -> tuple[Graph, Blob]:
    places: dict[Node | FileRange, ExternalRange | Blob]
    places = {weight.key: RecordData(reader, weight.record) for weight in member.embedded}
    if pool is not None:
        places |= {
            weight.key: pool.locate(content, location)
            for weight, content in member.contents.items()
        }
    graph = move_inner_data(
        member.graph, {key: place for key, place in places.items() if isinstance(key, FileRange)}
    )
    fields = [field for field in get_source(graph).fields if not _read_digests(*field)[0]]
    source = replace(get_source(graph), fields=tuple(fields))
    if pool is not None and member.contents:
        ranges: set[tuple[int, int, str]] = set()
        for content in member.contents.values():
            _, start, end = pool.locate(content, "")
            ranges.add((start, end, content.digest))
        lines = "".join(f"{start} {end} {digest}\n" for start, end, digest in sorted(ranges))
        source = add_metadata(source, {_KEY + pool.location: lines})
    graph = replace(graph, source=source)

    def encode(node: Node, name: str) -> Message | None:
        place, stored = places.get(node), find_stored(node.details)
        if place is None or stored.tensor is None:
            return None
        # A Constant's tensor needs no name
        return replace_data(stored.tensor, place, name if stored.node is None else None)

    return graph, encode_graph_file(graph, encode)


def _read_digests(number: int, span: Span) -> tuple[str, str]:
    """Return a file of weights and its ranges from a field of a model; empty texts for other fields.

    A line is a range's begin, end and SHA-256. A rewritten model may lack some lines.
    """
    key, text = read_metadata(span) if number == METADATA else ("", "")
    return (key.removeprefix(_KEY), text) if key.startswith(_KEY) else ("", "")


def find_changed_pools(graph: Graph) -> Iterator[Fault]:
    """Yield a fault for each file of weights whose bytes differ from those pooled with the model."""
    source = get_source(graph)
    stated = dict(pair for field in source.fields if (pair := _read_digests(*field))[0])
    places = [place for _, _, place in list_outside(graph)] if stated else []
    paths = {dict(place.external).get("location"): place.path for place in places}
    own = {(place.path, f"{place.start} {place.end}") for place in places}
    files: dict[object, str] = {}
    # A model may state a range on many lines, and a file under many names
    hash_once = cache(_hash_range)
    for location, text in stated.items():
        path = paths.get(location, "")
        file = files.setdefault(find_identity(path) or path, path)
        ranges = [
            line.split(" ") for line in text.splitlines() if (path, line.rpartition(" ")[0]) in own
        ]
        if any(hash_once(file, int(start), int(end)) != digest for start, end, digest in ranges):
            message = f"the weights in {location} are not those that the model was pooled with"
            yield Fault(
                message,
                where=source.file.path,
                hint=f"restore {location}, or pool the original models again",
            )


def _hash_range(path: str, start: int, end: int) -> str:
    with open_source(path) as source:
        return hash_pieces(_read_range(source, start, end))


def _copy(record: Record, file: ParameterFile, reader: ArrayReader, out: StagedFile) -> None:
    """Append an array; the system copies bytes that need no change."""
    holder = file.find_holder(record)
    if holder is not None and record.data_offset is not None:
        with reopen_source(holder.path, holder.identity, holder.held) as source:
            copy_ranges(source, [(record.data_offset, record.dense_size)], out)
        return
    for piece in reader.chunks(record):
        write_all(out, piece)


def _is_placed(
    new: TensorPlace | None, old: TensorPlace, place: tuple[str, int, int] | None
) -> bool:
    """Whether a written tensor has its source's form, and its data at ``place``, if that is given."""
    if new is None or (new.shape, new.code) != (old.shape, old.code):
        return False
    location = dict(new.external).get("location")
    if place is None:
        return location is None
    return (location, new.start, new.end) == place


def _read_written(
    stored: Stored, place: ExternalRange | None, pool: ByteSource | None
) -> Iterator[bytes]:
    if place is not None and pool is not None:
        return _read_range(pool, *place[1:])
    if stored.tensor is None or stored.place is None:
        return iter(())
    return read_elements(stored.tensor, stored.place)


def _compare(
    member: PoolMember,
    pool: WeightPool | None,
    reader: ArrayReader,
    path: str,
    data: ByteSource | None,
) -> None:
    """Compare the places and bytes of written arrays with their sources. Raises SelfCheckError."""
    faults: list[Fault] = []
    compared: set[object] = set()
    nodes = set(member.graph.nodes)
    with open_source(path) as source:
        read = {
            node.name: find_stored(node.details)
            for node in decode_model(OnnxFile(source, is_own=True)).nodes
        }
        embedded = [weight for weight in member.embedded if weight.key in nodes]
        for weight in [*member.contents, *embedded]:
            stored, content = read.get(weight.name, Stored()), member.contents.get(weight)
            place = None if pool is None or content is None else pool.locate(content, pool.location)
            if weight.key in nodes and not _is_placed(stored.place, weight.place, place):
                message = "does not read back as it was written"
                faults.append(Fault(message, where=member.target, node=weight.name, hint=BUG))
                continue
            pair: object = weight
            written_to = member.target
            if place is not None:
                pair = (_find_source(member, weight), place)
                written_to = place[0]
            if pair in compared:
                continue
            compared.add(pair)
            written = _read_written(stored, place, data)
            if not have_equal_bytes(reader.chunks(weight.record), written):
                message = f"differs from its source in {written_to}"
                faults.append(Fault(message, where=member.target, node=weight.name, hint=BUG))
    if faults:
        raise SelfCheckError(faults[:20])


class OnnxPooling(ModelPooling):
    """Pools data of initializers, Constants and other attributes in one file."""

    stage = staticmethod(stage_models)
    count_orphans = staticmethod(list_orphans)

    def find_faults(self, graph: Graph, parameters: ParameterFile | None) -> list[Fault]:
        refuse_missing_data(graph, parameters)
        return [*find_changed_pools(graph)]

    def hash_arrays(self, graph: Graph, parameters: ParameterFile | None) -> list[Content]:
        hash_members([member := PoolMember(graph, parameters, "")])
        return [*member.contents.values()]
