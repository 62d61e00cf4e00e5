"""JSON for any names: lone surrogates, which UTF-8 cannot hold, and characters that a terminal would obey or hide."""

from __future__ import annotations

from typing import Any

import msgspec

from graphshare.text.format import escape_surrogates


def encode_json(value: object) -> bytes:
    """Return ``value`` as JSON in UTF-8; what is not Unicode in a name (of a file, of a record) is written as ``\\\\udcff``."""
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
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _escape(value: Any) -> Any:
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {_escape(key): _escape(item) for key, item in value.items()}
    return [_escape(item) for item in value] if isinstance(value, list | tuple) else value
