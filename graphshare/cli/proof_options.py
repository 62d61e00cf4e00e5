"""The options of ``verify`` and ``compare``, the objects made from them, and the printing of
reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from graphshare.cli import options
from graphshare.cli.command import option
from graphshare.cli.console import name_options, put_json, put_parts, say
from graphshare.cli.report import put_report
from graphshare.formats.images.images import describe_images
from graphshare.reports.formats import default_format
from graphshare.verification.comparison import BY_ELEMENT, Tolerance
from graphshare.verification.findings import make_report
from graphshare.verification.inputs import Inputs
from graphshare.verification.report import Report, format_report

F = TypeVar("F", bound=Callable[..., Any])

_STYLES = {
    "holds": "added",
    "fails": "removed",
    "unknown": "changed",
    "skipped": "",
    "equal": "added",
    "not equal": "removed",
}
_STYLES |= {"not proved": "changed", "not judged": "changed", "": ""}
_VERSION = 2
_EXIT_CODES = {"equal": 0, "not equal": 1, "not proved": 1, "not judged": 2}


def _make_inputs(values: dict[str, Any]) -> Inputs:
    return Inputs(**{name: value for name, value in values.items() if value is not None})


def _make_tolerance(values: dict[str, Any]) -> Tolerance | None:
    if values["atol"] is None and values["rtol"] is None:
        return None
    numbers = {
        name: getattr(BY_ELEMENT, name) if value is None else value
        for name, value in values.items()
    }
    return Tolerance(**numbers)


sets = option(
    "--inputs",
    "sets",
    metavar="FOLDER",
    help="Compare on each set of inputs in FOLDER: .npz, .npy or input_K.pb files.",
)
rounds = option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of sets of inputs, besides those that open sizes need [1].",
)
seed = option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of the inputs that are not fed [0].",
)
inputs = options.gather(
    "inputs",
    ("params_seed", "as_input", "sets", "rounds", "seed"),
    (
        option(
            "--random-params",
            "params_seed",
            type=click.IntRange(min=0),
            metavar="SEED",
            help="Draw missing parameters from this seed.",
        ),
        options.as_input,
        sets,
        rounds,
        seed,
    ),
    _make_inputs,
)
"""Adds the options of inputs; a command gets them as ``inputs``."""
tolerance = options.gather(
    "tolerance",
    ("atol", "rtol"),
    (
        option(
            "--atol",
            type=click.FloatRange(min=0),
            metavar="A",
            help="Absolute tolerance of outputs [1e-8].",
        ),
        option(
            "--rtol",
            type=click.FloatRange(min=0),
            metavar="R",
            help="Relative tolerance of floating-point outputs [1e-5].",
        ),
    ),
    _make_tolerance,
)
"""Adds the options of the tolerance; a command gets them as ``tolerance``."""


def finish(
    report: Report,
    values: dict[str, Any],
    format_: str | None,
    where: str,
    command: str,
) -> int:
    """Print a report; return the exit code."""
    for note in describe_images(values):
        say(note)
    format_ = format_ or default_format()
    if format_ not in ("json", "text"):
        put_report(make_report(report, where, command), format_)
        return find_exit_code(report)
    if format_ == "text":
        for note in report.notes:
            say(note)
    if format_ == "text":
        put_parts(
            [(_STYLES[what], name_options(text)) for what, text in line]
            for line in format_report(report)
        )
    else:
        put_json(_describe(report))
    return find_exit_code(report)


def find_exit_code(report: Report) -> int:
    """Return 0 if both sides are equal, 1 if they are not or it is not proved, and 2 if nothing
    could be judged.
    """
    return _EXIT_CODES[report.outcome]


def _describe(report: Report) -> dict[str, Any]:
    answer = {
        "equal": bool(report),
        "verdict": name_options(report.verdict),
        "outcome": report.outcome,
        "rung": report.rung,
    }
    notes = list(map(name_options, report.notes))
    return {"version": _VERSION, **answer, **msgspec.to_builtins(report), "notes": notes}
