"""Find the ranges of a file of weights that models point to, or can point to."""

from __future__ import annotations

import os

from graphshare.errors import GraphshareError
from graphshare.files.paths import find_identity, join, list_names
from graphshare.formats.model_names import PARAMETER_ENDINGS
from graphshare.formats.onnx.decode import read_model
from graphshare.formats.onnx.external import list_outside
from graphshare.formats.params.format import read_index


def list_arrays(path: str, *, is_indexed: bool) -> list[tuple[int, int]]:
    """Return offset and size in bytes of each array that a model points, or can point, to."""
    if not is_indexed:
        return [(start, end - start) for start, end in list_ranges(path)]
    arrays: list[tuple[int, int]] = []
    for record in read_index(path).records:
        if record.data_offset is not None and record.is_plain:
            arrays.append((record.data_offset, record.dense_size))
    return arrays


def list_ranges(path: str) -> list[tuple[int, int]]:
    """Return the sorted ranges of a file of weights that models beside it point into.

    Raises InputError for a model that the system refuses to read.
    """
    folder, identity = os.path.dirname(path) or ".", find_identity(path)
    ranges: set[tuple[int, int]] = set()
    for name in list_names(folder):
        if not name.endswith(".onnx"):
            continue
        try:
            places = [place for _, _, place in list_outside(read_model(join(folder, name)))]
        except GraphshareError as error:
            cause = error.__cause__
            is_no_file = isinstance(cause, (FileNotFoundError, IsADirectoryError))
            if isinstance(cause, OSError) and not is_no_file:
                raise
            continue  # it cannot be read anyway
        for place in places:
            if find_identity(place.path) == identity:
                ranges.add((place.start, place.end))
    return sorted(ranges)


def list_orphans(path: str) -> int:
    """Count the bytes of a raw file of weights that no model beside it uses; 0 if unknown."""
    end, orphans = 0, 0
    if path.lower().endswith(PARAMETER_ENDINGS):
        return 0
    try:
        ranges = list_ranges(path)
        size = os.stat(path).st_size
    except (GraphshareError, OSError):  # a file is gone or unreadable
        return 0
    for start, stop in [*ranges, (size, size)]:
        gap = max(0, start - end)
        is_padding = gap < start & -start and start < size
        if not is_padding:
            orphans += gap
        end = max(end, stop)
    return orphans
