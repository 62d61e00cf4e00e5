"""Patterns over names, and the renames by patterns."""

from __future__ import annotations

import fnmatch
import random
import sys

import pytest

from graphshare.errors import UsageError
from graphshare.text.patterns import (
    compile_pattern,
    compile_substitution,
    expand_patterns,
    find_literal_ends,
    is_literal,
)
from tests.effort import ends


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("a", "a", "A aa b"), ("a*", "a ab a*", "ba"), ("*_w", "_w x_w", "w x_w2"), ("a?c", "abc a?c", "ac abbc"),
        ("[ab]c", "ac bc", "cc abc"), ("[!ab]c", "cc", "ac bc c"), ("[a-c]x", "ax bx cx", "dx -x"), ("[a-]x", "ax -x", "bx"),
        ("[]]x", "]x", "x"), ("[!]a]x", "bx", "]x"), ("[a]]", "a]", "]"),
        ("[", "[", "a"), ("a[b", "a[b", "ab"), ("=a*", "a*", "ab"), ("*", "a b-c", ""),
        ("**a**", "a xay", "x"), ("[一-龥]w", "一w 龙w 龥w", "aw w"),
        ("[!一-龥]w", "aw", "龙w"), ("[c-a]x", "", "ax bx cx"), ("a.b", "a.b", "axb"),
        ("(a+)", "(a+)", "aa"), ("\\d", "\\d", "1"),
    ],
)  # fmt: skip
def test_patterns(pattern: str, fits: str, misses: str) -> None:
    matches = compile_pattern(pattern)
    assert all(matches(name) for name in fits.split())
    assert not any(matches(name) for name in misses.split())


def test_globs_agree_with_the_standard_library() -> None:
    generator = random.Random(3)
    for _ in range(5000):
        pattern = "".join(generator.choices("ab*?", k=generator.randrange(1, 7)))
        name = "".join(generator.choices("ab", k=generator.randrange(7)))
        assert compile_pattern(pattern)(name) == fnmatch.fnmatchcase(name, pattern), (pattern, name)


def test_patterns_that_hang_a_backtracking_engine() -> None:
    assert not compile_pattern("*a" * 40 + "*b")("a" * 3000)
    assert compile_pattern("*a" * 40 + "*")("a" * 3000)


@pytest.mark.parametrize(
    "pattern", ["", "re:(", "re:[z-a]", "re:*", "re:a{2,1}", r"re:(a)\1", "re:a(?=b)", "re:a\udcff"]
)
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "to", "name", "renamed"),
    [
        ("conv*_weight", "shared*_w", "conv12_weight", "shared12_w"), ("*_*", "{2}_{1}", "a_b_c", "b_c_a"),
        ("a?c*", "x*", "abcdd", "xdd"), ("*", "p/*", "w", "p/w"), ("a", "b", "a", "b"), ("=a*", "b*", "a*", "b*"),
        ("*a*", "[*|*]", "bab", "[b|b]"), ("x*", "y", "xx", "y"), ("a*", "b*", "a", "b"), ("[ab]*", "c*", "bz", "cz"),
        ("a*", "b*", "ca", None), ("=a", "b", "aa", None),
    ],
)  # fmt: skip
def test_substitution(pattern: str, to: str, name: str, renamed: str | None) -> None:
    assert compile_substitution(pattern, to)(name) == renamed


@pytest.mark.parametrize(
    ("pattern", "to"), [("a*", "**"), ("a?", "*"), ("a*", "{2}"), ("a*", "{0}"), ("", "a")]
)
def test_substitutions_that_ask_for_too_much(pattern: str, to: str) -> None:
    with pytest.raises(UsageError):
        compile_substitution(pattern, to)


def test_regular_expressions() -> None:
    assert compile_pattern(r"re:fc\d+")("fc12")
    assert not compile_pattern(r"re:fc\d+")("xfc12")
    assert compile_substitution(r"re:(\w)_(\w)", r"\2-\1")("a_b") == "b-a"
    assert compile_substitution(r"re:(a)|(b)", r"<\1\2>")("b") == "<b>"
    assert compile_substitution(r"re:a", "b")("aa") is None
    with pytest.raises(UsageError, match="refers to more"):
        compile_substitution("re:(a)", r"\2")
    for unsupported in (r"re:(a)\1", "re:a(?=b)", "re:(?<!a)b"):
        with pytest.raises(UsageError, match="not a regular expression") as caught:
            compile_substitution(unsupported, "b")
        assert "no look-around and no back reference" in caught.value.faults[0].hint
    with pytest.raises(UsageError, match=r"missing \)") as caught:
        compile_substitution("re:(", "b")
    assert caught.value.faults[0].hint == ""


def test_names_that_are_no_text_match_too() -> None:
    assert compile_substitution("re:é(.)(.*)", r"\2\1")("é\udcffab") == "ab\udcff"
    assert compile_pattern("re:é.")("é\ud800")


@ends()
def test_regular_expressions_that_hang_a_backtracking_engine() -> None:
    assert not compile_pattern("re:(x+x+)+y")("x" * 100_000)
    assert compile_substitution("re:((a?){30})*(a{30})*", "b")("a" * 30_000) == "b"


def test_an_error_of_syntax_is_named_before_a_missing_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(UsageError, match="not a regular expression"):
        compile_pattern("re:(")
    with pytest.raises(UsageError, match="not a regular expression"):
        compile_pattern("re:" + "(" * 10_000 + ")" * 10_000)
    with pytest.raises(UsageError, match="linear time") as caught:
        compile_pattern("re:(a+)+$")
    assert "pip install google-re2" in caught.value.faults[0].hint


@ends()
def test_globs_that_hang_a_backtracking_engine() -> None:
    substitute = compile_substitution("*a" * 30 + "*b", "x" + "*" * 31)
    assert substitute("a" * 2000) is None
    assert substitute("a" * 2000 + "b") is not None


@pytest.mark.parametrize(
    ("pattern", "literal", "ends"),
    [
        ("a", True, ("a", "a")), ("", True, ("", "")), ("=", True, ("=", "=")), ("=a*", True, ("=a", "")),
        ("a*b", False, ("a", "b")), ("a?", False, ("a", "")), ("a?b*c", False, ("a", "c")), ("*", False, ("", "")),
        ("a[bc]d", False, ("a", "")), ("a[b", False, ("a", "")), ("a]b", True, ("a", "b")), ("*?[", False, ("", "")),
        ("re:a", False, ("", "")), ("re:a*b", False, ("", "")), ("are:", True, ("are:", "are:")),
    ],
)  # fmt: skip
def test_literal_patterns_and_the_ends_of_others(
    pattern: str, literal: bool, ends: tuple[str, str]
) -> None:
    assert is_literal(pattern) is literal
    assert find_literal_ends(pattern) == ends


def test_values_by_pattern_hold_for_names() -> None:
    assert expand_patterns({"a*": 1}, ["a*", "ab"]) == {"a*": 1}
    assert expand_patterns({"": 1, "*": 2}, ["a"]) == {"a": 2, "": 1}
    names = ["data", "b_data", "label", "*odd"]
    assert expand_patterns({"*data": 1, "b_data": 2}, names) == {"data": 1, "b_data": 2}
    assert expand_patterns({"b_data": 2, "*data": 1}, names) == {"data": 1, "b_data": 2}
    assert expand_patterns({"*data": 1, "re:b_.*": 3}, names) == {"data": 1, "b_data": 3}
    assert expand_patterns({"*odd": 1, "=label": 2, "other": 3, "*x": 4}, names) == {
        "*odd": 1,
        "label": 2,
        "other": 3,
        "*x": 4,
    }
