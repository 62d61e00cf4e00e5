"""Values as text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graphshare.text.format import (
    escape_control,
    escape_json,
    escape_surrogates,
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_number,
    format_shape,
    shorten,
)


@pytest.mark.parametrize(
    ("shape", "dims", "in_parentheses"),
    [
        ((20, 1, 5), "20x1x5", "(20,1,5)"),
        ((None, 3), "?x3", "(?,3)"),
        ((), "scalar", "()"),
        (None, "?", "(?)"),
    ],
)
def test_a_shape_shows_what_is_known(
    shape: tuple[int | None, ...] | None, dims: str, in_parentheses: str
) -> None:
    assert format_dims(shape) == dims
    assert format_shape(shape) == in_parentheses


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1700, "1.7 kB"), (999_949, "999.9 kB"), (999_951, "1.0 MB"),
        (999_999, "1.0 MB"), (97_500_000, "97.5 MB"), (5 * 10**12, "5000.0 GB"),
    ],
)  # fmt: skip
def test_bytes_take_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_counts_agree_with_their_noun() -> None:
    assert [format_count(count, "node") for count in (0, 1, 2, 1234)] == [
        "0 nodes",
        "1 node",
        "2 nodes",
        "1,234 nodes",
    ]
    assert format_count(10**30 - 1) == ",".join(["999"] * 10)
    assert format_count(10**30) == "more than 10^30"
    assert format_count(10**40) == "more than 10^30"


def test_numbers_and_lists_are_cut_short() -> None:
    assert [format_number(None), format_number(1 / 3), format_number(1 / 3, 2)] == [
        "-",
        "0.33333",
        "0.33",
    ]
    assert [format_names("ab"), format_names("abcd", 2), format_names([])] == [
        "a, b",
        "a, b and 2 more",
        "",
    ]
    assert [format_names("abc", limit) for limit in (2, 3, 4)] == [
        "a, b and 1 more",
        "a, b, c",
        "a, b, c",
    ]
    assert [shorten("abcdef", 6), shorten("abcdefg", 6)] == ["abcdef", "abc..."]


def test_nothing_that_a_terminal_or_utf_8_cannot_take_is_left() -> None:
    assert escape_control("a\nb\x1b[0m") == "a\\nb\\x1b[0m"
    assert escape_control("a\nb\t", keep="\n") == "a\nb\\t"
    assert escape_surrogates("a\udcff") == "a\\udcff"
    text = '{"a\u202e": "\\n\U000e0001"}\n'
    assert escape_json(text) == '{"a\\u202e": "\\n\\udb40\\udc01"}\n'
    assert escape_json('{"a":\n1}') == '{"a":\n1}'


def test_text_is_light_to_import() -> None:
    code = (
        "import sys; from graphshare.text import format, names, patterns; print({'numpy', 'rich', "
        "'click'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
