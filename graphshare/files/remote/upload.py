"""Outputs at URLs: written to local temporary files, then put in place one object after the other.

docs/urls.md has the guarantees. An object appears whole or not at all: object stores show it after
its last part, elsewhere it gets a temporary name and is moved. Readers open the graph first, so it
comes last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from typing import Any

from graphshare.errors import Fault, OutputError
from graphshare.files.paths import exists
from graphshare.files.remote import retries
from graphshare.files.remote.filesystem import (
    RemotePath,
    find_status,
    may_pass,
    translate_error,
    translate_errors,
)
from graphshare.files.staged_file import StagedFile, may_overwrite
from graphshare.text.format import format_count
from graphshare.text.urls import find_scheme, split_url

_STORES = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "r2", "memory"}
)
"""Stores in which an object becomes visible when it is complete."""
_WEB, _ARCHIVE = "a web server", "an archive"
_READ_ONLY = {"http": _WEB, "https": _WEB, "zip": _ARCHIVE, "tar": _ARCHIVE, "libarchive": _ARCHIVE}
_OVERWRITE = "add `gs.overwriting()`; a reader may meanwhile see old and new files together"


class Upload:
    """One output: its bytes are in ``file`` until :meth:`place` puts them at the URL."""

    def __init__(self, url: str, folder: str, *, last: bool) -> None:
        self.url, self.last = url, last
        self._place = RemotePath(url)
        self.is_placed = False
        self.existed = exists(url)
        if self.existed and not may_overwrite():
            raise OutputError(Fault("already exists", where=url, hint=_OVERWRITE))
        path = os.path.join(folder, split_url(url).name)
        if os.path.lexists(path):  # another output has this name, in another folder
            path = os.path.join(tempfile.mkdtemp(dir=folder), split_url(url).name)
        self.file = StagedFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), path, url)

    def place(self) -> None:
        """Write the object. Raises OutputError, and then the object is unchanged."""
        path = self.file.name
        size = os.path.getsize(path)
        delays = () if self._place.is_s3 else retries.DELAYS  # requests to S3 are repeated below
        for delay in (*delays, None):
            try:
                self._put(path)
                break
            except Exception as error:  # file systems are plug-ins and may raise anything
                if find_status(error) == 412 or isinstance(error, FileExistsError):
                    fault = Fault(
                        "was written by another process meanwhile", where=self.url, hint=_OVERWRITE
                    )
                    raise OutputError(fault) from error
                if delay is None or not may_pass(error):
                    raise translate_error(error, self.url, writes=True) from error
                time.sleep(delay)
        self.is_placed = True
        with translate_errors(self.url, writes=True):
            # s3fs forgets an object that it has written; not every file system does.
            self._place.filesystem.invalidate_cache()
            written = self._place.filesystem.info(self._place.path)["size"]
        if written != size:
            message = f"has {format_count(written, 'byte')} after {size:,} were written"
            raise OutputError(Fault(message, where=self.url, hint="does another process write it?"))

    def _put(self, path: str) -> None:
        filesystem: Any = self._place.filesystem
        target = self._place.path
        if self._place.is_s3:
            # With "create" S3 refuses if another process has written the object meanwhile
            # (If-None-Match).
            filesystem.put_file(path, target, mode="overwrite" if self.existed else "create")
        elif self._place.scheme == "memory":
            with open(path, "rb") as file:
                filesystem.pipe_file(target, file.read())
        elif self._place.scheme in _STORES:
            filesystem.put_file(path, target)
        else:
            folder, slash, name = target.rpartition("/")
            temporary = f"{folder}{slash}.graphshare-{os.urandom(8).hex()}-{name}"
            try:
                filesystem.put_file(path, temporary)
                filesystem.mv(temporary, target)
            except BaseException:
                with contextlib.suppress(Exception):  # the first error is the one to report
                    filesystem.rm_file(temporary)
                raise

    def remove(self) -> bool:
        """Remove the object unless it replaced another; return whether the old state is restored."""
        if self.is_placed and not self.existed:
            # A plug-in; the caller reports that it is still there
            with contextlib.suppress(Exception):
                self._place.filesystem.rm_file(self._place.path)
                return True
        return not self.is_placed


class Uploads:
    """The outputs at URLs of one transaction."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="graphshare-")
        self._uploads: list[Upload] = []

    def open(self, url: str, *, last: bool) -> StagedFile:
        """Open a file whose content is written to ``url``. Raises OutputError."""
        refuse_read_only(url)
        upload = Upload(url, self._folder, last=last)
        self._uploads.append(upload)
        return upload.file

    def complete(self) -> None:
        for upload in self._uploads:
            upload.file.close()

    def place(self) -> None:
        """Write all objects. Raises OutputError."""
        for upload in sorted(self._uploads, key=lambda upload: upload.last):
            if not upload.is_placed:
                upload.place()

    def urls(self) -> list[str]:
        return [upload.url for upload in self._uploads]

    def roll_back(self) -> list[Fault]:
        """Remove objects that replaced nothing; return the faults of objects that stay changed."""
        lost = []
        for upload in self._uploads:
            with contextlib.suppress(OSError, OutputError, ValueError):
                upload.file.close()
            if not upload.remove():
                hint = (
                    "an object store keeps no old content unless it has versions"
                    if upload.existed
                    else "remove it"
                )
                lost.append(Fault("was written before the error", where=upload.url, hint=hint))
        self.close()
        return lost

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def refuse_read_only(url: str) -> None:
    """Raise OutputError for a URL that cannot be written."""
    kind = _READ_ONLY.get(find_scheme(url))
    if kind is not None:
        hint = "write to a path or an object store (s3://), and copy it from there"
        raise OutputError(
            Fault(f"cannot be written: {kind} is read-only here", where=url, hint=hint)
        )
