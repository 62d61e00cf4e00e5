"""The parameter formats: which one a file has (by content, never by its name), and the index of a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.files.byte_source import SAMPLE, ByteSource, HeldBytes
from graphshare.files.open_source import GZIP, MAX_UNPACKED, open_source, unpack_gzip, unpack_gzip_start
from graphshare.files.paths import base_name
from graphshare.formats.params.cursor import DAMAGED
from graphshare.formats.params.format import ParameterFormat
from graphshare.formats.params.mxnet_params import MxnetParams
from graphshare.formats.params.npz import Npz
from graphshare.formats.params.onnx import OnnxModel
from graphshare.formats.params.records import ParameterFile
from graphshare.formats.params.safetensors import Safetensors
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean

if TYPE_CHECKING:  # start-up: only a file that is refused needs it
    from graphshare.formats.wrong_file import Wanted

FORMATS: dict[str, ParameterFormat] = {
    format_.name: format_
    for format_ in (
        MxnetParams(),
        Npz(),
        Safetensors(),
    )
}
#: Formats of models that hold their own parameters: they are read, and written as models.
MODELS: dict[str, ParameterFormat] = {OnnxModel.name: OnnxModel()}
SUFFIXES = {format_.suffix: format_ for format_ in FORMATS.values()}
#: What the names of files with arrays end in; an ``.npy`` file holds one array without a name.
ARRAY_ENDINGS = (*SUFFIXES, ".npy")
_START = 16  # bytes that tell a format


def read_index(path: str | os.PathLike[str], *, wanted: Wanted = "parameters") -> ParameterFile:
    """Return the index of the parameter file at ``path`` (``-`` for stdin): names, shapes, dtypes, places. No array is read.

    ``wanted`` is what messages call the file.

    Raises InputError when the file is not a parameter file, is cut short or contradicts itself.
    """
    with open_source(
        path, endings=(*ARRAY_ENDINGS, *(format_.suffix for format_ in MODELS.values())), accepts=_begins_like_parameters
    ) as source:
        content = _unpack_model(source)
        return recognize_format(content, wanted=wanted).index(content)


def _unpack_model(source: ByteSource) -> ByteSource:
    """Return the content of a model that gzip packed, and any other file as it is: arrays are read in place."""
    if source.read_at(0, min(len(GZIP), source.size)) != GZIP:
        return source
    start = HeldBytes(source.name, unpack_gzip_start(source.read_at(0, min(SAMPLE, source.size)), SAMPLE))
    if not any(format_.sniff(start.content) and format_.may_hold_arrays(start) for format_ in MODELS.values()):
        return source
    return HeldBytes(source.name, unpack_gzip(source.read_at(0, min(source.size, MAX_UNPACKED)), where=source.name))


def _begins_like_parameters(start: bytes) -> bool:
    return any(format_.sniff(start[:_START]) for format_ in (*FORMATS.values(), *MODELS.values()))


def find_format(name: str) -> ParameterFormat:
    """Return the format that a :class:`ParameterFile` names."""
    return FORMATS.get(name) or MODELS[name]


def recognize_format(source: ByteSource, *, wanted: Wanted = "parameters") -> ParameterFormat:
    """Return the format of a file, by its first bytes. Raises InputError when no format has such a start."""
    start = source.read_at(0, min(_START, source.size))
    by_magic = sorted(FORMATS.values(), key=lambda format_: not format_.starts)  # a magic number decides before any other sign
    for format_ in (*by_magic, *MODELS.values()):
        if format_.sniff(start) and format_.may_hold_arrays(source):
            return format_
    from graphshare.formats.wrong_file import refuse_bytes, take_sample  # start-up: only this path needs it

    *most, last = (format_.description or format_.suffix for format_ in FORMATS.values())
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
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    hint = did_you_mean(suffix, SUFFIXES) or f"end it in {', '.join(SUFFIXES)} or give the format"
    raise RefusedError(Fault(f"the suffix {suffix!r} names no format", where=path, hint=hint))


def _explain_cut(start: bytes) -> str:
    """Return what is wrong with a file that ends inside the first bytes of a format; an empty text if none does."""
    if not start:
        return "is empty"
    for format_ in FORMATS.values():
        if any(len(start) < len(whole) and whole.startswith(start) for whole in format_.starts):
            return f"ends after {format_count(len(start), 'byte')}, inside the header of a {format_.suffix} file"
    return ""
