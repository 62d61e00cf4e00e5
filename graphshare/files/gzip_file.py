"""What a gzip file holds: its first bytes, or all of it up to a bound."""

from __future__ import annotations

from graphshare.errors import Fault, InputError
from graphshare.files.open_source import read_file

_AGAIN = "fetch or save it again"
MAGIC = b"\x1f\x8b"
#: A symbol file of a million nodes has 200 MB. A gzip file of 260 kB can hold as much, so there must be a bound.
MAX_UNPACKED = 1 << 28


def unpack_start(data: bytes, size: int) -> bytes:
    """Return up to ``size`` bytes from the start of what a gzip file holds; ``data`` are its first bytes."""
    import zlib  # start-up: only gzip files need it

    try:
        return zlib.decompressobj(wbits=31).decompress(data, size)
    except zlib.error:
        return b""


def unpack(data: bytes, *, where: str) -> bytes:
    """Return what a gzip file holds, all of its members.

    Raises:
        InputError: it is damaged or cut short, or holds more than ``MAX_UNPACKED`` bytes.
    """
    import gzip  # start-up: only gzip files need it
    import io
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(MAX_UNPACKED + 1)
    except EOFError:
        raise InputError(Fault("ends inside its gzip data: the file is truncated", where=where, hint=_AGAIN)) from None
    except (OSError, zlib.error) as error:
        raise InputError(Fault(f"is damaged: gzip reports {error}", where=where, hint=_AGAIN)) from None
    if len(unpacked) > MAX_UNPACKED:
        hint = "if it is a symbol file, unpack it with gunzip: a plain file may be larger"
        raise InputError(Fault(f"unpacks to more than {MAX_UNPACKED >> 20} MiB", where=where, hint=hint))
    return unpacked


def is_gzip(path: str) -> bool:
    """Return whether the file at ``path`` is compressed with gzip."""
    return read_file(path, most=len(MAGIC)) == MAGIC
