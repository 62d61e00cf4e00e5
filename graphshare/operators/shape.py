"""Shape: joining, splitting, slicing, reordering."""

from __future__ import annotations

from graphshare.operators.rules import sliced, split
from graphshare.operators.table import define

SPLIT = "indices:shape=!; axis:int=1; squeeze_axis:bool=False; sections:int=0"
SLICE = "begin:slice=!; end:slice=!; step:slice=[]"

OPERATORS = (
    *define("_slice_assign", "lhs rhs", SLICE, couples_batch="shape"),
    *define(
        "_slice_assign_scalar",
        "data",
        "scalar:double=0; begin:slice=!; end:slice=!; step:slice=[]",
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define("_split_v2", "data", SPLIT, results=split, couples_batch="axis"),
    *define("broadcast_axis", "data", "axis:shape=[]; size:shape=[]", registers_inputs=False, couples_batch="axis"),
    *define("broadcast_like", "lhs rhs", "lhs_axes:shape?=None; rhs_axes:shape?=None", couples_batch="shape"),
    *define("broadcast_to", "data", "shape:shape=[]", registers_inputs=False, couples_batch="shape"),
    *define("Concat", "arg*num_args", "num_args:int[1:]=!; dim:int=1", couples_batch="axis"),
    *define("depth_to_space space_to_depth", "data", "block_size:int=!", couples_batch="never"),
    *define("diag", "data", "k:int=0; axis1:int=0; axis2:int=1", couples_batch="shape"),
    *define("expand_dims", "data", "axis:int=!", registers_inputs=False, couples_batch="axis"),
    *define("Flatten", "data", registers_inputs=False, couples_batch="never"),
    *define(
        "Pad",
        "data",
        "mode:{constant/edge/reflect}=!; pad_width:shape=!; constant_value:double=0",
        couples_batch="never",
    ),
    *define("repeat", "data", "repeats:int=!; axis:int?=None", couples_batch="axis"),
    *define(
        "Reshape",
        "data",
        "shape:tuple32=[]; reverse:bool=False; target_shape:shape=[]; keep_highest:bool=False",
        registers_inputs=False,
        couples_batch="shape",
    ),
    *define(
        "reshape_like",
        "lhs rhs",
        "lhs_begin:int?=None; lhs_end:int?=None; rhs_begin:int?=None; rhs_end:int?=None",
        couples_batch="shape",
    ),
    *define("reverse", "data", "axis:tuple32=!", couples_batch="axis"),
    *define("slice", "data", SLICE, registers_inputs=False, couples_batch="shape"),
    *define("slice_axis", "data", "axis:int=!; begin:int=!; end:int?=!", registers_inputs=False, couples_batch="axis"),
    *define("slice_like", "data shape_like", "axes:tuple32=[]", couples_batch="shape"),
    *define(
        "SliceChannel",
        "data",
        "num_outputs:int[1:]=!; axis:int=1; squeeze_axis:bool=False",
        results=sliced,
        couples_batch="axis",
    ),
    *define("squeeze", "data", "axis:tuple32?=None", couples_batch="axis"),
    *define("stack", "arg*num_args", "axis:int=0; num_args:int[1:]=!", couples_batch="axis"),
    *define("SwapAxis", "data", "dim1:int=0; dim2:int=0", couples_batch="axis"),
    *define("tile", "data", "reps:tuple32=!", couples_batch="shape"),
    *define("transpose", "data", "axes:shape=[]", registers_inputs=False, couples_batch="shape"),
)
