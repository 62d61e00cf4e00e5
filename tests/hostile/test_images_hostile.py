"""Damaged and hostile images: every one is read or refused with its name, in bounded time and memory."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import graphshare as gs
from graphshare.errors import Fault, GraphshareError, InputError
from tests import pictures
from tests.processes import ROOT, graphshare, refused

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")


def encode(name: str) -> bytes:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pictures.texture(12, 17)).save(
        file, name, **({"exif": exif} if name in ("PNG", "JPEG", "WEBP") else {})
    )
    return file.getvalue()


WHOLE = {name: encode(name) for name in FORMATS}


def read(path: Path) -> str:
    """The refusal of a file, or an empty text."""
    faults: tuple[Fault, ...] = ()
    try:
        assert np.asarray(gs.open_images(path)).ndim == 4
    except GraphshareError as error:
        faults = error.faults
    assert all(fault.where == str(path) for fault in faults)
    return "\n".join(map(str, faults))


@pytest.mark.parametrize("name", FORMATS)
def test_files_cut_off_anywhere(tmp_path: Path, name: str) -> None:
    path = tmp_path / "cut.png"
    path.write_bytes(WHOLE[name])
    assert read(path) == ""
    step = max(1, len(WHOLE[name]) // 60)
    refusals = 0
    for length in [*range(0, len(WHOLE[name]) - 1, step)]:
        path.write_bytes(WHOLE[name][:length])
        refusals += read(path) != ""
    assert refusals > 5


@pytest.mark.parametrize("name", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=8)
)
def test_files_with_other_bytes(tmp_path: Path, name: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE[name])
    for place, value in changes:
        data[place % len(data)] = value
    path = tmp_path / "changed.png"
    path.write_bytes(data)
    read(path)


def png(width: int, height: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """A PNG in one channel of 8 bits."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), *more, (b"IDAT", data), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    "size", [(100_000, 100_000), (1 << 31, 1), (0, 5), (10_000, 9_000), (10_000, 20_000)]
)
def test_claims_of_many_pixels_cost_nothing(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "bomb.png").write_bytes(png(*size, zlib.compress(bytes(1000))))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"pixels|image"):
            gs.open_images(tmp_path / "bomb.png")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_thin_image_is_not_blown_up_on_its_way(tmp_path: Path) -> None:
    """One column of a million rows, a thousand wide and high in the end: no array of a million rows by a thousand."""
    rows = 1_000_000
    (tmp_path / "thin.png").write_bytes(png(1, rows, zlib.compress(bytes(2 * rows))))
    tracemalloc.start()
    try:
        assert np.asarray(gs.open_images(tmp_path / "thin.png", resize=(1000, 1000))).shape == (
            1,
            3,
            1000,
            1000,
        )
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()


def test_text_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    packed = b"Comment\0\0" + zlib.compress(bytes(200_000_000))
    (tmp_path / "text.png").write_bytes(png(2, 2, zlib.compress(bytes(6)), (b"zTXt", packed)))
    assert "cannot be read as an image" in read(tmp_path / "text.png")


def test_a_refusal_at_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "cut.jpg").write_bytes(WHOLE["JPEG"][:-200])
    run = graphshare(
        "run",
        ROOT / "fixtures" / "lenet",
        "--feed",
        "data=cut.jpg",
        "--preset",
        "mnist",
        cwd=tmp_path,
    )
    refused(run, "cut.jpg: cannot be read as an image: ", "runcated", "cut off")
    (tmp_path / "program.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / "program.png").write_bytes((tmp_path / "program.eps").read_bytes())
    run = graphshare(
        "run",
        ROOT / "fixtures" / "lenet",
        "--feed",
        "data=program.png",
        "--preset",
        "mnist",
        cwd=tmp_path,
    )
    refused(run, "program.png: is not an image")
