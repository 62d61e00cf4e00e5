"""Signatures of ``sparse``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.ops.binary.signature import SCALAR
from graphshare.ops.signature import OutputList, define
from graphshare.ops.slot_rules import number_outputs, read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, OutputRule, Signature

_sparse = partial(define, no_kernel="it takes sparse arrays, and only dense ones can be computed")


def sample_outputs(arrays: int, others: int) -> OutputRule:
    """Return a rule: ``arrays`` outputs per seed; ``others`` inputs are not seeds."""
    return lambda signature, attrs, subgraphs: number_outputs(
        arrays * max(0, read_count(signature, attrs, "num_args") - others)
    )


def subgraph_outputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> OutputList:
    """Return a subgraph per list of vertices, and its mapping on request."""
    graphs = max(0, read_count(signature, attrs, "num_args") - 1)
    return number_outputs(graphs * 2 if signature.value(attrs, "return_mapping") else graphs)


def compact_outputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> OutputList:
    """Return a graph per input graph, and its mapping on request."""
    graphs = read_count(signature, attrs, "num_args") // 2
    return number_outputs(graphs * 2 if signature.value(attrs, "return_mapping") else graphs)


def compact_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return the graphs, then each one's vertices."""
    graphs = range(read_count(signature, attrs, "num_args") // 2)
    return (*(f"graph{i}" for i in graphs), *(f"varray{i}" for i in graphs))


def subgraph_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return the graph, then a list of vertices per subgraph."""
    return ("graph", *(f"varray{i}" for i in range(read_count(signature, attrs, "num_args") - 1)))


OPERATORS = (
    *_sparse("_contrib_dgl_adjacency", "data"),
    *_sparse(
        "_contrib_dgl_csr_neighbor_non_uniform_sample",
        "csr_matrix probability seed_arrays",
        "num_args:int[2:]=!; num_hops:int64=1; num_neighbor:int64=2; max_num_vertices:int64=100",
        results=sample_outputs(4, 2),
        registers_inputs=False,
    ),
    *_sparse(
        "_contrib_dgl_csr_neighbor_uniform_sample",
        "csr_matrix seed_arrays",
        "num_args:int[2:]=!; num_hops:int64=1; num_neighbor:int64=2; max_num_vertices:int64=100",
        results=sample_outputs(3, 1),
        registers_inputs=False,
    ),
    *_sparse(
        "_contrib_dgl_graph_compact",
        compact_inputs,
        "num_args:int[2:]=!; return_mapping:bool=!; graph_sizes:tuple64=!",
        results=compact_outputs,
    ),
    *_sparse(
        "_contrib_dgl_subgraph",
        subgraph_inputs,
        "num_args:int[2:]=!; return_mapping:bool=!",
        results=subgraph_outputs,
    ),
    *_sparse("_contrib_edge_id", "data u v"),
    *_sparse("_contrib_getnnz", "data", "axis:int?=None", registers_inputs=False),
    *define("_scatter_elemwise_div", "lhs rhs"),
    *define("_scatter_minus_scalar _scatter_plus_scalar", "data", SCALAR, registers_inputs=False),
    *define("_sparse_retain", "data indices"),
    *_sparse(
        "_square_sum",
        "data",
        "axis:shape?=None; keepdims:bool=False; exclude:bool=False",
        registers_inputs=False,
    ),
    *define(
        "cast_storage(_sparse_cast_storage)",
        "data",
        "stype:{csr/default/row_sparse}=!",
        registers_inputs=False,
    ),
)
