"""Records of parameter files: their sizes, their names in messages, and the patterns that choose them."""

from __future__ import annotations

import pytest

from graphshare.errors import RefusedError
from graphshare.formats.params.records import (
    Origin,
    ParameterFile,
    Record,
    element_count,
    find_coarsest,
    format_record,
    select_keys,
)


def record(
    key: str | None,
    shape: tuple[int, ...] | None = (2, 3),
    dtype: str | None = "float16",
    **more: object,
) -> Record:
    return Record(key, shape, dtype, "V2", 24, 40, 52, 12, **more)  # type: ignore[arg-type]


def test_sizes_in_dense_form() -> None:
    shapes = ((2, 3), (), (0, 5), (7,), None)
    assert [record("a", shape).dense_size for shape in shapes] == [12, 2, 0, 14, 0]
    assert record("a", (2,), None).dense_size == 0
    assert record("a", (2,), "float64").dense_size == 16
    assert [element_count(shape) for shape in ((), (3,), (2, 3, 4), (1 << 40, 1 << 40))] == [
        1,
        3,
        24,
        1 << 80,
    ]
    with pytest.raises(RefusedError, match='record "a" was never filled'):
        record("a", None).shape_and_dtype()
    assert record("a").shape_and_dtype() == ((2, 3), "float16")
    assert (record("a").element_type, record("a", stated="int4").element_type) == (
        "float16",
        "int4",
    )
    assert [record(key).key_bytes for key in ("a", None, "\udcff", "\ud800")] == [
        b"a",
        b"",
        b"\xff",
        b"\xed\xa0\x80",
    ]


def test_the_file_with_the_bytes_of_a_record() -> None:
    other = ParameterFile("other", 1000, "params", (), named=True)
    records = (
        record("a"),
        record("b", origin=Origin("b", other)),
        record("c", origin=Origin(None)),
    )
    file = ParameterFile("file", 1000, "params", records, named=True)
    holders = list(map(file.find_holder, records))
    assert holders[0] is file
    assert holders[1] is other
    assert holders[2] is None


def test_the_whole_size_counts_each_range_in_another_file_once() -> None:
    other = ParameterFile("other", 1000, "params", (), named=True)
    records = [
        record("a"),
        record("b", origin=Origin("b", other)),
        record("c", origin=Origin("c", other)),
    ]
    file = ParameterFile("own", 100, "params", tuple(records), named=True)
    own = Origin("e", ParameterFile("own", 9, "params", (), named=True))
    more = (*records, record("d", origin=Origin("d")), record("e", origin=own))
    assert (file.whole_size, ParameterFile("own", 100, "params", more, named=True).whole_size) == (
        112,
        112,
    )
    assert file.by_key().keys() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("key", "number", "text"),
    [
        ("arg:w", 12, 'record 12 "arg:w"'),
        ("w", None, 'record "w"'),
        (None, 0, "record 0"),
        (None, None, "record"),
        ("x" * 200, 1, f'record 1 "{"x" * 200}"'),
        ("x" * 201, 1, f'record 1 "{"x" * 197}..."'),
    ],
)
def test_a_record_has_a_name_in_messages(key: str | None, number: int | None, text: str) -> None:
    assert format_record(key, number) == text


@pytest.mark.parametrize(
    ("dtypes", "coarsest"),
    [
        (["float32", "float16"], "float16"),
        (["float64", "float32"], "float32"),
        (["bfloat16", "float16"], "bfloat16"),
        (["int32", None, "float64"], "float64"),
        (["int32"], ""),
    ],
)
def test_the_coarsest_dtype_is_the_least_precise(dtypes: list[str | None], coarsest: str) -> None:
    assert find_coarsest(dtypes) == coarsest


def test_patterns_choose_keys_with_or_without_their_prefix() -> None:
    keys = ("arg:conv1_weight", "arg:conv1_bias", "aux:bn_mean", None)
    file = ParameterFile("f", 9, "params", tuple(map(record, keys)), named=True)
    for patterns, chosen in (
        ([], keys[:3]), (["*_weight"], keys[:1]), (["arg:*"], keys[:2]), (["bn_mean", "conv1_bias"], keys[1:3])
    ):  # fmt: skip
        assert select_keys(file, patterns) == {*chosen}
    assert select_keys(file, ["bn_mean", "gone"], others=["arg:gone"]) == {"aux:bn_mean"}
    assert select_keys(file, ["aux:gone"], others=["aux:gone"]) == set()
    assert select_keys(file, [], leave_out=["conv1_*"]) == {"aux:bn_mean"}
    assert select_keys(
        file, ["arg:*", "gone"], leave_out=["*bias", "lost"], others=["gone", "lost"]
    ) == {"arg:conv1_weight"}
    with pytest.raises(RefusedError) as caught:
        select_keys(file, ["gone"], leave_out=["lost"], option="`keep`")
    assert [fault.message for fault in caught.value.faults] == [
        "`keep` 'gone' matches no parameter", "`leave_out` 'lost' matches no parameter"
    ]  # fmt: skip
    with pytest.raises(RefusedError) as caught:
        select_keys(file, ["gone", "bn_mean", "conv1_wieght"], others=["arg:x"], option="`keep`")
    assert [fault.message for fault in caught.value.faults] == [
        "`keep` 'gone' matches no parameter", "`keep` 'conv1_wieght' matches no parameter"
    ]  # fmt: skip
    assert "conv1_weight" in caught.value.faults[1].hint
