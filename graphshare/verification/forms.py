"""What regions need of a graph: its normal form, and the values of a part that the executor computes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from graphshare.analysis.roles import Kind, assign_roles
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.prepare.feeds import parameter_values
from graphshare.execute.prepare.prepare import assign_values
from graphshare.formats.model_format import find_format, has_kernels
from graphshare.formats.onnx.values import shorten
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.terms import Facts, NormalForm, TermTable
from graphshare.ops.identities import OperatorForm
from graphshare.ops.kernel import Array


def make_form(model: Checkpoint, table: TermTable, facts: Facts) -> NormalForm | None:
    """Return what terms the nodes of a model are; None where its format has no normal form."""
    if not has_kernels(model.graph):
        return find_format(model.graph).make_normal_form(model.graph, table, facts)
    file = model.parameter_file
    records = None if file is None else RecordsByName(file)

    def read(node: Node) -> Hashable | None:
        record = None if records is None else records.of(node)
        if file is None or record is None or record.shape is None:
            return None
        with ArrayReader(file) as reader:
            return record.dtype, record.shape, shorten(map(bytes, reader.chunks(record)))

    return OperatorForm(model.graph, table, read)


def compute_graph(part: Graph, feeds: Mapping[Node, Array], params: ParameterFile | None) -> list[Any]:
    """Return the heads of a graph in the executor, for values of inputs; labels and what else is missing are made up.

    Raises:
        RefusedError: shapes do not fit, parameters are missing, or a kernel refuses its inputs.
    """
    roles = assign_roles(part, held=list_parameter_names(params))
    held = [node for node in part.variables() if node not in feeds]
    parameters = parameter_values(held, params, lambda node: roles[node].kind is Kind.AUXILIARY)
    ready = assign_values(part, roles, parameters, feeds=feeds, shapes=EMPTY, seed=0, params_seed=None, params=params)
    return list(run_plan(make_plan(part.heads), ready.values, shapes=ready.inference.shapes).outputs)
