"""A cursor over the headers of a binary file: reads through a small window, never reads or moves past the end."""

from __future__ import annotations

from struct import Struct
from typing import NoReturn

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ByteSource
from graphshare.text.format import format_count

DAMAGED = "the file is damaged or cut short; get or save it again"


class Cursor:
    """A place in a source. Each ``what`` names, for the error message, what is being read.

    ``record`` is the number of the array being read, -1 before and after them. ``window`` is how many bytes are read at once.
    Every method raises InputError at the end.
    """

    __slots__ = ("ambiguous", "buffer", "position", "record", "size", "source", "start", "window")

    def __init__(self, source: ByteSource) -> None:
        self.source, self.size, self.window = source, source.size, source.window
        self.position = self.start = 0
        self.buffer = b""
        self.record = -1
        self.ambiguous = False

    def unpack(self, layout: Struct, what: str) -> tuple[int, ...]:
        """Return the next integers."""
        index = self.position - self.start
        if index + layout.size > len(self.buffer):
            index = self._fill(layout.size, what)
        self.position += layout.size
        return layout.unpack_from(self.buffer, index)

    def take(self, count: int, what: str) -> bytes:
        """Return the next ``count`` bytes; only for counts that are bounded."""
        index = self.position - self.start
        if index + count > len(self.buffer):
            index = self._fill(count, what)
        self.position += count
        return self.buffer[index : index + count]

    def skip(self, count: int, what: str) -> int:
        """Go past ``count`` bytes unread and return where they start."""
        start = self.position
        if count > self.size - start:
            self.cut_short(count, what)
        self.position = start + count
        return start

    def _fill(self, count: int, what: str) -> int:
        left = self.size - self.position
        if count > left:
            self.cut_short(count, what)
        self.buffer = self.source.read_at(self.position, min(left, max(count, self.window)))
        self.start = self.position
        return 0

    def cut_short(self, count: int, what: str) -> NoReturn:
        """Raise InputError: the file ends before the next ``count`` bytes do."""
        left = self.size - self.position
        self.fail(f"ends inside {what}: expected {format_count(count, 'byte')}, {left:,} left", hint=DAMAGED)

    def fail(self, message: str, *, at: int | None = None, hint: str = "") -> NoReturn:
        """Raise InputError for what was read at byte ``at`` (here by default)."""
        place = f"byte {self.position if at is None else at}"
        if self.record >= 0:
            place = f"record {self.record}, {place}"
        raise InputError(Fault(message, where=self.source.name, path=place, hint=hint))
