"""Arguments against their annotations: what fits each type, and the words about what does not."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np
import pytest

import graphshare as gs
from graphshare.arguments import Natural, NotNegative, Positive, Seconds, Text, check_arguments
from graphshare.errors import UsageError

Side = Literal["left", "right"]
Names = str | Iterable[str]
Path = str | os.PathLike[str]
Paths = Path | Iterable[Path]


def call(hint: Any, value: Any) -> Any:
    """Return the argument ``x`` of a function with this annotation as the function gets it."""

    def function(x: object) -> object:
        return x

    function.__annotations__ = {"x": hint}
    return check_arguments(function)(value)


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (int, [0, -1, np.int64(3), np.uint8(3)]),
        (float, [0, -1, 1.5, np.float32(1.5), 10**400]),
        (bool, [True, False, np.bool_(True)]),
        (Natural, [0, 1, np.int64(3)]),
        (Positive, [1, 2]),
        (NotNegative, [0, 0.0, 1.5]),
        (Seconds, [1, 0.001]),
        (Text, ["a"]),
        (Side, ["left", "right"]),
        (Side | None, ["left", None]),
        (Text | None, ["a", None]),
        (str | None, ["", "a\0b", None]),
        (Names, ["a", [], ["a", "b"], ("a", "b"), {"a", "b"}]),
        (Path, ["a", os.curdir]),
        (Iterable[str], [[], ["a", "b"]]),
        (Iterable[int], [[1, 1], range(2), np.array([1, 1])]),
        (Mapping[str, int], [{}, {"a": 1, "": 1}]),
        (Mapping[str, Names], [{"a": "b"}, {"a": ["b", "c"]}]),
        (tuple[str, int], [("a", 1), ["a", 1]]),
        (tuple[int, ...], [(), (1, 2, 3)]),
        (Iterable[tuple[str, str]], [[("a", "a"), ("a", "a")]]),
        (Any, [None, 1, "", [""]]),
    ],
)
def test_values_that_fit(hint: Any, values: list[Any]) -> None:
    for value in values:
        assert call(hint, value) is value


@pytest.mark.parametrize(
    ("hint", "value", "message", "wanted"),
    [
        (int, True, "cannot be True", "int"),
        (int, 1.0, "cannot be 1.0", "int"),
        (int, None, "cannot be None", "int"),
        (float, False, "cannot be False", "float"),
        (float, "1", "cannot be '1'", "float"),
        (bool, 1, "cannot be 1", "bool"),
        (bool, np.int64(1), "cannot be a int64", "bool"),
        (Natural, -1, "cannot be -1", "int from 0 on"),
        (Natural, 1.5, "cannot be 1.5", "int from 0 on"),
        (Natural, True, "cannot be True", "int from 0 on"),
        (Positive, 0, "cannot be 0", "int from 1 on"),
        (NotNegative, -0.5, "cannot be -0.5", "float from 0 on"),
        (NotNegative, float("nan"), "cannot be nan", "float from 0 on"),
        (NotNegative, float("inf"), "cannot be inf", "finite float from 0 on"),
        (float, float("nan"), "cannot be nan", "float"),
        (Seconds, 0, "cannot be 0", "float above 0"),
        (Seconds | None, -1, "cannot be -1", "float above 0 or None"),
        (Text, "", "cannot be ''", "str that is not empty"),
        (Text, 3, "cannot be 3", "str that is not empty"),
        (Side, "up", "cannot be 'up'", "'left' or 'right'"),
        (Side, 3, "cannot be 3", "'left' or 'right'"),
        (Side, np.array(["left"]), "cannot be a ndarray", "'left' or 'right'"),
        (
            Side | None,
            "rigth",
            "cannot be 'rigth'",
            "did you mean 'right'? expected 'left' or 'right' or None",
        ),
        (Literal["one"], "two", "cannot be 'two'", "'one'"),
        (Literal["a", "b", "c"], "x", "cannot be 'x'", "'a', 'b' or 'c'"),
        (str | None, 3, "cannot be 3", "str or None"),
        (str | None, b"a" * 99, "cannot be a bytes", "str or None"),
        (str | None, {}, "cannot be {}", "str or None"),
        (Names, "", "cannot be ''", "str or a list of str"),
        (Names, "a\0b", "cannot be 'a\\x00b'", "str or a list of str"),
        (Names, 3, "cannot be 3", "str or a list of str"),
        (Names, b"a", "cannot be a bytes", "str or a list of str"),
        (Names, {"a": 1}, "cannot be {'a': 1}", "str or a list of str"),
        (Names, np.array("a"), "cannot be a ndarray", "str or a list of str"),
        (Names, ["a", 3], "cannot hold 3", "str"),
        (Names, ["a", ""], "cannot hold ''", "each name once, and none empty"),
        (Names, ["a", "b", "b"], "cannot hold 'b'", "each name once, and none empty"),
        (Path, "", "cannot be ''", "str or PathLike"),
        (Path, "a\0b", "cannot be 'a\\x00b'", "str or PathLike"),
        (Path, ["a"], "cannot be ['a']", "str or PathLike"),
        (Mapping[str, int], [("a", 1)], "cannot be [('a', 1)]", "a mapping of str to int"),
        (Mapping[str, int], {"a": 1, "b": "2"}, "cannot hold '2'", "int"),
        (Mapping[str, int], {3: 1}, "cannot hold 3", "str"),
        (
            Mapping[str, Side],
            {"a": "lef"},
            "cannot hold 'lef'",
            "did you mean 'left'? expected 'left' or 'right'",
        ),
        (tuple[str, int], ("a",), "cannot be ('a',)", "a tuple of str and int"),
        (tuple[str, int], ("a", "b"), "cannot hold 'b'", "int"),
        (tuple[str, int], "a1", "cannot be 'a1'", "a tuple of str and int"),
        (
            Iterable[tuple[str, int]],
            [("a", 1), ("a", 1, 1)],
            "cannot hold ('a', 1, 1)",
            "a tuple of str and int",
        ),
        (Iterable[tuple[str, int]], "a", "cannot be 'a'", "a list of a tuple of str and int"),
        (str | Mapping[str, Natural], {"a": -1}, "cannot hold -1", "int from 0 on"),
        (str | Mapping[str, Natural], 3, "cannot be 3", "str or a mapping of str to int from 0 on"),
        (Paths, b"ab", "cannot be a bytes", "str, PathLike or a list of str or PathLike"),
        (Paths, np.array(3), "cannot be a ndarray", "str, PathLike or a list of str or PathLike"),
    ],
)
def test_values_that_do_not_fit(hint: Any, value: Any, message: str, wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(hint, value)
    (fault,) = caught.value.faults
    assert fault.message == f"`x` {message}"
    assert fault.hint == (wanted if wanted.startswith("did you mean") else f"expected {wanted}")


@pytest.mark.parametrize(
    ("hint", "value", "received"),
    [
        (Path, "file:///a%20b", "/a b"),
        (Path | None, PurePosixPath("a", "b"), "a/b"),
        (Path, "s3://a/b", "s3://a/b"),
        (Iterable[Path], iter(["file:///a", PurePosixPath("b")]), ["/a", "b"]),
        (Path | Iterable[int | Path], (3, "file:///a"), (3, "/a")),
        (Path | Sequence[str], ["file:///a"], ["file:///a"]),
        (Names, "file:///a", "file:///a"),
        (gs.Inputs, gs.Inputs(sets="file:///a"), gs.Inputs(sets="/a")),
    ],
)
def test_a_path_becomes_text_and_a_file_url_its_path(hint: Any, value: Any, received: Any) -> None:
    assert call(hint, value) == received


def test_an_iterator_is_read_once() -> None:
    assert call(Names, iter("ab")) == ["a", "b"]
    with pytest.raises(UsageError, match="`x` cannot hold 'a'"):
        call(Names, iter("aa"))


@check_arguments
def combine(first: str, second: Names = "", *, third: Natural = -1) -> tuple[object, ...]:
    return first, second, third


def test_all_arguments_that_do_not_fit_are_listed_and_defaults_always_fit() -> None:
    assert combine("a") == ("a", "", -1)
    assert combine("a", second=["b"], third=0) == ("a", ["b"], 0)
    with pytest.raises(UsageError) as caught:
        combine(3, ["b", "b"], third=-2)  # type: ignore[arg-type]
    messages = ["`first` cannot be 3", "`second` cannot hold 'b'", "`third` cannot be -2"]
    assert [fault.message for fault in caught.value.faults] == messages


def test_missing_and_unknown_arguments_are_errors_of_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'first'"):
        combine()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'fourth'"):
        combine("a", fourth=1)  # type: ignore[call-arg]


def test_an_unknown_keyword_that_resembles_another_one_names_it() -> None:
    with pytest.raises(
        TypeError, match=r"^duplicate\(\) has no argument 'prefix': did you mean 'prefixes'\?$"
    ):
        gs.duplicate("lenet", prefix="b-")  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^rename\(\) has no argument 'prefixes': did you mean 'prefix'"
    ):
        gs.rename("lenet", prefixes="b-")  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^run\(\) takes 1 by position, all other arguments by name: feeds=, "
    ):
        gs.run("lenet", {})  # type: ignore[misc]


def test_one_thing_has_one_name_in_every_function() -> None:
    """Branches have ``prefixes``; ``prefix`` is the one that names get."""
    names = {
        name: inspect.signature(getattr(gs, name)).parameters
        for name in gs.__all__
        if name[0].islower()
    }
    assert {name for name, found in names.items() if "prefixes" in found} == {
        "diff", "draw", "draw_difference", "duplicate", "group", "verify",
    }  # fmt: skip
    assert {name for name, found in names.items() if "prefix" in found} == {
        "rename",
        "rename_params",
    }
