"""Write several files as one: all of them appear complete, or none does.

docs/how-it-works.md describes the steps. Recovery covers errors, full disks and signals that become
exceptions, but not a power cut between two renames. URLs are uploaded after all local files are in
place (:mod:`graphshare.files.remote.upload`); pipes and devices are written directly, and flushed
before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from graphshare.errors import Fault, OutputError, RefusedError
from graphshare.files.leftovers import (
    close,
    create_locked,
    list_temporaries,
    remove,
    remove_leftovers,
    temporary_path,
)
from graphshare.files.paths import exists, find_identity, is_snapshot
from graphshare.files.staged_file import StagedFile, find_descriptor, note_output, output_error
from graphshare.text.markup import quote_shell, write_path
from graphshare.text.urls import is_url

if TYPE_CHECKING:
    from graphshare.files.remote.upload import Uploads

# SIGINT is last: an interrupt while handlers are restored finds the others in place.
_SIGNALS = ("SIGHUP", "SIGTERM", "SIGINT")

_LISTED = 5  # links

# The errors of fsync() for pipes, sockets and devices.
_NO_FSYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})


class OutputTransaction:
    """Several outputs as one: a context manager that changes nothing without ``commit``."""

    def __init__(self) -> None:
        self._outputs: list[_PlacedOutput] = []
        self._streams: dict[
            tuple[int, int], str
        ] = {}  # files, pipes and sockets that are written directly
        self._temporaries: dict[
            str, list[str]
        ] = {}  # by directory, listed before this transaction makes its own
        self._uploads: Uploads | None = None

    def __enter__(self) -> OutputTransaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._outputs or self._uploads is not None:
            with _hold_signals():
                self._roll_back(value)

    def open(self, path: str | os.PathLike[str], *, last: bool = False) -> StagedFile:
        """Open a binary file whose content becomes ``path`` on :meth:`commit`.

        Keeps the mode of a replaced file, and writes through symbolic links. Its other hard links
        keep the old content. Removes leftovers of killed runs. URLs with ``last`` are written after
        the others.

        Raises OutputError if ``path`` cannot be written (a directory, no permission, a missing
        directory), RefusedError if it is open already.
        """
        target = os.fspath(path)
        try:
            return self._open_url(target, last) if is_url(target) else self._open(target)
        except OSError as error:
            raise output_error(error, target) from error
        except ValueError as error:  # a NUL in the path
            raise OutputError(Fault(f"cannot be written: {error}", where=target)) from error

    def _open_url(self, url: str, last: bool) -> StagedFile:
        _refuse_name(url, is_folder=url.endswith("/"))
        if self._uploads is None:
            from graphshare.files.remote.upload import Uploads  # start-up: only URLs need it

            self._uploads = Uploads()
        if url in self._uploads.urls():
            raise _refuse_two_outputs(url)
        return self._uploads.open(url, last=last)

    def claim_stdout(self) -> None:
        """Reserve stdout's file for one output. Raises RefusedError."""
        with contextlib.suppress(OSError):  # it is closed
            self._claim("stdout", os.fstat(1))

    def _open(self, target: str) -> StagedFile:
        descriptor = find_descriptor(target)
        if descriptor is not None:
            return self._direct(target, os.dup(descriptor))
        if os.path.islink(target) and is_snapshot(os.path.dirname(target) or "."):
            hint = "write it elsewhere with `out`"
            raise RefusedError(
                Fault(
                    "is a link into a model hub's cache, which is not written to",
                    where=target,
                    hint=hint,
                )
            )
        place = find_place(target)
        self._remove_leftovers(place)
        status = _status(target)
        _refuse_name(
            target,
            is_folder=target.endswith(os.sep)
            or (status is not None and stat.S_ISDIR(status.st_mode)),
        )
        if status is not None and not stat.S_ISREG(status.st_mode):
            return self._direct(target, os.open(target, os.O_WRONLY))
        self._refuse_same_place(target, place, status)
        # A rename would replace it anyway, but the mode protects the file.
        if status is not None and not os.access(place, os.W_OK):
            raise OutputError(
                Fault(
                    "is write-protected",
                    where=target,
                    hint=f"chmod u+w {quote_shell(write_path(target))}",
                )
            )
        output = _PlacedOutput(target, place, existed=status is not None)
        self._outputs.append(output)
        # The new content is private until it has the old file's mode.
        fd, output.lock = create_locked(
            place, 0o666 if status is None else 0o600, output.note_temporary
        )
        output.file = StagedFile(fd, output.temporary, target)
        if status is not None:
            _keep_mode(fd, status)
        return output.file

    def _direct(self, target: str, fd: int) -> StagedFile:
        try:
            self._claim(target, os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        output = _PlacedOutput(target, "")
        self._outputs.append(output)
        output.file = StagedFile(fd, target, target, direct=True)
        return output.file

    def _claim(self, target: str, status: os.stat_result) -> None:
        """Refuse a second output to a stream; a character device may get several."""
        if stat.S_ISCHR(status.st_mode):
            return
        key = (status.st_dev, status.st_ino)
        others = [
            find_identity(path)
            for output in self._outputs
            for path in (output.place, output.temporary)
            if path
        ]
        if key in self._streams or key in others:
            raise _refuse_two_outputs(target)
        self._streams[key] = target

    def _refuse_same_place(self, target: str, place: str, status: os.stat_result | None) -> None:
        if any(_is_same_place(output, place) for output in self._outputs):
            raise _refuse_two_outputs(target)
        if status is None:
            return
        key = (status.st_dev, status.st_ino)
        if key in self._streams:
            raise _refuse_two_outputs(target)
        for number, stream in ((1, "stdout"), (2, "stderr")):
            if key == find_identity(number):
                hint = "give each its own path"
                raise RefusedError(
                    Fault(f"is also the target of {stream}", where=target, hint=hint)
                )

    def _remove_leftovers(self, place: str) -> None:
        folder = os.path.dirname(place)
        if folder not in self._temporaries:
            self._temporaries[folder] = list_temporaries(folder)
        remove_leftovers(place, self._temporaries[folder])

    def complete(self) -> None:
        """Bring every output to the disk and close it, without putting it in place. Raises
        OutputError.
        """
        for output in self._outputs:
            try:
                _complete(output)
            except OSError as error:
                raise output_error(error, output.target) from error
        if self._uploads is not None:
            self._uploads.complete()

    def place(self) -> None:
        """Put all outputs in place, to be undone without ``commit``. Raises OutputError."""
        self.complete()
        with _hold_signals():
            self._place()
        if self._uploads is not None:
            self._uploads.place()

    def commit(self) -> None:
        """Bring every output to the disk, then put all in place. Undone if it raises OutputError.

        SIGINT, SIGTERM and SIGHUP take effect before or after all renames, but during uploads at
        once. Objects that remain after an error of an object store are named.
        """
        # Requests may take long, so signals are not held back.
        if self._uploads is not None:
            self.place()
        self.complete()
        with _hold_signals():
            self._place()
            self._end_uploads()
            outputs, self._outputs = self._outputs, []
            for output in outputs:
                remove(output.backup)
                close(output.lock)
                note_output(output.target, True)

    def _end_uploads(self) -> None:
        uploads, self._uploads = self._uploads, None
        if uploads is not None:
            uploads.close()
            for url in uploads.urls():
                note_output(url, True)

    def _place(self) -> None:
        staged = [output for output in self._outputs if output.place and not output.placed]
        try:
            for output in staged:
                try:
                    _put_in_place(output)
                except OSError as error:
                    raise output_error(error, output.target) from error
            for directory in dict.fromkeys(os.path.dirname(output.place) for output in staged):
                _sync_directory(directory)
        except BaseException as error:
            self._roll_back(error)
            raise

    def _roll_back(self, cause: BaseException | None) -> None:
        """Raise OutputError if a file cannot be put back, with the place of the old file."""
        outputs, self._outputs = self._outputs, []
        lost = []
        for output in reversed(outputs):
            if output.file is not None:
                # Writing the rest of the buffer may fail again; the descriptor is closed anyway.
                with contextlib.suppress(OSError, OutputError, ValueError):
                    output.file.close()
            if output.place and not _restore(output):
                lost.append(output)
        for output in outputs:
            if output not in lost:
                remove(output.backup)
            close(output.lock)
        faults = [_explain_lost(output) for output in lost]
        uploads, self._uploads = self._uploads, None
        remaining = uploads.roll_back() if uploads is not None else []
        if remaining and isinstance(cause, OutputError):
            faults = [*cause.faults, *faults]
        if faults or remaining:
            raise OutputError([*faults, *remaining]) from cause


def _refuse_name(target: str, *, is_folder: bool) -> None:
    if is_folder:
        raise OutputError(Fault("is a directory", where=target, hint="give the path of a file"))
    if target.endswith(".gz"):
        hint = f"write {target.removesuffix('.gz')} (`out`), and compress that with gzip"
        raise OutputError(
            Fault(
                "ends in .gz, but outputs are written without compression", where=target, hint=hint
            )
        )


def _refuse_two_outputs(target: str) -> RefusedError:
    return RefusedError(
        Fault("is named for two outputs", where=target, hint="give each output its own path")
    )


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _keep_mode(fd: int, status: os.stat_result) -> None:
    if hasattr(os, "fchown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):  # only the superuser may give files away
            os.fchown(fd, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, stat.S_IMODE(status.st_mode))


class _PlacedOutput(msgspec.Struct, eq=False):
    target: str  # as asked for, for messages
    place: str  # where it goes, symbolic links followed; empty when written directly
    temporary: str = ""
    backup: str = ""
    existed: bool = False
    placed: bool = False
    file: StagedFile | None = None
    lock: int = -1  # a descriptor that keeps the lock of the new content

    def note_temporary(self, path: str) -> None:
        self.temporary = path


def _is_same_place(output: _PlacedOutput, place: str) -> bool:
    if output.place == place or output.place.casefold() != place.casefold():
        return output.place == place
    folder, name = os.path.split(output.temporary)
    # The swapped name exists only if the file system ignores case.
    return os.path.lexists(os.path.join(folder, name.swapcase()))


def _complete(output: _PlacedOutput) -> None:
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


def _put_in_place(output: _PlacedOutput) -> None:
    if output.existed:
        # Fails if another program has the file open, before the file gets a second name
        if os.name == "nt":
            os.rename(output.place, output.place)
        backup = temporary_path(output.place, ".old")
        output.backup = backup
        try:
            os.link(output.place, backup)
        except OSError:
            os.replace(output.place, backup)  # a file system without hard links
    os.replace(output.temporary, output.place)
    output.placed = True


def _restore(output: _PlacedOutput) -> bool:
    """Put back the old file; if that fails, keep the backup and return False."""
    restored = True
    # After the rename the temporary file is gone, but a signal may precede output.placed.
    placed = (
        bool(output.temporary) and output.file is not None and not os.path.lexists(output.temporary)
    )
    if output.backup and os.path.lexists(output.backup):
        restored = _put_back(output)
        if restored:
            # os.replace() does nothing if both names are links to the same file
            remove(output.backup)
    elif placed and not output.existed:
        remove(output.place)
    remove(output.temporary)
    return restored


def _put_back(output: _PlacedOutput) -> bool:
    for _ in range(3):  # an error may pass
        with contextlib.suppress(OSError):
            os.replace(output.backup, output.place)
            return True
    return False


def _explain_lost(output: _PlacedOutput) -> Fault:
    return Fault(
        "could neither be written nor put back",
        where=output.target,
        hint=f"the old file is in {output.backup}",
    )


def _sync_directory(directory: str) -> None:
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # not every file system lets a directory be synchronised
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP take effect after the block.

    Handlers are replaced instead of signals masked, because threads of BLAS would receive signals
    that the main thread masks. Outside the main thread nothing is held back: signals do not
    interrupt other threads.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    replaced: dict[int, Any] = {}
    try:
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            handler = signal.getsignal(number) if number is not None else None
            if number is None or handler in (None, signal.SIG_IGN):  # None: not installed by Python
                continue
            replaced[number] = handler
            try:
                signal.signal(number, note)
            except ValueError:  # not the main thread
                replaced.clear()
                break
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        # After an exception too: it becomes the context of KeyboardInterrupt
        for number in dict.fromkeys(received):
            signal.raise_signal(number)


@contextmanager
def make_folder(folder: str) -> Iterator[None]:
    """Create a missing folder, and remove a new one after an error. Raises OutputError."""
    is_new = not exists(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        yield
    except OSError as error:
        raise output_error(error, folder) from error
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # another run has written to it
                os.rmdir(folder)
        raise


def refuse_links(folder: str, paths: Iterable[str]) -> None:
    """Raise RefusedError for outputs that are links, or below a link inside ``folder``.

    ``folder`` itself may be a link.
    """
    has_links: dict[str, bool] = {}  # each folder is listed once: there may be a million outputs
    links: dict[str, None] = {}
    for path in paths:
        is_new = True
        while is_new and len(path) > len(folder):
            parent = os.path.dirname(path)
            is_new = parent not in has_links
            if is_new:
                has_links[parent] = _has_links(parent)
            if has_links[parent] and os.path.islink(path):
                links[path] = None
            path = parent
    if links:
        raise RefusedError([_describe_link(folder, link) for link in list(links)[:_LISTED]])


def _describe_link(folder: str, link: str) -> Fault:
    message = (
        f"is a link, which is not followed: only {folder} is named as the place of the outputs"
    )
    return Fault(message, where=link, hint="remove the link, or name another folder")


_FOLDER: ContextVar[str] = ContextVar("folder_without_links", default="")


@contextmanager
def refusing_links(folder: str) -> Iterator[None]:
    """Let transactions in the block refuse links made after :func:`refuse_links`.

    An empty ``folder``, or a nested block, has no effect.
    """
    token = _FOLDER.set(_FOLDER.get() or folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def find_place(target: str) -> str:
    """Return the path of an output with links resolved.

    Raises RefusedError for a link inside :func:`refusing_links`.
    """
    folder, path = _FOLDER.get(), os.path.abspath(target)
    top = os.path.abspath(folder)
    if not folder or not path.startswith(os.path.join(top, "")):
        return os.path.realpath(target)
    parts = os.path.relpath(path, top).split(os.sep)
    for count in range(1, len(parts) + 1):
        if os.path.islink(os.path.join(top, *parts[:count])):
            raise RefusedError(_describe_link(folder, os.path.join(folder, *parts[:count])))
    # A link made from now on is replaced, not followed
    return os.path.join(os.path.realpath(top), *parts)


def _has_links(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() for entry in entries)
    except OSError:  # the folder may allow writing but not listing: then check each path
        return True
