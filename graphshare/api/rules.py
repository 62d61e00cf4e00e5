"""Sharing and naming rules: load them, explain what they do to a name, check a file of them."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from graphshare.api.models import Model, as_checkpoint
from graphshare.arguments import Text
from graphshare.checkpoint.load import StrPath
from graphshare.errors import locate_refusals
from graphshare.rewrite.rules.explain import Explanation, NameKind, RulesReport
from graphshare.rewrite.rules.explain import check_rules as check_rules_file
from graphshare.rewrite.rules.explain import explain as explain_name
from graphshare.rewrite.rules.load import load_rules as read_rules_file
from graphshare.rewrite.rules.load import read_file
from graphshare.rewrite.rules.model import Reuse, Rule, Ruleset


def load_rules(path: StrPath) -> Ruleset:
    """Load sharing and naming rules from the file ``path``, JSON or TOML.

    Raises:
        InputError: the file cannot be read or has faults; all are listed.
    """
    return read_rules_file(_text(path))


def ruleset_of(
    rules: Ruleset | StrPath | None,
    more: Iterable[Rule] = (),
    *,
    separator: str | None = None,
    reuse: Reuse | None = None,
) -> Ruleset:
    """Return rules, or those in a file, with ``more`` after them. Raises as :func:`load_rules`."""
    ruleset = rules if isinstance(rules, Ruleset) else Ruleset() if rules is None else load_rules(rules)
    changes = {"separator": separator or ruleset.separator, "reuse": reuse or ruleset.reuse}
    return msgspec.structs.replace(ruleset, **changes).then(more)


def explain(name: Text, rules: Ruleset | StrPath, *, kind: NameKind = "parameter", model: Model | None = None) -> Explanation:
    """Explain what ``rules`` (a file, or what :func:`load_rules` gives) make of ``name``, step by step.

    With ``model``, the name is that of one of its nodes or a key of its parameter file, which tells the kind, and the answer
    says whether it is tied. Without, ``kind`` is ``parameter``, ``input`` or ``operator``.

    Raises:
        InputError: the rules file cannot be read or has faults.
        RefusedError: the graph has no such name; rules lead back to themselves, with the cycle as a path.
    """
    ruleset = ruleset_of(rules)
    if model is None:
        return explain_name(name, ruleset, kind=kind)
    source = as_checkpoint(model)
    with locate_refusals(source):
        return explain_name(name, ruleset, graph=source.graph, params=source.parameter_file)


def check_rules(path: StrPath, *, model: Model | None = None) -> RulesReport:
    """Check the rules file ``path``, alone or against ``model``: errors, rules that never fire or are shadowed by later ones.

    Raises:
        InputError: the file cannot be read.
    """
    data = read_file(_text(path))
    source = None if model is None else as_checkpoint(model)
    graph, params = (None, None) if source is None else (source.graph, source.parameter_file)
    return check_rules_file(data, where=_text(path), graph=graph, params=params)


def _text(path: StrPath) -> str:
    return os.fspath(path)
