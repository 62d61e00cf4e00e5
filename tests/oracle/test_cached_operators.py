"""Lists of cached operators, asked of MXNet: from an attribute, and as its partitioner makes them."""

from __future__ import annotations

import json

import pytest

from graphshare.analysis.name_lists import NameLists
from graphshare.formats.mxnet.symbol import read_symbol
from tests.oracle.conversation import Oracle
from tests.unit.ops.test_cached_operators import CASES, outer

pytestmark = pytest.mark.oracle

LISTS = "result = [s.list_arguments(), s.list_auxiliary_states(), s.list_outputs(), s.tojson()]"
PARTITION = f"""
from mxnet.base import _LIB, c_str, c_str_array, check_call, mx_uint
x = op.Convolution(var("data"), num_filter=4, kernel=(3, 3), name="conv")
x = op.Activation(op.BatchNorm(x, name="bn"), act_type="relu", name="relu")
s = mx.sym.Group([x, op.SliceChannel(x, num_outputs=2, name="parts")])
check_call(_LIB.MXSetSubgraphPropertyOpNamesV2(c_str("default"), mx_uint(len(OPS)), c_str_array(OPS)))
s = s.get_backend_symbol("default")
check_call(_LIB.MXRemoveSubgraphPropertyOpNamesV2(c_str("default")))
{LISTS}
"""


@pytest.mark.parametrize("name", CASES)
def test_the_graph_is_an_attribute(name: str, oracle: Oracle) -> None:
    code = f"s = mx.sym.load_json({json.dumps(outer(CASES[name][0], text=True))!r})\n{LISTS}"
    arguments, auxiliary, outputs, _ = oracle.known("author", code=code)["result"]
    _, expected, positions = CASES[name]
    assert (outputs, auxiliary) == (expected, [f"v{i}" for i in positions])
    assert not set(arguments).intersection(auxiliary)


@pytest.mark.parametrize(
    "ops",
    [["BatchNorm"], ["Convolution", "BatchNorm", "Activation"], ["Activation", "SliceChannel"]],
)
def test_the_graph_is_a_subgraph(ops: list[str], oracle: Oracle) -> None:
    arguments, auxiliary, outputs, text = oracle.known(
        "author", code=f"OPS = {ops!r}\n{PARTITION}"
    )["result"]
    lists = NameLists(read_symbol(text.encode()))
    assert (lists.arguments, lists.auxiliary_states, lists.outputs) == (
        arguments,
        auxiliary,
        outputs,
    )
