"""Find equal parameters: each pair is one node (tied), byte-equal in the file (copied), or
different.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from graphshare.formats.params.arrays import ArrayReader, have_equal_bytes
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.graph import Node
from graphshare.progress import task
from graphshare.text.names import split_key

How = Literal["tied", "equal", "different", "missing", "fed"]


class ParameterPair(msgspec.Struct, frozen=True, eq=False):
    """A parameter of the reference and its twin; ``detail`` names a difference, or the missing
    ones.

    ``fed`` parameters have a value from the user. With ``has_other_type`` the files have one shape
    and two types.
    """

    left: Node
    right: Node
    how: How
    detail: str = ""
    has_other_type: bool = False


class RecordsByName:
    """The records of a file by variable; of several with one key the last, as in MXNet."""

    def __init__(self, file: ParameterFile) -> None:
        self.file = file
        self._records: dict[tuple[str, str], Record] = {}
        for record in file.records:
            if record.key is not None:
                self._records[split_key(record.key)] = record

    def names(self) -> set[str]:
        return {name for _, name in self._records}

    def of(self, node: Node, *, auxiliary: bool = False) -> Record | None:
        """Return the record of a variable: under its own kind first, then under any."""
        for kind in ("aux", "arg", "") if auxiliary else ("arg", "aux", ""):
            record = self._records.get((kind, node.name))
            if record is not None:
                return record
        return None


def compare_parameters(
    pairs: Iterable[tuple[Node, Node]],
    auxiliary: Collection[Node],
    left: RecordsByName | None,
    right: RecordsByName | None,
) -> list[ParameterPair]:
    """Compare each pair of parameter nodes; without a file only tied ones are recognized.

    A pair whose left node is in ``auxiliary`` is looked up among the auxiliary states first.
    """
    if left is None or right is None:
        return [
            ParameterPair(a, b, "tied")
            if a is b
            else ParameterPair(a, b, "missing", "no parameter file is given")
            for a, b in pairs
        ]
    results = []
    with ArrayReader(left.file) as left_arrays, ArrayReader(right.file) as right_arrays:
        for a, b in pairs:
            # One node has one value only within one file.
            if a is b and left is right:
                results.append(ParameterPair(a, b, "tied"))
                continue
            is_auxiliary = a in auxiliary
            x, y = left.of(a, auxiliary=is_auxiliary), right.of(b, auxiliary=is_auxiliary)
            absent = [node.name for node, record in ((a, x), (b, y)) if record is None]
            if x is None or y is None:
                detail = f"the parameter file does not hold {' and '.join(absent)}"
                results.append(ParameterPair(a, b, "missing", detail))
                continue
            detail = describe_difference(left_arrays, x, right_arrays, y)
            has_other_type = x.shape == y.shape and x.element_type != y.element_type
            how: How = "different" if detail else "equal"
            results.append(ParameterPair(a, b, how, detail, has_other_type))
    return results


def describe_difference(left: ArrayReader, x: Record, right: ArrayReader, y: Record) -> str:
    """Return the difference between two records' arrays in words; empty when equal byte for
    byte.
    """
    if x.shape != y.shape:
        return f"shapes {x.shape} and {y.shape}"
    if x.element_type != y.element_type:
        return f"types {x.element_type} and {y.element_type}"
    return "" if have_equal_bytes(left.chunks(x), right.chunks(y)) else "values"


def find_equal_arrays(
    file: ParameterFile, records: Sequence[Record]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of equal arrays, the first in the file apart. Tied names are skipped.

    Arrays of the same shape, dtype and storage are compared by a cryptographic hash, read piece by
    piece.
    """
    alike: dict[tuple[object, ...], dict[str, Record]] = {}
    for record in records:
        if record.key is None or record.shape is None or record.tied_to is not None:
            continue
        # Arrays without elements are all equal, but may differ in purpose, and a tie saves nothing.
        if 0 not in record.shape:
            form = (record.shape, record.element_type, record.storage)
            alike.setdefault(form, {})[record.key] = record
    candidates = [by_key for by_key in alike.values() if len(by_key) > 1]
    size = sum(record.dense_size for by_key in candidates for record in by_key.values())
    with ArrayReader(file) as reader, task("comparing arrays", size, "B") as advance:
        for by_key in candidates:
            groups: dict[bytes, list[str]] = {}
            for key, record in by_key.items():
                groups.setdefault(hash_array(reader, record), []).append(key)
                advance(record.dense_size)
            for keys in groups.values():
                if len(keys) > 1:
                    yield keys[0], keys[1:]


def hash_array(reader: ArrayReader, record: Record) -> bytes:
    """Return a cryptographic hash of the bytes of an array, read piece by piece."""
    from hashlib import sha256  # start-up: it loads OpenSSL

    digest = sha256()
    if record.storage == "default":
        for chunk in reader.chunks(record):
            digest.update(chunk)
        return digest.digest()
    stored = reader.read_sparse(record)  # sparse arrays stay sparse
    for part in (stored.values, stored.indices, stored.indptr):
        if part is not None:
            # The size in front separates the parts: bytes cannot move from one to the next.
            digest.update(part.size.to_bytes(8, "little") + part.tobytes())
    return digest.digest()
