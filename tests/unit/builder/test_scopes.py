"""Scopes: what they put before names, what they inherit, what they undo; and every case of reuse."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from graphshare.builder import (
    AUTO_REUSE,
    CAFFE2,
    MXNET,
    TENSORFLOW,
    Naming,
    Reuse,
    Session,
    constant,
    current_scope,
    current_session,
    default_session,
    initializers,
    name_scope,
    parameter_sharing,
    placeholder,
    variable,
    variable_scope,
)
from graphshare.builder import session as session_module
from graphshare.builder.var import ReuseLike, Settings
from graphshare.errors import RefusedError


def test_name_scopes_do_not_rename_parameters() -> None:
    with Session(), name_scope("a"), name_scope("b/c"):
        assert placeholder("x").name == "a/b/c/x"
        assert (constant(1.0)).node.name == "a/b/c/_full0"
        assert variable("w").name == "w"


def test_variable_scopes_name_operators_and_parameters() -> None:
    with Session(), variable_scope("a"), name_scope("b"), variable_scope("c"):
        assert placeholder("x").name == "a/b/c/x"
        assert variable("w").name == "a/c/w"


@pytest.mark.parametrize("name", ["", "/", "a//b", "/a", "a\0"])
def test_invalid_scope_names_are_refused(name: str) -> None:
    with Session():
        before = current_scope()
        for opened in (name_scope, variable_scope):
            with pytest.raises(RefusedError, match="is not a scope"), opened(name):
                pass
        assert current_scope() is before


def test_reopened_scopes_are_numbered_only_with_unique_scopes() -> None:
    for naming, expected in ((MXNET, ["a/x", "a/y"]), (TENSORFLOW, ["a/x", "a_1/y"])):
        found = []
        with Session(naming):
            for name in "xy":
                with name_scope("a"):
                    found.append(placeholder(name).name)
        assert found == expected


def test_an_absolute_scope_and_an_earlier_scope_can_be_entered() -> None:
    with Session(TENSORFLOW):
        with variable_scope("a", initializer=initializers.ones()) as a:
            first = variable("w", (1,))
        with variable_scope("b"):
            with variable_scope("a", absolute=True, reuse=True):
                assert variable("w", (1,), initializer=None, reuse=AUTO_REUSE) is first
            with variable_scope(a, reuse=True):
                assert variable("w", (1,)) is first
                assert constant(1.0).node.name == "b/a_1/Const"
            with variable_scope(a):
                assert variable("v", (1,)).node.attrs["__init__"] == '["one", {}]'
                assert variable("v2", (1,)).name == "a/v2"


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (None, None, (True, "exists")),
        (None, False, (True, "exists")),
        (None, True, ("missing", True)),
        (None, AUTO_REUSE, (True, True)),
        (None, Reuse.FORBID, (True, "exists")),
        (True, None, ("missing", True)),
        (True, False, ("missing", True)),
        (True, AUTO_REUSE, (True, True)),
        (AUTO_REUSE, None, (True, True)),
        (AUTO_REUSE, False, (True, True)),
        (AUTO_REUSE, True, ("missing", True)),
    ],
)
def test_reuse_of_the_outer_and_inner_scope_decides_about_sharing(
    outer: ReuseLike, inner: ReuseLike, expected: tuple[object, object]
) -> None:
    refusals = {
        "missing": "does not exist, and reuse=True requires",
        "exists": "already exists, disallowed",
    }
    with Session():
        known = variable("s/known", (1,), absolute=True)
        for name, wanted in zip(("new", "known"), expected, strict=True):
            with variable_scope(reuse=outer), variable_scope("s", reuse=inner):
                if wanted is True:
                    assert (variable(name, (1,)) is known) == (name == "known")
                else:
                    with pytest.raises(RefusedError, match=refusals[str(wanted)]):
                        variable(name, (1,))


def test_absolute_scopes_ignore_outer_scopes_and_an_empty_one_is_the_root() -> None:
    with Session(), variable_scope("a"):
        with name_scope("b", absolute=True), variable_scope("c", absolute=True):
            assert (placeholder("x").name, variable("w").name) == ("b/c/x", "c/w")
        with name_scope("", absolute=True), variable_scope("", absolute=True):
            assert (placeholder("x").name, variable("w").name) == ("x", "w")


@pytest.mark.parametrize("naming", [MXNET, TENSORFLOW])
def test_an_override_shares_without_reuse(naming: Naming) -> None:
    with Session(naming), parameter_sharing({"a": "b"}):
        first = variable("b/w", (1,))
        with variable_scope("a"):
            assert variable("w", (1,)) is first
        with variable_scope("b"), pytest.raises(RefusedError, match="b/w already exists"):
            variable("w", (1,))


def test_a_session_that_forbids_reuse_forbids_it_to_overrides_too() -> None:
    with Session(CAFFE2, reuse=False), parameter_sharing({"a": "b"}):
        variable("b/w", (1,))
        with pytest.raises(RefusedError, match="b/w already exists"), variable_scope("a"):
            variable("w", (1,))


def test_inner_settings_complete_outer_ones() -> None:
    outer = Settings(initializer="i", regularizer=1.0, dtype="float64", trainable=False)
    assert Settings().within(outer) == outer
    assert Settings(trainable=True, regularizer=0.0).within(outer) == Settings(
        "i", 0.0, "float64", True
    )


def test_an_exception_restores_the_outer_scope() -> None:
    with Session():
        before = current_scope()
        with pytest.raises(ZeroDivisionError), name_scope("a"), variable_scope("b", reuse=True):
            raise ZeroDivisionError
        assert current_scope() is before


def test_a_session_has_its_own_scopes() -> None:
    outside = current_session()
    with Session() as first, variable_scope("a"):
        with Session() as second:
            assert current_session() is second
            assert variable("w").name == "w"
        assert current_session() is first
        assert variable("w").name == "a/w"
        with first:
            assert variable("v").name == "v"
        assert current_scope().name == "a"
    assert current_session() is outside is default_session()


def test_threads_do_not_see_each_others_scopes() -> None:
    session, names = Session(), []
    barrier = threading.Barrier(4)

    def author(number: int) -> None:
        with session:
            barrier.wait()
            with variable_scope(f"t{number}"):
                barrier.wait()
                names.append(variable("w").name)
                barrier.wait()
        assert current_session() is default_session()

    threads = [threading.Thread(target=author, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == ["t0/w", "t1/w", "t2/w", "t3/w"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_in_the_middle_of_the_first_use_has_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where another thread uses the default session for the first time."""
    codes = []

    def make() -> Session:
        pid = os.fork()
        if not pid:
            signal.alarm(20)
            monkeypatch.setattr(session_module, "Session", Session)
            os._exit(int(not isinstance(default_session(), Session)))
        codes.append(os.waitpid(pid, 0)[1])
        return Session()

    monkeypatch.setattr(session_module, "_default", [])
    monkeypatch.setattr(session_module, "Session", make)
    assert isinstance(default_session(), Session)
    assert codes == [0]
