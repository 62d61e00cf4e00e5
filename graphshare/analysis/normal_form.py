"""The normal form of a graph: which unlike nodes compute the same value, by the rules of its format or of its operators."""

from __future__ import annotations

from collections.abc import Hashable

from graphshare.formats.model_format import find_format
from graphshare.formats.onnx.values import shorten
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import MXNET_DOMAIN, Graph, Node
from graphshare.ir.terms import Facts, NormalForm, TermTable
from graphshare.ops.identities import OperatorForm


def make_form(graph: Graph, parameters: ParameterFile | None, table: TermTable, facts: Facts) -> NormalForm | None:
    """Return the rules by which the nodes of a graph become terms; None where its format has no normal form."""
    form = find_format(graph).make_normal_form(graph, table, facts)
    if form is not None or any(node.op and node.details.domain != MXNET_DOMAIN for node in graph.nodes):
        return form
    records = None if parameters is None else RecordsByName(parameters)

    def read(node: Node) -> Hashable | None:
        record = None if records is None else records.of(node)
        if parameters is None or record is None or record.shape is None:
            return None
        with ArrayReader(parameters) as reader:
            return record.dtype, record.shape, shorten(map(bytes, reader.chunks(record)))

    return OperatorForm(graph, table, read)
