"""Signatures of the operators of family ``control_flow``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphshare.ops.signature import define
from graphshare.ops.slot_rules import outputs_by_attribute, read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, InputRule, Signature

NO_KERNEL = "it belongs to a running MXNet process"


def not_knowable(signature: Signature, attrs: Attributes) -> None:
    """Return None: the outputs depend on the code behind the operator."""
    return


def body_inputs(*bodies: str) -> InputRule:
    """Return the rule for the inputs of control flow, of which ``num_args`` is the number.

    The names of the bodies come first, although the node has no entries for them.
    """

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        data = read_count(signature, attrs, "num_args") - len(bodies)
        return bodies + tuple(f"data{i}" for i in range(data))

    return rule


_opaque = partial(define, results=not_knowable, registers_inputs=False, no_kernel=NO_KERNEL)
_foreign_code = partial(define, results=not_knowable, no_kernel="it is the user's own code, which the graph only names")

OPERATORS = (
    *_opaque(
        "_CachedOp",
        "data",
        "static_alloc:bool=False; static_shape:bool=False; inline_limit:uint=2; forward_bulk_size:uint=15; "
        "backward_bulk_size:uint=15; data_indices:tuple_uint=[]; param_indices:tuple_uint=[]; subgraph:string=; "
        "is_dynamic:bool=False",
    ),
    *_opaque(
        "_CachedOpThreadSafe",
        "data",
        "static_alloc:bool=False; static_shape:bool=False; forward_bulk_size:uint=15; data_indices:tuple_uint=[]; "
        "param_indices:tuple_uint=[]",
    ),
    *define(
        "_cond",
        body_inputs("cond", "then_branch", "else_branch"),
        "num_args:int[3:]=!; num_outputs:int[1:]=!; cond_input_locs:tuple64=!; then_input_locs:tuple64=!; "
        "else_input_locs:tuple64=!",
        results=outputs_by_attribute("num_outputs"),
        num_subgraphs=3,
    ),
    *_foreign_code("_CustomFunction", ""),
    *define(
        "_foreach",
        body_inputs("fn"),
        "num_args:int[1:]=!; num_outputs:int=!; num_out_data:int=!; in_state_locs:tuple64=!; in_data_locs:tuple64=!; "
        "remain_locs:tuple64=!",
        results=outputs_by_attribute("num_outputs"),
        num_subgraphs=1,
    ),
    *_opaque("_Native", "data", "info:ptr=!; need_top_grad:bool=True"),
    *_opaque("_NDArray", "data", "info:ptr=!"),
    *define("_NoGradient _set_value", no_kernel=NO_KERNEL),
    *define(
        "_while_loop",
        body_inputs("cond", "func"),
        "num_args:int[2:]=!; num_outputs:int[1:]=!; num_out_data:int[0:]=!; max_iterations:int[1:]=!; "
        "cond_input_locs:tuple64=!; func_input_locs:tuple64=!; func_var_locs:tuple64=!",
        results=outputs_by_attribute("num_outputs"),
        num_subgraphs=2,
    ),
    *_foreign_code("Custom(_npi_Custom)", "*", "op_type:string=!", checks_attributes=False),
)
