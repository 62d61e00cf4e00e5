"""The names of the records of a ``.pdiparams`` file, from the graph beside it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.formats.facets import TensorType
from graphshare.formats.paddle.types import find_type
from graphshare.formats.params.records import ParameterFile, Record, encode_key, format_record
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.text.format import format_count, format_shape

_OTHER = "the file belongs to another graph"


def name_records(graph: Graph, file: ParameterFile) -> ParameterFile:
    """Name a file's records after the parameters of ``graph``, ordered by code points.

    A file with its own names stays unchanged. Raises InputError if counts, shapes or dtypes differ.
    """
    if file.named or any(record.key is not None for record in file.records):
        return file
    nodes = list_stored(graph)
    faults = list(find_misfits(nodes, file))
    if faults:
        raise InputError([replace(fault, where=file.shown_path) for fault in faults])
    records = tuple(
        replace(record, key=node.name) for node, record in zip(nodes, file.records, strict=True)
    )
    return replace(file, records=records, named=True)


def list_stored(graph: Graph) -> list[Node]:
    """Return the parameters of a graph in the order of its parameter file."""
    nodes = [node for node in graph.variables() if node.details.holds_value]
    return sorted(nodes, key=lambda node: encode_key(node.name))


def find_misfits(nodes: list[Node], file: ParameterFile) -> Iterator[Fault]:
    """Yield why the records of a file do not belong to ``nodes``."""
    if len(nodes) != len(file.records):
        count = format_count(len(nodes), "parameter")
        yield Fault(
            f"has {format_count(len(file.records), 'array')}, and the graph has {count}",
            hint=_OTHER,
        )
        return
    for number, (node, record) in enumerate(zip(nodes, file.records, strict=True)):
        stated = find_type(Entry(node))
        actual = describe_record(record)
        if isinstance(stated, TensorType) and describe_type(stated) != actual:
            message = f"is {actual}, and the graph states {describe_type(stated)} for {node.name!r}"
            yield Fault(message, path=format_record(None, number), node=node.name, hint=_OTHER)


def describe_type(stated: TensorType) -> str:
    """Return a stated type in the words of :func:`describe_record`."""
    return f"{stated.dtype} {format_shape(stated.shape)}"


def describe_record(record: Record) -> str:
    """Return the dtype and shape of a record, stated ones for one listed as bytes."""
    return record.stated or f"{record.dtype} {format_shape(record.shape)}"
