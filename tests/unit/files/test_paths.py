"""Files near a path that is not there, names in folders, and paths of descriptors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphshare.errors import RefusedError
from graphshare.files.open_source import read_file
from graphshare.files.paths import (
    STDIN,
    Content,
    UsedFile,
    base_name,
    exists,
    find_identity,
    ignores_case,
    is_directory,
    is_file,
    is_folder,
    is_inside,
    is_listed_file,
    is_snapshot,
    is_stem,
    is_surely_file,
    list_names,
    place_output,
    real_path,
    refuse_inputs_as_outputs,
    refuse_missing,
    relative_path,
    suggest_files,
)
from graphshare.files.staged_file import _descriptor_number


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("net-symbol.json", "net-0000.params", "net.txt", "other-symbol.json"):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "stem_end", "hint"),
    [
        ("net", "", "did you mean 'net-symbol.json'?"),
        ("nett", "-symbol.json", "did you mean 'net'?"),
        (
            "ohter-symbol.json",
            "-symbol.json",
            "did you mean 'other-symbol.json' or 'net-symbol.json'?",
        ),
        ("sub/net", "", ""),
        ("gone/net", "", "the directory 'gone' does not exist"),
        ("net.txt/net", "", ""),
        ("memory://gone/net", "", ""),
    ],
)
@pytest.mark.usefixtures("folder")
def test_files_near_a_path_are_suggested(path: str, stem_end: str, hint: str) -> None:
    assert suggest_files(path, (".json",), stem_end=stem_end) == hint


def test_a_folder_is_no_file_and_a_name_at_a_url_is_one(folder: Path) -> None:
    names = ("net.txt", "sub", "gone")
    assert [is_listed_file(str(folder), name) for name in names] == [True, False, False]
    assert [is_listed_file("s3://bucket", name) for name in names] == [True, True, True]


@pytest.mark.parametrize(
    ("most", "data"), [(0, b""), (1, b"1"), (3, b"123"), (5, b"12345"), (9, b"12345")]
)
def test_at_most_so_many_bytes_are_read(most: int, data: bytes, folder: Path) -> None:
    assert read_file(str(folder / "net.txt"), most=most) == data
    if sys.platform != "win32":
        reader, writer = os.pipe()
        os.write(writer, b"12345")
        os.close(writer)
        assert read_file(f"/dev/fd/{reader}", most=most) == data
        os.close(reader)


def test_only_links_in_a_snapshot_beside_blobs_are_of_a_hub(folder: Path) -> None:
    for parts in ("hub/snapshots/1", "hub/blobs", "plain/snapshots/1", "hub/other/1"):
        (folder / parts).mkdir(parents=True, exist_ok=True)
    names = ("hub/snapshots/1", "hub/snapshots", "plain/snapshots/1", "hub/other/1", "hub/blobs")
    assert [is_snapshot(str(folder / name)) for name in names] == [True, True, False, False, False]


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="needs the process file system of Linux"
)
@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/dev/stdout", 1),
        ("/dev/fd/3", 3),
        ("/proc/self/fd/12", 12),
        ("/proc/{own}/fd/4", 4),
        ("/proc/1/fd/3", None),  # of another process
        ("/dev/fd/x", None),
        ("/dev/3", None),
        ("a3", None),
    ],
)
def test_a_path_may_name_a_descriptor(path: str, number: int | None) -> None:
    assert _descriptor_number(path.format(own=os.getpid())) == number


@pytest.fixture
def store(folder: Path) -> Iterator[str]:
    """A folder at a URL with the files of ``folder``."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(str(folder), "/graphshare-test-paths", recursive=True)
    yield "memory://graphshare-test-paths"
    memory.rm("/graphshare-test-paths", recursive=True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["path", "url"])
def test_paths_and_urls_are_files_and_folders(kind: str, request: pytest.FixtureRequest) -> None:
    root = request.getfixturevalue("store") + "/" if kind == "url" else ""
    names = ("net.txt", "net-symbol.json", "gone", "gone.json", "sub" if kind == "path" else "")
    kinds = [(exists(root + name), is_file(root + name), is_folder(root + name)) for name in names]
    is_there, is_not, is_a_folder = (True, True, False), (False, False, False), (True, False, True)
    assert kinds == [is_there, is_there, is_not, is_not, is_a_folder]
    assert list_names(root, prefix="net-") == ["net-0000.params", "net-symbol.json"]
    others = ["sub"] if kind == "path" else []
    assert list_names(root) == [
        "net-0000.params",
        "net-symbol.json",
        "net.txt",
        "other-symbol.json",
        *others,
    ]


def test_a_url_may_show_by_its_name_what_it_is(store: str) -> None:
    assert [
        is_folder(store),
        is_folder("http://no.invalid/a/"),
        is_folder("http://no.invalid/a.onnx"),
    ] == [True, True, False]
    names = ("a.onnx", "A.PARAMS?b=c", "a.txt?b.onnx", "a", "a.json/")
    assert [is_surely_file(f"http://m/{name}") for name in names] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [base_name(path) for path in ("a/b", "b", "http://m/a/b?c=d", "a/")] == [
        "b",
        "b",
        "b",
        "",
    ]


@pytest.mark.parametrize(
    ("path", "folder", "relative"),
    [
        ("a/b.json", "a", "b.json"),
        ("a/b.json", "", "a/b.json"),
        ("a/b.json", "a/c", "../b.json"),
        ("s3://key:hidden@m/a.json", "a", "s3://m/a.json"),
        ("a/b.json", "s3://m", "a/b.json"),
    ],
)
def test_a_path_relative_to_a_folder(path: str, folder: str, relative: str) -> None:
    assert relative_path(path, folder) == relative


def test_a_folder_is_not_inside_one_whose_name_begins_like_it(folder: Path) -> None:
    assert [is_inside(str(folder / name), str(folder / "sub")) for name in ("sub/a", "sub", "sub2", "sub/../a")] == [
        True, True, False, False
    ]  # fmt: skip
    assert (real_path("s3://m/../a"), real_path(f"{folder}/sub/..")) == (
        "s3://m/../a",
        os.path.realpath(folder),
    )


def test_one_file_system_may_ignore_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ignores_case(str(folder / "gone"))
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: real(path) or real(path.swapcase()))
    names = (str(folder), str(folder / "gone" / "below"), os.sep, "memory://a")
    assert [ignores_case(name) for name in names] == [True, True, False, False]


def test_all_paths_of_a_regular_file_have_one_identity(folder: Path) -> None:
    os.link(folder / "net.txt", folder / "twin")
    with open("twin") as file:
        ids = [find_identity(path) for path in ("net.txt", str(folder / "twin"), file.fileno())]
    assert ids[0] is not None
    assert ids[0] == ids[1] == ids[2] != find_identity("other-symbol.json")
    assert [find_identity(path) for path in ("sub", "gone", "a\0b", os.devnull, 9999)] == [None] * 5
    assert find_identity("s3://key:hidden@m/a?token=1") == ("s3://m/a?...",)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("path", "is_into", "is_a_stem", "placed"),
    [
        ("sub", True, False, "sub/x.json"),
        ("gone/", True, True, "gone/x.json"),
        ("net", False, True, "net"),
        ("mobilenet1.0", False, True, "mobilenet1.0"),
        ("a.b/net", False, True, "a.b/net"),
        ("net.onnx", False, False, "net.onnx"),
        ("-", False, False, "-"),
        ("", False, False, ""),
        ("memory://gone/", True, True, "memory://gone/x.json"),
        ("memory://gone/a.json", False, False, "memory://gone/a.json"),
    ],
)
def test_an_output_is_a_directory_a_stem_or_a_file(
    path: str, is_into: bool, is_a_stem: bool, placed: str
) -> None:
    assert (is_directory(path), is_stem(path), place_output(path, "x.json")) == (
        is_into,
        is_a_stem,
        placed,
    )


@pytest.mark.parametrize(
    ("path", "hint", "wanted"),
    [
        ("s3:/m/a.json", "", "a URL has two slashes behind its colon, as in s3://models/nin"),
        ("HTTPS:h/a.json", "", "a URL has two slashes behind its colon, as in s3://models/nin"),
        ("s3:/m/a.json", "did you mean b?", "did you mean b?"),
        ("s3://m/a.json", "", ""),
        ("ftp:/m/a.json", "", ""),
        ("a/s3:/b", "", ""),
    ],
)
def test_a_url_with_one_slash_is_explained(path: str, hint: str, wanted: str) -> None:
    fault = refuse_missing(path, hint)
    assert (fault.message, fault.where, fault.hint) == ("does not exist", path, wanted)


_ELSEWHERE = "choose another output; to replace the input, add `in_place=True`"


@pytest.mark.parametrize(
    ("output", "source", "message", "hint"),
    [
        (("net.txt", "graph"), ("net.txt", "graph"), "is also the input", _ELSEWHERE),
        (("twin", "graph"), ("net.txt", "graph"), "is the same file as the input net.txt", _ELSEWHERE),
        (
            ("net.txt", "map"), ("net.txt", "graph"), "is also an input: the map would replace the graph",
            "choose another output"
        ),
        (
            ("twin", "report"), ("net.txt", "parameters"),
            "is also an input (net.txt): the report would replace the parameters", "choose another output"
        ),
        (("s3://m/a", "graph"), ("s3://m/a", "graph"), "is also the input", _ELSEWHERE),
        (("other-symbol.json", "graph"), ("net.txt", "graph"), "", ""),
        (("gone", "graph"), ("gone", "graph"), "", ""),
    ],
)  # fmt: skip
def test_an_output_that_is_an_input_is_refused_unless_that_is_meant(
    output: tuple[str, Content], source: tuple[str, Content], message: str, hint: str, folder: Path
) -> None:
    os.link(folder / "net.txt", folder / "twin")
    files = [UsedFile(*output)], [UsedFile("sub/none", "graph"), UsedFile(*source)]
    for in_place in (False, True):
        if not message or (in_place and output[1] == source[1]):
            refuse_inputs_as_outputs(*files, in_place=in_place)
            continue
        with pytest.raises(RefusedError) as caught:
            refuse_inputs_as_outputs(*files, in_place=in_place)
        (fault,) = caught.value.faults
        assert (fault.message, fault.where, fault.hint) == (message, output[0], hint)


def test_standard_streams_are_files_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identities = {0: (1,), 1: (2,), "a": (1,), "b": (2,), "c": (2,)}
    monkeypatch.setattr("graphshare.files.paths.find_identity", identities.get)
    for in_place in (False, True):
        with pytest.raises(RefusedError) as caught:
            refuse_inputs_as_outputs(
                [UsedFile("-", "graph")], [UsedFile("b", "graph")], in_place=in_place
            )
        (fault,) = caught.value.faults
        words = "is also an input (b): the graph would replace the graph"
        assert (fault.message, fault.where) == (words, "<stdout>")
    with pytest.raises(RefusedError, match=r"a: is the same file as the input <stdin>"):
        refuse_inputs_as_outputs([UsedFile("a", "graph")], [UsedFile(STDIN, "graph")])
    with pytest.raises(RefusedError) as caught:  # the first of two inputs is named, and each output
        refuse_inputs_as_outputs(
            [UsedFile("b", "map"), UsedFile("c", "map")],
            [UsedFile("b", "graph"), UsedFile("c", "map")],
        )
    assert [fault.message.partition(":")[0] for fault in caught.value.faults] == [
        "is also an input",
        "is also an input (b)",
    ]
