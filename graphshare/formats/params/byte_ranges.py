"""Copy and compare ranges of bytes: in the system if it can, else through a buffer of constant
size.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from graphshare.files.byte_source import ByteSource, raise_shrunk
from graphshare.formats.params.format import CHUNK
from graphshare.progress import Advance, noop_progress

Range = tuple[int, int]
"""Offset and size in bytes."""

# Bytes per system call: a signal is never waited for long, and the disk starts early
_SYSTEM_CHUNK = 1 << 24

# The system's errors when it cannot copy between these files itself. Others are failures.
_CANNOT = frozenset(
    {
        errno.EXDEV,
        errno.EINVAL,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
        errno.EBADF,
        errno.EPERM,
        errno.ETXTBSY,
    }
)


def coalesce(ranges: Iterable[Range]) -> Iterator[Range]:
    """Join neighbouring ranges and drop empty ones."""
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


def copy_ranges(
    source: ByteSource, ranges: Iterable[Range], out: BinaryIO, *, advance: Advance = noop_progress
) -> None:
    """Append ``ranges`` of ``source`` to ``out``; ``advance`` receives the number of bytes copied.

    Raises InputError when the source is shorter than a range, OSError when writing fails.
    """
    # The system writes to the descriptor itself: buffered bytes must come first.
    out.flush()
    descriptor = source.descriptor()
    target = _descriptor(out)
    for offset, size in coalesce(ranges):
        done = 0
        if descriptor is not None and target is not None:
            done = _copy_in_system(source.name, descriptor, offset, size, target, advance)
        if done < size:
            # The system cannot copy these files: later ranges go through the buffer as well.
            target = None
            _copy_through_buffer(source, offset + done, size - done, out, advance)
    if target is not None and out.seekable():
        # The buffered writer must take over the new position of its descriptor
        out.seek(0, os.SEEK_CUR)


def _descriptor(out: BinaryIO) -> int | None:
    if not hasattr(os, "copy_file_range"):
        return None
    try:
        return out.fileno()
    except (OSError, AttributeError):
        return None


def _copy_in_system(
    name: str, source: int, offset: int, size: int, target: int, advance: Advance
) -> int:
    """Copy within the kernel; return the number of bytes, less than ``size`` if it cannot."""
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(
                source, target, min(size - done, _SYSTEM_CHUNK), offset + done
            )
        except OSError as error:
            if error.errno in _CANNOT:
                return done
            raise
        if count == 0:
            if os.fstat(source).st_size >= offset + size:
                return done  # some file systems answer 0 for bytes that they cannot copy
            raise_shrunk(name, offset + done)
        done += count
        advance(count)
        _start_writing(target, count)
    return done


def _start_writing(target: int, count: int) -> None:
    """Let the disk begin with the last ``count`` bytes, so that the closing fsync has little left
    to do.

    On Linux this advice starts writing dirty pages out (and drops clean ones: the output is not
    read again soon).
    """
    if count < _SYSTEM_CHUNK or not hasattr(os, "posix_fadvise"):
        return
    with contextlib.suppress(OSError):  # a pipe has neither place nor pages
        end = os.lseek(target, 0, os.SEEK_CUR)
        os.posix_fadvise(target, end - count, count, os.POSIX_FADV_DONTNEED)


def _copy_through_buffer(
    source: ByteSource, offset: int, size: int, out: BinaryIO, advance: Advance
) -> None:
    if out.seekable():
        out.seek(0, os.SEEK_CUR)
    for start in range(offset, offset + size, CHUNK):
        data = source.read_at(start, min(CHUNK, offset + size - start))
        write_all(out, data)
        advance(len(data))


def write_all(out: BinaryIO, data: bytes | memoryview) -> None:
    """Write every byte: an unbuffered file may take fewer than it gets."""
    view = memoryview(data)
    while view:
        count = out.write(view)
        if count is None:
            raise BlockingIOError(errno.EAGAIN, "the output would block")
        view = view[count:]


def first_difference(
    source: ByteSource, offset: int, other: ByteSource, other_offset: int, size: int
) -> int | None:
    """Return the offset of the first difference; None when equal."""
    for start in range(0, size, CHUNK):
        count = min(CHUNK, size - start)
        left, right = (
            source.read_at(offset + start, count),
            other.read_at(other_offset + start, count),
        )
        if left != right:
            return start + next(
                i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b
            )
    return None
