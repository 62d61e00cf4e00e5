"""Errors of fsspec: the package that a protocol lacks is named, and no other one is installed in its place."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from types import SimpleNamespace

import pytest

from graphshare.errors import Fault, InputError
from graphshare.files import open_source
from graphshare.files.byte_source import ListedFile
from graphshare.files.remote import listing, retries
from graphshare.files.remote.filesystem import INSTALL, RemotePath, may_pass, translate_error
from graphshare.files.remote.ranges import _total
from graphshare.text.urls import find_scheme
from tests.remote.answers import refuse, refuse_in_s3


@pytest.mark.parametrize(
    ("url", "text", "hint"),
    [
        (
            "gs://models/net-symbol.json",
            "Please install gcsfs to access Google Storage",
            "pip install gcsfs",
        ),
        (
            "github://a:b@c/net-symbol.json",
            "Install the requests package to use the github FS",
            "pip install requests",
        ),
        (
            "sftp://host/net-symbol.json",
            'SFTPFileSystem requires "paramiko" to be installed',
            "pip install paramiko",
        ),
        (
            "lakefs://a/net-symbol.json",
            "Please install lakefs-spec to access LakeFSFileSystem",
            "pip install lakefs-spec",
        ),
        ("libarchive://net-symbol.json", "LibArchive requires to be installed", ""),
        ("hdfs://host/net-symbol.json", "pyarrow and local java libraries required for HDFS", ""),
        ("s3://models/net-symbol.json", "Install s3fs to access S3", INSTALL),
        ("s3://models/net-symbol.json", "No module named 'aiobotocore'", INSTALL),
        (
            "https://host/net-symbol.json",
            'HTTPFileSystem requires "requests" and "aiohttp" to be installed',
            INSTALL,
        ),
    ],
)
def test_a_missing_package_is_named(url: str, text: str, hint: str) -> None:
    (fault,) = translate_error(ImportError(text), url).faults
    assert (fault.message, fault.hint) == (f"needs a package that is not installed: {text}", hint)


def name_error(name: str) -> Exception:
    kind: type[Exception] = type(name, (Exception,), {})
    return kind("of another package")


@pytest.mark.parametrize(
    ("error", "message", "is_denied"),
    [
        (refuse(401), "the server requires a user name and a password (401)", True),
        (refuse(403), "the server refuses access (403)", True),
        (refuse_in_s3(403), "the server refuses access (403)", True),
        (refuse(402), "the server answered 402", False),
        (refuse(404), "does not exist", False),
        (FileNotFoundError(), "does not exist", False),
        (PermissionError(13, "Permission denied"), "cannot be read: Permission denied", True),
        (name_error("NoCredentialsError"), "cannot be read: of another package", True),
        (ValueError("read by key:hidden@b"), "cannot be read: read by ...@b", False),
        (ValueError(), "cannot be read: ValueError", False),
    ],
)
def test_a_refusal_of_a_server_names_its_reason(
    error: Exception, message: str, is_denied: bool
) -> None:
    (fault,) = translate_error(error, "s3://key:hidden@b/a.json").faults
    assert (fault.message, fault.where) == (message, "s3://b/a.json")
    assert bool(fault.hint) is is_denied


@pytest.mark.parametrize(
    ("error", "may_succeed"),
    [
        *(
            (refuse(status), status in (429, 500, 503))
            for status in (400, 404, 428, 429, 430, 499, 500, 503)
        ),
        (refuse_in_s3(503), True),
        (refuse_in_s3(403), False),
        *(
            (error, True)
            for error in (ConnectionResetError(), TimeoutError(), name_error("ReadTimeoutError"))
        ),
        *((error, False) for error in (FileNotFoundError(), PermissionError(), ValueError())),
        *(
            (name_error(name), False)
            for name in (
                "ClientConnectorDNSError",
                "ClientConnectorCertificateError",
                "ClientError",
            )
        ),
    ],
)
def test_what_may_pass_is_requested_again(error: Exception, may_succeed: bool) -> None:
    assert may_pass(error) is may_succeed


@pytest.mark.parametrize(
    ("cause", "endings", "hint"),
    [
        (FileNotFoundError(), (".json",), "did you mean b.json?"),
        (FileNotFoundError(), (), ""),
        (PermissionError(), (".json",), ""),
    ],
)
def test_a_file_near_a_url_is_suggested_where_nothing_is(
    cause: OSError, endings: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        open_source, "suggest_files", lambda path, ends: f"did you mean b{ends[0]}?"
    )
    error = InputError(Fault("does not exist", where="s3://models/a.json"))
    error.__cause__ = cause
    (fault,) = open_source.suggest_others(error, "s3://models/a.json", endings).faults
    assert (fault.message, fault.where, fault.hint) == (
        "does not exist",
        "s3://models/a.json",
        hint,
    )


def test_the_size_of_an_object_is_that_of_its_range() -> None:
    assert _total({"ContentRange": "bytes 0-3/10"}, "s3://a/b") == 10
    for response in ({}, {"ContentRange": "bytes 0-3/*"}, {"ContentRange": "0-3/10"}):
        with pytest.raises(InputError, match="does not send ranges"):
            _total(response, "s3://a/b")


@pytest.mark.parametrize("variable", ["", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"])
def test_requests_to_s3_are_repeated_as_often_as_others_unless_the_user_has_decided(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiobotocore")
    for name in ("AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "adaptive")
    options = retries.s3_options({"anon": True, "config_kwargs": {"read_timeout": 5}})
    settings = {
        name: value
        for name, value in options["config_kwargs"].items()
        if name != "http_session_cls"
    }
    wanted = {"connect_timeout": 10.0, "read_timeout": 5, "max_pool_connections": 32}
    assert settings == wanted | (
        {} if variable else {"retries": {"total_max_attempts": 4, "mode": "standard"}}
    )
    assert options["anon"] is True


@pytest.mark.parametrize(
    ("facts", "size"), [({"size": 0}, 0), ({"size": 7}, 7), ({"size": None}, -1), ({}, -1)]
)
def test_a_listing_may_have_no_sizes(facts: dict[str, int | None], size: int) -> None:
    assert listing._describe("s3://b/a/", "n.json", facts) == ListedFile(
        "s3://b/a/n.json", size, ""
    )


def test_options_of_the_user_win_over_those_of_the_web() -> None:
    pytest.importorskip("aiohttp")
    options = retries.http_options({"block_size": 1, "client_kwargs": {"trust_env": True}})
    assert (options["block_size"], options["client_kwargs"].keys()) == (
        1,
        {"response_class", "trust_env"},
    )
    assert retries.http_options({"client_kwargs": {"response_class": int}}) == {
        "client_kwargs": {"response_class": int}
    }


@pytest.mark.parametrize(("size", "seconds"), [(0, 30), (10_000, 31), (5_000_000, 530)])
def test_a_request_has_time_for_its_bytes(size: int, seconds: float) -> None:
    assert retries.allow_seconds(size) == seconds


@pytest.mark.parametrize(
    ("size", "pieces", "reads"),
    [(0, [], []), (5, [5], [5]), (5, [2, 3], [5, 3]), (9, [4, 0], [9, 5])],
)
def test_a_stream_is_read_until_its_bytes_are_there(
    size: int, pieces: list[int], reads: list[int]
) -> None:
    asked: list[int] = []
    answers = iter(pieces)

    async def read(count: int) -> bytes:
        asked.append(count)
        return bytes(next(answers))

    assert asyncio.run(retries.read_paced(read, size)) == bytes(sum(pieces))
    assert asked == reads
    asked.clear()
    answers = iter([1 << 20, 1])
    assert len(asyncio.run(retries.read_paced(read, (1 << 20) + 1))) == (1 << 20) + 1
    assert asked == [1 << 20, 1]


@pytest.mark.parametrize(("seconds", "is_in_time"), [(30.5, True), (31, False)])
def test_the_bytes_of_a_stream_come_at_a_pace(
    seconds: float, is_in_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((100.0, 100.0 + seconds))
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    async def read(count: int) -> bytes:
        return bytes(count)

    if is_in_time:
        assert asyncio.run(retries.read_paced(read, 5000)) == bytes(5000)
    else:
        with pytest.raises(TimeoutError):
            asyncio.run(retries.read_paced(read, 5000))


@pytest.mark.parametrize(
    ("error", "is_a_timeout"),
    [
        (TimeoutError(), True),
        (asyncio.TimeoutError(), True),
        (name_error("ReadTimeoutError"), True),
        (name_error("ConnectTimeoutError"), True),
        (name_error("EndpointConnectionError"), False),
        (ConnectionResetError(), False),
    ],
)
def test_the_limits_are_named_when_a_server_does_not_keep_them(
    error: Exception, is_a_timeout: bool
) -> None:
    words = "Timeout: no connection in 10 s, no answer or no further byte in 30 s, or less than 10 kB per second"
    assert retries.describe_timeout(error) == (words if is_a_timeout else "")


def test_answers_to_s3_have_a_limit_of_their_own_where_the_package_lets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("aiobotocore")
    is_known = (
        "http_session_cls"
        in inspect.signature(importlib.import_module("aiobotocore.config").AioConfig).parameters
    )
    assert ("http_session_cls" in retries.s3_options({})["config_kwargs"]) is is_known
    monkeypatch.setattr(retries, "signature", lambda function: SimpleNamespace(parameters={}))
    assert "http_session_cls" not in retries.s3_options({})["config_kwargs"]


@pytest.mark.parametrize(
    ("asked", "declared", "size"), [(7, 100, 7), (-1, 100, 100), (0, 100, 100)]
)
def test_each_part_of_an_answer_has_time_for_its_bytes(
    asked: int, declared: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def allow_seconds(size: int) -> float:
        sizes.append(size)
        return 60.0

    async def read(count: int) -> bytes:
        return b"x" * abs(count)

    monkeypatch.setattr(retries, "allow_seconds", allow_seconds)

    stream = retries._PacedStream(SimpleNamespace(read=read, total=3), declared)
    assert asyncio.run(stream.read(asked)) == b"x" * abs(asked)
    assert (sizes, stream.total) == ([size], 3)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("a\n  b"), "a b"),
        (ValueError("x" * 300), "x" * 300),
        (ValueError("x" * 301), "x" * 297 + "..."),
        (OSError(5, "Input/output error"), "Input/output error"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_reason_of_an_error_is_one_line(error: Exception, reason: str) -> None:
    for writes, verb in ((False, "read"), (True, "written")):
        (fault,) = translate_error(error, "s3://b/a.json", writes=writes).faults
        assert fault.message == f"cannot be {verb}: {reason}"


@pytest.mark.parametrize(
    ("url", "is_web", "is_s3"),
    [
        ("http://h/a", True, False),
        ("https://h/a", True, False),
        ("s3://b/a", False, True),
        ("s3a://b/a", False, True),
        ("simplecache::s3://b/a", False, False),
        ("SimpleCache::s3://b/a", False, False),
        ("cached::s3://b/a", False, False),
        ("dir::s3://b/a", False, False),
        ("memory://a", False, False),
    ],
)
def test_ranges_are_requested_by_http_or_s3(url: str, is_web: bool, is_s3: bool) -> None:
    place = object.__new__(RemotePath)
    place.url, place.scheme = url, find_scheme(url)
    assert (place.is_web, place.is_s3) == (is_web, is_s3)
