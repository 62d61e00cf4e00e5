"""Whatever is authored is a sound graph that reads back, and parts of it are what extract gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import graphshare
from graphshare.builder import (
    AUTO_REUSE,
    BREW,
    CAFFE2,
    PADDLE,
    PADDLE_NUMBERED,
    PADDLE_PER_KIND,
    TENSORFLOW,
    Naming,
    Session,
    Var,
    name_scope,
    parameter_sharing,
    placeholder,
    variable_scope,
)
from graphshare.builder import operators as op
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from tests.validate import validate

SCOPES = st.lists(st.sampled_from(["a", "b", "fc"]), max_size=3)
STEP = st.tuples(
    st.sampled_from(["fc", "relu", "add", "bn"]),
    SCOPES,
    SCOPES,
    st.one_of(st.none(), st.sampled_from(["fc", "x", "a"])),
    st.integers(0, 9),
)
PROGRAM = st.lists(STEP, min_size=1, max_size=8)
OVERRIDES = st.dictionaries(
    st.sampled_from(["a", "b", "a/b", "fc"]), st.sampled_from(["", "c", "b", "a/fc"]), max_size=2
)
NAMINGS = st.sampled_from([TENSORFLOW, PADDLE, PADDLE_PER_KIND, PADDLE_NUMBERED, CAFFE2, BREW])


def authored(
    naming: Naming, program: Sequence[tuple[str, list[str], list[str], str | None, int]]
) -> list[Var]:
    """Runs a program: each step applies an operator to an earlier value, in scopes; what is refused is left out."""
    values = [placeholder("data", (2, 4))]
    for what, names, variables, name, source in program:
        x = values[source % len(values)]
        try:
            with (
                name_scope("/".join(names) or "n"),
                variable_scope("/".join(variables) or None, reuse=AUTO_REUSE),
            ):
                if what == "fc":
                    values.append(op.FullyConnected(x, num_hidden=4, name=name))
                elif what == "bn":
                    values.append(op.BatchNorm(x, name=name))
                else:
                    values.append(op.relu(x, name=name) if what == "relu" else x + values[-1])
        except RefusedError:
            continue
    return values


def session_of(
    naming: Naming,
    overrides: dict[str, str],
    program: list[tuple[str, list[str], list[str], str | None, int]],
) -> list[Var]:
    with Session(naming):
        try:
            with parameter_sharing(overrides):
                return authored(naming, program)
        except RefusedError:
            return authored(naming, program)


def shape_of(graph: Graph) -> list[tuple[str, str, list[str]]]:
    return [
        (node.op, node.name, [f"{entry.node.name}:{entry.index}" for entry in node.inputs])
        for node in graph.nodes
    ]


@given(NAMINGS, OVERRIDES, PROGRAM)
def test_what_is_authored_is_sound_and_reads_back(
    naming: Naming,
    overrides: dict[str, str],
    program: list[tuple[str, list[str], list[str], str | None, int]],
) -> None:
    values = session_of(naming, overrides, program)
    graph = values[0].session.graph(values)
    assert validate(graph) == []
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(names), "a name of two nodes"
    text = b"".join(write_symbol(graph))
    assert b"".join(write_symbol(read_symbol(text))) == text
    variables = {node for node in graph.nodes if node.is_variable}
    assert variables == {
        v.node for v in values[0].session.params + values[0].session.auxiliary_states
    } | {values[0].node}


@given(NAMINGS, OVERRIDES, PROGRAM)
def test_a_part_is_what_extract_gives_and_runs_alike(
    naming: Naming,
    overrides: dict[str, str],
    program: list[tuple[str, list[str], list[str], str | None, int]],
) -> None:
    values = session_of(naming, overrides, program)
    session = values[0].session
    whole = session.graph(values)
    feed = {"data": np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)}
    together = session.run(values, feed)
    for value, expected in zip(values, together, strict=True):
        part = session.graph(value)
        # extract keeps the order of the whole file
        assert sorted(shape_of(part)) == sorted(
            shape_of(graphshare.extract(whole, [value.name]).graph)
        )
        np.testing.assert_allclose(session.run(value, feed), expected, rtol=1e-5, atol=1e-6)
