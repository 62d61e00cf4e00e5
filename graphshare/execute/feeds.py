"""What a user gives a graph to compute with: ``--feed`` and ``--shape`` as plain data, and parameters by variable node.

A name may stand for several variables; what is given for it holds for each of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from graphshare.errors import Fault, GraphshareError, InputError, RefusedError, UsageError
from graphshare.formats.params.array_files import read_arrays
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Node
from graphshare.text.names import did_you_mean, split_pair

T = TypeVar("T")
GivenShape = tuple[int | None, ...]
_SHAPE = re.compile(r"\(?\s*((?:(?:\d+|\?)\s*(?:,\s*|$|(?=\))))*)\)?")


def parse_shapes(texts: Iterable[str]) -> dict[str, GivenShape]:
    """``data=1,3,?,?`` by name; ``?`` is a dimension to be found, an empty shape a scalar's.

    Raises:
        UsageError: texts that are no shapes, or several shapes of one name; all are listed.
    """
    found: dict[str, GivenShape] = {}
    faults = []
    for text in texts:
        name, value = split_pair(text) or ("", "")
        match = _SHAPE.fullmatch(value.strip())
        if not name or match is None:
            faults.append(
                Fault(f"--shape {text!r} is no shape", hint="write --shape data=1,3,224,224; ? is a size to be found")
            )
            continue
        parts = [part.strip() for part in match[1].split(",") if part.strip()]
        shape = tuple(None if part == "?" else int(part) for part in parts)
        if found.setdefault(name, shape) != shape:
            faults.append(Fault(f"--shape gives {name!r} two shapes, {found[name]} and {shape}"))
    if faults:
        raise UsageError(faults)
    return found


def parse_feeds(texts: Iterable[str]) -> list[tuple[str, str]]:
    """``NAME=FILE`` as ``(name, path)``; a text without ``=``, or one that is an existing file, as ``("", path)``."""
    found = []
    for text in texts:
        pair = None if os.path.exists(text) else split_pair(text)
        found.append(pair or ("", text))
    return found


def load_feeds(feeds: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The arrays by variable name. A file given for one name holds one array, or one of that name.

    Raises:
        InputError: files that cannot be read; all are listed.
        UsageError: a name is fed twice, or nothing says which array is meant.
    """
    found: dict[str, Any] = {}
    faults: list[Fault] = []
    unreadable: list[Fault] = []
    for name, path in feeds:
        try:
            arrays = read_arrays(path)
        except GraphshareError as error:
            unreadable += error.faults
            continue
        if name:
            arrays = arrays if len(arrays) == 1 else {name: arrays[name]} if name in arrays else {}
            arrays = dict(zip((name,), arrays.values(), strict=False))
        if not arrays or "" in arrays:
            hint = f"--feed NAME={path}" if "" in arrays else "it must hold one array, or one of that name"
            faults.append(Fault(f"--feed does not say which array of {path} is meant for which variable", hint=hint))
            continue
        faults += [Fault(f"--feed gives {key!r} twice", where=path) for key in arrays if key in found]
        found.update(arrays)
    if unreadable:
        raise InputError(unreadable)
    if faults:
        raise UsageError(faults)
    return found


def for_variables(given: Mapping[str, T], variables: Collection[Node], *, option: str) -> dict[Node, T]:
    """What is given by name, by variable node.

    Raises:
        RefusedError: names that belong to no variable; all are listed with similar ones.
    """
    known = {node.name for node in variables}
    faults = []
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"the variables are {', '.join(sorted(known)[:8])}"
            faults.append(Fault(f"{option} {name!r} names no variable", hint=hint))
    if faults:
        raise RefusedError(faults)
    return {node: given[node.name] for node in variables if node.name in given}


def parameter_values(
    variables: Sequence[Node], params: ParameterFile | None, is_auxiliary: Callable[[Node], bool]
) -> dict[Node, Any]:
    """The arrays of the variables that a parameter file holds, mapped where the format allows it; arrays never filled are
    left out."""
    if params is None:
        return {}
    records = RecordsByName(params)
    found = {}
    with ArrayReader(params) as reader:
        for node in variables:
            record = records.of(node, auxiliary=is_auxiliary(node))
            if record is not None and record.shape is not None:
                found[node] = reader.read(record)
    return found
