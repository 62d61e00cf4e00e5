"""Parameter files of every format: which one it is (by content, never by its name), and its index."""

from __future__ import annotations

import os
import stat

from graphshare.errors import Fault, InputError
from graphshare.formats.nearby import ARRAYS, meant
from graphshare.formats.params.mxnet import MAGIC, read_params_index
from graphshare.formats.params.records import Format, ParameterFile

_PARAMS_START = MAGIC.to_bytes(8, "little")
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")  # a member's header; the end record of an empty archive


def read_index(path: str | os.PathLike[str]) -> ParameterFile:
    """The index of the parameter file at ``path``: names, shapes, types, places; no array is read.

    Raises InputError when it is no parameter file, is cut short or holds what cannot be.
    """
    path = os.fspath(path)
    found = detect_format(path)
    if found == "params":
        return read_params_index(path)
    if found == "npz":
        from graphshare.formats.params.npz import read_npz_index

        return read_npz_index(path)
    from graphshare.formats.params.safetensors import read_safetensors_index

    return read_safetensors_index(path)


def detect_format(path: str) -> Format:
    """Which format the file at ``path`` has, by its first bytes. Raises InputError when none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            kind = "a directory" if os.path.isdir(path) else "not a regular file"
            raise InputError(Fault(f"is {kind}", where=path, hint="parameter files are read by seeking: give a file"))
        with open(path, "rb") as file:
            start = file.read(16)
    except FileNotFoundError as error:
        raise InputError(Fault("does not exist", where=path, hint=meant(path, ARRAYS))) from error
    except (OSError, ValueError) as error:
        raise InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)) from error
    if start.startswith(_PARAMS_START):
        return "params"
    if start.startswith(_ZIP_STARTS):
        return "npz"
    if len(start) > 8 and start[8:9] == b"{" and 0 < int.from_bytes(start[:8], "little") < 1 << 40:
        return "safetensors"
    raise InputError(Fault(_unknown(start), where=path, hint="known are .params (mx.nd.save), .npz and .safetensors"))


def _unknown(start: bytes) -> str:
    if not start:
        return "is empty"
    if len(start) < 8 and _PARAMS_START.startswith(start):
        return f"ends after {len(start)} bytes, inside the header of a .params file"
    if start.startswith(b"\x93NUMPY"):
        return "is a single .npy array, not a parameter file"
    if start.lstrip()[:1] in (b"{", b"["):
        return "is JSON, not a parameter file"
    return f"is not a parameter file: it starts with {start[:8].hex(' ')}"
