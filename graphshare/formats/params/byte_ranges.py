"""Copying and comparing ranges of bytes between files: unread by Python where the system can, in flat memory otherwise."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import BinaryIO

from graphshare.errors import Fault, InputError
from graphshare.formats.params.records import ParameterFile
from graphshare.progress import Advance, noop_progress

Range = tuple[int, int]
"""Offset and size in bytes."""

CHUNK = 1 << 20  # bytes per read and write where the system cannot copy by itself
_SYSTEM_CHUNK = 1 << 24  # bytes per system call: a signal is never waited for long, and the disk starts early

# What the system answers when it cannot copy between these two files itself. Anything else is a failure.
_CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM, errno.ETXTBSY})


def open_unchanged(file: ParameterFile) -> FileIO:
    """``file`` open for reading, unbuffered. Raises InputError when it is gone or has another size than when it was indexed."""
    try:
        opened = FileIO(file.path)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", where=file.path)) from error
    if os.fstat(opened.fileno()).st_size != file.size:
        opened.close()
        raise InputError(Fault("changed since it was indexed", where=file.path, hint="something else is writing this file"))
    return opened


def coalesced(ranges: Iterable[Range]) -> Iterator[Range]:
    """The same bytes in the same order with neighbours joined and empty ranges left out."""
    start = end = 0
    for offset, size in ranges:
        if offset == end or not size:
            end += size
            continue
        if end > start:
            yield start, end - start
        start, end = offset, offset + size
    if end > start:
        yield start, end - start


def copy_ranges(source: FileIO, path: str, ranges: Iterable[Range], out: BinaryIO, *, advance: Advance = noop_progress) -> int:
    """Append ``ranges`` of the file ``source`` to ``out``; returns the number of bytes.

    ``path`` names the source in complaints; ``advance`` is told of the bytes as they go. Raises InputError when the source is
    shorter than a range, OSError when writing fails.
    """
    out.flush()
    target = _descriptor(out)
    copied = 0
    for offset, size in coalesced(ranges):
        done = _copy_in_system(source.fileno(), offset, size, target, path, advance) if target is not None else 0
        if done < size:
            target = None
            _copy_through_buffer(source, offset + done, size - done, out, path, advance)
        copied += size
    if target is not None and out.seekable():
        out.seek(0, os.SEEK_CUR)  # a buffered writer must learn that the file moved on beneath it
    return copied


def _descriptor(out: BinaryIO) -> int | None:
    if not hasattr(os, "copy_file_range"):
        return None
    try:
        return out.fileno()
    except (OSError, AttributeError):
        return None


def _copy_in_system(source: int, offset: int, size: int, target: int, path: str, advance: Advance) -> int:
    """Copy within the kernel; returns how many bytes that did, less than ``size`` where it cannot."""
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(source, target, min(size - done, _SYSTEM_CHUNK), offset + done)
        except OSError as error:
            if error.errno in _CANNOT:
                return done
            raise
        if count == 0:
            if os.fstat(source).st_size >= offset + size:
                return done  # some file systems answer 0 for what they cannot copy
            raise _shrank(path, offset + done)
        done += count
        advance(count)
        _start_writing(target, count)
    return done


def _start_writing(target: int, count: int) -> None:
    """Let the disk begin with the last ``count`` bytes, so that the closing fsync finds little left to do.

    On Linux this advice starts writing dirty pages out (and drops clean ones of the output, which nobody reads again soon).
    Measured with ``benchmarks/params_duplicate.py``: about two thirds of the time without it.
    """
    if count < _SYSTEM_CHUNK or not hasattr(os, "posix_fadvise"):
        return
    with contextlib.suppress(OSError):  # a pipe has neither place nor pages
        end = os.lseek(target, 0, os.SEEK_CUR)
        os.posix_fadvise(target, end - count, count, os.POSIX_FADV_DONTNEED)


def _copy_through_buffer(source: FileIO, offset: int, size: int, out: BinaryIO, path: str, advance: Advance) -> None:
    if out.seekable():
        out.seek(0, os.SEEK_CUR)
    buffer = bytearray(min(CHUNK, size))
    view = memoryview(buffer)
    done = 0
    source.seek(offset)
    while done < size:
        count = source.readinto(view[: min(len(buffer), size - done)])
        if not count:
            raise _shrank(path, offset + done)
        write_all(out, view[:count])
        done += count
        advance(count)


def write_all(out: BinaryIO, data: bytes | memoryview) -> None:
    """Write every byte, also to an unbuffered file, which may take less than it is given."""
    view = memoryview(data)
    while view:
        count = out.write(view)
        if count is None:
            raise BlockingIOError(errno.EAGAIN, "the output would block")
        view = view[count:]


def first_difference(source: BinaryIO, offset: int, size: int, other: BinaryIO, other_offset: int) -> int | None:
    """How many bytes into the two ranges they first differ (a missing byte differs); None when they are equal."""
    done = 0
    source.seek(offset)
    other.seek(other_offset)
    while done < size:
        count = min(CHUNK, size - done)
        left, right = source.read(count), other.read(count)
        if left != right or not left:
            same = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
            return done + same
        done += len(left)
    return None


def _shrank(path: str, at: int) -> InputError:
    return InputError(
        Fault("shrank while it was being copied", where=path, path=f"byte {at}", hint="something else is writing this file")
    )
