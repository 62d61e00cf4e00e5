"""Rules files: JSON, or TOML where Python can read it.

See also ``schemas/rules.schema.json``. TOML needs Python 3.11 or the package ``tomli``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast, get_args

from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.files.open_source import read_file
from graphshare.files.toml import read_toml
from graphshare.rewrite.rules.model import MAX_RULES, REUSE, Kind, Only, Reuse, Rule, Ruleset
from graphshare.rewrite.rules.scopes import SEPARATOR, make_overrides
from graphshare.text.patterns import compile_substitution, is_literal

VERSION = 1
MAX_BYTES = 1 << 24
MAX_DEPTH = 100
_MOST_FAULTS = 100

# The required key of each kind of rule, and the keys it may have.
_MAY: dict[str, frozenset[str]] = {
    "alias": frozenset(("to", "reuse")),
    "scope": frozenset(("to", "reuse")),
    "map": frozenset(("only",)),
    "match": frozenset(("to", "only")),
    "strip": frozenset(("only",)),
    "prefix": frozenset(("only",)),
    "variable_scope": frozenset(("reuse",)),
    "name_scope": frozenset(),
    "within": frozenset(("rules",)),
}
_MUST = {"alias": "to", "scope": "to", "match": "to", "within": "rules"}


class _Repeated(dict[str, Any]):
    keys_twice: tuple[str, ...] = ()


def read_rule_file(path: str) -> bytes:
    """Return the bytes of a rules file, up to the largest size allowed.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return read_file(path, most=MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InputError(
            Fault(message, where=path, hint="name a file of rules, JSON or TOML")
        ) from error


def read_rules(data: bytes, *, where: str) -> Ruleset:
    """Return the rules in ``data``, a file called ``where``; TOML if that ends in ``.toml``.

    Raises:
        InputError: the rules have faults.
    """
    document = (
        read_toml(data, where=where) if where.lower().endswith(".toml") else _read_json(data, where)
    )
    reader = _Reader(where)
    ruleset = reader.ruleset(document)
    if reader.faults:
        raise InputError(reader.faults)
    return ruleset


def _read_json(data: bytes, where: str) -> Any:
    if len(data) > MAX_BYTES:
        hint = "rules are a page or two; is this the file?"
        raise InputError(Fault(f"is larger than {MAX_BYTES >> 20} MiB", where=where, hint=hint))
    try:
        # Editors on Windows may begin a file with a byte order mark.
        return json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise InputError(
            Fault(f"is not UTF-8: {error.reason}", where=where, path=f"byte {error.start}")
        ) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(Fault(f"is not JSON: {error.msg}", where=where, path=place)) from None
    except RecursionError:
        raise InputError(Fault("is nested too deeply", where=where)) from None
    except ValueError as error:
        raise InputError(Fault(f"is not JSON: {error}", where=where)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    # json keeps the last of equal keys silently.
    if len(values) == len(pairs):
        return values
    repeated = _Repeated(values)
    counts = Counter(key for key, _ in pairs)
    repeated.keys_twice = tuple(key for key, count in counts.items() if count > 1)
    return repeated


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value")


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where
        self.faults: list[Fault] = []
        self.separator = SEPARATOR

    def fault(self, path: str, message: str, hint: str = "") -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(Fault(message, where=self.where, path=path, hint=hint))
        elif len(self.faults) == _MOST_FAULTS:
            self.faults.append(
                Fault(
                    f"and more: only the first {_MOST_FAULTS} faults are listed", where=self.where
                )
            )

    def ruleset(self, document: Any) -> Ruleset:
        if not self.is_object("$", document):
            return Ruleset()
        for key in document.keys() - {"version", "separator", "reuse", "rules"}:
            self.fault(
                f"$.{key}",
                "is not a key of a rules file",
                "the keys are version, separator, reuse and rules",
            )
        # Not isinstance(), because true is an int in Python and equal to 1.
        if type(document.get("version")) is not int or document["version"] != VERSION:
            self.fault("$.version", f"must be {VERSION}", f'add "version": {VERSION}')
        self.separator = self.text("$", document, "separator", SEPARATOR) or SEPARATOR
        reuse = self.reuse("$", document) or "auto"
        rules: list[Rule] = []
        for rule in self.rules("$", document.get("rules"), "", 0):
            rules.append(rule)
            if len(rules) > MAX_RULES:
                self.fault("$.rules", f"holds more than {MAX_RULES:,} rules")
                break
        return Ruleset(tuple(rules), self.separator, reuse)

    def rules(self, path: str, entries: Any, within: str, depth: int) -> Iterator[Rule]:
        if type(entries) is not list:
            self.fault(
                f"{path}.rules",
                "is missing or not a list",
                'rules are a list, as in "rules": [{"prefix": "sha-"}]',
            )
            return
        for i, one in enumerate(entries):
            place = f"{path}.rules[{i}]"
            if not self.is_object(place, one):
                continue
            kinds = [key for key in one if key in _MAY]
            if len(kinds) != 1:
                known = ", ".join(_MAY)
                message = f"has {len(kinds) or 'none'} of the keys that name a kind of rule"
                self.fault(place, message, f"give exactly one of {known}")
                continue
            (kind,) = kinds
            for key in one.keys() - _MAY[kind] - {kind}:
                known = ", ".join((kind, *sorted(_MAY[kind])))
                self.fault(
                    f"{place}.{key}",
                    f"is not a key of a rule {kind!r}",
                    f"the keys of such a rule are {known}",
                )
            if kind == "within":
                begin = self.text(place, one, kind)
                if depth >= MAX_DEPTH:
                    self.fault(place, f"blocks are nested deeper than {MAX_DEPTH} levels")
                elif begin:
                    begin = begin.removesuffix(self.separator)
                    yield from self.rules(
                        place,
                        one.get("rules"),
                        f"{within}{self.separator}{begin}" if within else begin,
                        depth + 1,
                    )
            else:
                yield from self.rule(place, one, cast("Kind", kind), within)

    def rule(self, place: str, one: dict[str, Any], kind: Kind, within: str) -> Iterator[Rule]:
        only = self.only(place, one)
        if kind == "map":
            yield from self.map_rules(f"{place}.map", one["map"], within, only)
            return
        text = self.text(place, one, kind)
        to = self.text(place, one, "to", empty=kind == "scope") if kind in _MUST else ""
        reuse = self.reuse(place, one)
        if text is None or to is None:
            return
        try:
            if kind == "scope":
                make_overrides([(text, to)], separator=self.separator)
            elif kind in ("match", "alias"):
                compile_substitution(text, to)
                if kind == "alias" and is_literal(text) and text.removeprefix("=") == to:
                    self.fault(place, f"{to!r} cannot be an alias of itself", "leave the rule out")
        except GraphshareError as error:
            for fault in error.faults:
                self.fault(place, fault.message, fault.hint)
            return
        yield Rule(kind, text, to, within, only, reuse, f"{self.where}: {place}")

    def map_rules(
        self, path: str, names: Any, within: str, only: tuple[Only, ...]
    ) -> Iterator[Rule]:
        for old, new in names.items() if self.is_object(path, names) else ():
            place = f"{path}[{json.dumps(old)}]"
            if not old:
                self.fault(place, "names must be texts that are not empty")
            elif self.is_name(place, new):
                yield Rule("map", old, new, within, only, place=f"{self.where}: {place}")

    def is_object(self, path: str, value: Any) -> bool:
        if not isinstance(value, dict):
            self.fault(path, f"is {_kind(value)}, not an object")
            return False
        for key in getattr(value, "keys_twice", ()):
            self.fault(f"{path}.{key}", "is given twice", "keep one of them")
        return True

    def is_name(self, path: str, value: Any) -> bool:
        fits = isinstance(value, str) and bool(value) and "\0" not in value
        if not fits:
            self.fault(
                path,
                f"is {_kind(value)}, not a name",
                "names are texts without NUL characters, and not empty",
            )
        return fits

    def text(
        self,
        path: str,
        owner: dict[str, Any],
        key: str,
        default: str | None = None,
        *,
        empty: bool = False,
    ) -> str | None:
        value = owner.get(key, default)
        if isinstance(value, str) and (value or empty) and "\0" not in value:
            return value
        if key not in owner:
            message = "is missing"
        elif not isinstance(value, str):
            message = f"is {_kind(value)}, not a text"
        else:
            message = "contains a NUL character" if value else "is empty"
        self.fault(f"{path}.{key}", message)
        return None

    def reuse(self, path: str, owner: dict[str, Any]) -> Reuse | None:
        value = owner.get("reuse")
        if value is not None and value not in REUSE:
            self.fault(f"{path}.reuse", f"is {_kind(value)}", f"it is one of {', '.join(REUSE)}")
            return None
        return cast("Reuse | None", value)

    def only(self, path: str, owner: dict[str, Any]) -> tuple[Only, ...]:
        value = owner.get("only", [])
        known = get_args(Only)
        if not isinstance(value, list) or any(part not in known for part in value):
            self.fault(f"{path}.only", f"is {_kind(value)}", f"it is a list of {', '.join(known)}")
            return ()
        return tuple(value)


def _kind(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
