"""Patterns over names: globs, ``=name`` for a literal name, ``re:`` for regular expressions.

Regular expressions need an engine that runs in linear time, an optional extra; globs (``*``, ``?``, ``[...]``) are matched by
an automaton of our own making for the same reason: the standard translation backtracks.
"""

from __future__ import annotations

from collections.abc import Callable

from graphshare.errors import Fault, UsageError

Matcher = Callable[[str], bool]


def matcher(pattern: str) -> Matcher:
    """A predicate over names for ``pattern``.

    Raises:
        UsageError: the pattern is empty, or a regular expression without an engine for it or that the engine refuses.
    """
    if not pattern:
        raise UsageError(Fault("an empty pattern matches nothing", hint="use '*' for all names, or '=' for the empty name"))
    if pattern.startswith("="):
        literal = pattern[1:]
        return lambda name: name == literal
    if pattern.startswith("re:"):
        return _regular(pattern[3:])
    if not any(character in pattern for character in "*?["):
        return lambda name: name == pattern
    tokens = _tokens(pattern)
    return lambda name: _matches(tokens, name)


def _regular(expression: str) -> Matcher:
    try:
        import re2  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        hint = "pip install 'graphshare[regex]', or use a glob"
        raise UsageError(Fault(f"re:{expression} needs an engine that runs in linear time", hint=hint)) from None
    try:
        compiled = re2.compile(expression)
    except re2.error as error:
        raise UsageError(Fault(f"re:{expression} is no regular expression: {error}")) from None
    return lambda name: compiled.fullmatch(name) is not None


Token = str | tuple[bool, frozenset[str]] | None  # a character, a set (negated or not), or None for '*'; '' is '?'


def _tokens(pattern: str) -> list[Token]:
    tokens: list[Token] = []
    i = 0
    while i < len(pattern):
        character = pattern[i]
        end = pattern.find("]", i + (3 if pattern[i + 1 : i + 2] == "!" else 2)) if character == "[" else -1
        if character == "*":
            tokens.append(None)
        elif character == "?":
            tokens.append("")
        elif end > 0:
            inside = pattern[i + 1 : end]
            negated = inside.startswith("!")
            tokens.append((negated, _characters(inside[negated:])))
            i = end
        else:
            tokens.append(character)
        i += 1
    return tokens


def _characters(inside: str) -> frozenset[str]:
    characters: set[str] = set()
    i = 0
    while i < len(inside):
        if inside[i + 1 : i + 2] == "-" and i + 2 < len(inside):
            characters.update(map(chr, range(ord(inside[i]), min(ord(inside[i + 2]), ord(inside[i]) + 0x1000) + 1)))
            i += 3
        else:
            characters.add(inside[i])
            i += 1
    return frozenset(characters)


def _matches(tokens: list[Token], name: str) -> bool:
    """Greedy matching that returns to the last star only: time is the product of the lengths at worst."""
    i = j = 0
    star, resume = -1, 0
    while j < len(name):
        token = tokens[i] if i < len(tokens) else "\0"
        if i < len(tokens) and token is None:
            star, resume = i, j
            i += 1
        elif i < len(tokens) and (
            token in ("", name[j]) if isinstance(token, str) else token is not None and (name[j] in token[1]) != token[0]
        ):
            i, j = i + 1, j + 1
        elif star >= 0:
            resume += 1
            i, j = star + 1, resume
        else:
            return False
    return all(token is None for token in tokens[i:])
