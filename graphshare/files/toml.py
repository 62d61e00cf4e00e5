"""TOML, where Python can read it: by ``tomllib`` (3.11 and later) or the package ``tomli``."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from graphshare.errors import Fault, InputError

MAX_BYTES = 1 << 21  # its reader is written in Python and slow
MAX_DEPTH = 64  # its time grows with the square of the number of parts of a dotted key

_BETWEEN_KEYS = re.compile(r"[={}\[\],\n]")
# Strings and comments. Each alternative ends at any text, even an unclosed string, to avoid
# retries.
_NO_KEYS = re.compile(
    r'"""(?:[^"\\]+|\\.|"(?!""))*"{0,5}'
    r"|'''(?:[^']+|'(?!''))*'{0,5}"
    r'|"(?:[^"\\\n]+|\\[^\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*",
    re.DOTALL,
)


def read_toml(data: bytes, *, where: str) -> dict[str, Any]:
    """Return the table in ``data``.

    Raises InputError if it is not TOML, too large, or this Python cannot read TOML.
    """
    if len(data) > MAX_BYTES:
        raise InputError(
            Fault(
                f"is larger than {MAX_BYTES >> 20} MiB", where=where, hint="is this the right file?"
            )
        )
    loads = toml_reader()
    if loads is None:
        hint = "pip install tomli, or use Python 3.11 or later"
        raise InputError(Fault("is TOML, which this Python cannot read", where=where, hint=hint))
    try:
        text = data.decode("utf-8-sig")
        if _has_deep_key(text):
            raise InputError(
                Fault(
                    f"has a dotted key of more than {MAX_DEPTH} parts",
                    where=where,
                    hint="is this the right file?",
                )
            )
        table: dict[str, Any] = loads(text)
    except UnicodeDecodeError as error:
        raise InputError(
            Fault(f"is not UTF-8: {error.reason}", where=where, path=f"byte {error.start}")
        ) from None
    except RecursionError:
        raise InputError(Fault("is nested too deeply", where=where)) from None
    except ValueError as error:
        raise InputError(Fault(f"is not TOML: {error}", where=where)) from None
    return table


def _has_deep_key(text: str) -> bool:
    return any(
        piece.count(".") >= MAX_DEPTH for piece in _BETWEEN_KEYS.split(_NO_KEYS.sub("", text))
    )


def toml_reader() -> Callable[[str], dict[str, Any]] | None:
    """Return a function that parses TOML text or raises ValueError; None without a TOML parser."""
    for module in ("tomllib", "tomli"):
        try:
            loads: Callable[[str], dict[str, Any]] = import_module(module).loads
        except ImportError:
            continue
        return loads
    return None
