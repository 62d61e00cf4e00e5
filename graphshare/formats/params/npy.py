"""The header of an ``.npy`` array, read and written; nothing is ever unpickled.

The format::

    0   6   93 4E 55 4D 50 59  (0x93, "NUMPY")
    6   2   version: major 1, 2 or 3, minor 0
    8   2   uint16 header length (version 1); uint32, 4 bytes, from version 2 on
    ..  ..  the header: a Python dict literal with 'descr', 'fortran_order' and 'shape'; Latin-1, UTF-8 in version 3
    ..  ..  the elements
"""

from __future__ import annotations

import ast
import re
from typing import IO

import msgspec

from graphshare.errors import InputError
from graphshare.formats.params.records import DTYPES, ITEM_SIZES, MAX_RANK
from graphshare.text.format import format_count, shorten

MAX_HEADER_SIZE = 10_000  # numpy's own limit
MAGIC = b"\x93NUMPY"
_LONG_LITERAL = re.compile(r"(\d)L\b")  # Python 2 wrote shapes as (3L, 4L)

_DTYPES = {codes.npy[1:]: dtype for dtype, codes in DTYPES.items() if codes.npy}


class NpyHeader(msgspec.Struct, frozen=True):
    """What an ``.npy`` header says; ``size`` is its length in bytes, the magic included."""

    shape: tuple[int, ...]
    dtype: str
    fortran_order: bool
    big_endian: bool
    size: int


def read_npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header at the start of ``stream`` and no more. Raises InputError."""
    start = stream.read(8)
    if start[:6] != MAGIC or len(start) < 8:
        raise InputError("is not an .npy array")
    if start[6] not in (1, 2, 3) or start[7] != 0:
        raise InputError(f"has .npy version {start[6]}.{start[7]}; known are 1.0, 2.0 and 3.0")
    width = 2 if start[6] == 1 else 4
    length_field = stream.read(width)
    length = int.from_bytes(length_field, "little")
    if len(length_field) < width or length > MAX_HEADER_SIZE:
        raise InputError(f"has an .npy header of {format_count(length, 'byte')}; more than {MAX_HEADER_SIZE:,} are not read")
    raw = stream.read(length)
    if len(raw) < length:
        raise InputError("ends inside its .npy header")
    descr, fortran, shape = _parse_header(raw.decode("utf-8" if start[6] == 3 else "latin-1", "replace"))
    dtype = _DTYPES.get(descr[1:])
    if dtype is None or descr[0] not in "<>|=":
        raise _refuse_dtype(descr)
    big = descr[0] == ">" and ITEM_SIZES[dtype] > 1
    return NpyHeader(shape, dtype, fortran and len(shape) > 1, big, 8 + width + length)


def _parse_header(text: str) -> tuple[str, bool, tuple[int, ...]]:
    header = None
    for candidate in (text, _LONG_LITERAL.sub(r"\1", text)):
        try:
            header = ast.literal_eval(candidate.strip())
            break
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise InputError("has an .npy header that is not a dict of 'descr', 'fortran_order' and 'shape'")
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(descr, str) or len(descr) < 2:
        raise _refuse_dtype(descr)
    if not isinstance(fortran, bool):
        raise InputError("has an .npy header whose 'fortran_order' is not True or False")
    if not isinstance(shape, tuple) or not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
        raise InputError("has an .npy header whose 'shape' is not a tuple of counts")
    if len(shape) > MAX_RANK:
        raise InputError(f"has rank {len(shape)}; ranks go up to {MAX_RANK}")
    return descr, fortran, shape


def _refuse_dtype(descr: object) -> InputError:
    if isinstance(descr, str) and "O" in descr[:2]:
        return InputError(
            "holds pickled Python objects, which are never unpickled", hint="save plain numeric arrays (no dtype=object)"
        )
    message = f"has dtype {shorten(repr(descr), 80)}, which is not numeric"
    return InputError(message, hint="save it as a numeric dtype, such as float32")


def encode_npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return the header of a little-endian C-order array, padded so that the data starts at a multiple of 64 bytes."""
    dims = "".join(f"{size}, " for size in shape)
    dims = dims.rstrip() if len(shape) == 1 else dims.removesuffix(", ")
    text = f"{{'descr': '{DTYPES[dtype].npy}', 'fortran_order': False, 'shape': ({dims}), }}"
    padding = -(len(text) + 11) % 64
    length = len(text) + padding + 1
    return MAGIC + b"\x01\x00" + length.to_bytes(2, "little") + text.encode("ascii") + b" " * padding + b"\n"
