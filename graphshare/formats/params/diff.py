"""Find the differences between two parameter files: of records by name, then by value."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import MODELS
from graphshare.formats.params.records import PRECISIONS, ParameterFile, Record, find_coarsest
from graphshare.progress import task
from graphshare.text.format import format_dims
from graphshare.text.names import join_key, split_key
from graphshare.text.summary import ShortRepr, Table, format_html

if TYPE_CHECKING:
    from graphshare.formats.params.comparison import Distance

How = Literal["equal", "values", "bits", "form", "added", "removed", "renamed"]


class ParameterChange(msgspec.Struct, frozen=True):
    """One parameter in both files. ``old`` and ``new`` are its keys, None where a file does not have it.

    ``how``: ``values`` differ, or their ``bits`` alone (0 is not -0), its ``form`` does (shape, type, storage: see ``detail``),
    it was ``added`` or ``removed``, or it is ``renamed`` only (``arg:`` became ``aux:``). ``distance`` measures how far values
    are apart.
    """

    how: How
    old: str | None
    new: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    detail: str = ""
    distance: Distance | None = None


class ParameterDiff(ShortRepr, msgspec.Struct, frozen=True, omit_defaults=True):
    """Two parameter files. ``equal`` counts the parameters without a difference. True when anything differs.

    ``near`` counts the equal ones that differ within the tolerance. ``across`` counts parameters with unlike dtypes that were
    compared by value, by the dtype up to whose rounding they may differ. ``missing`` are parameters whose values are in files
    that do not exist or are too short: they were not compared.
    """

    left: str
    right: str
    equal: int
    changes: tuple[ParameterChange, ...]
    across: Mapping[str, int] = {}
    missing: tuple[str, ...] = ()
    near: int = 0

    def __bool__(self) -> bool:
        return bool(self.changes)

    def make_table(self) -> Table:
        """Return a table with a row for each parameter that differs."""
        rows = []
        for c in self.changes:
            what = c.detail or f"{format_dims(c.shape, unknown='never filled')} {c.dtype or ''}".rstrip()
            distance = "" if c.distance is None or c.distance.max_abs is None else f"{c.distance.max_abs:.4g}"
            rows.append((c.how, c.old or "", c.new or "", what, distance))
        return Table(("parameter", "old", "new", "what", "max abs"), rows)

    def _repr_html_(self) -> str:
        """Return the changes as an HTML table for notebooks."""
        title = f"parameters: {self.equal:,} equal, {len(self.changes):,} different"
        return format_html(title, facts=[("left", self.left), ("right", self.right)], tables=[self.make_table()])


def diff_parameters(
    left: ParameterFile,
    right: ParameterFile,
    names: Mapping[str, Sequence[str]],
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    chosen: Collection[str] | None = None,
    left_out: Collection[str] = (),
    across_dtypes: bool = False,
    skips_missing: bool = False,
) -> ParameterDiff:
    """Compare the records of ``left`` and ``right``; ``names`` maps a name to its counterparts (by default itself).

    ``chosen`` limits it to these keys; pairs with one that is ``left_out`` are not compared. With ``skips_missing`` values that
    a missing file has are not compared, and listed; else they are refused (InputError). Records without names are paired
    by position. No more than two pieces of an array are in memory.
    """
    from graphshare.formats.params.comparison import compare_records  # start-up: needs numpy

    pairs = list(_pairs(left, right, names))
    if chosen is not None:
        pairs = [pair for pair in pairs if any(r is not None and r.key in chosen for r in pair)]
    pairs = [pair for pair in pairs if not any(r is not None and r.key in left_out for r in pair)]
    equal, changes, across, missing = 0, [], Counter[str](), []
    distances: list[Distance] = []

    def measure(old: Record, new: Record, coarsest: str) -> Distance:
        distances.append(compare_records(b, new, a, old, atol=atol, rtol=rtol, across=coarsest, advance=advance))
        return distances[-1]

    size = sum(x.dense_size for x, y in pairs if x is not None and y is not None)
    with ArrayReader(left) as a, ArrayReader(right) as b, task("comparing parameters", size, "B") as advance:
        for x, y in pairs:
            if skips_missing and x and y and (left.lacks(x) or right.lacks(y)):
                if _find_place(left, x) == _find_place(right, y):
                    equal += 1
                else:
                    missing.append(y.key or "")
                continue
            coarser = ""
            # Only floats of unlike precision are compared by value: rounding explains their differences.
            if across_dtypes and x and y and x.shape == y.shape and x.dtype != y.dtype and {x.dtype, y.dtype} <= {*PRECISIONS}:
                coarser = find_coarsest((x.dtype, y.dtype))
                across[coarser] += 1
            change = _change(x, y, coarser, measure)
            # Names in models have no arg: and aux:
            if change is not None and not (change.how == "renamed" and {left.format, right.format} & MODELS.keys()):
                changes.append(change)
            else:
                equal += 1
    near = sum(bool(distance) and bool(distance.max_abs) for distance in distances)
    return ParameterDiff(left.shown_path, right.shown_path, equal, tuple(changes), dict(across), tuple(missing), near)


def _find_place(file: ParameterFile, record: Record) -> tuple[object, ...]:
    """Return the location of a record's bytes, and their shape and type."""
    path = (file if record.origin is None or record.origin.file is None else record.origin.file).path
    return os.path.realpath(path), record.offset, record.size, record.shape, record.element_type


def _pairs(
    left: ParameterFile, right: ParameterFile, names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Record | None, Record | None]]:
    if not left.named and not right.named:
        for number in range(max(len(left.records), len(right.records))):
            yield tuple(f.records[number] if number < len(f.records) else None for f in (left, right))  # type: ignore[misc]
        return
    olds, news = left.by_key(), right.by_key()
    by_name: dict[str, str] = {split_key(key)[1]: key for key in news}
    met = set()
    for key, record in olds.items():
        kind, name = split_key(key)
        has_twin = False
        for other in names.get(name, (name,)):
            key_there = join_key(kind, other)
            # A parameter that became an auxiliary state has the same name under aux:.
            key_there = key_there if key_there in news else by_name.get(other, key_there)
            if key_there in news:
                met.add(key_there)
                has_twin = True
                yield record, news[key_there]
        if not has_twin:
            yield record, None
    for key, record in news.items():
        if key not in met:
            yield None, record


def _change(
    x: Record | None, y: Record | None, coarser: str, measure: Callable[[Record, Record, str], Distance]
) -> ParameterChange | None:
    """Return the difference, None where there is none; with a ``coarser`` dtype a difference of dtypes does not count."""
    some = x if x is not None else y
    assert some is not None
    keys = x.key if x is not None else None, y.key if y is not None else None
    shape = (y or some).shape
    if x is None or y is None:
        return ParameterChange("added" if x is None else "removed", *keys, shape, some.dtype)
    forms = [
        f"{what} {_form(p)} became {_form(q)}"
        for what, p, q in (
            ("shape", x.shape, y.shape),
            ("type", x.element_type, y.element_type),
            ("storage", x.storage, y.storage),
        )
        if p != q and not (coarser and what == "type")
    ]
    detail = "; ".join(forms)
    if x.shape != y.shape or x.shape is None or y.shape is None:
        return ParameterChange("form", *keys, shape, y.dtype, detail) if forms else None
    distance = measure(x, y, coarser)
    if not distance:
        how: How = "values" if distance.bits < distance.differing else "form" if forms else "bits"
        return ParameterChange(how, *keys, shape, y.dtype, detail, distance)
    if forms:
        return ParameterChange("form", *keys, shape, y.dtype, detail, distance)
    kinds = split_key(x.key or "")[0], split_key(y.key or "")[0]
    if kinds[0] != kinds[1]:
        return ParameterChange("renamed", *keys, shape, y.dtype, f"{kinds[0] or 'no'} prefix became {kinds[1] or 'none'}")
    return None


def _form(value: object) -> str:
    if isinstance(value, tuple):
        return format_dims(value)
    return "never filled" if value is None else str(value)
