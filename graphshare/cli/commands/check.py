"""``graphshare check``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec

from graphshare.api.check import make_check_options
from graphshare.checkpoint.folder import Sieve
from graphshare.checkpoint.load import Shapes
from graphshare.checkpoint.save import write_text
from graphshare.checks.baseline import format_baseline
from graphshare.checks.check_files import check_files
from graphshare.checks.config import CheckOptions
from graphshare.checks.engine import RULES
from graphshare.checks.fix import format_fix, plan_fixes
from graphshare.checks.rule import CheckRule, Example, ExampleRecord
from graphshare.checks.targets import Target, find_targets
from graphshare.cli import options
from graphshare.cli.command import AnswerFile, Command, option
from graphshare.cli.console import put, put_json, say
from graphshare.cli.output import list_inputs
from graphshare.cli.report import put_report, report_format
from graphshare.errors import Fault, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import UsedFile, collect_read_files, find_stdout_faults
from graphshare.formats.model_format import load_format
from graphshare.reports.model import Finding
from graphshare.text.format import format_count, format_dims
from graphshare.text.names import did_you_mean

EXAMPLES = {
    "check": [
        (
            "a model and its parameters",
            "graphshare check lenet-symbol.json --params lenet-0000.params",
        ),
        ("what a rule means", "graphshare check --explain GS101"),
        ("all rules", "graphshare check --list"),
    ],
}


@click.command("check", cls=Command)
@click.argument("graphs", metavar="GRAPH ...", nargs=-1)
@options.epoch
@options.params
@options.shapes
@options.exclude
@option(
    "--select",
    multiple=True,
    metavar="CODES",
    help="Run only these rules: codes, their beginnings (GS4) or names.",
)
@option(
    "--ignore", multiple=True, metavar="CODES", help="Leave out these rules, named as for --select."
)
@option(
    "--config",
    metavar="FILE",
    help="Configuration file [the nearest graphshare.toml or pyproject.toml].",
)
@option("--isolated", is_flag=True, help="Read no configuration file.")
@option("--strict", is_flag=True, help="Treat warnings as errors.")
@option("--fix", is_flag=True, help="Fix the fixable findings in place.")
@option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@option("--baseline", metavar="FILE", help="Do not report the findings in this file.")
@option("--write-baseline", metavar="FILE", help="Write all findings to a baseline file.")
@option(
    "--jobs",
    type=click.IntRange(min=1, max=256),
    default=1,
    metavar="N",
    help="Check N files at a time [1].",
)
@report_format()
@option("-o", "--out", cls=AnswerFile, metavar="FILE", help="Write the report to a file.")
@option("--list", "list_", is_flag=True, help="List all rules.")
@option("--explain", metavar="CODE", help="Explain one rule, with examples.")
@options.max_memory
@options.time_limit
def command(
    graphs: tuple[str, ...],
    epoch: int | None,
    params: str | None,
    shapes: Shapes,
    exclude: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    config: str | None,
    isolated: bool,
    strict: bool,
    fix: bool,
    diff: bool,
    baseline: str | None,
    write_baseline: str | None,
    jobs: int,
    format_: str | None,
    out: str | None,
    list_: bool,
    explain: str | None,
) -> int:
    """Find faults in graphs and their parameter files.

    GRAPH may be a model, a stem (its parameter file is checked too), a parameter file (with its
    graph), a folder (every model with all parameter files beside it) or a glob. Every finding has a
    code; --explain CODE describes it. The node attribute __graphshare_ignore__ = "GS104" suppresses
    findings. The exit code is 1 if there is an error, with --strict also for a warning, and else 2
    if no rule looks at the format of a file.
    """
    hint = "name a file with --write-baseline"
    UsageError.raise_any(find_stdout_faults(write_baseline or "", "a baseline", hint))
    if list_ or explain:
        return _list_rules(format_) if list_ else _explain_rule(explain or "", format_)
    if not graphs:
        raise UsageError(
            Fault(
                "nothing to check",
                hint="name symbol files, stems, folders or globs, or - for stdin",
            )
        )
    checked = make_check_options(
        config=config,
        isolated=isolated,
        select=_split_codes(select),
        ignore=_split_codes(ignore),
        shapes=shapes,
    )
    sieve = Sieve(exclude)
    targets = find_targets(graphs, params=params, epoch=epoch, sieve=sieve)
    for note in sieve.notes():
        say(note)
    if diff:
        return _show_fixes(targets, checked)
    # A new baseline has all findings, known ones too.
    known = None if write_baseline else baseline or checked.config.baseline or None
    # The fixed files and the report or baseline are written atomically
    with OutputTransaction() as stage:
        with collect_read_files() as paths:
            report = check_files(targets, checked, jobs=jobs, fix=fix, baseline=known, stage=stage)
        inputs = [
            *_list_inputs(targets, baseline),
            *list_inputs("file", checked.config.where, *paths),
        ]
        if write_baseline is not None:
            return _write_baseline(report.findings, write_baseline, inputs, stage)
        report = msgspec.structs.replace(report, strict=strict or checked.config.strict)
        put_report(report, format_, out=out, inputs=inputs, stage=stage)
    return report.exit_code()


def _split_codes(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(code for text in texts for code in text.replace(",", " ").split())


def _show_fixes(targets: list[Target], options: CheckOptions) -> int:
    fixes = plan_fixes(targets, options)
    for fix in fixes:
        put(format_fix(fix))
    say(f"{len(fixes)} of {format_count(len(targets), 'target')} would change")
    return int(bool(fixes))


def _list_inputs(targets: Sequence[Target], baseline: str | None) -> list[UsedFile]:
    files = list_inputs("graph", *(target.graph for target in targets if target.graph != "-"))
    return [
        *files,
        *list_inputs("parameters", *(target.params for target in targets)),
        *list_inputs("baseline", baseline),
    ]


def _write_baseline(
    findings: Sequence[Finding], path: str, inputs: Sequence[UsedFile], stage: OutputTransaction
) -> int:
    write_text(
        path,
        format_baseline(findings, path).encode(),
        content="baseline",
        inputs=inputs,
        stage=stage,
    )
    say(f"wrote {path}: {format_count(len(findings), 'finding')}")
    return 0


def _list_rules(format_: str | None) -> int:
    if format_ == "json":
        put_json([_to_plain(rule) for rule in RULES.values()])
        return 0
    width = max(len(rule.name) for rule in RULES.values())
    put(
        f"{rule.code}  {rule.level.value:7}  {'fix' if rule.fix else '   '}  {rule.name:{width}}  {rule.summary}"
        for rule in RULES.values()
    )
    return 0


def _explain_rule(text: str, format_: str | None) -> int:
    """Raises UsageError for an unknown code or name."""
    rule = next(
        (rule for rule in RULES.values() if text.upper() == rule.code or text == rule.name), None
    )
    if rule is None:
        hint = (
            did_you_mean(text, [*RULES, *(rule.name for rule in RULES.values())])
            or "see `graphshare check --list`"
        )
        raise UsageError(Fault(f"there is no rule {text!r}", hint=hint))
    if format_ == "json":
        put_json(
            {
                **_to_plain(rule),
                "why": rule.why,
                "fails": _decode(rule, rule.fails),
                "passes": _decode(rule, rule.passes),
            }
        )
        return 0
    put(_explain(rule))
    return 0


def _to_plain(rule: CheckRule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "level": rule.level.value,
        "summary": rule.summary,
        "fix": rule.fix or None,
    }


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
        yield from (f"    {line}" for line in _decode(rule, example).rstrip("\n").split("\n"))
        yield from (
            f"  with --shape {name}={','.join(map(str, shape))}"
            for name, shape in example.shapes.items()
        )
        if example.params is not None:
            yield f"  with the parameters{'' if example.named else ', saved without names'}{_describe_damage(example)}:"
            yield from (f"    {_format_record(record)}" for record in example.params)


def _decode(rule: CheckRule, example: Example) -> str:
    if example.files:
        return "\n".join(f"{name}: {_print_json(data)}" for name, data in example.files.items())
    if isinstance(example.graph, str):
        return example.graph
    return load_format(rule.format).description.print_file(example.graph)


def _print_json(data: bytes) -> str:
    return (data if data[:1] == b"{" else data[8 : 8 + int.from_bytes(data[:8], "little")]).decode()


def _describe_damage(example: Example) -> str:
    return ", in a file that is cut in half" if example.damaged else ""


def _format_record(record: ExampleRecord) -> str:
    if record.shape is None:
        return f"{record.key}  never filled"
    return f"{record.key}  {record.dtype}  {format_dims(record.shape)}  all {record.value:g}"
