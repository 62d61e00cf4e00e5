"""``graphshare share``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import click
import msgspec

from graphshare.api.share import PURPOSES, refuse_unused, share
from graphshare.api.share import detect as find_candidates
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli import options
from graphshare.cli.command import Command, option
from graphshare.cli.console import put, put_json, say
from graphshare.cli.output import format_name_list, list_inputs, say_written, write_result
from graphshare.cli.tying_options import TyingRules, tying
from graphshare.errors import Fault, UsageError
from graphshare.rewrite.find_candidates import Candidates
from graphshare.rewrite.rules.model import REUSE, Reuse
from graphshare.rewrite.share_parameters import Repair
from graphshare.rewrite.tie import Sharing
from graphshare.text.format import format_count

_LISTED = 8
_EQUAL = {
    "values": "equal values",
    "bytes": "equal bytes under other shapes",
    "transpose": "a table and its transpose",
    "shape": "one shape",
    "operator": "operators of one form",
}

EXAMPLES = {
    "share": [
        (
            "two branches on copies of all parameters",
            "graphshare duplicate lenet --prefix sha- -o copies",
        ),
        (
            "one bias for their first layers",
            "graphshare share copies --alias sha-conv1_bias=conv1_bias -o shared",
        ),
        ("everything equal", "graphshare share copies --equal -o one"),
        ("what could be shared", "graphshare share siam --detect"),
    ],
}


_PURPOSE_OPTIONS = (
    option(
        "--untie",
        metavar="PATTERN",
        multiple=True,
        help="Give each operator that uses this parameter its own copy.",
    ),
    option(
        "--doctor",
        type=click.Choice(get_args(Repair)),
        help="Make variables of one name one variable, or give them different names.",
    ),
    option(
        "--transposed",
        is_flag=True,
        help="ONNX: tie tables to their transposes (embedding and output layer).",
    ),
    option(
        "--equal",
        is_flag=True,
        help="Tie all parameters that have equal bytes, whatever their names are.",
    ),
)


@click.command("share", cls=Command, brief=2)
@options.rewriting
@tying()
@option(
    "--reuse",
    type=click.Choice(REUSE),
    help="Whether the target of a tie must exist; auto ties if it does and renames if not [auto].",
)
@option("--detect", is_flag=True, help="List parameters that could be shared, and write nothing.")
@options.gather("purpose", ("untie", "doctor", "transposed", "equal"), _PURPOSE_OPTIONS)
@options.types("the index of a table")
@options.upgrade_first
@options.max_memory
@options.time_limit
@options.as_input
@options.as_parameter
def command(
    source: Checkpoint,
    rules: TyingRules,
    reuse: Reuse | None,
    detect: bool,
    purpose: Mapping[str, Any],
    types: dict[str, str],
    output: Mapping[str, Any],
    **roles: Any,
) -> None:
    """Tie parameters inside one graph (see also duplicate).

    Rules rename parameters; those that end up with one name become one parameter, stored once.
    Operators and outputs keep their names. In SRC=DST and A=B the left name disappears; \\= is an
    = inside a name. In an ONNX model A and B may have two shapes where their bytes are equal: A
    becomes a Reshape of B, and onnxruntime must compute the same bits.
    """
    if detect and (rules or any(purpose.values())):
        raise UsageError(Fault("several purposes cannot be combined", hint=PURPOSES))
    # Without any rule there is no ruleset, so share() expects a different mode.
    ruleset = rules.make_ruleset(reuse=reuse) if rules else None
    if detect:
        refuse_unused({"`separator`": rules.separator, "`reuse`": reuse}, "without rules")
        refuse_unused({"`types`": types}, "without `transposed`")
        _print_candidates(find_candidates(source, **roles), output["format_"])
        return
    result = share(
        source,
        ruleset,
        separator=rules.separator,
        reuse=reuse,
        types=types,
        **purpose,
        **roles,
    )
    outputs = write_result(
        result, output, inputs=list_inputs("rules", rules.file), report={"ties": result.report.ties}
    )
    if outputs is not None:
        _say_ties(result.report)
        say_written(outputs)


def _say_ties(report: Sharing) -> None:
    for verb, ties in (
        ("tied", report.ties.tied),
        ("renamed", report.ties.renamed),
        ("copied", report.ties.copied),
    ):
        if ties:
            say(f"{verb}: {len(ties)}")
        for tie in ties[:_LISTED]:
            say(f"  {tie.name} -> {tie.to}" + (f"  ({tie.rule})" if tie.rule else ""))
        if len(ties) > _LISTED:
            say(f"  and {len(ties) - _LISTED} more (all with --dry-run)")
    say(f"separate: {len(report.ties.separate)} ({format_name_list(report.ties.separate)})")


def _print_candidates(candidates: list[Candidates], format_: str) -> None:
    if format_ == "json":
        put_json({"candidates": [msgspec.to_builtins(group) for group in candidates]})
        return
    for group in candidates:
        put(
            [
                (
                    f"{_EQUAL[group.why]}{', related names' if group.related else ''}, {group.form}: "
                    f"{', '.join(group.names)}"
                )
            ]
        )
        put(f"  {option}" for option in group.options)
    say(f"{format_count(len(candidates), 'group')} of parameters that could be shared")
