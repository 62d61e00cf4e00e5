"""Control flow, user code and what only a running process has."""

from __future__ import annotations

from graphshare.operators.rules import body_inputs, counted, not_knowable
from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_CachedOp",
        "data",
        "static_alloc:bool=False; static_shape:bool=False; inline_limit:uint=2; forward_bulk_size:uint=15; "
        "backward_bulk_size:uint=15; data_indices:tuple_uint=[]; param_indices:tuple_uint=[]; subgraph:string=; "
        "is_dynamic:bool=False",
        results=not_knowable,
        registers_inputs=False,
    ),
    *define(
        "_CachedOpThreadSafe",
        "data",
        "static_alloc:bool=False; static_shape:bool=False; forward_bulk_size:uint=15; data_indices:tuple_uint=[]; "
        "param_indices:tuple_uint=[]",
        results=not_knowable,
        registers_inputs=False,
    ),
    *define(
        "_cond",
        body_inputs("cond", "then_branch", "else_branch"),
        "num_args:int[3:]=!; num_outputs:int[1:]=!; cond_input_locs:tuple64=!; then_input_locs:tuple64=!; "
        "else_input_locs:tuple64=!",
        results=counted("num_outputs"),
    ),
    *define("_CrossDeviceCopy", "data"),
    *define("_CustomFunction", "", results=not_knowable),
    *define(
        "_foreach",
        body_inputs("fn"),
        "num_args:int[1:]=!; num_outputs:int=!; num_out_data:int=!; in_state_locs:tuple64=!; in_data_locs:tuple64=!; "
        "remain_locs:tuple64=!",
        results=counted("num_outputs"),
    ),
    *define("_Native", "data", "info:ptr=!; need_top_grad:bool=True", results=not_knowable, registers_inputs=False),
    *define("_NDArray", "data", "info:ptr=!", results=not_knowable, registers_inputs=False),
    *define("_NoGradient _set_value"),
    *define(
        "_while_loop",
        body_inputs("cond", "func"),
        "num_args:int[2:]=!; num_outputs:int[1:]=!; num_out_data:int[0:]=!; max_iterations:int[1:]=!; "
        "cond_input_locs:tuple64=!; func_input_locs:tuple64=!; func_var_locs:tuple64=!",
        results=counted("num_outputs"),
    ),
    *define("Custom", "*", "op_type:string=!", results=not_knowable, checks_attributes=False),
)
