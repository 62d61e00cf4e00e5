"""TOML at the bounds of what is read."""

from __future__ import annotations

from time import process_time

import pytest

from graphshare.errors import InputError
from graphshare.files.toml import MAX_BYTES, MAX_DEPTH, read_toml, toml_reader

pytestmark = pytest.mark.skipif(
    toml_reader() is None, reason="this Python reads no TOML; pip install tomli"
)


PARTS = {
    "plain": "a",
    "quoted": '"a"',
    "literal": "'a'",
    "of any text": '"a b=[{,}]#.\\""',
    "empty": "''",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", " = 1"),
        (" ", " = 1"),
        ("[", "]"),
        ("[[", "]]"),
        ("b = { ", " = 1 }"),
        ("b = [{ c = 1, ", " = 1 }]"),
        ('b = { c = """\'"\n"\\"""""", ', " = 1 }"),
        ("b = { c = '''\"'\n'\\''''', ", " = 1 }"),
        ('# "\n', ' = 1 # "'),
        ("'x'.", " = 1"),
    ],
)
def test_a_dotted_key_has_at_most_so_many_parts(before: str, after: str, part: str) -> None:
    """Neither quotes of a part nor texts around a key hide its dots."""
    count = MAX_DEPTH - before.count("x")
    dotted = " . ".join([PARTS[part]] * count)
    assert read_toml(f"{before}{dotted}{after}".encode(), where="x")
    with pytest.raises(InputError, match=f"a dotted key of more than {MAX_DEPTH} parts"):
        read_toml(f"{before}{dotted}.{PARTS[part]}{after}".encode(), where="x")


@pytest.mark.large
@pytest.mark.parametrize(
    "piece", ['\\"', '"', '""" "" ', "''a", '"""\\', 'a"\\"""', '"\n', "a.", ". "]
)
def test_keys_are_found_in_linear_time(piece: str) -> None:
    text = (piece * (MAX_BYTES // len(piece))).encode()
    for quotes in (b"", b"'", b"'''", b'"', b'"""'):
        start = process_time()
        with pytest.raises(InputError):
            read_toml((quotes + text)[:MAX_BYTES], where="x")
        assert process_time() - start < 20


def test_dots_in_values_are_no_parts() -> None:
    assert read_toml(f'a = "{"." * 999}" # {"." * 999}'.encode(), where="x") == {"a": "." * 999}


def test_the_size_has_a_bound() -> None:
    text = b"a = 1 #"
    assert read_toml(text + b"x" * (MAX_BYTES - len(text)), where="x") == {"a": 1}
    with pytest.raises(InputError, match="is larger than 2 MiB"):
        read_toml(text + b"x" * (MAX_BYTES - len(text) + 1), where="x")


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"\xff", "is not UTF-8"), (b"a", "is not TOML"), (b"a = 1\na = 2", "is not TOML")],
)
def test_what_is_no_toml_is_named(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_toml(data, where="x")
