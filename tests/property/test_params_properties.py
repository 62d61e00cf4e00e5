"""What holds of every parameter file and every plan, with files built by struct alone."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphshare.api.params import convert as convert_params
from graphshare.errors import InputError
from graphshare.files.open_source import open_source
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.byte_ranges import coalesce
from graphshare.formats.params.format import read_index
from graphshare.formats.params.mxnet_params import FORMAT
from graphshare.formats.params.records import decode_key, encode_key
from tests import params_bytes as build

DTYPES = st.sampled_from(sorted(build.FLAGS))
SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)
TEXT = st.text(st.sampled_from('ab:/.\\ \t\n"%{é层😀'), max_size=12)
NAMES = st.one_of(st.binary(max_size=12), TEXT.map(str.encode))


@st.composite
def dense_records(draw: st.DrawFn, magics: tuple[int, ...] = (build.V2, build.V3)) -> bytes:
    shape, dtype = draw(SHAPES), draw(DTYPES)
    size = build.count_bytes(shape, dtype)
    return build.dense(
        shape,
        dtype,
        draw(st.binary(min_size=size, max_size=size)),
        magic=draw(st.sampled_from(magics)),
    )


@st.composite
def row_sparse_records(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(st.integers(0, 5), unique=True, max_size=6))
    width = draw(st.integers(0, 3))
    return build.row_sparse(
        (6, width),
        rows,
        draw(st.binary(min_size=len(rows) * width * 4, max_size=len(rows) * width * 4)),
    )


RECORDS = st.one_of(
    dense_records(),
    row_sparse_records(),
    st.builds(build.v0, SHAPES, DTYPES),
    st.builds(build.v1, SHAPES, DTYPES),
    st.just(build.never_filled()),
    st.just(build.never_filled(build.V3)),
)


@contextmanager
def written(content: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "x.params")
        with open(path, "wb") as file:
            file.write(content)
        yield path


@st.composite
def files(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    records = draw(st.lists(RECORDS, max_size=6))
    names = (
        draw(st.lists(NAMES, min_size=len(records), max_size=len(records)))
        if draw(st.booleans())
        else []
    )
    return records, names


@given(files())
def test_reading_and_writing_gives_the_same_bytes(file: tuple[list[bytes], list[bytes]]) -> None:
    content = build.container(*file)
    with written(content) as path:
        index = read_index(path)
        assert [record.size for record in index.records] == [len(record) for record in file[0]]
        assert [record.key_bytes for record in index.records if index.named] == file[1]
        out = io.BytesIO()
        FORMAT.copy([(index, [(record, record.key) for record in index.records])], out)
        assert out.getvalue() == content


@given(files(), st.data())
def test_a_plan_writes_exactly_the_records_it_names(
    file: tuple[list[bytes], list[bytes]], data: st.DataObject
) -> None:
    records, _ = file
    chosen = (
        data.draw(st.lists(st.sampled_from(range(len(records))), max_size=8)) if records else []
    )
    names = data.draw(st.lists(NAMES, min_size=len(chosen), max_size=len(chosen)))
    with written(build.container(*file)) as path:
        index = read_index(path)
        plan = [
            (index.records[number], decode_key(name))
            for number, name in zip(chosen, names, strict=True)
        ]
        target = path + ".out"
        with open(target, "wb") as out:
            FORMAT.copy([(index, plan)], out)
        with open(target, "rb") as result:
            assert result.read() == build.container([records[number] for number in chosen], names)
        with open_source(target) as source:
            FORMAT.verify_copy(source, [(index, plan)], verify_bytes=True)


@given(NAMES)
def test_every_name_survives_as_text(name: bytes) -> None:
    assert encode_key(decode_key(name)) == name


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
@example([(0, 1), (0, 0), (1, 1)])
def test_joined_ranges_are_the_same_bytes(ranges: list[tuple[int, int]]) -> None:
    content = bytes(range(71))
    joined = list(coalesce(ranges))
    assert b"".join(content[a : a + n] for a, n in joined) == b"".join(
        content[a : a + n] for a, n in ranges
    )
    assert all(size > 0 for _, size in joined)
    assert all(a + n != b for (a, n), (b, _) in pairwise(joined))


CONVERTIBLE = sorted(set(build.FLAGS) - {"int16", "uint16", "uint32", "uint64", "bfloat16"})


@settings(deadline=None)
@given(
    st.lists(st.tuples(SHAPES, st.sampled_from(CONVERTIBLE)), max_size=5),
    st.permutations(["npz", "safetensors", "params"]),
    st.data(),
)
def test_a_tour_through_every_format_gives_the_same_bytes(
    shapes, tour: list[str], data: st.DataObject
) -> None:
    names = data.draw(st.lists(TEXT, min_size=len(shapes), max_size=len(shapes), unique=True))
    records = [
        build.dense(shape, dtype, build.pattern(build.count_bytes(shape, dtype), 3))
        for shape, dtype in shapes
    ]
    content = build.container(records, names)
    with written(content) as path:
        for step, suffix in enumerate([*tour, "params"]):
            target = f"{path}.{step}.{suffix}"
            convert_params(path, target)
            path = target
        with open(path, "rb") as file:
            assert file.read() == content


@given(st.binary(max_size=200))
def test_any_bytes_read_or_are_refused(content: bytes) -> None:
    for start in (
        b"",
        build.container([])[:24],
        b"\x12\1" + bytes(14) + b"\1" + bytes(7),
        b"PK\3\4",
        b"\x30" + bytes(7) + b"{",
    ):
        with written(start + content) as path:
            try:
                index = read_index(path)
                with ArrayReader(index) as reader:
                    for record in index.records:
                        if record.shape is not None and record.storage == "default":
                            assert sum(map(len, reader.chunks(record))) == record.dense_size
            except InputError:
                continue
