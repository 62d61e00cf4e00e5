"""The normal form of a graph: nodes that compute the same value by its format or operators."""

from __future__ import annotations

from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import MXNET_DOMAIN, Graph, Node
from graphshare.ir.terms import Content, Facts, NormalForm, TermTable, shorten
from graphshare.ops.identities import OperatorForm


def make_form(
    graph: Graph, parameters: ParameterFile | None, table: TermTable, facts: Facts
) -> NormalForm | None:
    """Return the rules that turn nodes into terms; None if the format has none."""
    records = None if parameters is None else RecordsByName(parameters)

    def read(node: Node) -> Content | None:
        record = None if records is None else records.of(node)
        if parameters is None or record is None or record.shape is None or record.dtype is None:
            return None
        with ArrayReader(parameters) as reader:
            return record.dtype, record.shape, shorten(map(bytes, reader.chunks(record)))

    def read_replaced(node: Node) -> Content | None:
        record = None if records is None else records.of(node)
        if record is None or record.origin is None:
            return None
        # A model in Python may replace arrays of its file.
        is_replaced = record.origin.file is None
        return read(node) if is_replaced else None

    format_ = find_format(graph)
    own = read if format_.supports(Operation.PARAMETER_FILE) else read_replaced
    form = format_.meaning.make_normal_form(graph, table, facts, own)
    if form is not None:
        return form
    operators = (node for node in graph.nodes if node.op)
    if any(node.details.domain != MXNET_DOMAIN for node in operators):
        return None
    return OperatorForm(graph, table, read)
