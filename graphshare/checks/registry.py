"""All rules by code, and the selection of rules by code, beginning of a code, or name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType

from graphshare.checks.rule import CheckRule
from graphshare.checks.rules import rule_modules
from graphshare.errors import Fault, UsageError
from graphshare.text.names import did_you_mean

RULES: Mapping[str, CheckRule] = MappingProxyType({code: import_module(module).find for code, module in rule_modules().items()})


def select_codes(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> frozenset[str]:
    """Return the codes that ``select`` names (all, if it is empty) and ``ignore`` does not.

    A text is a code, the beginning of one (``GS2``), a rule's name, or ``ALL``.

    Raises:
        UsageError: texts that match no rule; all are listed.
    """
    faults: list[Fault] = []
    selected = _match_codes(select, faults) or set(RULES)
    ignored = _match_codes(ignore, faults)
    if faults:
        raise UsageError(faults)
    return frozenset(selected - ignored)


def _match_codes(texts: Iterable[str], faults: list[Fault]) -> set[str]:
    matches: set[str] = set()
    for text in texts:
        codes = {code for code, rule in RULES.items() if text == "ALL" or (text and code.startswith(text)) or rule.name == text}
        if not codes:
            known = [*RULES, *(rule.name for rule in RULES.values())]
            hint = did_you_mean(text, known) or "see `graphshare check --list`"
            faults.append(Fault(f"there is no rule {text!r}", hint=hint))
        matches |= codes
    return matches
