"""What a rewrite says of itself on standard error when it is done."""

from __future__ import annotations

import shlex

from graphshare.analysis.roles import Kind
from graphshare.checkpoint.load import Checkpoint, Outputs
from graphshare.cli.console import say
from graphshare.ir.graph import Rewrite
from graphshare.rewrite.duplicate_plan import Duplication
from graphshare.text.format import escape_control, format_names

_SHOWN = 6


def say_branches(made: Duplication, rewrite: Rewrite, outputs: Outputs, source: Checkpoint) -> None:
    """The branches with their inputs, what was tied and copied, and how to prove it."""
    inputs = [node for node, role in made.roles.items() if role.kind in (Kind.INPUT, Kind.UNKNOWN)]
    for branch in made.rewrite.branches:
        names = format_name_list([branch.images[node].name for node in inputs if node in branch.images])
        say(f"branch {branch.label or '(original)'}: {len(branch.images)} nodes, inputs {names}")
    if made.tied:
        names = format_name_list([node.name for node in made.tied])
        say(f"tied: {len(made.tied)} parameters, one node each for all branches ({names})")
    if made.copied:
        say(f"copied: {len(made.copied)} parameters a branch; they start equal and drift apart in training")
    if made.joined:
        told = [node.name + (f" (axis {axis})" if axis else "") for node, axis in made.joined.items()]
        say(f"one run for all branches: joined {format_name_list(told)}; outputs split again")
    if made.shared_inputs:
        say(f"shared inputs: {format_name_list([n.name for n in made.shared_inputs])}")
    say_written(outputs)
    if outputs.graph != "-":
        params = outputs.params or (source.params.path if source.params is not None else "")
        words = ["graphshare", "verify", outputs.graph, *(["--params", params] if params else ["--random-params", "0"])]
        words += [f"--prefix={branch.label}" for branch in rewrite.branches if branch.label]
        say(f"prove it: {shlex.join(words)}")


def say_written(outputs: Outputs) -> None:
    """Which files are new."""
    files = [path for path in (outputs.graph, outputs.params, outputs.map) if path and path != "-"]
    if files:
        say(f"wrote {', '.join(files)}")


def format_name_list(names: list[str]) -> str:
    """Return the first few of ``names`` and how many more there are, control characters escaped, or ``none``."""
    return format_names(map(escape_control, names), _SHOWN) or "none"
