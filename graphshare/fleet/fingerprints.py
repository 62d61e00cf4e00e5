"""What tells one content of a model's file from another: SHA-256 of local files, the tag or time that a store knows."""

from __future__ import annotations

import os

from graphshare.errors import Fault, InputError
from graphshare.fleet.records import FileState
from graphshare.formats.byte_source import ListedFile
from graphshare.formats.paths import describe_file
from graphshare.text.urls import is_url

_PIECE = 1 << 20


def describe_state(path: str, listed: ListedFile | None) -> FileState:
    """Return the state of a file; of a URL what its listing says, if that says it all. Raises InputError."""
    if is_url(path):
        known = listed if listed is not None and listed.version and listed.size >= 0 else describe_file(path)
        return FileState(path, known.size, etag=known.version)
    from hashlib import sha256  # takes time to import

    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            digest = sha256()
            while piece := file.read(_PIECE):
                digest.update(piece)
    except (OSError, ValueError) as error:
        raise InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=path)) from error
    return FileState(path, status.st_size, digest.hexdigest(), modified=status.st_mtime_ns)


def is_unchanged(state: FileState, path: str, listed: ListedFile | None) -> bool:
    """Return whether a file still has the content of ``state``; a local one is read only if its size or time is another."""
    if is_url(path):
        now = describe_state(path, listed)
        return bool(now.etag) and (now.size, now.etag) == (state.size, state.etag)
    try:
        status = os.stat(path)
        if status.st_size != state.size:
            return False
        return status.st_mtime_ns == state.modified or describe_state(path, None).sha256 == state.sha256
    except (OSError, InputError):
        return False
