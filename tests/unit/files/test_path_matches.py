"""Globs over paths and URLs."""

from __future__ import annotations

import pytest

from graphshare.files import path_matches
from graphshare.files.path_matches import find_root, list_candidates, match_path
from tests.effort import ends


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("s3://b/*/nin", ["s3://b/a/nin"], ["s3://b/nin", "s3://b/a/c/nin", "s3://b/.a/nin"]),
        ("s3://b/**/*.json", ["s3://b/x.json", "s3://b/a/c/x.json"], ["s3://b/x.onnx", "s3://b/.a/x.json", "s3://b/a/.x.json"]),
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
    monkeypatch.setattr(path_matches, "find_below", lambda folder, *, depth: listed.append((folder, depth)))
    list_candidates(pattern)
    assert (find_root(pattern), listed) == (root, [(root, depth)])
