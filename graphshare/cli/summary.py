"""The summary of a rewrite, printed on stderr."""

from __future__ import annotations

import shlex

from graphshare.analysis.roles import AS_INPUT, Kind
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.save import Outputs
from graphshare.cli.console import say
from graphshare.cli.output import say_written
from graphshare.formats.model_format import Capability, find_format
from graphshare.rewrite.choices import Duplication
from graphshare.text.format import escape_control, format_count, format_names

_SHOWN = 6


def say_branches(model: Checkpoint, outputs: Outputs) -> None:
    """Print the branches with their inputs, what was tied and copied, and how to prove it."""
    report: Duplication = model.report
    inputs = [node for node, role in report.roles.items() if role.kind in (Kind.INPUT, Kind.UNKNOWN)]
    for branch in report.branches:
        names = format_name_list([branch.images[node].name for node in inputs if node in branch.images])
        parts = model.graph.source.describe_parts(branch.images.values())
        say(f"branch {branch.label or '(original)'}: {parts}, inputs {names}")
    if report.tied:
        names = format_name_list([node.name for node in report.tied])
        *_, kind = model.graph.source.count_parts(model.graph.nodes)
        say(f"tied: {format_count(len(report.tied), 'parameter')}, one {kind} each for all branches ({names})")
    if report.copied:
        count = format_count(len(report.copied), "parameter")
        if all(source.parameter_file is None for source in model.sources or (model,)):
            say(f"separate: {count} a branch; none is written, because no parameter file was read")
        else:
            say(f"copied: {count} a branch; they start equal and drift apart in training")
    if report.joined:
        joined = [node.name + (f" (axis {axis})" if axis else "") for node, axis in report.joined.items()]
        say(f"one run for all branches: joined {format_name_list(joined)}; outputs split again")
    if report.shared_inputs:
        say(f"shared inputs: {format_name_list([n.name for n in report.shared_inputs])}")
    say_written(outputs)
    if outputs.graph != "-":
        file = model.sources[0].parameter_file
        params = outputs.params or (file.path if file is not None else "")
        takes_params = find_format(model.graph).supports(Capability.PARAMETER_FILE)
        values = [] if not takes_params else ["--params", params] if params else ["--random-params", "0"]
        words = ["graphshare", "verify", outputs.graph, *values]
        words += [f"--prefix={branch.label}" for branch in report.branches if branch.label]
        words += [f"--as-input={node.name}" for node, role in report.roles.items() if role.why == AS_INPUT]
        say(f"prove it: {shlex.join(words)}")


def format_name_list(names: list[str]) -> str:
    """Return the first few of ``names`` and how many more there are, control characters escaped, or ``none``."""
    return format_names(map(escape_control, names), _SHOWN) or "none"
