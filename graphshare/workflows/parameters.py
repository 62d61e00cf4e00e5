"""A rewrite's effect on a parameter file: which record is written under which names. Read off the images, never off text."""

from __future__ import annotations

from collections.abc import Iterable

from graphshare.errors import Fault, RefusedError
from graphshare.formats.records import ParameterFile, Record
from graphshare.ir.graph import Branch, Rewrite
from graphshare.names import join_key, split_key
from graphshare.rules.implied import implied_variables

Plan = list[tuple[Record, str | None]]


def held_names(params: ParameterFile | None) -> frozenset[str] | None:
    """The names of a file's records without ``arg:`` and ``aux:``; None without a file.

    Raises:
        RefusedError: the records have no names.
    """
    if params is None:
        return None
    if params.records and not params.named:
        hint = "it is a list without names; save it with names (mx.nd.save of a dict) to use it with a graph"
        raise RefusedError(Fault("has no names, so its records belong to no variable", where=params.path, hint=hint))
    return frozenset(split_key(record.key)[1] for record in params.records if record.key is not None)


def plan_records(params: ParameterFile, rewrite: Rewrite, *, drop_unused: bool = False) -> Plan:
    """Which record goes where: file order for the first branch, then for each further branch what it has of its own.

    A record that no variable claims stays as it is; with ``drop_unused`` it goes, and so does one whose variables were dropped.

    Raises:
        RefusedError: two records would get one name; all such names are listed.
    """
    branches = [_Names(branch, rewrite) for branch in rewrite.branches]
    plan: Plan = []
    taken: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    for number, names in enumerate(branches):
        for record in params.records:
            kind, name = split_key(record.key or "")
            claimed = any(name in other.new for other in branches)
            new = names.new.get(name, ()) if claimed else (name,) if number == 0 and not drop_unused else ()
            for key in (join_key(kind, n) for n in new):
                owner = taken.setdefault(key, record.key or "")
                if owner != record.key:
                    faults.setdefault(
                        key, Fault(f"records {owner!r} and {record.key!r} would both become {key!r}", where=params.path)
                    )
                elif not _planned(plan, record, key, number):
                    plan.append((record, key))
    if faults:
        raise RefusedError(faults.values())
    return plan


def _planned(plan: Plan, record: Record, key: str, number: int) -> bool:
    """Whether an earlier branch wrote the record under this name already: a tied parameter is written once."""
    return number > 0 and key == record.key


def surplus(params: ParameterFile, rewrite: Rewrite) -> list[str]:
    """The keys of records that belong to no variable of the source graphs."""
    branches = [_Names(branch, rewrite) for branch in rewrite.branches]
    return [r.key or "" for r in params.records if not any(split_key(r.key or "")[1] in names.known for names in branches)]


class _Names:
    """Old name to new names for the variables of one branch, the implied ones included."""

    def __init__(self, branch: Branch, rewrite: Rewrite) -> None:
        new: dict[str, dict[str, None]] = {}
        for node in branch.source.variables():
            image = branch.images.get(node)
            names = new.setdefault(node.name, {})
            if image is not None:
                names[image.name] = None
        renamed = {rename.old: rename.new for rename in rewrite.renames if rename.branch == branch.label}
        for implied in implied_variables(branch.source):
            names = new.setdefault(implied.name, {})
            if implied.node in branch.images:
                names[renamed.get(implied.name, implied.name)] = None
        self.new = {name: tuple(names) for name, names in new.items()}
        self.known = self.new.keys()


def missing(names: Iterable[str], held: frozenset[str]) -> list[str]:
    """The ``names`` that a parameter file does not hold, each once."""
    return [name for name in dict.fromkeys(names) if name not in held]
