"""Patterns over names: globs, ``=name`` for a literal name, ``re:`` for regular expressions.

Matching takes linear time, unlike Python's backtracking search for expressions such as ``(a+)+$``:
re2 (installed if it has a wheel) matches regular expressions, and a search here globs (``*``,
``?``, ``[...]``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from graphshare.errors import Fault, UsageError
from graphshare.text.format import format_count

_SURROGATE = "[\ud800-\udfff]"
# The ends of re2's messages about look-around and back references.
_NEEDS_BACKTRACKING = ("(?=", "(?!", "(?<", "\\")

Matcher = Callable[[str], bool]
T = TypeVar("T")


def compile_pattern(pattern: str) -> Matcher:
    """Return a predicate over names.

    Raises:
        UsageError: the pattern is empty, or is not a regular expression.
    """
    if not pattern:
        raise UsageError(
            Fault(
                "an empty pattern matches nothing",
                hint="use '*' for all names, or '=' for the empty name",
            )
        )
    if is_literal(pattern):
        literal = pattern.removeprefix("=")
        return lambda name: name == literal
    if pattern.startswith("re:"):
        return _Expression(pattern[3:]).matches
    segments = _split_at_stars(_parse_glob(pattern))
    return lambda name: _match_glob(segments, name) is not None


def expand_patterns(values: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    """Expand patterns in ``values``. A name prevails over patterns, a later pattern over earlier
    ones.

    Keys that match none of ``names`` stay.
    """
    expanded: dict[str, T] = {}
    by_name: dict[str, T] = {}
    for pattern, value in values.items():
        is_name = pattern in names or (is_literal(pattern) and not pattern.startswith("="))
        matches = [] if is_name else list(filter(compile_pattern(pattern), names))
        by_name |= {} if matches else {pattern: value}
        expanded |= dict.fromkeys(matches, value)
    return {**expanded, **by_name}


Substitution = Callable[[str], "str | None"]


def is_literal(pattern: str) -> bool:
    """Whether ``pattern`` can match one name only."""
    return pattern.startswith("=") or not (
        pattern.startswith("re:") or any(character in pattern for character in "*?[")
    )


def find_literal_ends(pattern: str) -> tuple[str, str]:
    """Return a prefix and a suffix of every name that ``pattern`` matches; empty if not literal."""
    if pattern.startswith("re:"):
        return "", ""
    parts = re.split(r"[*?\[\]]", pattern)
    return parts[0], "" if "[" in pattern else parts[-1]


def compile_substitution(pattern: str, to: str) -> Substitution:
    r"""Return a function from a name to its replacement by ``to``, or to None without a match.

    For a glob each ``*`` of ``to`` is the text of the pattern's next ``*``, and ``{2}`` the text of
    its second one; every star but the last matches as little as possible. For a regular expression
    ``\1`` is group 1. For a literal, ``to`` is used unchanged.

    Raises:
        UsageError: the pattern is not valid (see :func:`compile_pattern`), or ``to`` refers to more
            than it matches.
    """
    if pattern.startswith("=") or (pattern and is_literal(pattern)):
        literal = pattern.removeprefix("=")
        return lambda name: to if name == literal else None
    if pattern.startswith("re:"):
        return _compile_expression_substitution(pattern[3:], to)
    # Refuse an empty pattern.
    compile_pattern(pattern)
    segments = _split_at_stars(_parse_glob(pattern))
    parts = _parse_template(to, _IN_GLOBS, len(segments) - 1, pattern)

    def substitute(name: str) -> str | None:
        stars = _match_glob(segments, name)
        return (
            None
            if stars is None
            else _fill_template(parts, [name[start:end] for start, end in stars])
        )

    return substitute


_IN_GLOBS = r"(\*|\{\d{1,4}\})"
_IN_EXPRESSIONS = r"(\\\d{1,2})"


def _parse_template(to: str, references: str, count: int, pattern: str) -> list[str | int]:
    """Split ``to`` into literal texts and numbers (from 0) of the matches of ``pattern``."""
    parts: list[str | int] = []
    stars = itertools.count()
    for i, piece in enumerate(re.split(references, to)):
        parts.append(
            piece if i % 2 == 0 else next(stars) if piece == "*" else int(piece.strip("{}\\")) - 1
        )
    if any(isinstance(part, int) and not 0 <= part < count for part in parts):
        raise UsageError(
            Fault(
                f"{to!r} refers to more than the {format_count(count, 'part')} that {pattern!r} matches"
            )
        )
    return parts


def _fill_template(parts: list[str | int], matches: list[str]) -> str:
    return "".join(matches[part] if isinstance(part, int) else part for part in parts)


def _compile_expression_substitution(text: str, to: str) -> Substitution:
    expression = _Expression(text)
    parts = _parse_template(to, _IN_EXPRESSIONS, expression.groups, f"re:{text}")

    def substitute(name: str) -> str | None:
        groups = expression.match_groups(name)
        return None if groups is None else _fill_template(parts, groups)

    return substitute


Range = tuple[str, str]
# A character, a set (negated or not), or None for '*'; '' is '?'
Token = str | tuple[bool, tuple[Range, ...]] | None


def _parse_glob(pattern: str) -> list[Token]:
    tokens: list[Token] = []
    i = 0
    while i < len(pattern):
        character = pattern[i]
        # A ] right after [ or [! is a member of the set, as in a shell.
        end = (
            pattern.find("]", i + (3 if pattern[i + 1 : i + 2] == "!" else 2))
            if character == "["
            else -1
        )
        if character == "*":
            tokens.append(None)
        elif character == "?":
            tokens.append("")
        elif end != -1:
            inside = pattern[i + 1 : end]
            negated = inside.startswith("!")
            tokens.append((negated, _parse_set(inside[negated:])))
            i = end
        else:
            tokens.append(character)
        i += 1
    return tokens


def _parse_set(inside: str) -> tuple[Range, ...]:
    """A range may be most of Unicode, so only its ends are returned."""
    ranges: list[Range] = []
    i = 0
    while i < len(inside):
        is_range = inside[i + 1 : i + 2] == "-" and i + 2 < len(inside)
        ranges.append((inside[i], inside[i + 2 if is_range else i]))
        i += 3 if is_range else 1
    return tuple(ranges)


class _Segment:
    """The part of a glob between two stars, found in time linear in the name.

    ``str.find`` finds a literal segment; for ``?`` or sets, bits mark all its prefixes that match
    at a place.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.size = len(tokens)
        self._literal = (
            "".join(map(str, tokens))
            if all(isinstance(token, str) and token for token in tokens)
            else None
        )
        self._masks: dict[str, int] = {}

    def matches_at(self, name: str, start: int) -> bool:
        if self._literal is not None:
            return name.startswith(self._literal, start)
        return start + self.size <= len(name) and all(
            map(_accepts, self._tokens, name[start : start + self.size])
        )

    def find(self, name: str, start: int) -> int:
        if self._literal is not None:
            return name.find(self._literal, start)
        state, last = 0, 1 << (self.size - 1)
        for place in range(start, len(name)):
            state = (state << 1 | 1) & self._mask(name[place])
            if state & last:
                return place - self.size + 1
        return -1

    def _mask(self, character: str) -> int:
        mask = self._masks.get(character)
        if mask is None:
            bits = "".join(
                "1" if _accepts(token, character) else "0" for token in reversed(self._tokens)
            )
            mask = self._masks[character] = int(bits, 2)
        return mask


def _accepts(token: Token, character: str) -> bool:
    if isinstance(token, str):
        return token in ("", character)
    return (
        token is not None
        and any(first <= character <= last for first, last in token[1]) != token[0]
    )


def _split_at_stars(tokens: Sequence[Token]) -> list[_Segment]:
    stars = [-1, *(i for i, token in enumerate(tokens) if token is None), len(tokens)]
    return [_Segment(tokens[start + 1 : end]) for start, end in itertools.pairwise(stars)]


def _match_glob(segments: Sequence[_Segment], name: str) -> list[tuple[int, int]] | None:
    """Return the start and end of the text that each star matched; None without a match."""
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        return [] if first.size == len(name) and first.matches_at(name, 0) else None
    end = len(name) - last.size
    if first.size > end or not first.matches_at(name, 0) or not last.matches_at(name, end):
        return None
    stars, at = [], first.size
    for segment in segments[1:-1]:
        # The first place leaves the most room for later segments. Two stars in a row have an empty
        # segment between them.
        place = segment.find(name, at) if segment.size else at
        if place < 0 or place + segment.size > end:
            return None
        stars.append((at, place))
        at = place + segment.size
    return [*stars, (at, end)]


class _Expression:
    """A regular expression for whole names, with a number of ``groups``.

    Raises:
        UsageError: it is not a regular expression of re2, or re2 is not installed.
    """

    def __init__(self, text: str) -> None:
        self._compiled = _compile(text)
        self.groups: int = self._compiled.groups

    def matches(self, name: str) -> bool:
        return self._compiled.fullmatch(_to_text(name)) is not None

    def match_groups(self, name: str) -> list[str] | None:
        """Return the text of each group, empty for an unused one."""
        match = self._compiled.fullmatch(_to_text(name))
        if match is None:
            return None
        spans = [match.span(number + 1) for number in range(self.groups)]
        return [name[start:end] if start >= 0 else "" for start, end in spans]


def _to_text(name: str) -> str:
    """Replace lone surrogates, bytes that are not UTF-8."""
    return name if name.isascii() else re.sub(_SURROGATE, "\ufffd", name)


def _compile(text: str) -> Any:
    if re.search(_SURROGATE, text):
        raise UsageError(Fault(f"re:{text} is not text in UTF-8"))
    try:
        import re2  # type: ignore[import-untyped,import-not-found,unused-ignore]  # start-up; and it lacks wheels for some systems
    except ImportError:
        _check_syntax(text)
        hint = "pip install google-re2, or use a glob"
        raise UsageError(
            Fault(f"re:{text} needs re2, which matches in linear time", hint=hint)
        ) from None
    options = re2.Options()
    # re2 would print its own message on stderr.
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _refuse(text, reason) from None


def _check_syntax(text: str) -> None:
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise _refuse(text, str(error)) from None
    except RecursionError:
        raise _refuse(text, "it is nested too deeply") from None


def _refuse(text: str, reason: str) -> UsageError:
    culprit = reason.rpartition(": ")[2]
    hint = "matching takes linear time, so there is no look-around and no back reference"
    fault = Fault(
        f"re:{text} is not a regular expression: {reason}",
        hint=hint if culprit.startswith(_NEEDS_BACKTRACKING) else "",
    )
    return UsageError(fault)
