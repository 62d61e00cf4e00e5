"""The graph whose shapes are inferred."""

from __future__ import annotations

import pytest

from graphshare.checks.context import CheckContext
from graphshare.checks.rule import operator, symbol, variable
from graphshare.checks.shapes import Shapes


@pytest.mark.parametrize(
    ("version", "is_upgraded"), [(None, True), (904, True), (905, False), (10901, False)]
)
def test_files_before_0_9_5_are_upgraded(version: int | None, is_upgraded: bool) -> None:
    text = symbol(
        variable("data"), operator("Activation", "a", 0, act_type="relu"), version=version
    )
    context = CheckContext("a.json", text.encode())
    graph = Shapes(context).graph
    assert graph is not None
    assert (graph is not context.graph) is is_upgraded
    unknown = CheckContext(
        "a.json", symbol(variable("data"), operator("Unknown", "a", 0), version=version).encode()
    )
    assert (Shapes(unknown).graph is None) is is_upgraded
