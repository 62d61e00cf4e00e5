"""What a rewrite says of itself on standard error when it is done."""

from __future__ import annotations

import shlex

from graphshare.analysis.roles import Kind
from graphshare.checkpoint.load import Checkpoint, Outputs
from graphshare.cli.console import say, visible
from graphshare.ir.graph import Rewrite
from graphshare.rewrite.duplicate_plan import Duplication

_SHOWN = 6


def say_branches(made: Duplication, rewrite: Rewrite, outputs: Outputs, source: Checkpoint) -> None:
    """The branches with their inputs, what was tied and copied, and how to prove it."""
    inputs = [node for node, role in made.roles.items() if role.kind in (Kind.INPUT, Kind.UNKNOWN)]
    for branch in made.rewrite.branches:
        names = [branch.images[node].name for node in inputs if node in branch.images]
        say(f"branch {branch.label or '(original)'}: {len(branch.images)} nodes, inputs {shown(names)}")
    if made.tied:
        say(f"tied: {len(made.tied)} parameters, one node each for all branches ({shown([n.name for n in made.tied])})")
    if made.copied:
        say(f"copied: {len(made.copied)} parameters a branch; they start equal and drift apart in training")
    if made.joined:
        told = [node.name + (f" (axis {axis})" if axis else "") for node, axis in made.joined.items()]
        say(f"one run for all branches: joined {shown(told)}; outputs split again")
    if made.shared_inputs:
        say(f"shared inputs: {shown([n.name for n in made.shared_inputs])}")
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


def shown(names: list[str]) -> str:
    """The first few of ``names``, and how many more there are; control characters spelled out."""
    names = [visible(name) for name in names]
    if len(names) <= _SHOWN:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
