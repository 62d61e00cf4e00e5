"""URLs as texts."""

from __future__ import annotations

import pytest

from graphshare.errors import Fault
from graphshare.text.urls import (
    extend_url,
    find_scheme,
    hide_secrets,
    is_url,
    join_url,
    leaves_folder,
    list_schemes,
    local_path,
    redact,
    split_url,
)
from tests.effort import ends


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("s3://b/a/n-symbol.json", ("s3://b/a/", "n-symbol.json", "")),
        ("memory://nin", ("memory://", "nin", "")),
        ("zip://nets/nin::s3://b/m.zip", ("zip://nets/", "nin", "::s3://b/m.zip")),
        ("http://h/a/nin?token=x/y", ("http://h/a/", "nin", "?token=x/y")),
        ("s3://b/what?-symbol.json", ("s3://b/", "what?-symbol.json", "")),
        ("simplecache::s3://b/k", ("simplecache::s3://b/", "k", "")),
    ],
)
def test_a_url_has_a_folder_a_name_and_a_rest(url: str, parts: tuple[str, str, str]) -> None:
    assert is_url(url)
    assert split_url(url) == parts
    head, name, tail = parts
    assert join_url(head + tail, name) == url
    assert extend_url(url, ".x") == f"{head}{name}.x{tail}"
    assert split_url(url).path == head + name
    assert split_url(url).with_name("x") == f"{head}x{tail}"


def test_the_base_of_a_folder_ends_in_a_slash() -> None:
    for url in ("https://h/a?x=1", "https://h/a/?x=1"):
        assert split_url(url).base == "https://h/a/"


def test_a_chain_has_a_scheme_for_each_link() -> None:
    assert list_schemes("zip://a.json::SimpleCache::S3://b/a.zip") == ["zip", "simplecache", "s3"]


def test_paths_are_not_urls() -> None:
    assert not any(map(is_url, ("nin", "C:\\nin", "c://nin", "a::b", "./s3://b", "-", "")))
    assert find_scheme("nin") == ""
    assert find_scheme("zip://a::HTTP://h/x") == "zip"


def test_file_urls_are_paths() -> None:
    assert local_path("file:///tmp/a%20b") == "/tmp/a b"
    assert local_path("FILE://localhost/x") == "/x"
    assert local_path("file:///C:/x") == "C:/x"
    for path in ("zip://a::file:///x.zip", "file:///a.zip::b", "file://elsewhere/x", "/tmp/a%20b"):
        assert local_path(path) == path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("http://me:pass@h:80/x?sig=1&b=2", "http://h:80/x?..."),
        ("http://me:pa/ss@h/x", "http://h/x"),
        ("https://h/x#token", "https://h/x?..."),
        ("s3://key:secret@b/x", "s3://b/x"),
        ("s3://b/x?versionId=1", "s3://b/x?..."),
        ("s3://b/x?-symbol.json", "s3://b/x?-symbol.json"),
        ("zip://a::https://u@h/x.zip?sig=1", "zip://a::https://h/x.zip?..."),
        ("see 'http://h/x?sig=1' and http://h/y?s", "see 'http://h/x?...' and http://h/y?..."),
        ("http://h:8080/a@2x.json", "http://h:8080/a@2x.json"),
        ("mail me@example.org", "mail me@example.org"),
    ],
)
def test_credentials_and_queries_are_left_out(text: str, wanted: str) -> None:
    assert redact(text) == wanted
    assert redact(wanted) == wanted
    assert str(Fault(text, where=text, hint=text)) == f"{wanted}: {wanted}"
    assert Fault("x", hint=text).hint == wanted


@pytest.mark.parametrize("part", ["http://", "://a:b/c@:", "s3://a?"])
def test_names_that_look_like_urls_are_read_to_their_end(part: str) -> None:
    with ends():
        redact(part * 20_000)


def test_other_packages_quote_secrets_in_other_forms() -> None:
    url = "s3://key:hidden@bucket/x"
    assert hide_secrets('bucket "key:hidden@bucket" or hidden', url) == 'bucket "...@bucket" or ...'
    assert hide_secrets("sig=abcdef", "https://h/x?sig=abcdef") == "..."
    assert hide_secrets("read by abcd, of abc", "https://abc:abcd@h/x") == "read by ..., of abc"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "..",
            "../w",
            "a/../../w",
            "/w",
            "//evil.example/w",
            "..\\w",
            "\\w",
            ".\t./w",
            "\t../w",
            ".\n./w",
            ".. /w",
            "\0/w",
        ),
        *(
            "%2e%2e/w",
            ".%2e/w",
            "%2E./w",
            "..%2fw",
            "..%5cw",
            "%2fw",
            ".%09./w",
            "%252e%252e/w",
            "a/..%25252fw",
            "..;a/w",
            "..%3b/w",
        ),
        *("..%3fw", "..%23w"),
    ],
)
def test_names_that_lead_out_of_a_folder(name: str) -> None:
    assert leaves_folder(name)


@pytest.mark.parametrize(
    "name",
    [
        "w.bin",
        "a/b/w.bin",
        "...",
        "..w",
        "w..",
        "a b.bin",
        "100%.bin",
        "%",
        "%2",
        "w%20x",
        "./w",
        "ä",
        "",
    ],
)
def test_names_that_stay_in_a_folder(name: str) -> None:
    assert not leaves_folder(name)


def test_a_name_that_is_quoted_without_end_is_refused_at_once() -> None:
    assert leaves_folder("%" + "25" * 100_000)
