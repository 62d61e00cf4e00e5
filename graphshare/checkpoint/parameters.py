"""The parameters of a model: arrays by name, read on access, and their records after a rewrite.

The images of nodes decide which record is written under which names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.analysis.name_lists import Implied, list_implied_variables
from graphshare.analysis.roles import Kind, Role, assign_implied_role, assign_roles, disagreements
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.open_source import reopen_source
from graphshare.formats.model_format import find_format
from graphshare.formats.params.arrays import ArrayReader, have_equal_values, record_in_memory
from graphshare.formats.params.records import Origin, ParameterFile, Record
from graphshare.ir.graph import Branch, Graph, Node, Rewrite
from graphshare.ops.registry import canonical, find_signature
from graphshare.text.format import (
    format_bytes,
    format_count,
    format_dims,
    format_names,
    format_shape,
)
from graphshare.text.names import RECORD_PREFIXES, join_key, split_key
from graphshare.text.summary import Table, format_html

if TYPE_CHECKING:
    from graphshare.formats.params.arrays import Array


MEMORY = "<memory>"


class Parameters(Mapping[str, "Array"]):
    """Arrays by variable name (``conv1_weight``) or key (``arg:conv1_weight``), read on access.

    Dense arrays of ``.params`` and ``.safetensors`` are read-only; bfloat16 is read as float32,
    sparse arrays as dense.
    """

    __slots__ = ("_by_key", "_by_name")

    def __init__(self, file: ParameterFile | None) -> None:
        self._by_key: dict[str, tuple[ParameterFile, Record]] = {}
        if file is not None:
            self._by_key = {key: (file, record) for key, record in file.by_key().items()}
        self._by_name: dict[str, str] = {}
        for key in self._by_key:
            name = split_key(key)[1]
            # Of arg:x and aux:x the second is listed under its key.
            self._by_name[key if name in self._by_name else name] = key

    def __getitem__(self, name: str) -> Array:
        file, record = self._by_key[self._by_name.get(name, name)]
        with ArrayReader(file) as reader:
            return reader.read(record)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._by_key

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return have_equal_values(self, other)

    def __repr__(self) -> str:
        return f"<Parameters: {format_count(len(self), 'array')}>"

    def _repr_html_(self) -> str:
        """No array is read."""
        records = {name: self._by_key[key][1] for name, key in self._by_name.items()}
        rows = [
            (name, format_dims(r.shape, unknown="-"), r.dtype or "", format_bytes(r.dense_size))
            for name, r in records.items()
        ]
        size = sum(record.dense_size for record in records.values())
        title = f"{format_count(len(rows), 'array')}, {format_bytes(size)}"
        return format_html(title, tables=[Table(("name", "shape", "dtype", "size"), rows)])


def check_unchanged(file: ParameterFile) -> None:
    """Raise InputError if a file of the records is gone, or has another size or time of change."""
    hint = "a pickle or copy of a model reads its parameters from this file: load the model again"
    holders = {id(holder): holder for holder in map(file.find_holder, file.records)}
    for holder in holders.values():
        if holder is None:
            continue
        try:
            reopen_source(holder.path, holder.identity, holder.held).close()
        except InputError as error:
            faults = [msgspec.structs.replace(fault, hint=hint) for fault in error.faults]
            raise InputError(faults) from error


Plan = list[tuple[Record, str | None]]
"""Records with their new keys."""


def list_under(source: ParameterFile, plan: Plan) -> ParameterFile:
    """Return ``source``'s records under the keys of ``plan``; the bytes stay in place."""
    return msgspec.structs.replace(
        source, records=tuple(_list_record(source, record, key) for record, key in plan)
    )


def _list_record(source: ParameterFile, record: Record, key: str | None) -> Record:
    return msgspec.structs.replace(
        record, key=key, origin=record.origin or Origin(record.key, source)
    )


def replace_arrays(
    source: ParameterFile | None, arrays: Mapping[str, Any], auxiliary: Collection[str] | None
) -> ParameterFile:
    """Return ``source``'s records, with ``arrays`` (by name or key) replacing namesakes.

    New names come last; those in ``auxiliary`` get ``aux:`` before their keys, others ``arg:``,
    unless no key of ``source`` has such a prefix, or ``auxiliary`` is None.

    Raises:
        RefusedError: a dtype that no parameter file can hold, or a changed shape or dtype.
    """
    source = source or ParameterFile(MEMORY, 0, "params", (), named=True)
    old = source.by_key()
    keys = {split_key(key)[1]: key for key in old}
    new: dict[str, Record] = {}
    faults: list[Fault] = []
    for name, array in arrays.items():
        if name in old or split_key(name)[0]:
            key = name
        elif name in keys:
            key = keys[name]
        else:
            key = join_key(_choose_prefix(name, auxiliary, old), name)
        before = old.get(key)
        if before is None:
            new[key] = record_in_memory(key, array, "float32")
        else:
            new[key] = record_in_memory(key, array, before.dtype or "float32")
            faults += _compare(name, new[key], before)
    RefusedError.raise_any(faults)
    records = {}
    for key, record in old.items():
        records[key] = _list_record(source, record, key)
        if record.tied_to in new:  # a second name of an array that is replaced keeps the old array
            records[key] = msgspec.structs.replace(records[key], tied_to=None)
    return msgspec.structs.replace(source, records=tuple({**records, **new}.values()))


def _compare(name: str, new: Record, old: Record) -> Iterator[Fault]:
    if old.shape is not None and new.shape != old.shape:
        shapes = f"{format_shape(new.shape)}, and the parameter {format_shape(old.shape)}"
        yield Fault(f"{name!r} has the shape {shapes}", hint="give an array of that shape")
    dtype = "float32" if old.dtype == "bfloat16" else old.dtype
    if dtype is not None and new.dtype != dtype:
        yield Fault(
            f"{name!r} is {new.dtype}, and the parameter {dtype}",
            hint=f"give it as {dtype}, with array.astype({dtype!r})",
        )


def _choose_prefix(name: str, auxiliary: Collection[str] | None, old: Collection[str]) -> str:
    """Gluon writes records without prefixes."""
    if auxiliary is None:
        return ""
    has_prefixes = any(split_key(key)[0] for key in old)
    if old and not has_prefixes:
        return ""
    return "aux" if name in auxiliary else "arg"


def split_by_origin(file: ParameterFile) -> list[tuple[ParameterFile, Plan]]:
    """Return the records with their keys, in order, file by file, for :func:`join_params`.

    Arrays in memory are a separate part of ``file``.
    """
    parts: list[tuple[ParameterFile, Plan]] = []
    current: ParameterFile | None = None
    for record in file.records:
        holder = file.find_holder(record)
        if not parts or holder is not current:
            parts.append((file if holder is None else holder, []))
            current = holder
        stored = record
        if record.origin is not None and holder is not None:
            stored = msgspec.structs.replace(record, key=record.origin.key, origin=None)
        parts[-1][1].append((stored, record.key))
    return parts or [(file, [])]


def list_parameter_names(params: ParameterFile | None) -> frozenset[str] | None:
    """Return the record names without ``arg:`` and ``aux:``; None without a file.

    Raises RefusedError for records without names.
    """
    if params is None:
        return None
    if params.records and not params.named:
        hint = "it is a list without names; save it with names (mx.nd.save of a dict) to use it with a graph"
        if params.format == "pdiparams":
            hint = "the Paddle graph beside it has them: name both by their stem; `gs.rename` renames what is in both"
        raise RefusedError(
            Fault(
                "has no names, so its records belong to no variable", where=params.path, hint=hint
            )
        )
    return params.names


def plan_records(params: ParameterFile, rewrite: Rewrite, *, drop_unused: bool = False) -> Plan:
    """Return the records with their new keys: in file order for the first branch, then the own ones
    of each further branch.

    ``drop_unused`` drops records of no variable, which otherwise stay unchanged, and of dropped
    variables. Raises RefusedError for names of two records.
    """
    records = [(record, *split_key(record.full_name)) for record in params.records]
    held = frozenset(name for _, _, name in records)
    first, *others = _list_names_by_branch(rewrite, held)
    if not drop_unused:  # a record of no variable goes into the result once, with the first branch
        first = {**{name: (name,) for name in held.difference(*others)}, **first}
    plan: Plan = []
    owners: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    for names in (first, *others):
        for record, kind, name in records:
            for new in names.get(name, ()):
                key = join_key(kind, new)
                owner = owners.setdefault(key, record.full_name)
                if owner != record.key:
                    message = f"records {owner!r} and {record.key!r} would both become {key!r}"
                    faults.setdefault(key, Fault(message, where=params.path))
                elif names is first or key != record.key:  # a tied parameter is written once
                    plan.append((record, key))
    RefusedError.raise_any(faults.values())
    return plan


def _list_names_by_branch(
    rewrite: Rewrite, held: Collection[str]
) -> list[Mapping[str, Collection[str]]]:
    sources = dict.fromkeys(branch.source for branch in rewrite.branches)
    implied = {source: list(list_implied_variables(source)) for source in sources}
    return [
        _list_new_names(branch, rewrite, held, implied[branch.source])
        for branch in rewrite.branches
    ]


def check_belongs(params: ParameterFile | None, graph: Graph) -> None:
    """Raise RefusedError if there are records and none has the name of a variable of ``graph``."""
    held = list_parameter_names(params)
    if params is None or not held or find_format(graph).holds_parameters:
        return
    variables = [node.name for node in graph.variables()]
    if not held.isdisjoint(variables):
        return
    implied = [variable.name for variable in list_implied_variables(graph)]
    if held.isdisjoint(implied):
        known = sorted({*variables, *implied})
        hint = f"it holds {format_names(sorted(held), 4)}; the graph's variables are {format_names(known, 4)}"
        raise RefusedError(Fault("holds no parameter of this graph", where=params.path, hint=hint))


def notes_on(
    params: ParameterFile | None,
    graph: Graph,
    roles: Mapping[Node, Role] | None = None,
    *,
    unused: bool = True,
) -> list[str]:
    """Return sentences on misfits of a parameter file and ``graph``; pass ``roles`` if known.

    Without ``unused``, records of no variable are not mentioned.
    """
    notes = list(graph.source.list_notes())
    held = list_parameter_names(params)
    if find_format(graph).holds_parameters or params is None or held is None:
        return notes
    if roles is None:
        roles = assign_roles(graph, held=held)
    implied = {
        variable.name: assign_implied_role(variable) for variable in list_implied_variables(graph)
    }
    missing, taken = disagreements(roles, held)
    missing += [name for name, role in implied.items() if role.is_parameter and name not in held]
    prefixes = _list_prefixes(roles, implied)
    misfits = {
        "lacks parameters of the graph": missing,
        "contains values for a graph input; treated as a parameter": taken,
        "has the wrong prefix (arg: or aux:)": _wrong_prefixes(params, graph, prefixes),
    }
    if unused:
        misfits["contains arrays that no variable uses"] = [
            record.full_name for record in params.records if record.name not in prefixes
        ]
    for text, names in misfits.items():
        if names:
            notes.append(f"{params.path}: {text}: {format_names(names)}")
    return notes


def _list_prefixes(roles: Mapping[Node, Role], implied: Mapping[str, Role]) -> dict[str, set[str]]:
    """Variables of one name may have both prefixes."""
    prefixes: dict[str, set[str]] = {}
    for name, role in chain(((node.name, role) for node, role in roles.items()), implied.items()):
        prefixes.setdefault(name, set()).add("aux" if role.kind is Kind.AUXILIARY else "arg")
    return prefixes


def _wrong_prefixes(
    params: ParameterFile, graph: Graph, prefixes: Mapping[str, Collection[str]]
) -> list[str]:
    """MXNet's Module would not find keys with the wrong ``arg:`` or ``aux:``."""
    wrong = []
    for record in params.records:
        fitting = prefixes.get(record.name, RECORD_PREFIXES)
        if record.kind and record.kind not in fitting:
            wrong.append(record)
    if not wrong:
        return []
    unclear = set(_list_unclear(graph))
    return [record.full_name for record in wrong if record.name not in unclear]


def _list_unclear(graph: Graph) -> Iterator[str]:
    """Yield names of inputs of operators that may mutate any of their inputs."""
    for node in graph.nodes:
        if node.is_variable:
            continue
        signature = find_signature(node)
        if signature is None or not signature.inputs_known:
            for entry in node.inputs:
                yield entry.node.name


def _owners(branch: Branch, held: Collection[str]) -> dict[Node, str]:
    """Return the name whose record each variable of the result keeps.

    Of tied ones, those in the file come first, then the one whose name stays.
    """
    owners: dict[Node, str] = {}
    for node in branch.source.variables():
        image = branch.images.get(node)
        if image is None:
            continue
        owner = owners.setdefault(image, node.name)
        if owner != node.name:
            owners[image] = min(
                owner, node.name, key=lambda name: (name not in held, name != image.name)
            )
    return owners


def _list_new_names(
    branch: Branch, rewrite: Rewrite, held: Collection[str], implied: Iterable[Implied]
) -> Mapping[str, Collection[str]]:
    new: dict[str, dict[str, None]] = {}
    owners = _owners(branch, held)
    for node in branch.source.variables():
        image = branch.images.get(node)
        names = new.setdefault(node.name, {})
        if image is not None and owners[image] == node.name:
            names[image.name] = None
    renamed = {
        rename.old: rename.new for rename in rewrite.renames if rename.branch == branch.label
    }
    for variable in implied:
        names = new.setdefault(variable.name, {})
        image = branch.images.get(variable.node)
        if image is None:
            continue
        has_input = canonical(image.op) == canonical(variable.node.op)
        if has_input:  # a node that became another operator has no such input
            names[renamed.get(variable.name, variable.name)] = None
    return new
