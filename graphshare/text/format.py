"""Values as text for messages and tables: shapes, sizes, counts, names, printable text, and
JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

_UNITS = ("B", "kB", "MB", "GB")


def escape_control(text: str, *, keep: str = "") -> str:
    """Escape control characters in ``text``, except those in ``keep``."""
    return (
        text
        if text.isprintable()
        else "".join(c if c in keep or c.isprintable() else repr(c)[1:-1] for c in text)
    )


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates: names may have them, but UTF-8 cannot hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def shorten(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` characters, with ``...`` at its end."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def format_dims(
    shape: Sequence[int | str | None] | None, *, separator: str = "x", unknown: str = "?"
) -> str:
    """Return ``20x1x5x5``, ``1x?`` with an unknown size, ``scalar``; ``unknown`` without a rank."""
    if shape is None:
        return unknown
    return separator.join("?" if size is None else str(size) for size in shape) or "scalar"


def format_shape(shape: Sequence[int | str | None] | None) -> str:
    """Format a shape for ``--shape``: ``(1,3,?,?)``; ``(?)`` if the rank is unknown."""
    return (
        "(?)"
        if shape is None
        else f"({','.join('?' if size is None else str(size) for size in shape)})"
    )


def format_bytes(count: int) -> str:
    """Format bytes in the largest fitting unit: ``431 B``, ``1.7 kB``, ``97.5 MB``."""
    if count < 1000:
        return f"{count} B"
    value, unit = float(count), 0
    # Rounded as printed: 999,999 bytes are 1.0 MB, not 1000.0 kB.
    while round(value, 1) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"


def format_count(count: int, noun: str = "") -> str:
    """Return ``1 error``, ``2,000 errors``; without a ``noun`` only the number.

    Counts in files have no bound, so huge ones are cut.
    """
    number = f"{count:,}" if count < 10**30 else "more than 10^30"
    return f"{number} {noun if count == 1 else pluralize(noun)}" if noun else number


_PLURALS = {"index": "indices", "matrix": "matrices", "axis": "axes", "tie": "ties"}


def pluralize(noun: str) -> str:
    """Return the plural of a noun, also with adjectives and ``of``: ``pairs of nodes``."""
    head, preposition, attribute = noun.partition(" of ")
    adjectives, space, word = head.rpartition(" ")
    if word in _PLURALS:
        plural = _PLURALS[word]
    elif word.endswith("y") and word[-2:-1] not in "aeiou":
        plural = f"{word[:-1]}ies"
    else:
        plural = word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{adjectives}{space}{plural}{preposition}{attribute}"


def singularize(plural: str) -> str:
    """Return the noun with this plural, or the word itself."""
    adjectives, space, word = plural.rpartition(" ")
    # The order decides: 'boxes' could also be the plural of 'boxe', and 'ties' of 'ty'.
    candidates = (*_PLURALS, f"{word[:-3]}y", word[:-2], word[:-1])
    return (
        adjectives
        + space
        + next((noun for noun in candidates if noun and pluralize(noun) == word), word)
    )


def format_number(value: float | None, digits: int = 5) -> str:
    """Format a number with ``digits`` significant digits; None is a dash."""
    return "-" if value is None else f"{value:.{digits}g}"


def format_names(names: Iterable[str], limit: int = 20) -> str:
    """Return the first ``limit`` names and the number of others: ``a, b and 7 more``."""
    names = list(names)
    return ", ".join(names[:limit]) + (
        f" and {len(names) - limit} more" if len(names) > limit else ""
    )


def join_words(words: Sequence[str]) -> str:
    """List words in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def encode_json(value: object) -> bytes:
    r"""Return ``value`` as JSON in UTF-8; bytes of names that are not Unicode become
    ``\\udcff``.
    """
    # Lone surrogates are rare, and searching all texts takes longer than the encoder.
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escape(msgspec.to_builtins(value)))


def escape_json(text: str) -> str:
    """Return JSON of the same meaning whose strings have only printable characters."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escape_character(c) for c in text)


def _escape_character(character: str) -> str:
    # JSON writes a character beyond U+FFFF as two surrogates.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _escape(value: Any) -> Any:
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {_escape(key): _escape(item) for key, item in value.items()}
    return [_escape(item) for item in value] if isinstance(value, list | tuple) else value
