"""Places of JSON paths in a text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.formats.mxnet.places import LineIndex, Steps, find_places

TEXT = '{"a": [1, {"b\\n": "x"}],\n "a\\u0062": {"c": []}, "d": 1, "d": {"e": 2}}'


@pytest.mark.parametrize(
    ("steps", "starts"),
    [
        ((), '{"a"'),
        (("a", 0), "1, "),
        (("a", 1, "b\n"), '"x"'),
        (("ab", "c"), "[]}"),
        (("ab", "missing"), '{"c"'),
        (("a", 7, "x"), "[1, "),
        (("d", "e"), "2}}"),
    ],
)
def test_a_path_is_found(steps: Steps, starts: str) -> None:
    assert TEXT[find_places(TEXT, [steps])[steps] :].startswith(starts)


def test_a_byte_order_mark_is_before_the_first_value() -> None:
    steps: tuple[Steps, ...] = ((), ("a",))
    assert find_places('\ufeff{"a": 1}', steps) == {(): 1, ("a",): 7}
    assert find_places(' {"a": 1}', steps) == {(): 1, ("a",): 7}
    assert find_places("12", [(), ("a", 0)]) == {(): 0, ("a", 0): 0}


def test_lines_and_columns() -> None:
    assert LineIndex(TEXT).locate(0) == (1, 1)
    assert LineIndex(TEXT).locate(TEXT.index("\n") + 1) == (2, 1)
    assert LineIndex(TEXT).locate(TEXT.index("[]")) == (2, 1 + len(' "a\\u0062": {"c": '))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_what_stands_there_is_the_value(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    paths: dict[Steps, object] = {}
    pending: list[tuple[Steps, object]] = [((), value)]
    while pending:
        steps, part = pending.pop()
        paths[steps] = part
        items = (
            part.items()
            if isinstance(part, dict)
            else enumerate(part)
            if isinstance(part, list)
            else ()
        )
        pending.extend(((*steps, key), inner) for key, inner in items)
    found = find_places(text, paths)
    for steps, part in paths.items():
        assert json.JSONDecoder().raw_decode(text, found[steps])[0] == part
