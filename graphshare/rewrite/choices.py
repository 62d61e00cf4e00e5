"""Variables that branches copy, tie or feed together, chosen by role and by pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from graphshare.analysis.name_lists import match_nodes
from graphshare.analysis.roles import Kind, Role
from graphshare.errors import Fault, RefusedError, UsageError
from graphshare.ir.graph import EMPTY, Node, Rewrite
from graphshare.text.names import suggest

Mode = Literal["copy", "tie"]
ModeOrBatch = Literal["copy", "tie", "batch"]


Choice = tuple[Mode, str]
"""One ``--tie`` or ``--copy``: a mode, and a pattern of parameters."""


class BranchOptions(msgspec.Struct, frozen=True):
    """The branch options of :func:`graphshare.api.duplicate.duplicate`."""

    mode: ModeOrBatch = "copy"
    choices: Sequence[Choice] = ()
    share_inputs: Sequence[str] = ()
    upto: Sequence[str] = ()
    drop_original: bool = False
    batch_axes: Mapping[str, int] = EMPTY
    force: bool = False

    def check(self) -> None:
        """Raise UsageError with all options that the mode does not support."""
        faults = []
        if self.mode != "batch":
            idle = {"`batch_axes`": self.batch_axes, "`force`": self.force}
            hint = "leave it out, or choose that mode"
            faults = [
                Fault(f"{option} is for `mode='batch'`", hint=hint)
                for option, value in idle.items()
                if value
            ]
        elif self.choices:
            faults.append(
                Fault(
                    "`choices` choose between modes; a batch has one run and one set of parameters"
                )
            )
        if self.mode == "batch" and self.upto:
            hint = "cut it out first: `gs.extract(GRAPH, targets=NAME)`"
            faults.append(
                Fault(
                    "`upto` leaves the original as it is; a batch is one run of the whole graph",
                    hint=hint,
                )
            )
        UsageError.raise_any(faults)


class Duplication(Rewrite, frozen=True, eq=False, gc=False, kw_only=True):
    """A rewrite with branches.

    ``tied`` and ``copied`` are parameters; ``joined`` maps concatenated inputs to their batch axis.
    """

    roles: Mapping[Node, Role]
    tied: tuple[Node, ...]
    copied: tuple[Node, ...]
    shared_inputs: tuple[Node, ...]
    joined: Mapping[Node, int] = EMPTY


def match_shared_inputs(roles: Mapping[Node, Role], patterns: Sequence[str]) -> dict[Node, None]:
    """Return the inputs that patterns of ``--share-input`` match; RefusedError for idle patterns."""
    shared: dict[Node, None] = {}
    if not patterns:
        return shared
    faults = []
    inputs = {node: node.name for node, role in roles.items() if not role.is_parameter}
    for pattern in patterns:
        matched = match_nodes(pattern, roles)
        hit = [node for node in matched if node in inputs]
        if not hit:
            hint = "parameters are shared with `choices=[('tie', PATTERN)]`"
            hint = hint if matched else suggest(pattern, list(inputs.values()), "inputs")
            faults.append(Fault(f"`share_inputs` {pattern!r} matches no input", hint=hint))
        shared.update(dict.fromkeys(hit))
    RefusedError.raise_any(faults)
    return shared


def note_unknown_roles(roles: Mapping[Node, Role], mode: ModeOrBatch) -> list[str]:
    """Return a note on each variable of unknown role; RefusedError for these with ``mode`` ``tie``."""
    unknown = [node for node, role in roles.items() if role.kind is Kind.UNKNOWN]
    if mode == "tie":
        hint = "choose with `as_input` or `as_parameter`, or give the parameter file with `params`"
        RefusedError.raise_any(
            Fault(f"cannot tell whether {n.name!r} is a parameter: {roles[n].reason}", hint=hint)
            for n in unknown
        )
    return [
        f"{node.name!r} may be an input or a parameter: {roles[node].reason}" for node in unknown
    ]


def check_collisions(kept: Iterable[str], renamed: Iterable[tuple[str, str]]) -> None:
    """Raise RefusedError for new names that equal a kept one, or come from two different old names.

    ``kept`` are unchanged names, ``renamed`` pairs of old and new ones. Files may repeat
    a name; its new name may then repeat, too. Empty names never collide.
    """
    staying = set(kept)
    sources: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    for old, new in renamed:
        if not new:
            continue
        if new in staying:
            hint = "choose another prefix, or rename the existing one first"
            faults.setdefault(
                new,
                Fault(
                    f"{old!r} would become {new!r}, a name that the graph already has", hint=hint
                ),
            )
        elif sources.setdefault(new, old) != old:
            hint = "give each of them a name of its own"
            faults.setdefault(
                new, Fault(f"{sources[new]!r} and {old!r} would both become {new!r}", hint=hint)
            )
    RefusedError.raise_any(faults.values())


def check_prefixes(prefixes: Iterable[str]) -> None:
    """Raise RefusedError for prefixes that are empty, repeated, or have a NUL character."""
    faults = []
    seen: set[str] = set()
    for prefix in prefixes:
        if not prefix:
            faults.append(
                Fault(
                    "an empty prefix gives every copy the name of its original",
                    hint="give `prefixes` some text, as in sha-",
                )
            )
        elif "\0" in prefix:
            faults.append(
                Fault(f"prefix {prefix!r} contains a NUL character, which MXNet cannot read")
            )
        elif prefix in seen:
            faults.append(
                Fault(
                    f"prefix {prefix!r} is given twice",
                    hint="each branch needs a prefix of its own",
                )
            )
        seen.add(prefix)
    RefusedError.raise_any(faults)
