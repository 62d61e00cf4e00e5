"""Sets of inputs from a folder, each a round of a proof."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from graphshare.errors import Fault, GraphshareError, InputError
from graphshare.execute.prepare.declared_inputs import Declared, fits_sizes, format_declared, list_declared
from graphshare.files.paths import is_folder, join, list_names
from graphshare.formats.params.array_files import read_arrays, read_tensor
from graphshare.ir.graph import Graph
from graphshare.ops.kernel import Array
from graphshare.text.names import did_you_mean

_TENSOR = re.compile(r"input_(\d+)")
_ONE = "a set has one array for each input: put one of the files into another folder"
_HINT = "sets are .npz files, .npy files named after inputs, or folders such as test_data_set_0 with input_0.pb"


def read_sets(folder: str, graph: Graph) -> list[dict[str, Array]]:
    """Return the sets of inputs in a folder and the folders in it: each ``.npz`` file, and all others of a folder together.

    An ``.npy`` file has the name of an input; ``input_K.pb`` is a tensor with the name of one, or the K-th input.

    Raises:
        InputError: files cannot be read, do not fit the inputs or give one twice, or there are none; all are listed.
    """
    declared, faults, sets = list_declared(graph), list[Fault](), list[dict[str, Array]]()
    paths = _list(folder) if is_folder(folder) else []
    for place in [folder, *filter(is_folder, paths)] if paths else ():
        own: dict[str, Array] = {}
        places: dict[str, str] = {}
        for path in _list(place):
            stem, ending = os.path.splitext(os.path.basename(path))
            number = _TENSOR.fullmatch(stem) if ending == ".pb" else None
            if ending not in (".npz", ".npy") and number is None:
                continue
            try:
                arrays = read_arrays(path) if number is None else read_tensor(path)
            except GraphshareError as error:
                faults += error.faults
                continue
            if number is not None and not arrays.keys() & declared.keys():
                # Tensors of test data often have no name; the number of the file is then that of the input.
                arrays = {"".join(list(declared)[int(number[1]) :][:1]): array for array in arrays.values()}
            arrays = {name or stem: array for name, array in arrays.items()}
            faults += [fault for name, array in arrays.items() for fault in _find_misfits(graph, declared, name, array, path)]
            if ending == ".npz":
                sets.append(arrays)
                continue
            faults += [
                Fault(f"input {name!r} is in {places[name]} too", where=path, hint=_ONE) for name in arrays if name in own
            ]
            places.update(dict.fromkeys(arrays, os.path.basename(path)))
            own |= arrays
        sets += [own] if own else []
    if faults or not any(sets):
        raise InputError(faults or Fault("has no arrays of inputs", where=folder, hint=_HINT))
    return sets


def _list(folder: str) -> list[str]:
    """Return the paths in a folder, those with shorter names first: numbers in order."""
    return [join(folder, name) for name in sorted(list_names(folder), key=lambda name: (len(name), name))]


def _find_misfits(graph: Graph, declared: Declared, name: str, array: Array, where: str) -> Iterator[Fault]:
    """Yield a fault for an array that is not of an input, or has another dtype or shape than that of the input."""
    known = list(declared) or [node.name for node in graph.variables()]
    dtype, shape = declared.get(name, (None, None))
    if name not in known:
        yield Fault(f"{name!r} is not an input of the model", where=where, hint=did_you_mean(name, known))
    if dtype not in (None, str(array.dtype)):
        yield Fault(f"input {name!r} is {array.dtype}, but the model declares {dtype}", where=where)
    if shape is not None and not fits_sizes(array.shape, shape):
        size = format_declared(array.shape)
        yield Fault(f"input {name!r} is {size}, but the model declares {format_declared(shape)}", where=where)
