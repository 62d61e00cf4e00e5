"""The parameter formats: which one a file has (by content, never by its name), and the index of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.byte_source import DAMAGED, SAMPLE, ByteSource, HeldBytes
from graphshare.files.open_source import GZIP, MAX_UNPACKED, open_source, unpack_gzip, unpack_gzip_start
from graphshare.files.paths import base_name
from graphshare.formats.model_names import ARRAY_ENDINGS, PARAMETER_FORMATS
from graphshare.formats.params.format import ParameterFormat
from graphshare.formats.params.records import ParameterFile
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean

if TYPE_CHECKING:  # start-up: only a file that is refused needs it
    from graphshare.formats.wrong_file import Wanted

#: Formats of models that hold their own parameters: they are read, and written as models.
MODELS = {"onnx": "graphshare.formats.onnx.parameters"}
_START = 16  # bytes that tell a format


def read_index(path: str | os.PathLike[str], *, wanted: Wanted = "parameters") -> ParameterFile:
    """Return the index of the parameter file at ``path`` (``-`` for stdin): names, shapes, dtypes, places. No array is read.

    ``wanted`` is what messages call the file.

    Raises InputError when the file is not a parameter file, is cut short or contradicts itself.
    """
    with open_source(
        path, endings=(*ARRAY_ENDINGS, *(f".{name}" for name in MODELS)), accepts=_begins_like_parameters
    ) as source:
        content = _unpack_model(source)
        return recognize_format(content, wanted=wanted).index(content)


def _unpack_model(source: ByteSource) -> ByteSource:
    """Return the content of a model that gzip packed, and any other file as it is: arrays are read in place."""
    if source.read_at(0, min(len(GZIP), source.size)) != GZIP:
        return source
    start = HeldBytes(source.name, unpack_gzip_start(source.read_at(0, min(SAMPLE, source.size)), SAMPLE))
    if not any(format_.sniff(start.content) and format_.may_hold_arrays(start) for format_ in map(find_format, MODELS)):
        return source
    return HeldBytes(source.name, unpack_gzip(source.read_at(0, min(source.size, MAX_UNPACKED)), where=source.name))


def _begins_like_parameters(start: bytes) -> bool:
    return any(format_.sniff(start[:_START]) for format_ in _iter_formats())


def find_format(name: str) -> ParameterFormat:
    """Return the format that a :class:`ParameterFile` names; it is loaded when it is first asked for."""
    format_: ParameterFormat = import_module(PARAMETER_FORMATS.get(name) or MODELS[name]).FORMAT
    return format_


def list_formats() -> list[ParameterFormat]:
    """Return the formats that are written."""
    return list(map(find_format, PARAMETER_FORMATS))


def _iter_formats() -> Iterator[ParameterFormat]:
    """Yield all formats, each loaded when it is reached: a magic number decides before any other sign."""
    others = []
    for format_ in map(find_format, PARAMETER_FORMATS):
        if format_.starts:
            yield format_
        else:
            others.append(format_)
    yield from others
    yield from map(find_format, MODELS)


def recognize_format(source: ByteSource, *, wanted: Wanted = "parameters") -> ParameterFormat:
    """Return the format of a file, by its first bytes. Raises InputError when no format has such a start."""
    start = source.read_at(0, min(_START, source.size))
    for format_ in _iter_formats():
        if format_.sniff(start) and format_.may_hold_arrays(source):
            return format_
    from graphshare.formats.wrong_file import refuse_bytes, take_sample  # start-up: only this path needs it

    *most, last = (format_.description or format_.suffix for format_ in list_formats())
    known = f"known formats: {', '.join(most)} and {last}"
    if wanted == "arrays":
        known = f"known formats: .npy, {', '.join(most)} and {last}; numpy.save('x.npy', array) writes one array"
    cut = _explain_cut(start)
    if cut:
        raise InputError(Fault(cut, where=source.name, hint=DAMAGED if start else known))
    raise InputError(refuse_bytes(take_sample(source), wanted, where=source.name, known=known))


def choose_format(path: str) -> ParameterFormat:
    """Return the format that a file of this name is written in. Raises RefusedError for a suffix of no format."""
    suffix = os.path.splitext(base_name(path))[1].lower()
    if suffix[1:] in PARAMETER_FORMATS:
        return find_format(suffix[1:])
    endings = [f".{name}" for name in PARAMETER_FORMATS]
    hint = did_you_mean(suffix, endings) or f"end it in {', '.join(endings)} or give the format"
    raise RefusedError(Fault(f"the suffix {suffix!r} names no format", where=path, hint=hint))


def _explain_cut(start: bytes) -> str:
    """Return what is wrong with a file that ends inside the first bytes of a format; an empty text if none does."""
    if not start:
        return "is empty"
    for format_ in list_formats():
        if any(len(start) < len(whole) and whole.startswith(start) for whole in format_.starts):
            return f"ends after {format_count(len(start), 'byte')}, inside the header of a {format_.suffix} file"
    return ""
