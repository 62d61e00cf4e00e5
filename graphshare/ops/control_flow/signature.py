"""Signatures of ``control_flow``."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.ir.graph import EMPTY, VARIABLE_OP, Entry, Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.onednn.signature import inner_slots
from graphshare.ops.registry import output_name
from graphshare.ops.signature import OutputList, define
from graphshare.ops.slot_rules import outputs_by_attribute, read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphshare.ops.signature import Attributes, InputRule, Signature

NO_KERNEL = "it belongs to a running MXNet process"


def not_knowable(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> None:
    """Return None: the outputs depend on code that the operator names."""
    return


class _Record(msgspec.Struct):
    op: str
    name: str
    inputs: list[list[int]]
    attrs: dict[str, str] = {}


class _Body(msgspec.Struct):
    nodes: list[_Record]
    heads: list[list[int]]


@lru_cache(maxsize=16)
def _read_body(text: str) -> tuple[Graph, ...]:
    """Read the graph as far as names depend on it; none if malformed."""
    nodes: list[Node] = []
    try:
        body = msgspec.json.decode(text, type=_Body)
        for record in body.nodes:
            op = "" if record.op == VARIABLE_OP else record.op
            nodes.append(
                Node(
                    op,
                    record.name,
                    record.attrs or EMPTY,
                    tuple(Entry(nodes[i], k) for i, k, *_ in record.inputs),
                )
            )
        return (Graph(tuple(nodes), tuple(Entry(nodes[i], k) for i, k, *_ in body.heads)),)
    except (ValueError, IndexError):
        return ()


def _find_body(attrs: Attributes, subgraphs: Sequence[Any]) -> Sequence[Any]:
    """Return a cached operator's body, in its attribute or subgraphs, as a sequence."""
    return _read_body(attrs["subgraph"]) if "subgraph" in attrs else subgraphs[:1]


def name_cached_inputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> tuple[str, ...]:
    """Return the body's variables."""
    return tuple(
        node.name
        for body in _find_body(attrs, subgraphs)
        for node in reachable(body)
        if node.is_variable
    )


def find_cached_slots(
    signature: Signature, attrs: Attributes, num_inputs: int, subgraphs: Sequence[Any]
) -> tuple[int, ...]:
    """Return the positions of the body's auxiliary variables."""
    return inner_slots(signature, attrs, num_inputs, _find_body(attrs, subgraphs))


def list_cached_outputs(
    signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]
) -> OutputList | None:
    """Return an output per head, labelled with its name; None without a body."""
    labels = [tuple(map(output_name, body.heads)) for body in _find_body(attrs, subgraphs)]
    return OutputList(len(labels[0]), len(labels[0]), labels[0]) if labels and labels[0] else None


def body_inputs(*bodies: str) -> InputRule:
    """Return the input rule of control flow, with ``num_args`` inputs.

    The names of the bodies come first, although the node has no entries for them.
    """

    def rule(signature: Signature, attrs: Attributes, subgraphs: Sequence[Any]) -> tuple[str, ...]:
        data = read_count(signature, attrs, "num_args") - len(bodies)
        return bodies + tuple(f"data{i}" for i in range(data))

    return rule


_opaque = partial(define, results=not_knowable, registers_inputs=False, no_kernel=NO_KERNEL)
_cached = partial(_opaque, results=list_cached_outputs, mutable=find_cached_slots)
_foreign_code = partial(
    define, results=not_knowable, no_kernel="it is the user's own code, which the graph only names"
)

OPERATORS = (
    *_cached(
        "_CachedOp",
        name_cached_inputs,
        "static_alloc:bool=False; static_shape:bool=False; inline_limit:uint=2; forward_bulk_size:uint=15; "
        "backward_bulk_size:uint=15; data_indices:tuple_uint=[]; param_indices:tuple_uint=[]; subgraph:string=; "
        "is_dynamic:bool=False",
    ),
    *_cached(
        "_CachedOpThreadSafe",
        name_cached_inputs,
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
