"""All rules by code, and their run on one context."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from msgspec.structs import replace

from graphshare.checks.context import CheckContext
from graphshare.checks.document import BOM
from graphshare.checks.graph_facts import is_suppressed
from graphshare.checks.rule import CheckRule, Violation
from graphshare.checks.rules import rule_modules
from graphshare.errors import Fault, UsageError
from graphshare.formats.mxnet.places import find_places
from graphshare.ir.graph import Graph, Node
from graphshare.reports.model import Finding, Level, Steps, format_path
from graphshare.text.names import did_you_mean

_EXCERPT = 100  # characters of an excerpt


RULES: Mapping[str, CheckRule] = MappingProxyType(
    {code: import_module(module).find for code, module in rule_modules().items()}
)


def select_codes(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> frozenset[str]:
    """Return the codes that ``select`` (all if it is empty) names and ``ignore`` does not.

    A text is a code, the beginning of one (``GS2``), a rule's name, or ``ALL``.

    Raises:
        UsageError: texts match no rule; all are listed.
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
        codes = _find_codes(text)
        if not codes:
            known = [*RULES, *(rule.name for rule in RULES.values())]
            hint = did_you_mean(text, known) or "see `report.rules`"
            faults.append(Fault(f"there is no rule {text!r}", hint=hint))
        matches |= codes
    return matches


def _find_codes(text: str) -> set[str]:
    if text == "ALL":
        return set(RULES)
    codes = {code for code, rule in RULES.items() if rule.name == text}
    if text:
        codes.update(code for code in RULES if code.startswith(text))
    return codes


def run_rules(
    context: CheckContext, codes: Collection[str] = tuple(RULES)
) -> tuple[list[Finding], int]:
    """Return the findings of the rules ``codes``, ordered by place, and the number that the file
    suppresses.
    """
    rules = [
        rule for code, rule in RULES.items() if code in codes and rule.format == context.subject
    ]
    violations = list(_find(context, [rule for rule in rules if rule.runs_after_errors]))
    levels = {violation.level or rule.level for rule, violation in violations}
    # ONNX's checker would only repeat a fault that another rule has explained and located.
    if Level.ERROR not in levels:
        violations += _find(context, [rule for rule in rules if not rule.runs_after_errors])
    reported = [
        (rule, violation)
        for rule, violation in violations
        if not _is_suppressed(context, rule, violation)
    ]
    offsets = _find_offsets(context, [violation for _, violation in reported])
    findings = [_make_finding(context, rule, violation, offsets) for rule, violation in reported]
    ordered = sorted(findings, key=lambda f: (f.where != context.where, f.line, f.column, f.code))
    return ordered, len(violations) - len(reported)


def _find(
    context: CheckContext, rules: Iterable[CheckRule]
) -> Iterator[tuple[CheckRule, Violation]]:
    """Yield violations, by default at their nodes."""
    for rule in rules:
        for violation in rule.find(context):
            if not violation.steps:
                violation = replace(violation, steps=context.node_steps(violation.node))
            yield rule, violation


def _is_suppressed(context: CheckContext, rule: CheckRule, violation: Violation) -> bool:
    """Whether the violation's node, or the node around its place, suppresses the rule."""
    # A suppression that names no rule must not hide the finding about itself.
    if rule.code == "GS010" or not context.has_graph:
        return False
    return any(is_suppressed(node, rule.code) for node in _find_nodes(context.graph, violation))


def _find_nodes(graph: Graph, violation: Violation) -> list[Node]:
    """Return the violation's node, else the node around its place, else a record's variables."""
    if violation.node is not None:
        return [violation.node]
    match violation.steps:
        case ("nodes", int(number), *_):
            return [graph.nodes[number]]
    if violation.name is None or violation.record is None:
        return []
    return [node for node in graph.variables() if node.name == violation.name]


def _find_offsets(context: CheckContext, violations: Iterable[Violation]) -> dict[Steps, int]:
    """Return the offsets of places, none if the text cannot be parsed."""
    text = context.reading.text
    if text is None or context.reading.value is None:
        return {}
    in_graph = [violation for violation in violations if violation.record is None]
    steps = {violation.steps for violation in in_graph if violation.at == (0, 0)}
    if not steps:
        return {}
    try:
        return find_places(text, steps)
    except (ValueError, LookupError, StopIteration, RecursionError):
        return {}


def _make_finding(
    context: CheckContext, rule: CheckRule, violation: Violation, offsets: dict[Steps, int]
) -> Finding:
    steps, (line, column) = violation.steps, violation.at
    where, path = context.where, format_path(steps) if steps else ""
    if violation.record is not None:
        where, path = context.params_path, violation.record
    elif not line and steps in offsets:
        line, column = context.line_index.locate(offsets[steps])
    excerpt, excerpt_column = _cut_excerpt(context.lines, line, column) if line else ("", 0)
    # Editors count the byte order mark in the first line, but reading removed it.
    if line == 1 and rule.code != "GS003" and context.data.startswith(BOM):
        column += 1
    return Finding(
        code=rule.code,
        level=violation.level or rule.level,
        message=violation.message,
        where=violation.file or where,
        path=path,
        node=violation.node_name,
        line=line,
        column=column,
        hint=violation.hint,
        fixable=bool(rule.fix),
        excerpt=excerpt,
        excerpt_column=excerpt_column,
    )


def _cut_excerpt(lines: Sequence[str], line: int, column: int) -> tuple[str, int]:
    whole = "".join(lines[line - 1 : line])
    first = indent = len(whole) - len(whole.lstrip())
    if len(whole) - indent > _EXCERPT:
        first = max(indent, column - 1 - _EXCERPT // 2)
    part = whole[first : first + _EXCERPT].rstrip()
    part = "".join(c if c.isprintable() else " " for c in part)
    return part, max(1, column - first)
