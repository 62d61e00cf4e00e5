"""``graphshare check``."""

from __future__ import annotations

from collections.abc import Iterable

import click

from graphshare.checks.check import CheckOptions, check_targets, make_report
from graphshare.checks.config import CheckConfig, find_config, read_config
from graphshare.checks.targets import Target, find_targets
from graphshare.cli import options
from graphshare.cli.check_rules import explain_rule, list_rules
from graphshare.cli.console import put, say
from graphshare.cli.report import put_report, report_format
from graphshare.errors import Fault, UsageError


@click.command
@click.argument("graphs", metavar="GRAPH ...", nargs=-1)
@options.epoch
@options.params
@options.shapes
@click.option("--select", multiple=True, metavar="CODES", help="Only these rules: codes, their beginnings (GS4) or names.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--config", metavar="FILE", help="The configuration [the nearest graphshare.toml or pyproject.toml].")
@click.option("--isolated", is_flag=True, help="Read no configuration.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option("--fix", is_flag=True, help="Fix in place what is safely fixable.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--baseline", metavar="FILE", help="Do not report what this file knows.")
@click.option("--write-baseline", metavar="FILE", help="Write everything found as known.")
@click.option("--jobs", type=click.IntRange(min=1, max=256), default=1, metavar="N", help="Check N files at a time [1].")
@report_format
@click.option("-o", "--out", metavar="FILE", help="Write the report to a file.")
@click.option("--list", "list_", is_flag=True, help="List all rules.")
@click.option("--explain", metavar="CODE", help="Explain one rule, with examples.")
def check(
    graphs: tuple[str, ...],
    epoch: int | None,
    params: str | None,
    shapes: tuple[str, ...],
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
    """Find what is wrong with graphs and their parameter files.

    GRAPH may be a symbol file, a stem (its parameter file is checked along), a folder or a glob. Every finding has a code;
    --explain CODE says more. A node is left alone with the attribute __graphshare_ignore__ = "GS104". The exit code is 1 where
    there is an error, with --strict a warning too.
    """
    if list_ or explain:
        return list_rules(format_) if list_ else explain_rule(explain or "", format_)
    if not graphs:
        raise UsageError(Fault("nothing to check", hint="name symbol files, stems, folders or globs, or - for standard input"))
    found = CheckConfig() if isolated else read_config(config) if config else find_config()
    settings = CheckOptions(_codes(select), _codes(ignore), found, _shapes(shapes))
    targets = find_targets(graphs, params=params, epoch=epoch)
    baseline = baseline or found.baseline or None
    if diff:
        return _show_fixes(targets, settings)
    before = len(_findings(targets, settings, jobs)) if fix else 0
    if fix:
        _apply_fixes(targets, settings)
    done = check_targets(targets, settings, jobs=jobs)
    report = make_report(done)
    if write_baseline is not None:
        return _write_baseline(report.findings, write_baseline)
    fixed = max(0, before - len(report.findings))
    if baseline is not None:
        from graphshare.checks.baseline import drop_known, read_baseline

        fresh, known = drop_known(report.findings, read_baseline(baseline), baseline)
        report = make_report(done, findings=fresh, known=known, fixed=fixed)
    elif fixed:
        report = make_report(done, fixed=fixed)
    put_report(report, format_, out=out)
    return report.exit_code(strict=strict or found.strict)


def _codes(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(code for text in texts for code in text.replace(",", " ").split())


def _shapes(texts: tuple[str, ...]) -> dict[str, tuple[int | None, ...]]:
    if not texts:
        return {}
    from graphshare.execute.feeds import parse_shapes

    return parse_shapes(texts)


def _findings(targets: list[Target], settings: CheckOptions, jobs: int) -> list[object]:
    return [finding for checked in check_targets(targets, settings, jobs=jobs) for finding in checked.findings]


def _apply_fixes(targets: list[Target], settings: CheckOptions) -> None:
    from graphshare.checks.fix import apply_fix, plan_fixes

    for fix in plan_fixes(targets, settings):
        apply_fix(fix)


def _show_fixes(targets: list[Target], settings: CheckOptions) -> int:
    from graphshare.checks.fix import format_fix, plan_fixes

    fixes = plan_fixes(targets, settings)
    for fix in fixes:
        put(format_fix(fix))
    say(f"{len(fixes)} of {len(targets)} targets would change")
    return int(bool(fixes))


def _write_baseline(findings: tuple[object, ...], path: str) -> int:
    from graphshare.checks.baseline import format_baseline
    from graphshare.formats.atomic import staged_outputs

    with staged_outputs() as stage:
        stage.open(path).write(format_baseline(findings, path).encode())  # type: ignore[arg-type]
        stage.commit()
    say(f"wrote {path}: {len(findings)} findings are known")
    return 0
