"""Read sets of inputs from a folder; each is a round of a proof."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.execute.prepare.declared_inputs import (
    Declared,
    fits_sizes,
    format_declared,
    list_declared,
)
from graphshare.execute.prepare.prepare import unique_names
from graphshare.files.paths import exists, is_folder, join, list_names, refuse_missing
from graphshare.formats.model_format import find_format
from graphshare.formats.params.array_files import NESTED, read_arrays, read_value
from graphshare.formats.params.narrow_dtypes import (
    NARROW,
    find_numpy_dtype,
    has_bytes_of,
    name_dtype,
    name_wide,
)
from graphshare.ir.graph import Graph
from graphshare.text.names import did_you_mean

_VALUE = re.compile(r"(input|output)_(\d+)")
_UNKNOWN = (None, None)
_ONE = "a set has one array for each input: put one of the files into another folder"
_HINT = "sets are .npz files, .npy files named after inputs, or folders such as test_data_set_0 with input_0.pb"
_RECORDED = (
    "a recorded set is .npz or .npy files with names of outputs too, or a folder such as "
    "test_data_set_0 with output_0.pb"
)


def read_recorded(folder: str, graph: Graph) -> dict[str, Any]:
    """Return a folder's only set with its outputs: ``output_K.pb`` files and arrays by name.

    Outputs of one name are called ``y``, ``y#1`` and so on. Raises InputError as :func:`read_sets`,
    and if there is no output.
    """
    heads = list(graph.heads)
    types = find_format(graph).types.find_types(graph, heads)
    names = unique_names([output_name(head) for head in heads])
    outputs: Declared = {}
    for name, head in zip(names, heads, strict=True):
        place = head.node, head.index
        outputs[name] = types[place].parts if place in types else _UNKNOWN
    reader = _SetReader(graph, outputs)
    _require_folder(folder)
    sets = reader.read_folder(folder)
    if len(sets) > 1:
        reader.faults.append(
            Fault(f"has {len(sets)} sets, and one can be compared", where=folder, hint=_ONE)
        )
    values = sets[0] if sets else {}
    if values.keys().isdisjoint(outputs):
        reader.faults.append(Fault("has no arrays of outputs", where=folder, hint=_RECORDED))
    if reader.faults:
        raise InputError(reader.faults)
    return values


def read_sets(folder: str, graph: Graph) -> list[dict[str, Any]]:
    """Read a folder and its subfolders: ``.npz`` files are sets, a folder's other files are one.

    An ``.npy`` file is named after an input. ``input_K.pb`` is the value of the input that it
    names, or of the K-th: a tensor, a sequence or an optional value, as the model declares.

    Raises:
        InputError: files cannot be read, do not fit the inputs, give an input twice, or are
            missing.
    """
    reader = _SetReader(graph)
    _require_folder(folder)
    sets = [each for place in list_folders(folder) for each in reader.read_folder(place)]
    if reader.faults or not any(sets):
        raise InputError(
            reader.faults or Fault("has no arrays of inputs", where=folder, hint=_HINT)
        )
    return sets


def _require_folder(path: str) -> None:
    if not exists(path):
        raise InputError(refuse_missing(path, _HINT))
    if not is_folder(path):
        raise InputError(Fault("is not a folder", where=path, hint=_HINT))


def list_folders(folder: str) -> list[str]:
    """Return a folder and its subfolders, shorter names first so that numbers are in order."""
    return [folder, *filter(is_folder, _list(folder))]


class _SetReader:
    """Reads declared values: inputs and, if given, ``outputs``. Collects ``faults``."""

    def __init__(self, graph: Graph, outputs: Declared | None = None) -> None:
        self.faults: list[Fault] = []
        self.inputs = list_declared(graph)
        self._graph, self._sides = graph, {"input": self.inputs, "output": outputs or {}}
        self._declared = {**self._sides["output"], **self.inputs}

    def read_folder(self, folder: str) -> list[dict[str, Any]]:
        """Each ``.npz`` file is a set; all other files are one."""
        sets: list[dict[str, Any]] = []
        own: dict[str, Any] = {}
        places: dict[str, str] = {}
        for path in _list(folder):
            stem, ending = os.path.splitext(os.path.basename(path))
            number = _VALUE.fullmatch(stem) if ending == ".pb" else None
            # Outputs are read only if some are wanted.
            is_value = number is not None and (number[1] == "input" or bool(self._sides["output"]))
            if ending not in (".npz", ".npy") and not is_value:
                continue
            try:
                values = read_arrays(path) if number is None else self._read_value(path, number)
            except GraphshareError as error:
                self.faults += error.faults
                continue
            values = {name or stem: value for name, value in values.items()}
            for name, value in values.items():
                self.faults += _find_misfits(self._graph, self._declared, name, value, path)
            if ending == ".npz":
                sets.append(values)
                continue
            # An input that is also an output may be recorded as both.
            on_both_sides = self._sides["output"].keys() & self.inputs.keys()
            for name in values.keys() & own.keys() - on_both_sides:
                message = f"input {name!r} is in {places[name]} too"
                self.faults.append(Fault(message, where=path, hint=_ONE))
            places.update(dict.fromkeys(values, os.path.basename(path)))
            own |= values
        return [*sets, own] if own else sets

    def _read_value(self, path: str, number: re.Match[str]) -> dict[str, Any]:
        """Return a file's value by its own name if the model has it, else by its number's."""
        side, place = number[1], int(number[2])
        declared = self._sides[side]
        kinds: dict[str, str] = {}
        for name, (dtype, _) in declared.items():
            kinds[name] = dtype if dtype is not None and dtype.startswith(NESTED) else ""
        # Test data often has no names; then the file's number counts.
        at_place = next(iter(list(declared)[place:]), "")
        by_kind: dict[str, tuple[str, Any]] = {}
        # The file does not state its value's type; the name decides.
        for kind in dict.fromkeys((kinds.get(at_place, ""), *kinds.values())):
            with suppress(InputError):
                name, value = by_kind[kind] = read_value(path, kind)
                if kinds.get(name) == kind:
                    return {name: value}
        kind = kinds.get(at_place, "")
        if kind not in by_kind:
            by_kind[kind] = read_value(path, kind)
        _, value = by_kind[kind]
        return {at_place: value}


def _list(folder: str) -> list[str]:
    # Shorter names come first, so that numbers are in order.
    return [
        join(folder, name)
        for name in sorted(list_names(folder), key=lambda name: (len(name), name))
    ]


def _find_misfits(
    graph: Graph, declared: Declared, name: str, value: Any, where: str
) -> Iterator[Fault]:
    """The graph must have the value, with this dtype and shape."""
    known = list(declared) or [node.name for node in graph.variables()]
    if name not in known:
        yield Fault(
            f"{name!r} is not an input of the model", where=where, hint=did_you_mean(name, known)
        )
    if not isinstance(value, np.ndarray):
        return
    dtype, shape = declared.get(name, _UNKNOWN)
    # Values of nested types, such as "sequence of float32", were read as declared.
    if dtype is not None and " of " not in dtype:
        if has_bytes_of(value, dtype):
            value = value.view(find_numpy_dtype(dtype))
        own = "string" if value.dtype.kind == "O" else name_dtype(value.dtype)
        # numpy files widen dtypes that numpy lacks.
        is_widened = dtype in NARROW and own == name_wide(dtype)
        if own != dtype and not is_widened:
            yield Fault(f"input {name!r} is {own}, but the model declares {dtype}", where=where)
    if shape is not None and not fits_sizes(value.shape, shape):
        sizes, wanted = format_declared(value.shape), format_declared(shape)
        yield Fault(f"input {name!r} is {sizes}, but the model declares {wanted}", where=where)
