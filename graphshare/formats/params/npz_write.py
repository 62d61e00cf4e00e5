"""Writes ``.npz`` archives; their form stands in :mod:`graphshare.formats.params.npz`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import BinaryIO

from graphshare.errors import Fault
from graphshare.formats.params.npz import DESCRS, MAGIC
from graphshare.formats.params.records import Chunks, Record


def npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """The header of a little-endian C-order array, padded so that the data starts at a multiple of 64 bytes."""
    dims = "".join(f"{size}, " for size in shape)
    dims = dims.rstrip() if len(shape) == 1 else dims.removesuffix(", ")
    text = f"{{'descr': '{DESCRS[dtype]}', 'fortran_order': False, 'shape': ({dims}), }}"
    padding = -(len(text) + 11) % 64
    length = len(text) + padding + 1
    return MAGIC + b"\x01\x00" + length.to_bytes(2, "little") + text.encode("ascii") + b" " * padding + b"\n"


def write_npz(plan: Iterable[tuple[Record, str]], out: BinaryIO, chunks: Chunks) -> None:
    """Write each record under its key, stored uncompressed, in order; the same arrays always give the same bytes.

    The caller has made sure that every dtype has an ``.npy`` form and every key is a possible member name
    (:func:`npz_refusal`). Memory does not grow with the arrays.
    """
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for record, key in plan:
            header = npy_header(*record.filled())
            member = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3  # the same bytes on every system
            member.file_size = len(header) + record.dense_size
            with archive.open(member, "w") as stream:
                stream.write(header)
                for chunk in chunks(record):
                    stream.write(chunk)


def npz_refusal(record: Record, key: str) -> Fault | None:
    """Why ``record`` has no place in an ``.npz`` under ``key``, if so."""
    if record.dtype == "bfloat16":
        return Fault("is bfloat16, which has no .npy form", hint="convert to .safetensors, or cast it to float32 first")
    if record.shape is not None and len(record.shape) > 64:
        return Fault(f"has rank {len(record.shape)}; numpy knows ranks up to 64")
    if "\0" in key:
        return Fault("has a name with a NUL, which ends a zip member's name", hint="rename it first")
    try:
        size = len(key.encode()) + 4
    except UnicodeEncodeError:
        return Fault("has a name that is not UTF-8", hint="rename it first")
    return Fault("has a name too long for a zip member") if size > 0xFFFF else None
