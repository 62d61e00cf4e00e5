"""What a URL names, and the files below it: objects of a store, and links on the pages of a web server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.errors import InputError
from graphshare.files.byte_source import ListedFile
from graphshare.files.remote import listing, retries
from graphshare.files.remote.listing import find_files, find_kind, list_folder

PAGES = {
    "": [
        "a.json",
        "a.json",
        "b/",
        "../x.json",
        "/y.json",
        "?C=N",
        "http://other/z.json",
        ".json",
        "./",
        "c/d.json",
        "e%20f.onnx",
    ],
    "b/": ["../", "n.params", "deep/", "x&amp;y.json"],
    "b/deep/": ["m.onnx", "deeper/"],
    "b/deep/deeper/": ["l.onnx"],
}


@pytest.fixture(params=["http://h/m", "http://h/m/"])
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of a web server, with or without a slash at its end."""
    pytest.importorskip("aiohttp")

    def read_url(url: str, limit: int) -> bytes:
        assert limit == 4 << 20
        return "".join(
            f'<p class="x"><a href="{link}">' for link in PAGES[url.removeprefix("http://h/m/")]
        ).encode()

    monkeypatch.setattr(listing, "read_url", read_url)
    root: str = request.param
    return root


@pytest.mark.parametrize(("depth", "levels"), [(1, 1), (2, 2), (3, 3), (None, 4), (9, 4)])
def test_links_of_pages_are_followed_so_many_levels_down(
    depth: int | None, levels: int, site: str
) -> None:
    names = [
        (".json", 1),
        ("a.json", 1),
        ("b/deep/deeper/l.onnx", 4),
        ("b/deep/m.onnx", 3),
        ("b/n.params", 2),
    ]
    wanted = [*names, ("b/x&y.json", 2), ("e%20f.onnx", 1)]
    assert find_files(site, depth=depth) == [
        ListedFile(f"http://h/m/{name}", -1, "") for name, at in wanted if at <= levels
    ]


def test_a_folder_of_a_web_server_lists_its_files_by_name(site: str) -> None:
    assert [file.path for file in list_folder(site)] == [
        f"http://h/m/{name}" for name in (".json", "a.json", "e%20f.onnx")
    ]
    assert list_folder(site, prefix="a") == [ListedFile("http://h/m/a.json", -1, "")]


def test_the_folders_of_a_web_server_are_bounded(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MAX_PAGES", 4)
    assert len(find_files(site)) == 7
    monkeypatch.setattr(listing, "_MAX_PAGES", 3)
    with pytest.raises(InputError, match="has more than 3 folders below it") as caught:
        find_files(site, depth=4)
    assert caught.value.faults[0].where == site


@pytest.mark.parametrize(
    ("pace", "words"),
    [(10.0, ""), (9.0, "its folders come too slowly: 1 in 20 s"), (0.0, "slowly: 0 in 10 s")],
)
def test_the_pages_of_a_web_server_come_at_a_pace(
    pace: float, words: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr(listing, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(retries, "SILENCE", 1.0 if words else 0.0)
    monkeypatch.setattr(retries, "PER_PAGE", pace)
    if not words:
        assert len(find_files(site)) == 7
        return
    with pytest.raises(InputError, match=words):
        find_files(site)


@pytest.fixture
def store() -> Any:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for name in ("a.json", "ab.json", "b/n.onnx", "b/deep/m.onnx"):
        memory.pipe_file(f"/graphshare-test-listing/{name}", b"12345")
    yield "memory://graphshare-test-listing"
    memory.rm("/graphshare-test-listing", recursive=True)


@pytest.mark.parametrize("end", ["", "/"])
def test_a_store_is_listed_by_path(end: str, store: str) -> None:
    names = ["a.json", "ab.json", "b/deep/m.onnx", "b/n.onnx"]
    for depth, chosen in ((1, names[:2]), (2, [*names[:2], names[3]]), (3, names), (None, names)):
        found = find_files(store + end, depth=depth)
        assert [(file.path, file.size) for file in found] == [
            (f"{store}/{name}", 5) for name in chosen
        ]
        assert all(file.version for file in found)
    assert [file.path for file in list_folder(store + end)] == [
        f"{store}/{name}" for name in names[:2]
    ]
    assert [file.path for file in list_folder(store + end, prefix="ab")] == [f"{store}/ab.json"]
    with pytest.raises(InputError, match="does not exist"):
        list_folder(f"{store}/none{end}")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "folder"),
        ("/b", "folder"),
        ("/b/", "folder"),
        ("/a.json", "file"),
        ("/a", ""),
        ("/none/", ""),
    ],
)
def test_a_url_names_a_file_a_folder_or_nothing(name: str, kind: str, store: str) -> None:
    assert find_kind(store + name) == kind


@pytest.mark.parametrize(
    ("cause", "kind"), [(None, "file"), (FileNotFoundError(), ""), (PermissionError(), "refused")]
)
def test_a_page_is_a_file_unless_its_name_ends_in_a_slash(
    cause: Exception | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")

    def open_remote(url: str, fetch: object) -> None:
        if cause is not None:
            raise InputError("refused") from cause

    monkeypatch.setattr(listing, "RemoteFile", open_remote)
    if kind == "refused":
        with pytest.raises(InputError, match="refused"):
            find_kind("http://h/a")
    else:
        assert find_kind("http://h/a?b=c") == kind
    assert find_kind("http://h/a/?b=c") == "folder"
