"""Parameter files built with struct alone: what the code under test is held against, and independent of it."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterable, Sequence

FLAGS = {
    "float32": (0, 4),
    "float64": (1, 8),
    "float16": (2, 2),
    "uint8": (3, 1),
    "int32": (4, 4),
    "int8": (5, 1),
    "int64": (6, 8),
    "bool": (7, 1),
    "int16": (8, 2),
    "uint16": (9, 2),
    "uint32": (10, 4),
    "uint64": (11, 8),
    "bfloat16": (12, 2),
}
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA


def count_bytes(shape: Sequence[int], dtype: str) -> int:
    size = FLAGS[dtype][1]
    for dim in shape:
        size *= dim
    return size


def pattern(size: int, seed: int = 0) -> bytes:
    """``size`` bytes that differ from place to place."""
    return bytes((seed * 31 + i * 7 + (i >> 8)) % 251 for i in range(size))


def shape64(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def tail(dtype: str, context: tuple[int, int] = (1, 0)) -> bytes:
    return struct.pack("<iii", *context, FLAGS[dtype][0])


def v0(shape: Sequence[int], dtype: str = "float32", data: bytes | None = None) -> bytes:
    data = pattern(count_bytes(shape, dtype)) if data is None else data
    return struct.pack(f"<I{len(shape)}I", len(shape), *shape) + tail(dtype) + data


def v1(shape: Sequence[int], dtype: str = "float32", data: bytes | None = None) -> bytes:
    data = pattern(count_bytes(shape, dtype)) if data is None else data
    return struct.pack("<I", V1) + shape64(shape) + tail(dtype) + data


def dense(
    shape: Sequence[int],
    dtype: str = "float32",
    data: bytes | None = None,
    *,
    magic: int = V2,
    context: tuple[int, int] = (1, 0),
) -> bytes:
    data = pattern(count_bytes(shape, dtype)) if data is None else data
    return struct.pack("<Ii", magic, 0) + shape64(shape) + tail(dtype, context) + data


def never_filled(magic: int = V2) -> bytes:
    return struct.pack("<Iii", magic, 0, 0 if magic == V2 else -1)


def row_sparse(
    shape: Sequence[int], rows: Sequence[int], values: bytes, dtype: str = "float32"
) -> bytes:
    stored = (len(rows), *shape[1:])
    head = struct.pack("<Ii", V2, 1) + shape64(stored) + shape64(shape) + tail(dtype)
    return (
        head
        + struct.pack("<i", 6)
        + shape64((len(rows),))
        + values
        + struct.pack(f"<{len(rows)}q", *rows)
    )


def csr(
    shape: Sequence[int],
    indptr: Sequence[int],
    columns: Sequence[int],
    values: bytes,
    dtype: str = "float32",
) -> bytes:
    head = struct.pack("<Ii", V2, 2) + shape64((len(columns),)) + shape64(shape) + tail(dtype)
    aux = (
        struct.pack("<i", 6)
        + shape64((len(indptr),))
        + struct.pack("<i", 6)
        + shape64((len(columns),))
    )
    return (
        head
        + aux
        + values
        + struct.pack(f"<{len(indptr)}q", *indptr)
        + struct.pack(f"<{len(columns)}q", *columns)
    )


def container(
    records: Sequence[bytes], names: Iterable[str | bytes] = (), *, reserved: int = 0
) -> bytes:
    encoded = [name.encode() if isinstance(name, str) else name for name in names]
    parts = [
        struct.pack("<QQQ", 0x112, reserved, len(records)),
        *records,
        struct.pack("<Q", len(encoded)),
    ]
    for name in encoded:
        parts += [struct.pack("<Q", len(name)), name]
    return b"".join(parts)


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def every_form() -> tuple[list[bytes], list[str]]:
    """One record of each form, with names: what a cut or a flipped byte can hit."""
    records = [
        v0((2, 3)),
        v1((3,), "float64"),
        dense((2, 2), "float16", context=(2, 7)),
        dense((), "int64", magic=V3),
        dense((0, 3)),
        never_filled(),
        never_filled(V3),
        row_sparse((6, 2), [1, 4], floats(1, 2, 3, 4)),
        csr((3, 4), [0, 1, 1, 3], [2, 0, 3], floats(5, 6, 7)),
        dense((5,), "bool", b"\0\1\1\0\1"),
        dense((3,), "bfloat16"),
        dense((2,), "uint16"),
    ]
    return records, [f"arg:a{number}" for number in range(len(records) - 1)] + ["aux:été/层"]


def npy(
    descr: str,
    shape: Sequence[int],
    data: bytes,
    *,
    fortran: bool = False,
    version: int = 1,
    text: str = "",
) -> bytes:
    dims = "(" + "".join(f"{dim}," for dim in shape) + ")"
    text = text or f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {dims}, }}"
    raw = text.encode("latin-1" if version < 3 else "utf-8") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(raw))
    return b"\x93NUMPY" + bytes((version, 0)) + length + raw + data


def archive(members: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def safetensors(entries: dict[str, object], data: bytes = b"") -> bytes:
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + data
