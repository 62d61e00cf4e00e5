"""JSON Schemas of graphshare's files, and the faults of documents by their schemas.

They are in ``schemas/``, beside the package in a checkout and inside it when installed.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from graphshare.errors import Fault
from graphshare.text.format import format_count, format_names, shorten
from graphshare.text.names import did_you_mean

MAX_FAULTS = 100
_PLACES = (Path(__file__).parents[1] / "schemas", Path(__file__).parents[2] / "schemas")


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return the schema ``name`` (``symbol``, ``map``, ``inspect`` ...) as plain data."""
    path = (
        next(place for place in _PLACES if (place / f"{name}.schema.json").exists())
        / f"{name}.schema.json"
    )
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def find_violations(document: Any, name: str) -> list[Fault]:
    """Return at most ``MAX_FAULTS`` faults of ``document`` by the schema ``name``."""
    # Start-up: jsonschema is slow; only a file with faults needs it
    from jsonschema.validators import Draft202012Validator, extend

    # For JSON Schema 1.0 is an integer; MXNet refuses it, and so does the typed decode.
    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    )
    validator = extend(Draft202012Validator, type_checker=checker)(load_schema(name))  # type: ignore[no-untyped-call]
    errors = list(islice(validator.iter_errors(document), MAX_FAULTS + 1))
    # jsonschema reports missing keys one by one; one message names all of an object.
    unique = {
        (error.json_path, "required" if error.validator == "required" else i): error
        for i, error in enumerate(errors)
    }
    faults = [
        Fault(
            _message(error),
            path=error.json_path,
            node=_node_name(document, error),
            hint=_hint(error),
        )
        for error in unique.values()
    ]
    if len(errors) > MAX_FAULTS:
        faults[MAX_FAULTS:] = [Fault(f"and more: only the first {MAX_FAULTS} faults are listed")]
    return faults


def _message(error: Any) -> str:
    text = shorten(json.dumps(error.instance, ensure_ascii=False, default=str), 60)
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        return "has " + " and ".join(f"no {key!r}" for key in missing)
    if error.validator == "type":
        return f"is {_kind(error.instance)} ({text}), not {_article(error.validator_value)}"
    if error.validator == "additionalProperties":
        return f"has {' and '.join(map(repr, _list_unknown(error)))}, which is not known"
    if error.validator == "minLength":
        return "is empty"
    if error.validator in ("minItems", "maxItems"):
        return (
            f"has {format_count(len(error.instance), 'element')} ({text}), which is too "
            f"{'few' if error.validator == 'minItems' else 'many'}"
        )
    return f"{text}: {error.message}" if len(error.message) < 200 else f"{text} does not fit"


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
}


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a value")


def _article(kind: str | list[str]) -> str:
    kinds = [kind] if isinstance(kind, str) else kind
    return " or ".join(("an " if k[0] in "aeiou" else "a ") + k for k in kinds)


def _list_unknown(error: Any) -> list[str]:
    return [key for key in error.instance if key not in error.schema.get("properties", {})]


def _hint(error: Any) -> str:
    schema = error.schema if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties":
        known = list(schema.get("properties", {}))
        near = (did_you_mean(key, known) for key in _list_unknown(error))
        return next(filter(None, near), f"known: {format_names(known, len(known))}")
    return (
        str(schema.get("description", ""))
        if error.validator in ("type", "minItems", "maxItems", "required")
        else ""
    )


def _node_name(document: Any, error: Any) -> str | None:
    path = list(error.absolute_path)
    if len(path) >= 2 and path[0] == "nodes" and isinstance(path[1], int):
        node = document["nodes"][path[1]]
        name = node.get("name") if isinstance(node, dict) else None
        return name if isinstance(name, str) else None
    return None
