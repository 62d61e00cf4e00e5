"""Read symbol files that the typed decode of :mod:`graphshare.formats.mxnet.document` refuses, or
explain their faults.

Raw control characters in strings (MXNet writes them, strict JSON forbids them) and any values under
unknown keys are accepted. A byte order mark, invalid UTF-8, trailing bytes, unclosed brackets and
faults by the schema are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import SAMPLE
from graphshare.files.schema import find_violations
from graphshare.formats.mxnet.document import begins_like_json
from graphshare.formats.wrong_file import SYMBOL_HINT, refuse_bytes, refuse_json, suggest_fix

_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def parse_tolerantly(
    data: bytes, *, where: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the graph object and its node records, validated against the schema.

    Raises:
        InputError: the bytes are not JSON, or not a graph; every fault the schema finds is listed.
    """
    _refuse_what_is_no_json(data, where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = Fault(
            f"is not UTF-8: {error.reason}",
            path=f"byte {error.start}",
            hint="re-encode the file as UTF-8",
        )
        raise InputError(fault) from None
    try:
        loaded = json.loads(
            text, strict=False, parse_constant=_refuse_constant, parse_float=_finite
        )
        # The search is fast, and most files have no such escape.
        if _HALF_A_PAIR.search(text) is not None:
            _refuse_half_pairs(loaded)
    except json.JSONDecodeError as error:
        raise InputError(_explain_json_error(error, text)) from None
    except RecursionError:
        raise InputError(Fault("is nested far deeper than any symbol file")) from None
    except ValueError as error:
        raise InputError(Fault(f"is not JSON: {error}")) from None
    foreign = refuse_json(loaded, where=where) if isinstance(loaded, dict) else None
    if foreign is not None:
        raise InputError(foreign)
    try:
        faults = find_violations(loaded, "symbol")
    except RecursionError:
        raise InputError(Fault("is nested far deeper than any symbol file")) from None
    if faults:
        raise InputError(faults)
    return loaded, loaded["nodes"]


def _refuse_what_is_no_json(data: bytes, where: str) -> None:
    if data.startswith(b"\xef\xbb\xbf"):
        hint = "save it as UTF-8 without BOM, or let `graphshare check --fix` remove it"
        raise InputError(
            Fault("starts with a byte order mark; MXNet refuses it too", path="byte 0", hint=hint)
        )
    if not data.strip():
        raise InputError(Fault("is empty", hint=suggest_fix(where)))
    if not begins_like_json(data[:SAMPLE]):
        raise InputError(refuse_bytes(data, "graph", where=where))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is out of range")
    return number


def _refuse_half_pairs(loaded: Any) -> None:
    """Refuse texts with half of a surrogate pair (``\\ud800``): no file in UTF-8 can hold it."""
    faults = []
    pending: list[tuple[str, Any]] = [("$", loaded)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending.extend((f"{path}.{key}", part) for key, part in value.items())
            pending.extend((f"{path}.{key}", key) for key in value)
        elif isinstance(value, list):
            pending.extend((f"{path}[{i}]", part) for i, part in enumerate(value))
        elif isinstance(value, str) and any(
            "\ud800" <= character <= "\udfff" for character in value
        ):
            hint = "characters beyond U+FFFF are written as two escapes, or as themselves"
            faults.append(
                Fault(
                    f"{value!r} holds half a character (\\uD800 to \\uDFFF)", path=path, hint=hint
                )
            )
    if faults:
        # The walk takes the last value of a list first.
        raise InputError(faults[::-1])


def _explain_json_error(error: json.JSONDecodeError, text: str) -> Fault:
    at_end = not text[error.pos :].strip()
    if error.msg == "Extra data":
        message, hint = "has trailing bytes after the graph", "remove what follows the last brace"
    elif at_end or error.msg.startswith("Unterminated string"):
        message, hint = "ends inside the graph: the file is truncated", "fetch or save it again"
    else:
        message, hint = f"is not JSON: {error.msg}", "" if error.pos else SYMBOL_HINT
        if text[error.pos : error.pos + 1] == "'":
            hint = "strings of JSON have double quotes; json.dump writes them, str() of a dict does not"
    return Fault(message, path=f"line {error.lineno} column {error.colno}", hint=hint)
