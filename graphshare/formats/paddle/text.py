"""The text of Paddle's JSON: objects with ordered keys, lists, attributes; values stay
undecoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

Fields = tuple[tuple[str, bytes], ...]
"""The keys of an object with their values, as texts of JSON."""
_DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist"}


class Attribute(msgspec.Struct, frozen=True):
    """The value of an attribute: its type in the file's word, and its text."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


class _Typed(msgspec.Struct):
    tag: str = msgspec.field(name="#")
    data: msgspec.Raw = msgspec.field(name="D", default=msgspec.Raw(b"null"))


class _Named(msgspec.Struct):
    name: str = msgspec.field(name="N")
    value: _Typed = msgspec.field(name="AT")


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TYPED = msgspec.json.Decoder(_Typed)
_TYPED_LIST = msgspec.json.Decoder(list[_Typed])
_ATTRIBUTES = msgspec.json.Decoder(list[_Named])


def read_object(text: bytes | msgspec.Raw) -> dict[str, bytes]:
    """Return the values of an object by key, as texts. Raises msgspec.MsgspecError."""
    return {key: bytes(value) for key, value in _OBJECT.decode(text).items()}


def read_list(text: bytes | msgspec.Raw) -> list[bytes]:
    """Return the values of a list, as texts. Raises msgspec.MsgspecError."""
    return [bytes(value) for value in _LIST.decode(text)]


def write_object(fields: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the text of an object."""
    return b"{" + b",".join([write_text(key) + b":" + value for key, value in fields]) + b"}"


def write_list(values: Iterable[bytes]) -> bytes:
    """Return the text of a list."""
    return b"[" + b",".join(values) + b"]"


def write_text(text: str) -> bytes:
    """Return a string as Paddle writes it: UTF-8, and escapes only for control characters."""
    return json.dumps(text, ensure_ascii=False).encode()


def split_operator(tag: str) -> tuple[str, str]:
    """Return the dialect and the operator of a ``#``, as in ``1.conv2d``."""
    code, dot, op = tag.partition(".")
    return (_DIALECTS.get(code, code), op) if dot else ("", tag)


def list_attributes(text: bytes) -> dict[str, Attribute]:
    """Return the attributes of a list by name. Raises msgspec.MsgspecError."""
    return {item.name: _make_attribute(item.value) for item in _ATTRIBUTES.decode(text)}


def _make_attribute(value: _Typed) -> Attribute:
    kind = split_operator(value.tag)[1].removeprefix("a_")
    if kind != "array":
        return Attribute(kind, _show(bytes(value.data)))
    items = _TYPED_LIST.decode(value.data)
    kinds = "/".join(
        dict.fromkeys(split_operator(item.tag)[1].removeprefix("a_") for item in items)
    )
    return Attribute(
        f"array {kinds}".rstrip(), f"[{', '.join(_show(bytes(item.data)) for item in items)}]"
    )


def _show(text: bytes) -> str:
    return str(msgspec.json.decode(text)) if text.startswith(b'"') else text.decode()


def set_attribute(text: bytes, name: str, value: bytes) -> bytes:
    """Set an attribute called ``name`` to ``value`` (JSON) in the text of a list."""

    def change(item: bytes) -> bytes:
        fields = read_object(item)
        if msgspec.json.decode(fields["N"]) != name:
            return item
        return write_object(
            {
                **fields,
                "AT": write_object({**read_object(fields["AT"]), "D": value}.items()),
            }.items()
        )

    return write_list(map(change, read_list(text)))


def read_typed(text: bytes) -> tuple[str, bytes]:
    """Return a typed value's ``#`` without dialect, and its ``D``. Raises msgspec.MsgspecError."""
    typed = _TYPED.decode(text)
    return split_operator(typed.tag)[1], bytes(typed.data)


def make_attribute(name: str, kind: str, value: Any) -> bytes:
    """Return the text of an attribute; ``kind`` has its dialect, as in ``0.a_str``."""
    typed = {"#": kind, "D": value}
    return json.dumps({"AT": typed, "N": name}, separators=(",", ":"), ensure_ascii=False).encode()
