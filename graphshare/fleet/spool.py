"""Results on the disk until all are there: reports list them in the order of their models, and memory stays flat."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator

import msgspec

from graphshare.fleet.records import Result


class Spool:
    """Results in a temporary file, which is gone with this object."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the object
        self._offsets = array("q")
        self._sources: list[str] = []

    def append(self, result: Result) -> None:
        """Add a result."""
        self._offsets.append(self._file.tell())
        self._sources.append(result.source)
        self._file.write(msgspec.json.encode(result) + b"\n")

    def lines(self) -> Iterator[bytes]:
        """Yield the results as JSON without line breaks, sorted by source."""
        for i in sorted(range(len(self._sources)), key=self._sources.__getitem__):
            self._file.seek(self._offsets[i])
            yield self._file.readline()[:-1]
        self._file.seek(0, 2)

    def results(self) -> Iterator[Result]:
        """Yield the results, sorted by source."""
        return (msgspec.json.decode(line, type=Result) for line in self.lines())
