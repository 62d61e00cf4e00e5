"""Sessions: values, feeds, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare import GraphshareError
from graphshare.builder import Session, initializers, placeholder, variable
from graphshare.builder import operators as op
from graphshare.builder.parameter_values import groups
from graphshare.errors import MemoryLimitError, RefusedError
from graphshare.ir.graph import Node
from graphshare.resources import memory_limit


def authored() -> tuple[Session, object]:
    with Session() as session:
        x = placeholder("x", (None, 3))
        return session, op.FullyConnected(x, num_hidden=2, name="fc")


def test_values_persist_and_can_be_set() -> None:
    session, _ = authored()
    first = session.run("fc_output", {"x": np.ones((1, 3))})
    session.set_value("fc_weight", np.zeros((2, 3)))
    session.set_value("fc_bias", [1, 2])
    assert session.run("fc", {"x": np.ones((1, 3))}).tolist() == [[1, 2]]
    assert session.run("fc", {"x": np.ones((4, 3))}).shape == (4, 2)
    assert first.tolist() != [[1, 2]]
    assert session.value("fc_bias").dtype == np.float32


def test_a_run_over_the_memory_limit_is_refused_each_time() -> None:
    session, _ = authored()
    with memory_limit(100):
        for _ in range(2):
            with pytest.raises(MemoryLimitError, match="fc"):
                session.run("fc", {"x": np.ones((1000, 3))})
    assert session.run("fc", {"x": np.ones((1000, 3))}).shape == (1000, 2)


def test_values_of_sessions_are_independent() -> None:
    session, _ = authored()
    mine = np.zeros((2, 3), "float32")
    session.set_value("fc_weight", mine)
    mine[:] = 1
    assert not session.value("fc_weight").any()
    for value in (session.value("fc_weight"), session.value("fc_bias"), session.run("fc_weight")):
        with pytest.raises(ValueError, match="read-only"):
            value[:] = 1


def test_a_fed_parameter_value_applies_to_one_run() -> None:
    session, _ = authored()
    kept = session.run("fc", {"x": np.ones((1, 3))})
    assert session.run("fc", {"x": np.ones((1, 3)), "fc_weight": np.ones((2, 3))}).tolist() == [
        [3, 3]
    ]
    assert session.run("fc", {"x": np.ones((1, 3))}).tobytes() == kept.tobytes()


def test_initial_values_depend_on_the_seed_and_not_on_the_order() -> None:
    one, two, other = Session(seed=1), Session(seed=1), Session(seed=2)
    for session, names in ((one, "ab"), (two, "ba"), (other, "ab")):
        with session:
            for name in names:
                variable(name, (4,), initializer=initializers.uniform())
    assert one.value("a").tobytes() == two.value("a").tobytes()
    assert one.value("a").tobytes() != other.value("a").tobytes()
    assert one.value("a").tobytes() != one.value("b").tobytes()


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({}, "input 'x' is not fed"),
        ({"x": np.ones((1, 4))}, r"'x' has the shape \(1,4\), which does not fit \(\?,3\)"),
        ({"x": np.ones(3)}, r"'x' has the shape \(3\)"),
        ({"x": "text"}, "is not an array of numbers"),
        ({"x": [[1, 2], [3]]}, "is not an array"),
        ({"x": np.ones((1, 3)), "z": 1}, "nothing is called 'z'"),
        ({"x": np.ones((1, 3)), "fc": 1}, "'fc_output' is not a variable"),
        ({"x": np.ones((1, 3)), "fc_weight": np.ones((3, 3))}, "'fc_weight' has the shape"),
    ],
)
def test_invalid_feeds_are_refused(feed: dict[str, object], message: str) -> None:
    session, _ = authored()
    with pytest.raises(RefusedError, match=message):
        session.run("fc", feed)


def test_other_shapes_are_checked_again_after_a_run() -> None:
    session, _ = authored()
    for batch in (1, 2, 1):
        assert session.run("fc", {"x": np.ones((batch, 3))}).shape == (batch, 2)
        with pytest.raises(RefusedError, match=r"'x' has the shape"):
            session.run("fc", {"x": np.ones((batch, 4))})


def test_outputs_of_one_operator_have_different_names() -> None:
    with Session() as session:
        first, second = op.SliceChannel(placeholder("x", (1, 2)), num_outputs=2)
        assert [session.run(part, {"x": [[1, 2]]}).item() for part in (first, second, first)] == [
            1,
            2,
            1,
        ]


def test_unknown_names_foreign_variables_and_bad_values_are_refused() -> None:
    session, target = authored()
    with pytest.raises(RefusedError, match="nothing is called 'fcc'"):
        session.run("fcc")
    with pytest.raises(RefusedError, match="there are no targets"):
        session.run([])
    with pytest.raises(RefusedError, match="belongs to another session"):
        Session().run(target)  # type: ignore[call-overload]
    for name in ("x", "fc"):
        with pytest.raises(RefusedError, match="is not a parameter"):
            session.value(name)
        with pytest.raises(RefusedError, match="is not a parameter"):
            session.set_value(name, [1])
    with pytest.raises(RefusedError, match="'fc_weight' has the shape"):
        session.set_value("fc_weight", [1, 2])
    with session:
        variable("free")
        variable("half", (None, 2))
        variable("odd", (2,), initializer='["mystery", {}]')
        variable("row", (2,), initializer=initializers.xavier())
    for name in ("free", "half"):
        with pytest.raises(RefusedError, match="cannot be inferred"):
            session.value(name)
    for name in ("odd", "row"):
        with pytest.raises(RefusedError, match=r"cannot fill \(2,\)"):
            session.value(name)
    session.set_value("free", [[1.0]])
    assert session.var("free").shape == (1, 1)


def test_xavier_says_which_shapes_it_fills() -> None:
    with Session() as session:
        variable("row", (2,), initializer=initializers.xavier())
        reason = r"cannot fill \(2,\): xavier needs two axes or more, and the shape is \(2,\)\n"
        with pytest.raises(GraphshareError, match=reason):
            session.value("row")


def test_a_fraction_cannot_be_fed_to_an_integer_input() -> None:
    with Session() as session:
        x = placeholder("x", (2,), dtype="int32")
        y = x * 2
        assert session.run(y, {"x": [1, 2]}).tolist() == [2, 4]
        assert session.run(y, {"x": [1.0, 2.0]}).dtype == np.int32
        with pytest.raises(RefusedError, match="not all of its values fit into int32"):
            session.run(y, {"x": [1.5, 2.0]})


def test_a_variable_can_be_a_target() -> None:
    with Session() as session:
        x, w = placeholder("x", (2,)), variable("w", (2,), initializer=initializers.ones())
        got_x, got_w = session.run([x, w], {x: [3.0, 4.0]})
    assert (got_x.tolist(), got_w.tolist()) == ([3, 4], [1, 1])


def test_a_graph_may_grow_after_a_run() -> None:
    with Session() as session:
        x = placeholder("x", (2,))
        y = x + 1
        assert session.run(y, {x: [1, 2]}).tolist() == [2, 3]
        z = y * variable("w", (2,), initializer=initializers.constant(3.0))
        assert session.run([z, y], {x: [1, 2]})[0].tolist() == [6, 9]
        assert len(session.graph(y).nodes) == 2


def test_a_long_chain_needs_no_recursion() -> None:
    with Session() as session:
        x = y = placeholder("x", (1,))
        for _ in range(3000):
            y = y + 1
        assert session.run(y, {x: [0.0]}).tolist() == [3000]


def test_at_most_sixty_four_plans_are_kept() -> None:
    session, _ = authored()
    counts = []
    with session:
        for number in range(66):
            session.run(op.relu(session.var("fc_weight"), name=f"r{number}"))
            counts.append(len(session._plans))
    assert counts == [*range(1, 65), 1, 2]


def test_operators_are_grouped_by_the_scope_in_their_names() -> None:
    nodes = [
        Node("" if name == "s/x" else "relu", name) for name in ("a", "s/a", "s/x", "s/t/a", "s/b")
    ]
    assert groups(nodes) == {"": [nodes[0]], "s": [nodes[1], nodes[4]], "s/t": [nodes[3]]}
