"""Patterns over names: globs, ``=name`` for a literal name, ``re:`` for regular expressions.

Regular expressions need an engine that runs in linear time, an optional extra; globs (``*``, ``?``, ``[...]``) are matched by
an automaton of our own making for the same reason: the standard translation backtracks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

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
    return lambda name: _matches(tokens, name) is not None


Substituter = Callable[[str], "str | None"]


def is_literal(pattern: str) -> bool:
    """Whether ``pattern`` can match one name only."""
    return pattern.startswith("=") or not (pattern.startswith("re:") or any(character in pattern for character in "*?["))


def literal_ends(pattern: str) -> tuple[str, str]:
    """How every name that ``pattern`` matches begins and ends; empty where that is not plain to see."""
    if pattern.startswith("re:"):
        return "", ""
    parts = re.split(r"[*?\[\]]", pattern)
    return parts[0], "" if "[" in pattern else parts[-1]


def substituter(pattern: str, to: str) -> Substituter:
    """A function from a name to the name that ``to`` makes of it, or to None where ``pattern`` does not match it.

    For a glob each ``*`` of ``to`` is what the pattern's next ``*`` matched, and ``{2}`` what its second one did; stars match
    as little as they can, but for the last. For a regular expression ``\\1`` is what group 1 matched. For a literal, ``to`` is
    taken as it stands.

    Raises:
        UsageError: the pattern is none (see :func:`matcher`), or ``to`` asks for more than it matches.
    """
    if pattern.startswith("=") or (pattern and is_literal(pattern)):
        literal = pattern.removeprefix("=")
        return lambda name: to if name == literal else None
    if pattern.startswith("re:"):
        return _regular_substituter(pattern[3:], to)
    matcher(pattern)
    tokens = _tokens(pattern)
    parts = _template(to, _IN_GLOBS, sum(token is None for token in tokens), pattern)

    def substitute(name: str) -> str | None:
        stars = _matches(tokens, name)
        return None if stars is None else _filled(parts, [name[start:end] for start, end in stars])

    return substitute


_IN_GLOBS = re.compile(r"(\*|\{\d{1,4}\})")
_IN_EXPRESSIONS = re.compile(r"(\\\d{1,2})")


def _template(to: str, references: re.Pattern[str], count: int, pattern: str) -> list[str | int]:
    """``to`` as texts and, between them, the numbers from 0 of what is put there; ``count`` is how many the pattern has."""
    parts: list[str | int] = []
    stars = itertools.count()
    for i, piece in enumerate(references.split(to)):
        parts.append(piece if i % 2 == 0 else next(stars) if piece == "*" else int(piece.strip("{}\\")) - 1)
    if any(isinstance(part, int) and not 0 <= part < count for part in parts):
        raise UsageError(Fault(f"{to!r} asks for more than {pattern!r} matches: it has {count} to give"))
    return parts


def _filled(parts: list[str | int], given: list[str]) -> str:
    return "".join(given[part] if isinstance(part, int) else part for part in parts)


def _regular_substituter(expression: str, to: str) -> Substituter:
    compiled = _compiled(expression)
    parts = _template(to, _IN_EXPRESSIONS, compiled.groups, f"re:{expression}")

    def substitute(name: str) -> str | None:
        found = compiled.fullmatch(name)
        return None if found is None else _filled(parts, [group or "" for group in found.groups()])

    return substitute


def _regular(expression: str) -> Matcher:
    compiled = _compiled(expression)
    return lambda name: compiled.fullmatch(name) is not None


def _compiled(expression: str) -> Any:
    try:
        import re2  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        hint = "pip install 'graphshare[regex]', or use a glob"
        raise UsageError(Fault(f"re:{expression} needs an engine that runs in linear time", hint=hint)) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise UsageError(Fault(f"re:{expression} is no regular expression: {reason}")) from None


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


def _matches(tokens: list[Token], name: str) -> list[tuple[int, int]] | None:
    """What each star matched, as start and end; None where the name does not fit.

    Greedy matching that returns to the last star only: time is the product of the lengths at worst.
    """
    i = j = 0
    star = -1
    stars: list[tuple[int, int]] = []
    while j < len(name):
        token = tokens[i] if i < len(tokens) else "\0"
        if i < len(tokens) and token is None:
            star = i
            stars.append((j, j))
            i += 1
        elif i < len(tokens) and (
            token in ("", name[j]) if isinstance(token, str) else token is not None and (name[j] in token[1]) != token[0]
        ):
            i, j = i + 1, j + 1
        elif star >= 0:
            start, end = stars[-1]
            stars[-1] = (start, end + 1)
            i, j = star + 1, end + 1
        else:
            return None
    if any(token is not None for token in tokens[i:]):
        return None
    return stars + [(j, j)] * (len(tokens) - i)
