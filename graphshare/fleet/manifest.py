"""The manifest of a fleet run: a JSON line for each finished model; a model's last line counts.

A line is appended with one write: a killed run leaves at most one torn line, at the end. It is
dropped if a whole line precedes it; any other file is rejected. Only the places of last lines are
in memory.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import msgspec

from graphshare.errors import Fault, InputError, OutputError, RefusedError
from graphshare.files.staged_file import output_error
from graphshare.fleet.records import FileState, Result, Task
from graphshare.fleet.work import clean_text, is_unchanged
from graphshare.text.urls import is_url

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


_BEGIN = b'{"source":'  # every line begins so


class _Source(msgspec.Struct, frozen=True):
    source: str
    command: tuple[str, ...]
    result: str


class Manifest:
    """An open manifest, read and appended to by one run at a time.

    Raises:
        InputError: a line is not a line of a manifest.
        OutputError: the file cannot be written.
        RefusedError: another run has it open.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise output_error(error, path) from error
        # Appending moves its descriptor's offset, and a buffer would be filled from there.
        self._file: BinaryIO = open(path, "rb")  # noqa: SIM115  # close() closes it
        # Keyed by hashes: a manifest may have a million lines.
        self._offsets: dict[int, int] = {}
        try:
            self._lock()
            self._read()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                hint = "wait until it ends, or name another manifest"
                raise RefusedError(
                    Fault("another run is writing this manifest", where=self.path, hint=hint)
                ) from None

    def _read(self) -> None:
        """Note the place of each source's last line; complete the file's last line, or cut off a
        torn one.
        """
        decode = msgspec.json.Decoder(_Source).decode
        offset = number = 0
        try:
            for line in self._file:
                number += 1
                if number > 1 and _is_torn(line):
                    os.ftruncate(self._fd, offset)
                    return
                self._offsets[hash(decode(line).source)] = offset
                offset += len(line)
                if not line.endswith(b"\n"):
                    os.write(self._fd, b"\n")
                    return
        except (ValueError, RecursionError) as error:
            hint = "name another file: graphshare appends only to manifests"
            raise InputError(
                Fault(
                    f"line {number} is not a line of a manifest: {error}",
                    where=self.path,
                    hint=hint,
                )
            ) from error

    @property
    def is_continued(self) -> bool:
        return bool(self._offsets)

    def find(self, source: str) -> Result | None:
        name = clean_text(source)
        offset = self._offsets.get(hash(name))
        if offset is None:
            return None
        self._file.seek(offset)
        try:
            result = msgspec.json.decode(self._file.readline(), type=Result)
        except (ValueError, RecursionError):  # a line of another version: the model is done again
            return None
        # If two sources have the same hash, the earlier one is done again.
        return result if result.source == name else None

    def find_finished(self, task: Task) -> Result | None:
        """Return the earlier result if the task's command, files and outputs are unchanged, else
        None.
        """
        result = self.find(task.model.graph)
        # "no" is also an answer; only failures are repeated.
        if (
            result is None
            or result.result not in ("done", "no")
            or not _is_same_command(result, task)
        ):
            return None
        model, params = task.model, result.params
        graph = FileState(result.source, result.size, result.sha256, result.etag, result.modified)
        if bool(model.params) != (params is not None) or not is_unchanged(
            graph, model.graph, model.listed
        ):
            return None
        if params is not None and not is_unchanged(params, model.params, model.listed_params):
            return None
        if not all(os.path.exists(path) for path in task.outputs if not is_url(path)):
            return None
        return msgspec.structs.replace(result, was_skipped=True)

    def has_failed(self, task: Task) -> bool:
        result = self.find(task.model.graph)
        return result is not None and result.result in ("failed", "killed")

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
            os.close(self._fd)

    def append(self, result: Result) -> None:
        """Raises OutputError."""
        line = msgspec.json.encode(result) + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise output_error(error, self.path) from error
        if written != len(line):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise OutputError(
                Fault(
                    "the disk is full",
                    where=self.path,
                    hint="free some space, and run it again to continue",
                )
            )


def _is_torn(line: bytes) -> bool:
    """Whether a line is the incomplete beginning of a manifest's line."""
    if line.endswith(b"\n") or not _BEGIN.startswith(line[: len(_BEGIN)]):
        return False
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return True
    return False


def _is_same_command(result: Result, task: Task) -> bool:
    return result.command == tuple(map(clean_text, task.command)) and result.outputs == tuple(
        map(clean_text, task.outputs)
    )
