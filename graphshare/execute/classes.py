"""The classes of a classifier: the largest scores of an output, with their labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.execute.prepare.variable_values import as_array
from graphshare.files.open_source import open_source
from graphshare.formats.params.narrow_dtypes import widen
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_dims

MAX_LABEL_BYTES = 1 << 24


class ClassScore(msgspec.Struct, frozen=True):
    """A class by number and label, and its score, None if not finite."""

    index: int
    label: str | None
    score: float | None


class Ranking(msgspec.Struct, frozen=True):
    """The best classes of one sample, best first; ``image`` is its file, None without images."""

    output: str
    sample: int
    image: str | None
    classes: tuple[ClassScore, ...]


def select_scores(outputs: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Array]:
    """Return the outputs that are scores, as (N, classes); one for each of ``names``, if given.

    Raises:
        RefusedError: no output has that form.
    """
    outputs = {name: value for name, value in outputs.items() if not _has_no_scores(value)}
    fitting: dict[str, Array] = {}
    for name, value in outputs.items():
        if isinstance(value, np.ndarray):
            value = widen(value)
        rows = _as_rows(as_array(value))
        if rows is None:
            continue
        if names is None or rows.shape[1] == len(names):
            fitting[name] = rows
    if not fitting:
        raise _refuse_outputs(outputs, names)
    return fitting


def _refuse_outputs(outputs: Mapping[str, Any], names: Sequence[str] | None) -> RefusedError:
    shapes = ", ".join(f"{name} {format_dims(np.shape(value))}" for name, value in outputs.items())
    wanted, hint = "rows of scores", "choose the output with `targets`"
    if names is not None:
        wanted = f"rows of {format_count(len(names), 'score')}"
        hint += ", or the labels of this network"
    message = f"no output has {wanted}, one for each class; the outputs are {shapes}"
    return RefusedError(Fault(message, hint=hint))


def _has_no_scores(value: Any) -> bool:
    """Return whether an output has no numbers: texts, a sequence, a map or nothing."""
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "O")
    if isinstance(value, list):
        return any(hasattr(item, "dtype") for item in value)
    return value is None or isinstance(value, dict)


def read_labels(path: str | os.PathLike[str]) -> list[str]:
    """Return the lines of a text file (UTF-8) without empty ones at the end. Raises InputError."""
    with open_source(path, endings=(".txt",)) as source:
        if source.size > MAX_LABEL_BYTES:
            raise InputError(
                Fault(
                    f"has {format_count(source.size, 'byte')}; a file of labels may have {MAX_LABEL_BYTES:,}",
                    where=source.name,
                )
            )
        data = source.read_at(0, source.size)
    hint = "labels are text in UTF-8, one per line"
    try:
        # Editors on Windows may begin a text with a byte order mark.
        labels = [line.strip() for line in data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise InputError(
            Fault("is not text in UTF-8", where=str(path), path=f"byte {error.start}", hint=hint)
        ) from error
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise InputError(Fault("contains no labels", where=str(path), hint=hint))
    return labels


def _as_rows(array: Array) -> Array | None:
    if array.ndim < 2 or any(size != 1 for size in array.shape[2:]):
        return None
    # A single column is a regression or one probability: it ranks nothing.
    return array.reshape(array.shape[:2]) if array.shape[1] > 1 else None


def find_best(row: Array, top: int, names: Sequence[str] | None) -> tuple[ClassScore, ...]:
    """Return the ``top`` classes of a row of scores, best first."""
    # A stable sort of negated scores keeps equal ones by number, and NaN comes last.
    order = np.argsort(-row.astype(np.float64), kind="stable")[:top]
    best: list[ClassScore] = []
    for index in map(int, order):
        label = None if names is None else names[index]
        score = float(row[index]) if np.isfinite(row[index]) else None
        best.append(ClassScore(index, label, score))
    return tuple(best)
