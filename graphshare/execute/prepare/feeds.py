"""The user's values for a graph: ``--feed`` as plain data, and parameters by variable node.

A value holds for every variable of its name.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import msgspec

from graphshare.analysis.roles import Kind, Role
from graphshare.errors import Fault, GraphshareError, InputError, RefusedError, UsageError
from graphshare.files.paths import find_identity, is_folder
from graphshare.formats.content_tests import is_image
from graphshare.formats.images.header import ENDINGS as IMAGE_ENDINGS
from graphshare.formats.images.header import read_start
from graphshare.formats.images.images import Images, open_image_files
from graphshare.formats.images.settings import ImageSettings
from graphshare.formats.model_names import ARRAY_ENDINGS
from graphshare.formats.params.array_files import ValueFile, read_arrays, read_value
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Node
from graphshare.text.markup import quote_shell
from graphshare.text.names import did_you_mean, find_numbered, split_pair
from graphshare.text.urls import is_url, local_path

T = TypeVar("T")
GivenShape = tuple[int | None, ...]
_ENDINGS = (*ARRAY_ENDINGS, *IMAGE_ENDINGS)


def parse_feeds(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Parse ``NAME=FILE`` into ``(name, path)``; texts without ``=`` and existing paths into ``("", path)``."""
    pairs = []
    for text in texts:
        # A path or a URL may contain an =.
        pair = None if is_url(text) or os.path.exists(text) else split_pair(text)
        if pair is None:
            pairs.append(("", text))
        else:
            name, path = pair
            pairs.append((name, local_path(path)))
    return pairs


def load_feeds(
    feeds: Iterable[tuple[str, str]], images: ImageSettings | None = None
) -> dict[str, Any]:
    """Load arrays by variable name. A named file has one array, or one of that name; a number is
    itself.

    Images, and folders of them, are prepared by ``images`` (by default not at all) and decoded when
    needed.

    Raises:
        InputError: files that cannot be read; all are listed.
        UsageError: a name is fed twice, or an array's variable is unknown.
    """
    loaded: dict[str, Any] = {}
    faults: list[Fault] = []
    unreadable: list[Fault] = []
    for name, path in feeds:
        try:
            arrays = _read_feed(name, path, images or ImageSettings())
        except GraphshareError as error:
            unreadable += error.faults
            continue
        if not arrays or "" in arrays:
            hint = "it must hold one array, or one of that name"
            if arrays:
                hint = f"--feed NAME={quote_shell(path)}"
            message = f"it is not clear which array of {path} belongs to which variable"
            faults.append(Fault(message, hint=hint))
            continue
        repeated = [key for key in arrays if key in loaded]
        faults += [Fault(f"--feed gives {key!r} twice", where=path) for key in repeated]
        loaded.update(arrays)
    if unreadable:
        raise InputError(unreadable)
    if images is not None and not any(isinstance(value, Images) for value in loaded.values()):
        hint = (
            "feed an image, as in --feed data=cat.jpg, or leave --resize, --mean and the like out"
        )
        faults.append(Fault("there are options for images, but no --feed is an image", hint=hint))
    if faults:
        raise UsageError(faults)
    return loaded


def _select_array(arrays: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the only array, or the one of that name, if any, under ``name``."""
    if len(arrays) == 1:
        (array,) = arrays.values()
        return {name: array}
    return {name: arrays[name]} if name in arrays else {}


def _read_value(text: str) -> dict[str, Any]:
    """Return a text's number or list of numbers, if any, under an empty name."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return {"": value} if isinstance(value, int | float | list) else {}


def _read_value_file(path: str, name: str) -> dict[str, Any]:
    """Return an ONNX file's value, if any, under ``name`` or the tensor's name."""
    if not path.lower().endswith(".pb"):
        return {}
    return {name: ValueFile(path)} if name else dict([read_value(path)])


def _read_images(path: str, settings: ImageSettings) -> dict[str, Any]:
    """Return the images of a file or folder, if any, under an empty name."""
    has_image_path = is_folder(path) or path.lower().endswith(IMAGE_ENDINGS)
    if has_image_path or is_image(read_start(path, endings=_ENDINGS)):
        return {"": open_image_files([path], settings)}
    return {}


def _read_feed(name: str, path: str, images: ImageSettings) -> dict[str, Any]:
    # A file whose name is a number is a file.
    value = _read_value(path) if name and not os.path.exists(path) else {}
    arrays = value or _read_value_file(path, name) or _read_images(path, images)
    if not arrays:
        arrays = read_arrays(path)
    return _select_array(arrays, name) if name else arrays


def for_variables(
    by_name: Mapping[str, T], variables: Collection[Node], *, option: str
) -> dict[Node, T]:
    """Return values by variable node; ``NAME#1`` is the second variable of a name.

    Raises:
        RefusedError: names that belong to no variable; all are listed with similar ones.
    """
    known: dict[str, list[Node]] = {}
    for node in dict.fromkeys(variables):
        known.setdefault(node.name, []).append(node)
    values = {node: by_name[node.name] for node in variables if node.name in by_name}
    faults = []
    for name, value in by_name.items():
        numbered = find_numbered(name, known)
        if numbered is not None:
            values[numbered] = value
        elif name not in known:
            hint = did_you_mean(name, known) or f"the variables are {', '.join(sorted(known)[:8])}"
            faults.append(Fault(f"{option} {name!r} names no variable", hint=hint))
    if faults:
        raise RefusedError(faults)
    return values


def parameter_values(
    variables: Sequence[Node],
    params: ParameterFile | None,
    auxiliary: Collection[Node],
    *,
    shared: MutableMapping[Any, Any] | None = None,
) -> dict[Node, Any]:
    """Return the arrays of variables in a parameter file, without arrays that were never filled.

    Those in ``auxiliary`` are looked up among the auxiliary states first. ``shared`` caches
    unconverted, read-only arrays by their place in the file.
    """
    if params is None or not variables:
        return {}
    records = RecordsByName(params)
    values = {}
    identity = None if shared is None else find_identity(params.path)
    with ArrayReader(params, together=True) as reader:
        for node in variables:
            record = records.of(node, auxiliary=node in auxiliary)
            if record is None or record.shape is None:
                continue
            if shared is None or identity is None or record.origin is not None:
                values[node] = reader.read(record)
                continue
            # By place: tied names share one array, and a replaced file counts as new.
            key = (identity, params.identity, record.data_offset, record.shape, record.dtype)
            array = shared.get(key)
            values[node] = reader.read(record) if array is None else array
            # A writable array was converted for this caller, and may change.
            if not values[node].flags.writeable:
                shared[key] = values[node]
    return values


class Recorded(msgspec.Struct, frozen=True, eq=False):
    """Shapes and dtypes of variables in a parameter file; bfloat16 is computed as float32."""

    shapes: dict[Node, GivenShape] = {}
    types: dict[Node, str] = {}


def read_recorded_shapes(
    variables: Sequence[Node], params: ParameterFile | None, roles: Mapping[Node, Role]
) -> Recorded:
    """Return the shapes and dtypes that a parameter file states."""
    recorded = Recorded()
    if params is None:
        return recorded
    records = RecordsByName(params)
    for node in variables:
        record = records.of(node, auxiliary=roles[node].kind is Kind.AUXILIARY)
        if record is not None and record.shape is not None:
            recorded.shapes[node] = record.shape
            dtype = record.dtype or "float32"
            recorded.types[node] = "float32" if dtype == "bfloat16" else dtype
    return recorded
