"""Globs over paths and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphshare.files import path_matches
from graphshare.files.byte_source import ListedFile
from graphshare.files.path_matches import (
    find_root,
    is_pattern,
    list_candidates,
    list_matches,
    match_path,
    match_paths,
)
from tests.effort import ends


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("s3://b/*/nin", ["s3://b/a/nin"], ["s3://b/nin", "s3://b/a/c/nin", "s3://b/.a/nin"]),
        (
            "s3://b/**/*.json",
            ["s3://b/x.json", "s3://b/a/c/x.json"],
            ["s3://b/x.onnx", "s3://b/.a/x.json", "s3://b/a/.x.json"],
        ),
        ("s3://b/net[0-9]?", ["s3://b/net12"], ["s3://b/net1", "s3://b/netab"]),
        ("a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("a/=b/re:c", ["a/=b/re:c"], ["a/b/c"]),
    ],
)
def test_globs_over_paths(pattern: str, matches: list[str], others: list[str]) -> None:
    assert [path for path in (*matches, *others) if match_path(path, pattern)] == matches


def test_globs_that_hang_a_backtracking_search() -> None:
    with ends():
        assert not match_path("/".join(["a"] * 400), "/".join(["**", "a"] * 200) + "/b")
        assert not match_path("a" * 3000, "*a" * 60 + "b")


@pytest.mark.parametrize(
    ("pattern", "root", "depth"),
    [
        ("s3://b/a/*.json", "s3://b/a/", 1),
        ("s3://b/a/*/x.json", "s3://b/a/", None),  # one listing has all folders
        ("http://h/a/net*.json?key=1", "http://h/a/?key=1", 1),
        ("http://h/a/*/[xy]/n.json", "http://h/a/", 3),
        ("https://h/**/n.json", "https://h/", None),
        ("zip://a/*/n.json::s3://b/m.zip", "zip://a/::s3://b/m.zip", None),
    ],
)
def test_a_glob_lists_as_many_levels_as_it_has(
    pattern: str, root: str, depth: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[tuple[str, int | None]] = []
    monkeypatch.setattr(
        path_matches, "find_below", lambda folder, *, depth: listed.append((folder, depth))
    )
    list_candidates(pattern)
    assert (find_root(pattern), listed) == (root, [(root, depth)])


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b/c", "a/b", False),
        ("a", "a/b", False),
        ("a/b", "a/b/**", True),
        ("a/b", "a/b/**/c", False),
        ("a/b/c", "**", True),
        (".a", "**", False),
        ("x/.a/b", "**/b", False),
        ("x/.a/b", "**/.a/b", True),
        ("a/x/b/y/b", "a/**/b", True),
        ("a/x/b/y/c", "a/**/b", False),
        ("a/b/x/b/c", "**/b/*/**/c", True),
        ("a//b", "a//b", True),
        ("a/b", "a//b", False),
        (".a", ".*", True),
        ("", "", True),
        ("", "**", True),
    ],
)
def test_a_glob_matches_a_whole_path(path: str, pattern: str, expected: bool) -> None:
    assert match_path(path, pattern) is expected


def test_a_path_with_such_characters_may_be_that_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a[1].json", "b[1]-symbol.json", "c.json"):
        Path(name).touch()
    Path("d.json").mkdir()
    names = ("a[1].json", "a[2].json", "b[1]", "*.json", "c.json", "c?json", "gone.json")
    assert [is_pattern(name, stem_end="-symbol.json") for name in names] == [
        False,
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    assert is_pattern("b[1]")
    urls = ("s3://b/a*", "s3://b/a[1]", "s3://b/a?c", "http://h/a?b=*", "http://h/*/a", "s3://b/a")
    assert [is_pattern(url) for url in urls] == [True, True, True, False, True, False]
    assert match_paths("*.json") == ["a[1].json", "b[1]-symbol.json", "c.json"]
    assert match_paths("**/c.json") == ["c.json"]
    assert match_paths("x*") == []


def test_files_at_urls_are_matched_without_their_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        ListedFile(f"http://h/a/{name}?key=1", 1, "") for name in ("b/n.json", "n.json", "b/n.onnx")
    ]
    monkeypatch.setattr(path_matches, "list_candidates", lambda pattern: files)
    assert list_matches("http://h/a/*/*.json?key=1") == files[:1]
    assert match_paths("http://h/a/**/*.json?key=1") == [file.path for file in files[:2]]
    assert match_paths("http://h/a/*.params?key=1") == []
