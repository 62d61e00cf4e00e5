"""Patterns over names, and the renames by patterns."""

from __future__ import annotations

import fnmatch
import random
import sys
import types

import pytest

from graphshare.errors import UsageError
from graphshare.text.patterns import compile_pattern, compile_substitution
from tests.effort import ends


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("a", "a", "A aa b"), ("a*", "a ab a*", "ba"), ("*_w", "_w x_w", "w x_w2"), ("a?c", "abc a?c", "ac abbc"),
        ("[ab]c", "ac bc", "cc abc"), ("[!ab]c", "cc", "ac bc c"), ("[a-c]x", "ax bx cx", "dx -x"), ("[a-]x", "ax -x", "bx"),
        ("[]]x", "]x", "x"), ("[", "[", "a"), ("a[b", "a[b", "ab"), ("=a*", "a*", "ab"), ("*", "a b-c", ""),
        ("**a**", "a xay", "x"), ("a.b", "a.b", "axb"), ("(a+)", "(a+)", "aa"), ("\\d", "\\d", "1"),
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


@pytest.mark.parametrize("pattern", ["", "re:(a+)+$"])
def test_patterns_that_are_refused(pattern: str) -> None:
    try:
        import re2  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("a linear engine for regular expressions is there") if pattern else None
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


@pytest.mark.parametrize(("pattern", "to"), [("a*", "**"), ("a?", "*"), ("a*", "{2}"), ("a*", "{0}"), ("", "a")])
def test_substitutions_that_ask_for_too_much(pattern: str, to: str) -> None:
    with pytest.raises(UsageError):
        compile_substitution(pattern, to)


def test_regular_expressions_run_on_a_linear_engine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is an extra; a stand-in of the standard library's shows how its answers are used."""
    import re

    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(UsageError, match="linear time"):
        compile_substitution("re:(a+)+$", "b")
    standin = types.SimpleNamespace(
        compile=lambda expression, options: re.compile(expression), error=re.error, Options=types.SimpleNamespace
    )
    monkeypatch.setitem(sys.modules, "re2", standin)
    assert compile_substitution(r"re:(\w)_(\w)", r"\2-\1")("a_b") == "b-a"
    assert compile_substitution(r"re:a", "b")("aa") is None
    with pytest.raises(UsageError, match="refers to more"):
        compile_substitution("re:(a)", r"\2")
    with pytest.raises(UsageError, match="not a regular expression"):
        compile_substitution("re:(", "b")


@ends()
def test_globs_that_hang_a_backtracking_engine() -> None:
    substitute = compile_substitution("*a" * 30 + "*b", "x" + "*" * 31)
    assert substitute("a" * 2000) is None
    assert substitute("a" * 2000 + "b") is not None
