"""Find the arrays of a parameter file that are equal: one hash each, read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.progress import task


def find_equal_arrays(file: ParameterFile, records: Sequence[Record]) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of equal arrays: the first in the file, then the others. Tied names are skipped.

    Arrays of one shape, dtype and storage are compared by a cryptographic hash of their bytes.
    """
    alike: dict[tuple[object, ...], dict[str, Record]] = {}
    for record in records:
        if record.key is not None and record.shape is not None and record.tied_to is None and 0 not in record.shape:
            alike.setdefault((record.shape, record.element_type, record.storage), {})[record.key] = record
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
    """Return a cryptographic hash of the bytes of an array, which is read piece by piece."""
    digest = hashlib.blake2b(digest_size=32)
    if record.storage == "default":
        for chunk in reader.chunks(record):
            digest.update(chunk)
        return digest.digest()
    stored = reader.read_sparse(record)  # sparse arrays stay sparse
    for part in (stored.values, stored.indices, stored.indptr):
        if part is not None:
            digest.update(part.size.to_bytes(8, "little") + part.tobytes())
    return digest.digest()
