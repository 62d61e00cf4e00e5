"""Whatever a graph holds, every command answers or says why not: operators with senseless
attributes, inputs and indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.api.duplicate import duplicate
from graphshare.api.inspect import inspect
from graphshare.errors import GraphshareError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.inspection.graph import list_module_names
from graphshare.ir.graph import Graph
from graphshare.ops.registry import load_registered_signatures
from graphshare.rewrite.extract_graph import extract_graph
from graphshare.rewrite.rename_nodes import plan_rename
from graphshare.rewrite.upgrade_graph import upgrade_graph
from tests.symbols import LAYOUTS, Document, document, operator, variable

NAMES = sorted(load_registered_signatures())
TEXTS = st.sampled_from(["", "0", "-1", "1", "3", "True", "None", "(2, 2)", "[1]", "()", "max", "99999999999", "2147483647",
                         "x", "1e9", "nan", "both", "lstm", "(1,2,3,4,5)", "NHWC", "\u0661"])  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> Document:
    nodes = [
        variable(f"v{i}", attrs={"__init__": draw(TEXTS)}) for i in range(draw(st.integers(1, 4)))
    ]
    for i in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(NAMES))
        keys = [p.name for p in load_registered_signatures()[name].parameters or ()] + [
            "weight_lr_mult",
            "lr_mult",
            "odd",
        ]
        attrs = draw(st.dictionaries(st.sampled_from(keys), TEXTS, max_size=5))
        entry = st.tuples(
            st.integers(0, len(nodes) - 1),
            st.sampled_from([0, 0, 0, 1, 9, 2**32 - 1]),
            st.integers(0, 1),
        )
        nodes.append(operator(name, f"n{i}", draw(st.lists(entry, max_size=8)), attrs=attrs))
    heads = draw(
        st.lists(
            st.tuples(
                st.integers(0, len(nodes) - 1), st.sampled_from([0, 0, 1, 2**32 - 1]), st.just(0)
            ),
            max_size=3,
        )
    )
    return document(nodes, heads, version=draw(st.sampled_from([None, 801, 903, 10300, 10901])))


COMMANDS: dict[str, Callable[[Graph], Any]] = {
    "inspect": inspect,
    "module": list_module_names,
    "copy": lambda graph: duplicate(graph, ["x-"]),
    "tie": lambda graph: duplicate(graph, ["x-", "y-"], mode="tie"),
    "upto": lambda graph: duplicate(graph, ["x-"], upto=["n0"]),
    "extract": lambda graph: extract_graph(graph, ["n0"], cuts=["v0"]),
    "rename": lambda graph: plan_rename(graph, prefix="x-"),
    "upgrade": upgrade_graph,
}


@pytest.mark.parametrize("command", COMMANDS)
@given(found=graphs())
def test_no_graph_is_answered_with_a_bug(command: str, found: Document) -> None:
    graph = read_symbol(LAYOUTS["mxnet"](found).encode())
    try:
        result = COMMANDS[command](graph)
    except GraphshareError as error:
        assert error.faults
        return
    rewrite = getattr(result, "rewrite", result)
    if hasattr(rewrite, "graph"):
        b"".join(write_symbol(rewrite.graph))
