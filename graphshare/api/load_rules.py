"""``load_rules``: a file of rules, and rules from options after those of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from graphshare.files.paths import StrPath
from graphshare.rewrite.rules.load import read_rule_file, read_rules
from graphshare.rewrite.rules.model import Reuse, Rule, Ruleset


def load_rules(path: StrPath) -> Ruleset:
    """Load sharing and naming rules from the file ``path``, JSON or TOML.

    Raises:
        InputError: the file cannot be read or has faults; all are listed.
    """
    return read_rules(read_rule_file(os.fspath(path)), where=os.fspath(path))


def make_ruleset(
    rules: Ruleset | StrPath | None,
    more: Iterable[Rule] = (),
    *,
    separator: str | None = None,
    reuse: Reuse | None = None,
) -> Ruleset:
    """Return rules, or those in a file, with ``more`` after them. Raises as :func:`load_rules`."""
    if isinstance(rules, Ruleset):
        ruleset = rules
    elif rules is None:
        ruleset = Ruleset()
    else:
        ruleset = load_rules(rules)
    changes = {"separator": separator or ruleset.separator, "reuse": reuse or ruleset.reuse}
    return msgspec.structs.replace(ruleset, **changes).then(more)
