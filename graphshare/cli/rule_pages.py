"""``check --list`` and ``check --explain``: the documentation of the rules."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.registry import RULES
from graphshare.checks.rule import CheckRule, Example, ExampleRecord
from graphshare.cli.console import put, put_json
from graphshare.errors import Fault, UsageError
from graphshare.text.format import format_dims
from graphshare.text.names import did_you_mean


def list_rules(format_: str | None) -> int:
    """Print every rule in a line."""
    if format_ == "json":
        put_json([_to_plain(rule) for rule in RULES.values()])
        return 0
    width = max(len(rule.name) for rule in RULES.values())
    put(
        f"{rule.code}  {rule.level.value:7}  {'fix' if rule.fix else '   '}  {rule.name:{width}}  {rule.summary}"
        for rule in RULES.values()
    )
    return 0


def explain_rule(text: str, format_: str | None) -> int:
    """Print one rule with its examples. Raises UsageError for a code or name of no rule."""
    rule = next((rule for rule in RULES.values() if text.upper() == rule.code or text == rule.name), None)
    if rule is None:
        hint = did_you_mean(text, [*RULES, *(rule.name for rule in RULES.values())]) or "see `graphshare check --list`"
        raise UsageError(Fault(f"there is no rule {text!r}", hint=hint))
    if format_ == "json":
        put_json({**_to_plain(rule), "why": rule.why, "fails": _decode(rule.fails), "passes": _decode(rule.passes)})
        return 0
    put(_explain(rule))
    return 0


def _to_plain(rule: CheckRule) -> dict[str, object]:
    return {"code": rule.code, "name": rule.name, "level": rule.level.value, "summary": rule.summary, "fix": rule.fix or None}


def _explain(rule: CheckRule) -> Iterator[str]:
    yield f"{rule.code} {rule.name} ({rule.level.value})"
    yield ""
    yield f"{rule.summary}."
    yield rule.why
    if rule.fix:
        yield f"--fix {rule.fix}."
    yield f'To suppress it: --ignore {rule.code}, or "__graphshare_ignore__": "{rule.code}" among a node\'s attributes.'
    for title, example in (("fails", rule.fails), ("passes", rule.passes)):
        yield ""
        yield f"{title}:"
        yield from (f"    {line}" for line in _decode(example).rstrip("\n").split("\n"))
        yield from (f"  with --shape {name}={','.join(map(str, shape))}" for name, shape in example.shapes.items())
        if example.params is not None:
            yield f"  with the parameters{'' if example.named else ', saved without names'}{_describe_damage(example)}:"
            yield from (f"    {_format_record(record)}" for record in example.params)


def _decode(example: Example) -> str:
    return example.graph if isinstance(example.graph, str) else example.graph.decode("utf-8", "backslashreplace")


def _describe_damage(example: Example) -> str:
    return ", in a file that is cut in half" if example.damaged else ""


def _format_record(record: ExampleRecord) -> str:
    if record.shape is None:
        return f"{record.key}  never filled"
    return f"{record.key}  {record.dtype}  {format_dims(record.shape)}  all {record.value:g}"
