"""The table of SECURITY.md, of what each command reads, writes and starts; a part of ``docs/generate.py``."""

from __future__ import annotations

from collections.abc import Iterable

import click

BOTH, MXNET, FILES = "MXNet, ONNX", "MXNet", "parameters, ONNX"
READS = {
    "pool": "ONNX",
    "unfix": "ONNX",
    "export": MXNET,
    "upgrade": MXNET,
    "format": MXNET,
    "rules check": "rules",
    "completion": "nothing",
}
READS |= {f"params {name}": FILES for name in ("convert", "diff", "list", "show", "stats")}
STARTED = dict.fromkeys(
    ("duplicate", "extract", "rename", "group", "share", "fold", "pool", "unfix"), "Python, for ONNX models"
)
STARTED |= dict.fromkeys(("export", "run", "verify", "check", "inspect", "diff"), "Python, for ONNX models")
STARTED |= {"check": "Python, for ONNX models and `--jobs`", "foreach": "Python, for each job"}
STARTED |= {"draw": "Python, for ONNX models; `dot`, for PNG and PDF"}
WRITING = {"--params-out", "--map-out", "--manifest", "--report", "--write-baseline", "--in-place", "--fix", "--out"}
"""Options that say where a command writes, or that it does."""


def describe_command(name: str, command: click.Command) -> str:
    """Return the cells of a command after its name: they follow from its options, but for the first and the last."""
    options = [max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)]
    limits = [f"`{limit}`" if limit in options else "no" for limit in ("--max-memory", "--time-limit")]
    writes = [f"`{min(option.opts, key=len)}`" for option in command.params if set(option.opts) & WRITING]
    writes += ["its second argument"] if any(argument.name == "target" for argument in command.params) else []
    return " | ".join([READS.get(name, BOTH), *limits, ", ".join(writes) or "nothing", STARTED.get(name, "nothing")])


def format_rows(commands: Iterable[tuple[str, click.Command]]) -> list[str]:
    """Return the rows of the table; commands with equal cells share one, and a group has none."""
    rows: dict[str, list[str]] = {}
    for name, command in commands:
        if not isinstance(command, click.Group):
            rows.setdefault(describe_command(name, command), []).append(f"`{name}`")
    return [f"| {', '.join(names)} | {cells} |" for cells, names in rows.items()]
