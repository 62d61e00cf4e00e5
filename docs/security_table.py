"""The table of SECURITY.md, of what each command reads, writes and starts; a part of ``docs/generate.py``.

``security_table.json`` has command lines, by the command and the options that they are there for,
with what each did when it was watched: with a graph of MXNet, an ONNX model and a program of
Paddle. Without an entry for a format the line is refused. ``python -m tests.watch`` measures all of
them again, and a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

MEASURED = Path(__file__).with_suffix(".json")
READS = {"rules check": "rules", "completion": "nothing"}
READS |= {
    f"params {name}": "parameters, ONNX" for name in ("convert", "diff", "list", "show", "stats")
}
"""What commands read that read no models."""
MODELS = {"mxnet": "MXNet graphs", "onnx": "ONNX models", "paddle": "Paddle graphs"}
PROGRAMS = {"python": "Python", "dot": "`dot`", "sh": "`sh`", "which": "`which`"}
EMPTY: Mapping[str, Sequence[str]] = {"writes": (), "starts": ()}


def read_measured() -> dict[str, dict[str, Any]]:
    """Return what was measured, by the line's command and options."""
    measured: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return measured


def split_name(name: str) -> tuple[str, str]:
    """Return the command of a line (``params list``) and the options that it is there for
    (``--engine --max-memory``).
    """
    command, dash, options = name.partition(" -")
    return command, dash.strip() + options


def describe_command(
    name: str, command: click.Command, measured: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the cells of a command after its name: they follow from its options and from what was measured."""
    options = [
        max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)
    ]
    limits = [
        f"`{limit}`" if limit in options else "no" for limit in ("--max-memory", "--time-limit")
    ]
    lines = {
        split_name(line)[1]: found
        for line, found in measured.items()
        if split_name(line)[0] == name
    }
    models = [model for model in MODELS if model in lines[""]]
    reads = READS.get(name) or ", ".join(MODELS[model].split()[0] for model in models)
    written = {
        place
        for found in lines.values()
        for model in models
        for place in found.get(model, EMPTY)["writes"]
    }
    places = [
        place
        for option in command.params
        for place in (*option.opts, option.metavar)
        if place in written
    ]
    writes = ", ".join(f"`{place}`" for place in places) or "nothing"
    starts = [_describe_starts(program, models, lines) for program in PROGRAMS]
    return " | ".join([reads, *limits, writes, "; ".join(filter(None, starts)) or "nothing"])


def _describe_starts(
    program: str, models: Sequence[str], lines: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return a program and when it is started: always, for a format, with options; empty if it never is."""
    found = {
        model: [
            options
            for options, each in lines.items()
            if program in each.get(model, EMPTY)["starts"]
        ]
        for model in models
    }
    models_by_options: dict[str, list[str]] = {}
    for model, several in found.items():
        # Options that start it alone stand for all lines that have them; without options it is always started.
        least = [
            options
            for options in several
            if not any(set(each.split()) < set(options.split()) for each in several)
        ]
        for options in least:
            models_by_options.setdefault(options, []).append(model)
    options_by_models: dict[str, list[str]] = {}
    for options, some in models_by_options.items():
        case = (
            ""
            if len(some) == len(models)
            else f" for {' and '.join(MODELS[model] for model in some)}"
        )
        options_by_models.setdefault(f"{case} with" if options else case, []).append(
            f" `{options}`" if options else ""
        )
    cases = [
        f"{case}{','.join(options[:-1])}{' or' * (len(options) > 1)}{options[-1]}"
        for case, options in options_by_models.items()
    ]
    return f"{PROGRAMS[program]}{','.join(cases)}" if cases else ""


def format_rows(commands: Iterable[tuple[str, click.Command]]) -> list[str]:
    """Return the rows of the table; commands with equal cells share one, and a group has none."""
    measured = read_measured()
    rows: dict[str, list[str]] = {}
    for name, command in commands:
        if not isinstance(command, click.Group):
            rows.setdefault(describe_command(name, command, measured), []).append(f"`{name}`")
    return [f"| {', '.join(names)} | {cells} |" for cells, names in rows.items()]
