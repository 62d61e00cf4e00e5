"""Sparse arrays and graph sampling."""

from __future__ import annotations

from graphshare.operators.rules import compacted_graphs, compacted_inputs, mapped_subgraphs, sampled_subgraphs, subgraph_inputs
from graphshare.operators.scalar import SCALAR
from graphshare.operators.table import define

OPERATORS = (
    *define("_contrib_count_sketch", "data h s", "out_dim:int=!; processing_batch_size:int=32"),
    *define("_contrib_dgl_adjacency", "data"),
    *define(
        "_contrib_dgl_csr_neighbor_non_uniform_sample",
        "csr_matrix probability seed_arrays",
        "num_args:int[2:]=!; num_hops:int64=1; num_neighbor:int64=2; max_num_vertices:int64=100",
        results=sampled_subgraphs(4, 2),
        registers_inputs=False,
    ),
    *define(
        "_contrib_dgl_csr_neighbor_uniform_sample",
        "csr_matrix seed_arrays",
        "num_args:int[2:]=!; num_hops:int64=1; num_neighbor:int64=2; max_num_vertices:int64=100",
        results=sampled_subgraphs(3, 1),
        registers_inputs=False,
    ),
    *define(
        "_contrib_dgl_graph_compact",
        compacted_inputs,
        "num_args:int[2:]=!; return_mapping:bool=!; graph_sizes:tuple64=!",
        results=compacted_graphs,
    ),
    *define("_contrib_dgl_subgraph", subgraph_inputs, "num_args:int[2:]=!; return_mapping:bool=!", results=mapped_subgraphs),
    *define("_contrib_edge_id", "data u v"),
    *define("_contrib_getnnz", "data", "axis:int?=None", registers_inputs=False),
    *define("_scatter_elemwise_div", "lhs rhs"),
    *define("_scatter_minus_scalar _scatter_plus_scalar", "data", SCALAR, registers_inputs=False),
    *define("_sparse_retain", "data indices"),
    *define("_square_sum", "data", "axis:shape?=None; keepdims:bool=False; exclude:bool=False", registers_inputs=False),
    *define("cast_storage", "data", "stype:{csr/default/row_sparse}=!", registers_inputs=False),
)
