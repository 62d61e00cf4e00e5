"""``params``: convert and describe parameter files, named by path or by the stem of a
checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from graphshare.arguments import Natural, Seconds
from graphshare.checkpoint.load import (
    Names,
    StrPath,
    as_checkpoint,
    as_names,
    find_params,
    index_params,
    name_by_stem,
)
from graphshare.errors import Fault, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import UsedFile, base_name, place_params, refuse_inputs_as_outputs
from graphshare.formats.model_format import Operation, require
from graphshare.formats.model_names import PARAMETER_FORMATS, name_of_file
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import (
    Conversion,
    choose_cast,
    describe_conversion,
    plan_conversion,
    stage_params,
)
from graphshare.formats.params.format import WriteOptions, choose_format, find_format, read_index
from graphshare.formats.params.lookup import find_equal_arrays
from graphshare.formats.params.mxnet_params import UNLOADABLE_DTYPES
from graphshare.formats.params.records import ParameterFile, Record, format_record, select_keys
from graphshare.inspection.params import (
    ArrayDetails,
    ArrayStatistics,
    ListedRecord,
    ParameterDetails,
    ParameterListing,
    ParameterStatistics,
)
from graphshare.progress import task
from graphshare.resources import resource_limits
from graphshare.text.format import format_count
from graphshare.text.names import split_key


def convert(
    source: StrPath,
    target: StrPath,
    *,
    epoch: Natural | None = None,
    to: str | None = None,
    densify: bool = False,
    np_shape: bool = False,
    select: Names = (),
    leave_out: Names = (),
    tie: bool = False,
    dtype: str | None = None,
    keep: Names | None = None,
    in_place: bool = False,
    graph: StrPath | None = None,
    blocks: StrPath | None = None,
) -> Conversion:
    """Convert the parameter file ``source`` (format by content) to ``target`` (format ``to``, or by
    its suffix).

    ``source`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several. In a directory the target gets the source's name. With ``in_place`` the target may be
    the source itself.

    ``.params`` from another format has the records that ``mx.nd.save`` writes: V3 with
    ``np_shape``, else V2; a scalar needs V3. From ``.params`` to ``.params`` records are copied
    unchanged, including sparse ones unless ``densify`` makes them dense; the other formats have no
    sparse form and need ``densify``. ``select`` limits the conversion to names that these patterns
    match, and ``leave_out`` excludes names that its patterns match. With ``tie`` equal arrays
    become one where the format has ties, under the first of their names. With ``dtype``
    (``float16``, ``float32`` or ``float64``) floating-point arrays are cast to that dtype;
    integers, booleans and arrays matched by the patterns ``keep`` keep their dtype. Without
    ``keep``, float16 leaves out the statistics, gamma and beta of BatchNorm, because MXNet accepts
    them only in float32; an empty ``keep`` keeps nothing. Arrays are streamed one at a time.

    With ``graph`` the names of Gluon's ``save_parameters`` (``features.0.weight``) become the names
    in the graph that the net exported, with ``arg:`` and ``aux:``. With a file ``blocks`` of
    ``save_parameters`` too, the graph's names become names of that file.

    Raises:
        InputError: the source cannot be read.
        UsageError: a stem has several parameter files; ``blocks`` is given without ``graph``;
            ``target`` is stdout, or a directory and the source is stdin.
        RefusedError: the target cannot hold some records, or the place of some blocks in the graph
            is ambiguous; all are named.
        OutputError: the target cannot be written; it is left unchanged.
    """
    path, target = find_params(source, epoch=epoch), os.fspath(target)
    if to not in (None, *PARAMETER_FORMATS):
        hint = f"the formats are {', '.join(PARAMETER_FORMATS)}"
        raise UsageError(Fault(f"there is no format {to!r}", hint=hint))
    name = base_name(path) if to is None else f"{name_of_file(path)}.{to}"
    target = place_params(target, name, source=path)
    format_ = choose_format(target, option="`to`") if to is None else find_format(to)
    refuse_inputs_as_outputs(
        [UsedFile(target, "parameters")], [UsedFile(path, "parameters")], in_place=in_place
    )
    file = name_by_stem(read_index(path), source)
    plan = plan_conversion(file, format_, as_names(select), tie, as_names(leave_out))
    if graph is not None:
        # Shapes need numpy, other conversions do not
        from graphshare.api.block_names import name_for_blocks, name_for_graph

        nodes = as_checkpoint(graph).graph
        require(nodes, Operation.PARAMETER_FILE, what="`graph`")
        if blocks is None:
            plan = list(name_for_graph(nodes, file, plan))
        else:
            plan = list(name_for_blocks(nodes, file, plan, find_params(blocks)))
    elif blocks is not None:
        raise UsageError(
            Fault("`blocks` needs `graph`", hint="name the symbol file that the net exported")
        )
    cast = choose_cast(file, plan, dtype, None if keep is None else as_names(keep))
    # MXNet reads no file with V2 and V3 records
    np_shape |= any(record.layout == "V3" for record, _ in plan)
    options = WriteOptions(densify=densify, np_shape=np_shape)
    with OutputTransaction() as stage:
        stage_params([(file, plan)], stage, target, to=format_.name, options=options, cast=cast)
        stage.commit()
    return describe_conversion(file, plan, target, format_, options, cast)


def list_params(path: StrPath, *, epoch: Natural | None = None) -> ParameterListing:
    """Return the records of a parameter file, with remarks; no array is read.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
    """
    file = index_params(path, epoch=epoch)
    # A tied record has its bytes in another record.
    stored = [record for record in file.records if record.tied_to is None]
    return ParameterListing(
        path=file.shown_path,
        format=file.format,
        size=file.size,
        named=file.named,
        arrays=tuple(map(_list_record, file.records)),
        data_size=sum(map(_count_bytes, stored)),
        remarks=tuple(_remarks(file)),
    )


def _count_bytes(record: Record) -> int:
    """Return the bytes of an array, those of a sparse array with its indices."""
    return record.data_size + sum(part.size for part in record.parts)


def _list_record(record: Record) -> ListedRecord:
    kind, name = ("", None) if record.key is None else split_key(record.key)
    return ListedRecord(
        record.key,
        kind,
        name,
        record.shape,
        record.dtype,
        record.storage,
        record.layout,
        record.size,
    )


def _remarks(file: ParameterFile) -> Iterator[Fault]:
    """Yield peculiarities that break or surprise readers."""
    if file.trailing:
        yield Fault(
            f"has {format_count(file.trailing, 'byte')} after the last name; MXNet ignores them, a rewrite drops them",
            where=file.path,
        )
    seen: set[str] = set()
    for number, record in enumerate(file.records):
        place = format_record(record.key, number)
        if record.key in seen:
            message = "has the name of an earlier record; MXNet keeps the last"
            yield Fault(message, where=file.path, path=place)
        if record.key is not None:
            seen.add(record.key)
        if record.shape is None:
            yield Fault("was never filled: it has no array", where=file.path, path=place)
        if file.format == "params" and record.dtype in UNLOADABLE_DTYPES:
            message = f"is {record.dtype}, which MXNet 1.9.1 does not load"
            yield Fault(message, where=file.path, path=place)


def show_params(
    path: StrPath, *, select: Names = (), leave_out: Names = (), epoch: Natural | None = None
) -> ParameterDetails:
    """Return the arrays of the file, and say which are equal; arrays are read in pieces.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several. ``select`` limits the arrays to names that these patterns match; ``leave_out`` excludes
    names that its patterns match.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
        RefusedError: a pattern matches nothing.
    """
    file = index_params(path, epoch=epoch)
    records = _select_records(file, select, leave_out)
    equal = {key: kept for kept, others in find_equal_arrays(file, records) for key in others}
    arrays = tuple(_describe_array(record, equal) for record in records)
    repeated = sum(array.size for array in arrays if array.equal_to is not None)
    return ParameterDetails(
        file.shown_path,
        file.format,
        arrays,
        sum(a.size for a in arrays if a.tied_to is None),
        repeated,
    )


def _select_records(file: ParameterFile, select: Names, leave_out: Names) -> list[Record]:
    chosen = select_keys(file, as_names(select), leave_out=as_names(leave_out))
    return [record for record in file.records if record.key in chosen or not (select or leave_out)]


def _describe_array(record: Record, equal: dict[str, str]) -> ArrayDetails:
    size = _count_bytes(record)
    twin = equal.get(record.full_name) if record.tied_to is None else None
    return ArrayDetails(record.key, record.shape, record.dtype, record.storage, record.layout, record.data_offset, size,
                      record.tied_to, twin)  # fmt: skip


def measure_params(
    path: StrPath,
    *,
    select: Names = (),
    leave_out: Names = (),
    epoch: Natural | None = None,
    time_limit: Seconds | None = None,
) -> ParameterStatistics:
    """Return the statistics of each array of the file; arrays are read in pieces.

    ``path`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has
    several. ``select`` limits the arrays to names that these patterns match; ``leave_out`` excludes
    names that its patterns match. Work ends with an error after ``time_limit`` seconds.

    Raises:
        InputError: the file cannot be read.
        UsageError: a stem has several parameter files.
        RefusedError: a pattern matches nothing; ``time_limit`` has passed.
    """
    # Start-up: `show` needs no numpy
    from graphshare.formats.params.statistics import measure_array

    with resource_limits(None, time_limit):
        file = index_params(path, epoch=epoch)
        records = _select_records(file, select, leave_out)
        arrays = []
        with (
            ArrayReader(file) as reader,
            task("measuring", sum(r.data_size for r in records), "B") as advance,
        ):
            for record in records:
                numbers = None if record.shape is None else measure_array(reader, record, advance)
                arrays.append(
                    ArrayStatistics(record.key, record.shape, record.dtype, record.storage, numbers)
                )
    return ParameterStatistics(file.shown_path, file.format, tuple(arrays))
