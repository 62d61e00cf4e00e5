"""Holds one subject against rules and gives each thing found its place in the file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from graphshare.checks.document import BOM, Steps
from graphshare.checks.model import Found, Rule
from graphshare.checks.registry import RULES
from graphshare.checks.subject import Subject
from graphshare.checks.suppression import KEY, suppresses
from graphshare.formats.mxnet.places import find_places, line_and_column
from graphshare.ir.graph import Node
from graphshare.reports.model import Finding, format_path

_EXCERPT = 100  # characters of a line that are shown


def check_subject(subject: Subject, codes: Collection[str] = tuple(RULES)) -> tuple[list[Finding], int]:
    """What the rules ``codes`` find, by place in the file, and how many findings the file itself suppresses."""
    found = [(rule, item) for code, rule in RULES.items() if code in codes for item in rule.find(subject)]
    kept = [(rule, item) for rule, item in found if not _suppressed(subject, rule, item)]
    places = _places(subject, [item for _, item in kept])
    findings = [_finding(subject, rule, item, places) for rule, item in kept]
    ordered = sorted(findings, key=lambda f: (f.where != subject.where, f.line, f.column, f.code))
    return ordered, len(found) - len(kept)


def _suppressed(subject: Subject, rule: Rule, found: Found) -> bool:
    """Whether the node concerned, or the one its place lies in, names the rule."""
    if rule.code == "GS010" or not subject.sound:
        return False
    nodes: list[Node] = [found.node] if found.node is not None else []
    if not nodes and len(found.steps) >= 2 and found.steps[0] == "nodes" and isinstance(found.steps[1], int):
        nodes = [subject.graph.nodes[found.steps[1]]]
    if not nodes and found.name is not None and found.record is not None:
        nodes = [node for node in subject.graph.variables() if node.name == found.name]
    return any(KEY in node.attrs and suppresses(node, rule.code) for node in nodes)


def _places(subject: Subject, found: Iterable[Found]) -> dict[Steps, int]:
    text = subject.reading.text
    wanted = {item.steps for item in found if item.record is None and item.at == (0, 0)}
    if text is None or subject.reading.value is None or not wanted:
        return {}
    try:
        return find_places(text, wanted)
    except (ValueError, LookupError, StopIteration, RecursionError):
        return {}


def _finding(subject: Subject, rule: Rule, found: Found, places: dict[Steps, int]) -> Finding:
    where = subject.where if found.record is None else subject.params_path
    text, (line, column) = subject.reading.text, found.at
    if found.record is None and not line and text is not None and found.steps in places:
        line, column = line_and_column(text, places[found.steps])
    excerpt, at = _excerpt(subject.lines, line, column) if line else ("", 0)
    path = found.record if found.record is not None else format_path(found.steps) if found.steps else ""
    return Finding(
        code=rule.code,
        level=rule.level,
        message=found.message,
        where=where,
        path=path,
        node=found.node_name,
        line=line,
        column=column + (1 if line == 1 and rule.code != "GS003" and subject.data.startswith(BOM) else 0),
        hint=found.hint,
        fixable=bool(rule.fix),
        excerpt=excerpt,
        excerpt_column=at,
    )


def _excerpt(lines: Sequence[str], line: int, column: int) -> tuple[str, int]:
    """A line, cut to what is around the column, with the column in what is left."""
    whole = lines[line - 1] if line <= len(lines) else ""
    indent = len(whole) - len(whole.lstrip())
    first = max(indent, column - 1 - _EXCERPT // 2) if len(whole) - indent > _EXCERPT else indent
    shown = whole[first : first + _EXCERPT].rstrip()
    shown = "".join(c if c.isprintable() else " " for c in shown)
    return shown, max(1, column - first)
