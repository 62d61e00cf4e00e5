"""Requests for ranges: what is asked of a web server and of S3, and which answers are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.errors import InputError
from graphshare.files.remote import ranges, retries
from graphshare.files.remote.ranges import Answer, choose_fetch
from tests.remote.answers import refuse, refuse_in_s3

CONTENT = b"0123456789"


class Body:
    """The content of an answer, which is read in pieces."""

    def __init__(self, data: bytes) -> None:
        self.data, self.is_closed = data, False

    async def read(self, size: int) -> bytes:
        piece, self.data = self.data[:size], self.data[size:]
        return piece

    def close(self) -> None:
        self.is_closed = True


def answer(status: int, data: bytes, **headers: str) -> SimpleNamespace:
    def raise_for_status() -> None:
        if status >= 400:
            raise refuse(status)

    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = SimpleNamespace(
        status=status, headers=names, content=Body(data), raise_for_status=raise_for_status
    )
    response.close = response.content.close
    return response


class Web:
    """The file system of a web server that gives each request the next answer."""

    def __init__(self, *answers: SimpleNamespace) -> None:
        self.answers, self.requests = list(answers), list[dict[str, Any]]()
        self.kwargs: dict[str, Any] = {"headers": {"X-Key": "1"}, "proxy": "p"}

    async def set_session(self) -> Any:
        return SimpleNamespace(get=self.get)

    def encode_url(self, url: str) -> str:
        return url

    async def get(self, url: str, **options: Any) -> Any:
        self.requests.append(options)
        found = self.answers.pop(0)

        class Context:
            async def __aenter__(self) -> Any:
                return found

            async def __aexit__(self, *_: object) -> None:
                pass

        return Context()


def read(web: Web, start: int = 2, stop: int = 5, version: str = "") -> Answer:
    pytest.importorskip("aiohttp")
    place: Any = SimpleNamespace(filesystem=web, url="http://h/a", path="http://h/a")
    return asyncio.run(ranges._get_from_web(place, start, stop, version))


@pytest.mark.parametrize(
    ("response", "start", "stop", "expected"),
    [
        (
            answer(206, b"234", Content_Range="bytes 2-4/10", ETag='"1"'),
            2,
            5,
            Answer(2, b"234", 10, '"1"'),
        ),
        (
            answer(206, b"234", Content_Range="bytes 2-4/10", Last_Modified="now"),
            2,
            5,
            Answer(2, b"234", 10, "now"),
        ),
        (answer(206, b"89", Content_Range="bytes 8-9/10"), 8, 99, Answer(8, b"89", 10, "")),
        (answer(206, b"2345", Content_Range="bytes 2-5/10"), 2, 4, Answer(2, b"23", 10, "")),
        (answer(200, CONTENT, ETag='"1"'), 2, 5, Answer(0, CONTENT, 10, '"1"')),
        (answer(416, b"", Content_Range="bytes */0", ETag='"1"'), 0, 5, Answer(0, b"", 0, '"1"')),
    ],
)
def test_the_answer_of_a_web_server(
    response: SimpleNamespace, start: int, stop: int, expected: Answer
) -> None:
    web = Web(response)
    assert read(web, start, stop) == expected
    (request,) = web.requests
    assert request["headers"] == {
        "X-Key": "1",
        "Range": f"bytes={start}-{stop - 1}",
        "Accept-Encoding": "identity",
    }
    assert (request["proxy"], request["timeout"].sock_connect, request["timeout"].sock_read) == (
        "p",
        10,
        30,
    )


@pytest.mark.parametrize(
    ("version", "condition"), [('"1"', '"1"'), ('W/"1"', None), ("", None), ("now", None)]
)
def test_a_strong_tag_is_a_condition(version: str, condition: str | None) -> None:
    web = Web(answer(206, b"234", Content_Range="bytes 2-4/10"))
    read(web, version=version)
    assert web.requests[0]["headers"].get("If-Match") == condition


@pytest.mark.parametrize(
    ("response", "start", "error", "words"),
    [
        (answer(404, b""), 2, FileNotFoundError, "http://h/a"),
        (answer(412, b""), 2, InputError, "changed while it was being read"),
        (answer(416, b"", Content_Range="bytes */0"), 2, OSError, "refused"),
        (answer(416, b"", Content_Range="bytes */10"), 0, OSError, "refused"),
        (answer(416, b""), 0, OSError, "refused"),
        (answer(500, b""), 0, OSError, "refused"),
        (answer(206, b"234"), 2, InputError, "a different range from the requested one"),
        (answer(206, b"234", Content_Range="bytes 3-5/10"), 2, InputError, "a different range"),
        (answer(206, b"234", Content_Range="bytes */10"), 2, InputError, "a different range"),
        (answer(206, b"234", Content_Range="bytes 2-4/*"), 2, InputError, "a different range"),
        (
            answer(206, b"23", Content_Range="bytes 2-4/10"),
            2,
            asyncio.IncompleteReadError,
            "2 bytes read",
        ),
        (
            answer(206, b"234", Content_Range="bytes 2-4/10", Content_Encoding="gzip"),
            2,
            InputError,
            "compresses ranges",
        ),
    ],
)
def test_an_answer_that_is_not_the_range_is_an_error(
    response: SimpleNamespace, start: int, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        read(Web(response), start)


@pytest.mark.parametrize(
    ("declared", "size", "words"),
    [
        ("10", 10, ""),
        ("", 10, ""),
        ("99999999999999999999", 10, ""),
        ("11", 0, "has 11 B, and the server does not send ranges of it"),
        ("5", 11, "has 11 B, and the server does not send ranges of it"),
        ("", 11, "is larger than 10 B, and the server does not send ranges of it"),
        ("much", 11, "is larger than 10 B, and"),
    ],
)
def test_a_file_that_is_sent_whole_has_a_bound(
    declared: str, size: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "MAX_WITHOUT_RANGES", 10)
    response = answer(200, b"x" * size, **({"Content_Length": declared} if declared else {}))
    if not words:
        assert asyncio.run(ranges._read_whole(response, "http://h/a")) == b"x" * size
        assert not response.content.is_closed
        return
    with pytest.raises(InputError, match=words):
        asyncio.run(ranges._read_whole(response, "http://h/a"))
    assert response.content.is_closed


class Bucket:
    """The file system of an object store that gives each request the next answer or error."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests = list(answers), list[Mapping[str, Any]]()

    def split_path(self, path: str) -> tuple[str, str, str | None]:
        bucket, _, key = path.partition("/")
        key, _, version = key.partition("?versionId=")
        return bucket, key, version or None

    async def _call_s3(self, method: str, **wanted: Any) -> Any:
        assert method == "get_object"
        self.requests.append(wanted)
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def read_object(
    bucket: Bucket, start: int = 2, stop: int = 5, version: str = "", path: str = "m/a"
) -> Answer:
    place: Any = SimpleNamespace(filesystem=bucket, url="s3://m/a", path=path)
    return asyncio.run(ranges._get_from_s3(place, start, stop, version))


def test_a_range_of_an_object() -> None:
    body = Body(b"23456")
    bucket = Bucket({"Body": body, "ETag": '"1"', "ContentRange": "bytes 2-4/10"})
    assert read_object(bucket, version='"1"', path="m/a?versionId=7") == Answer(
        2, b"234", 10, '"1"'
    )
    assert bucket.requests == [
        {"Range": "bytes=2-4", "Bucket": "m", "Key": "a", "IfMatch": '"1"', "VersionId": "7"}
    ]
    assert body.is_closed
    empty = Bucket(refuse_in_s3(416), {"ETag": '"2"'})
    assert read_object(empty, 0) == Answer(0, b"", 0, '"2"')
    assert empty.requests == [
        {"Range": "bytes=0-4", "Bucket": "m", "Key": "a"},
        {"Bucket": "m", "Key": "a"},
    ]


def test_refusals_of_an_object_store_are_not_repeated() -> None:
    with pytest.raises(InputError, match="changed while it was being read"):
        read_object(Bucket(refuse_in_s3(412)))
    for error, start in ((refuse_in_s3(416), 2), (refuse_in_s3(404), 0)):
        with pytest.raises(ranges._RepeatedError) as caught:
            read_object(Bucket(error), start)
        assert caught.value.cause is error


@pytest.mark.parametrize(
    ("errors", "attempts", "is_read"),
    [
        ([], 1, True),
        ([503], 2, True),
        ([503, 429, 500], 4, True),
        ([503] * 4, 4, False),
        ([404], 1, False),
    ],
)
def test_a_request_that_may_pass_is_repeated(
    errors: list[int], attempts: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "DELAYS", (0.0, 0.0, 0.0))
    left, calls = [refuse(status) for status in errors], list[str]()

    async def get(name: str) -> Answer:
        calls.append(name)
        if left:
            raise left.pop(0)
        return Answer(0, b"", 0, "")

    if is_read:
        assert asyncio.run(ranges._repeat(get, "a")) == Answer(0, b"", 0, "")
    else:
        with pytest.raises(OSError, match="refused"):
            asyncio.run(ranges._repeat(get, "a"))
    assert calls == ["a"] * attempts


@pytest.mark.parametrize("kind", ["web", "s3", ""])
def test_each_answer_is_of_the_version_that_was_asked_for(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(place: Any, start: int, stop: int, version: str) -> Answer:
        return Answer(start, CONTENT[start:stop], 10, '"1"' if start < 5 else '"2"')

    async def refuse_call(*_: Any) -> Answer:
        raise AssertionError

    monkeypatch.setattr(ranges, "_get_from_web", get if kind == "web" else refuse_call)
    monkeypatch.setattr(ranges, "_get_from_s3", get if kind == "s3" else refuse_call)
    place: Any = SimpleNamespace(
        url="a",
        is_web=kind == "web",
        is_s3=kind == "s3",
        run=lambda function, *arguments: asyncio.run(function(*arguments)),
    )
    fetch = choose_fetch(place)
    if not kind:
        assert fetch is None
        return
    assert fetch is not None
    assert [one.data for one in fetch((3, 5), (0, 1), version='"1"')] == [b"34", b"0"]
    assert [one.version for one in fetch((0, 1), (7, 8), version="")] == ['"1"', '"2"']
    with pytest.raises(InputError, match="changed while it was being read"):
        fetch((0, 1), (7, 8), version='"1"')
