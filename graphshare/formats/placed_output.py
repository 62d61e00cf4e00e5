"""One output of a transaction: bring it to the disk, put it in place, and put the old file back."""

from __future__ import annotations

import contextlib
import errno
import os

import msgspec

from graphshare.errors import Fault
from graphshare.formats.leftovers import remove, temporary_path
from graphshare.formats.staged_file import StagedFile

_NO_FSYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})


class PlacedOutput(msgspec.Struct, eq=False):
    """An output, the temporary file that has its content, and the backup of what was there."""

    target: str  # as asked for, for messages
    place: str  # where it goes, symbolic links followed; empty when written directly
    temporary: str = ""
    backup: str = ""
    existed: bool = False
    placed: bool = False
    file: StagedFile | None = None
    lock: int = -1  # a descriptor that keeps the lock of the new content

    def note_temporary(self, path: str) -> None:
        """Note the path of the new content."""
        self.temporary = path


def complete(output: PlacedOutput) -> None:
    """Bring the content to the disk and close the file. Raises OSError."""
    assert output.file is not None
    if output.file.closed:
        return
    output.file.flush()
    try:
        os.fsync(output.file.fileno())
    except OSError as error:
        if output.place or error.errno not in _NO_FSYNC:
            raise
    output.file.close()


def put_in_place(output: PlacedOutput) -> None:
    """Keep what was there as a backup, and give the new content its name. Raises OSError."""
    if output.existed:
        backup = temporary_path(output.place, ".old")
        output.backup = backup
        try:
            os.link(output.place, backup)
        except OSError:
            os.replace(output.place, backup)  # a file system without hard links
    os.replace(output.temporary, output.place)
    output.placed = True


def restore(output: PlacedOutput) -> bool:
    """Put back the old file of ``output``; return False when that fails, and then the backup is kept."""
    restored = True
    placed = bool(output.temporary) and output.file is not None and not os.path.lexists(output.temporary)
    if output.backup and os.path.lexists(output.backup):
        restored = _put_back(output)
        if restored:
            remove(output.backup)  # still there when both were names of one file
    elif placed and not output.existed:
        remove(output.place)
    remove(output.temporary)
    return restored


def _put_back(output: PlacedOutput) -> bool:
    for _ in range(3):  # an error may pass
        with contextlib.suppress(OSError):
            os.replace(output.backup, output.place)
            return True
    return False


def explain_lost(output: PlacedOutput) -> Fault:
    """Return the fault of an output that could not be put back."""
    return Fault("could neither be written nor put back", where=output.target, hint=f"the old file is in {output.backup}")


def sync_directory(directory: str) -> None:
    """Bring the names in a directory to the disk, where the file system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # not every file system lets a directory be synchronised
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
