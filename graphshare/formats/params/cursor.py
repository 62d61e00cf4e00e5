"""A cursor over a binary file of known size: reads headers through a small window, never reads or moves past the end."""

from __future__ import annotations

from io import FileIO
from struct import Struct
from typing import NoReturn

from graphshare.errors import Fault, InputError
from graphshare.text.format import format_count

DAMAGED = "the file is damaged or cut short; get or save it again"
_WINDOW = 16 * 1024  # bytes per read: many small headers at once, little waste where records are large


class Cursor:
    """A place in a file. Every method that takes ``what`` names with it, in the complaint, what was being read.

    ``record`` is the number of the array being read, -1 before and after them. Raises InputError throughout.
    """

    __slots__ = ("ambiguous", "buffer", "file", "path", "position", "record", "size", "start")

    def __init__(self, file: FileIO, path: str, size: int) -> None:
        self.file, self.path, self.size = file, path, size
        self.position = self.start = 0
        self.buffer = b""
        self.record = -1
        self.ambiguous = False

    def unpack(self, layout: Struct, what: str) -> tuple[int, ...]:
        """The next integers; ``what`` names them in the complaint."""
        index = self.position - self.start
        if index + layout.size > len(self.buffer):
            index = self._fill(layout.size, what)
        self.position += layout.size
        return layout.unpack_from(self.buffer, index)

    def take(self, count: int, what: str) -> bytes:
        """The next ``count`` bytes; only for counts that are bounded."""
        index = self.position - self.start
        if index + count > len(self.buffer):
            index = self._fill(count, what)
        self.position += count
        return self.buffer[index : index + count]

    def skip(self, count: int, what: str) -> int:
        """Go past ``count`` bytes unread; returns where they start."""
        start = self.position
        if count > self.size - start:
            self.cut_short(count, what)
        self.position = start + count
        return start

    def _fill(self, count: int, what: str) -> int:
        if count > self.size - self.position:
            self.cut_short(count, what)
        chunks: list[bytes] = []
        wanted = max(count, _WINDOW)
        have = 0
        self.file.seek(self.position)
        while have < count:
            chunk = self.file.read(wanted - have)
            if not chunk:
                self.fail(f"shrank while {what} was being read", hint="something else is writing this file")
            chunks.append(chunk)
            have += len(chunk)
        self.buffer = b"".join(chunks)
        self.start = self.position
        return 0

    def cut_short(self, count: int, what: str) -> NoReturn:
        left = self.size - self.position
        self.fail(
            f"ends inside {what}: expected {format_count(count, 'byte')}, {left:,} left",
            hint=DAMAGED,
        )

    def fail(self, message: str, *, at: int | None = None, hint: str = "") -> NoReturn:
        place = f"byte {self.position if at is None else at}"
        if self.record >= 0:
            place = f"record {self.record}, {place}"
        raise InputError(Fault(message, where=self.path, path=place, hint=hint))
