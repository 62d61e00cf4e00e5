"""Find the differences between two parameter files: of records by name, then by value."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

import msgspec

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import MODELS
from graphshare.formats.params.records import (
    PRECISIONS,
    STEPS,
    ParameterFile,
    Record,
    find_coarsest,
)
from graphshare.progress import task
from graphshare.text.format import format_dims
from graphshare.text.names import join_key, split_key
from graphshare.text.summary import ShortRepr, Table, format_html

if TYPE_CHECKING:
    from graphshare.formats.params.comparison import Distance

RecordPair = tuple["Record | None", "Record | None"]
How = Literal["equal", "values", "bits", "form", "added", "removed", "renamed"]


class ParameterChange(msgspec.Struct, frozen=True):
    """One parameter in both files. ``old`` and ``new`` are its keys, None if a file lacks it.

    ``how``: ``values`` differ, or only their ``bits`` (0 and -0), or its ``form`` (shape, type,
    storage: see ``detail``), it was ``added``, ``removed``, or only ``renamed`` (``arg:`` became
    ``aux:``).
    """

    how: How
    old: str | None
    new: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    detail: str = ""
    distance: Distance | None = None


class ParameterDiff(ShortRepr, msgspec.Struct, frozen=True, omit_defaults=True):
    """Two parameter files; true when anything differs. ``equal`` counts equal parameters.

    ``near`` counts equal ones that differ within the tolerance, ``across`` parameters of unlike
    dtypes, compared by value, by the dtype whose rounding is allowed. ``missing`` ones were not
    compared: their files do not exist or are too short.
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
        rows = []
        for c in self.changes:
            form = f"{format_dims(c.shape, unknown='never filled')} {c.dtype or ''}".rstrip()
            distance = ""
            if c.distance is not None and c.distance.max_abs is not None:
                distance = f"{c.distance.max_abs:.4g}"
            rows.append((c.how, c.old or "", c.new or "", c.detail or form, distance))
        return Table(("parameter", "old", "new", "what", "max abs"), rows)

    def _repr_html_(self) -> str:
        title = f"parameters: {self.equal:,} equal, {len(self.changes):,} different"
        return format_html(
            title, facts=[("left", self.left), ("right", self.right)], tables=[self.make_table()]
        )


def diff_parameters(
    left: ParameterFile,
    right: ParameterFile,
    pairs: Collection[RecordPair],
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    across_dtypes: bool = False,
    skips_missing: bool = False,
) -> ParameterDiff:
    """Compare the records of ``left`` and ``right``, paired by :func:`pair_records`.

    With ``across_dtypes`` floats of different dtypes are equal up to the rounding of the less
    precise one. With ``skips_missing`` values in missing files are listed; else refused
    (InputError). At most two pieces of an array are in memory.
    """
    from graphshare.formats.params.comparison import compare_records  # start-up: needs numpy

    changes, missing = list[ParameterChange](), list[str]()
    distances, across = list["Distance"](), Counter[str]()

    def measure(old: Record, new: Record, coarsest: str) -> Distance:
        across.update([coarsest] if coarsest else ())
        # Numbers may differ by one step of that dtype
        near_zero, relative = STEPS.get(coarsest, (0.0, 0.0))
        tolerance = {"atol": max(atol, near_zero), "rtol": max(rtol, relative)}
        distances.append(compare_records(b, new, a, old, **tolerance, advance=advance))
        return distances[-1]

    # Names in models have no arg: and aux:
    with_prefixes = not {left.format, right.format} & MODELS.keys()
    size = sum(x.dense_size for x, y in pairs if x is not None and y is not None)
    with (
        ArrayReader(left) as a,
        ArrayReader(right) as b,
        task("comparing parameters", size, "B") as advance,
    ):
        for x, y in pairs:
            if x is None or y is None:
                changes += _describe_unpaired(x, y)
            elif skips_missing and (left.lacks(x) or right.lacks(y)):
                if _find_place(left, x) != _find_place(right, y):
                    missing.append(y.full_name)
            else:
                coarser = _find_coarser(x, y) if across_dtypes else ""
                change = _change(x, y, measure, coarser=coarser, with_prefixes=with_prefixes)
                if change is not None:
                    changes.append(change)
    equal = len(pairs) - len(changes) - len(missing)
    near = sum(distance.is_near for distance in distances)
    return ParameterDiff(
        left.shown_path, right.shown_path, equal, tuple(changes), dict(across), tuple(missing), near
    )


def _find_place(file: ParameterFile, record: Record) -> tuple[object, ...]:
    path = (record.other_file or file).path
    return os.path.realpath(path), record.offset, record.size, record.shape, record.element_type


def pair_records(
    left: ParameterFile,
    right: ParameterFile,
    names: Mapping[str, Sequence[str]],
    *,
    chosen: Collection[str] | None = None,
    left_out: Collection[str] = (),
) -> list[RecordPair]:
    """Pair the records of two files; ``names`` maps a name to its counterparts (by default itself).

    ``chosen`` limits them to pairs with one of these keys; ``left_out`` excludes pairs. Records
    without names are paired by position.
    """
    return [
        pair for pair in _pair_by_name(left, right, names) if _is_selected(pair, chosen, left_out)
    ]


def _pair_by_name(
    left: ParameterFile, right: ParameterFile, names: Mapping[str, Sequence[str]]
) -> Iterator[RecordPair]:
    if not left.named and not right.named:
        yield from zip_longest(left.records, right.records)
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


def _is_selected(
    pair: Iterable[Record | None], chosen: Collection[str] | None, left_out: Collection[str]
) -> bool:
    keys = {record.key for record in pair if record is not None}
    return keys.isdisjoint(left_out) and (chosen is None or not keys.isdisjoint(chosen))


def _describe_unpaired(x: Record | None, y: Record | None) -> Iterator[ParameterChange]:
    if x is not None:
        yield ParameterChange("removed", x.key, None, x.shape, x.dtype)
    if y is not None:
        yield ParameterChange("added", None, y.key, y.shape, y.dtype)


def _find_coarser(x: Record, y: Record) -> str:
    """Return the dtype whose rounding is allowed, for floats of unlike precision."""
    dtypes = {x.dtype, y.dtype}
    if x.shape != y.shape or len(dtypes) == 1 or not dtypes <= {*PRECISIONS}:
        return ""
    return find_coarsest(dtypes)


def _change(
    x: Record,
    y: Record,
    measure: Callable[[Record, Record, str], Distance],
    *,
    coarser: str,
    with_prefixes: bool,
) -> ParameterChange | None:
    parameter = (x.key, y.key, y.shape, y.dtype)
    detail = _describe_forms(x, y, with_dtype=not coarser)
    if x.shape != y.shape or x.shape is None:
        return ParameterChange("form", *parameter, detail) if detail else None
    distance = measure(x, y, coarser)
    if not distance and distance.bits < distance.differing:
        return ParameterChange("values", *parameter, detail, distance)
    if detail:
        return ParameterChange("form", *parameter, detail, distance)
    if not distance:
        return ParameterChange("bits", *parameter, detail, distance)
    if with_prefixes and x.kind != y.kind:
        became = f"{x.kind or 'no'} prefix became {y.kind or 'none'}"
        return ParameterChange("renamed", *parameter, became)
    return None


def _describe_forms(x: Record, y: Record, *, with_dtype: bool) -> str:
    facts: dict[str, tuple[object, object]] = {"shape": (x.shape, y.shape)}
    if with_dtype:
        facts["type"] = x.element_type, y.element_type
    facts["storage"] = x.storage, y.storage
    return "; ".join(
        f"{what} {_form(old)} became {_form(new)}"
        for what, (old, new) in facts.items()
        if old != new
    )


def _form(value: object) -> str:
    if isinstance(value, tuple):
        return format_dims(value)
    return "never filled" if value is None else str(value)
