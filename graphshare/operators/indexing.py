"""Lookup by index, sorting, selection."""

from __future__ import annotations

from graphshare.operators.rules import top_k
from graphshare.operators.table import define

EMBEDDING = (
    "input_dim:int[1:]=!; output_dim:int[1:]=!; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32; "
    "sparse_grad:bool=False"
)

OPERATORS = (
    *define("_contrib_boolean_mask", "data index", "axis:int=0"),
    *define("_contrib_index_array", "data", "axes:tuple32?=None"),
    *define("_contrib_index_copy", "old_tensor index_vector new_tensor"),
    *define(
        "_contrib_SparseEmbedding",
        "data weight",
        "input_dim:int[1:]=!; output_dim:int[1:]=!; dtype:{float16/float32/float64/int32/uint8}=float32; "
        "deterministic:bool=False",
    ),
    *define("_onehot_encode", "lhs rhs", registers_inputs=False),
    *define("_ravel_multi_index _unravel_index", "data", "shape:shape=None"),
    *define("_scatter_set_nd", "lhs rhs indices", "shape:shape=!"),
    *define(
        "argsort",
        "data",
        "axis:int?=-1; is_ascend:bool=True; dtype:{float16/float32/float64/int32/int64/uint8}=float32",
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define("batch_take", "a indices", couples_batch="never"),
    *define("Embedding", "data weight", EMBEDDING, couples_batch="never"),
    *define("fill_element_0index", "lhs mhs rhs", registers_inputs=False),
    *define("gather_nd", "data indices"),
    *define(
        "one_hot",
        "indices",
        "depth:int=!; on_value:double=1; off_value:double=0; "
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
        couples_batch="never",
    ),
    *define("pick", "data index", "axis:int?=-1; keepdims:bool=False; mode:{clip/wrap}=clip", couples_batch="never"),
    *define("scatter_nd", "data indices", "shape:shape=!"),
    *define(
        "sort",
        "data",
        "axis:int?=-1; is_ascend:bool=True",
        results="output0 output1",
        visible=1,
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define("take", "a indices", "axis:int=0; mode:{clip/raise/wrap}=clip", couples_batch="axis"),
    *define(
        "topk",
        "data",
        "axis:int?=-1; k:int=1; ret_typ:{both/indices/mask/value}=indices; is_ascend:bool=False; "
        "dtype:{float16/float32/float64/int32/int64/uint8}=float32",
        results=top_k,
        registers_inputs=False,
        couples_batch="axis",
    ),
    *define("where", "condition x y", couples_batch="never"),
)
