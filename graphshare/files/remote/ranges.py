"""Requests for ranges of bytes that fail if the content has changed since the first one.

Servers may ignore ``If-Match``, so each answer's entity tag is compared, too; for other file
systems, size and time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.remote import retries
from graphshare.files.remote.filesystem import RemotePath, find_status, may_pass, translate_errors
from graphshare.text.format import format_bytes

MAX_WITHOUT_RANGES = 64 << 20
"""The largest file, in bytes, that is read as a whole from a server that does not send ranges."""
CHANGED = "the object was replaced meanwhile; run the command again"
_NUMBER = "[0-9]{1,19}"
_CONTENT_RANGE = re.compile(rf"bytes (?:({_NUMBER})-({_NUMBER})|\*)/({_NUMBER}|\*)")


class Answer(msgspec.Struct, frozen=True):
    """Bytes from ``start`` on, the size of the whole content, and its version: an entity tag, or a
    time.
    """

    start: int
    data: bytes
    size: int
    version: str


class Fetch(Protocol):
    """Requests bytes between pairs of offsets, of the given version unless that is empty."""

    def __call__(self, *bounds: tuple[int, int], version: str) -> list[Answer]: ...


def choose_fetch(place: RemotePath) -> Fetch | None:
    """Return a function that requests ranges of a URL; None if only the file system can read them."""
    if not (place.is_web or place.is_s3):
        return None
    get = _get_from_web if place.is_web else _get_from_s3

    def fetch(*bounds: tuple[int, int], version: str) -> list[Answer]:
        with translate_errors(place.url):
            answers = place.run(_get_all, get, place, bounds, version)
        if version and any(answer.version != version for answer in answers):
            raise refuse_changed(place.url)
        return answers

    return fetch


async def _get_all(
    get: Callable[..., Coroutine[Any, Any, Answer]],
    place: RemotePath,
    bounds: Sequence[tuple[int, int]],
    version: str,
) -> list[Answer]:
    free = asyncio.Semaphore(retries.AT_ONCE)

    async def get_one(start: int, stop: int) -> Answer:
        async with free:
            return await _repeat(get, place, start, stop, version)

    return await asyncio.gather(*(get_one(start, stop) for start, stop in bounds))


def refuse_changed(url: str) -> InputError:
    """Return the error of an object that changed since the first request."""
    return InputError(Fault("changed while it was being read", where=url, hint=CHANGED))


async def _repeat(get: Callable[..., Coroutine[Any, Any, Answer]], *arguments: Any) -> Answer:
    """Requests are repeated after failures that may pass."""
    for delay in (*retries.DELAYS, None):
        try:
            return await get(*arguments)
        except _RepeatedError as error:
            raise error.cause from None
        except Exception as error:
            if delay is None or not may_pass(error):
                raise
        await asyncio.sleep(delay)
    raise AssertionError("the last attempt returns or raises")


class _RepeatedError(Exception):
    """The error of a request that the library repeated."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def _get_from_web(place: RemotePath, start: int, stop: int, version: str) -> Answer:
    import aiohttp  # an optional package

    filesystem: Any = place.filesystem
    session = await filesystem.set_session()
    headers = {
        **filesystem.kwargs.get("headers", {}),
        "Range": f"bytes={start}-{stop - 1}",
        "Accept-Encoding": "identity",
    }
    if version.startswith('"'):  # a weak tag (W/"...") matches nothing
        headers["If-Match"] = version
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=retries.CONNECT, sock_read=retries.SILENCE
    )
    options = {"timeout": timeout, **filesystem.kwargs, "headers": headers}
    head = session.get(filesystem.encode_url(place.path), **options)
    async with await asyncio.wait_for(head, retries.SILENCE) as response:
        if response.status == 404:
            raise FileNotFoundError(place.url)
        if response.status == 412:
            raise refuse_changed(place.url)
        version_tag = response.headers.get("ETag") or response.headers.get("Last-Modified", "")
        bounds = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        # No range of an empty file can be satisfied; the answer still has the size.
        if response.status == 416 and start == 0 and bounds and bounds[3] == "0":
            return Answer(0, b"", 0, version_tag)
        response.raise_for_status()
        # A server may ignore Range and send the whole file.
        if response.status != 206:
            return Answer(0, data := await _read_whole(response, place.url), len(data), version_tag)
        if (
            bounds is None
            or bounds[1] is None
            or int(bounds[1]) != start
            or not bounds[3].isdigit()
        ):
            raise InputError(
                Fault("the server sent a different range from the requested one", where=place.url)
            )
        data = await _read(response, min(stop, int(bounds[2]) + 1) - start, place.url)
        return Answer(start, data, int(bounds[3]), version_tag)


async def _read(response: Any, size: int, url: str) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise InputError(
            Fault("the server compresses ranges, so that their places are unknown", where=url)
        )
    data = await retries.read_paced(response.content.read, size)
    if len(data) < size:
        raise asyncio.IncompleteReadError(data, size)
    return data


async def _read_whole(response: Any, url: str) -> bytes:
    """A server may send all content instead of a range. Raises InputError if it is too large."""
    limit, declared = MAX_WITHOUT_RANGES, response.headers.get("Content-Length", "")
    size, data = int(declared) if re.fullmatch(_NUMBER, declared) else 0, b""
    if size <= limit:
        data = await retries.read_paced(response.content.read, limit + 1)
        size = max(size, len(data))
    if size > limit:
        response.close()
        message = f"has {format_bytes(size)}, and the server does not send ranges of it"
        if not re.fullmatch(_NUMBER, declared):
            message = (
                f"is larger than {format_bytes(limit)}, and the server does not send ranges of it"
            )
        raise InputError(
            Fault(message, where=url, hint="download it first, or serve it with ranges")
        )
    return data


async def _get_from_s3(place: RemotePath, start: int, stop: int, version: str) -> Answer:
    bucket, key, number = cast(Any, place.filesystem).split_path(place.path)
    wanted = {
        "Bucket": bucket,
        "Key": key,
        **({"IfMatch": version} if version else {}),
        **({"VersionId": number} if number else {}),
    }
    try:
        response = await _call_s3(place, Range=f"bytes={start}-{stop - 1}", **wanted)
    except _RepeatedError as error:
        status = find_status(error.cause)
        if status == 412:
            raise refuse_changed(place.url) from error
        # No range of an empty object can be satisfied: a request for all of it returns the tag.
        if status == 416 and start == 0:
            response = await _call_s3(place, **wanted)
            return Answer(0, b"", 0, response["ETag"])
        raise
    try:
        data = await retries.read_paced(response["Body"].read, stop - start)
    finally:
        response["Body"].close()
    return Answer(start, data, _total(response, place.url), response["ETag"])


async def _call_s3(place: RemotePath, **wanted: str | None) -> Mapping[str, Any]:
    """Raises _RepeatedError, because botocore repeats requests by itself."""
    options = {name: value for name, value in wanted.items() if value}
    try:
        response: Mapping[str, Any] = await cast(Any, place.filesystem)._call_s3(
            "get_object", **options
        )
    except Exception as error:
        raise _RepeatedError(error) from error
    return response


def _total(response: Mapping[str, Any], url: str) -> int:
    bounds = _CONTENT_RANGE.fullmatch(response.get("ContentRange", ""))
    # A server that ignores ranges sends the object without Content-Range.
    if bounds is None or bounds[3] == "*":
        raise InputError(Fault("the server does not send ranges", where=url))
    return int(bounds[3])
