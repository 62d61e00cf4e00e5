"""Facts about a checkpoint folder for rules: faults of its files, and the pairs that its
architecture ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from graphshare.checks.context import CheckContext
from graphshare.checks.rule import Violation, Violations
from graphshare.errors import Fault, InputError
from graphshare.formats.params.records import format_record
from graphshare.formats.params.shards import Kind, find_faults

if TYPE_CHECKING:
    from graphshare.formats.params.tied_names import TiedPair, TieStatement

State = Literal["absent", "form", "values", "equal", "unreadable"]


class Tie(NamedTuple):
    """A pair, the configuration's statement on it, and a comparison of its tensors; ``at`` is the
    first different byte.
    """

    pair: TiedPair
    statement: TieStatement
    state: State
    at: int = 0


def list_faults(context: CheckContext, kind: Kind) -> Violations:
    """Yield the faults of one kind, each in its file."""
    for kind_of_fault, fault in context.once(_find_faults):
        if kind_of_fault == kind:
            yield Violation(fault.message, record=fault.path, hint=fault.hint, file=fault.where)


def _find_faults(context: CheckContext) -> list[tuple[Kind, Fault]]:
    return list(find_faults(context.shards))


def list_ties(context: CheckContext, tied: bool | None, *states: State) -> list[Tie]:
    """Return the pairs in one of ``states`` for which the configuration states ``tied`` (None:
    nothing).
    """
    return [
        tie
        for tie in context.once(_find_ties)
        if tie.statement.tied is tied and tie.state in states
    ]


def _find_ties(context: CheckContext) -> list[Tie]:
    # Start-up
    from graphshare.formats.params.tied_names import find_pairs, read_statement

    statement = read_statement(context.shards)
    return [_compare(pair, statement) for pair in find_pairs(context.shards)]


def _compare(pair: TiedPair, statement: TieStatement) -> Tie:
    if pair.first is None or pair.second is None:
        return Tie(pair, statement, "absent")
    if pair.stored == "unlike":
        return Tie(pair, statement, "form")
    if statement.tied is False:  # two arrays that may start equal
        return Tie(pair, statement, "values")
    from graphshare.formats.params.tied_names import find_difference  # start-up

    try:
        at = find_difference(pair.first, pair.second)
    except InputError:  # a shard is too short: another rule reports it
        return Tie(pair, statement, "unreadable")
    return Tie(pair, statement, "equal") if at is None else Tie(pair, statement, "values", at)


def report_tie(context: CheckContext, tie: Tie, message: str, *, hint: str = "") -> Violation:
    """Return a violation at the first tensor of a pair that exists."""
    name, tensor = tie.pair.name, tie.pair.first
    if tensor is None:
        name, tensor = tie.pair.kept, tie.pair.second
    file = tensor[0].path if tensor is not None else context.shards.config_path
    return Violation(message, record=format_record(name, None), hint=hint, file=file)
