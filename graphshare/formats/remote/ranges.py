"""Requests for ranges of bytes, each of which fails when the content is another than that of the first one.

HTTP and S3 are asked with ``If-Match`` and the entity tag of the first answer, and the tag of each answer is compared, for
servers that ignore the condition. Other file systems have no conditions: size and time are compared.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.remote.filesystem import Place, find_status, may_pass, translate_errors
from graphshare.text.format import format_bytes

MAX_WITHOUT_RANGES = 64 << 20
"""The largest file, in bytes, that is read as a whole from a server that does not send ranges."""
CHANGED = "the object was replaced meanwhile; run the command again"
DELAYS = (0.1, 0.4, 1.5)
"""Seconds before a request is repeated."""
_SILENCE = 60  # seconds without a byte after which a request is repeated
_PIECE = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class Answer(msgspec.Struct, frozen=True):
    """Bytes from ``start`` on, the size of the whole content, and what changes with it: an entity tag, or a time."""

    start: int
    data: bytes
    size: int
    version: str


Fetch = Callable[[int, int, str], Answer]
"""Requests the bytes from one offset up to another, of the given version unless that is empty."""


def choose_fetch(place: Place) -> Fetch | None:
    """Return how ranges of a URL are requested; None where only the file system itself can tell."""
    if place.is_web:
        return lambda start, stop, version: _request(place, _get_from_web, start, stop, version)
    if place.is_s3:
        return lambda start, stop, version: _request(place, _get_from_s3, start, stop, version)
    return None


def _request(
    place: Place, get: Callable[[Place, int, int, str], Coroutine[Any, Any, Answer]], start: int, stop: int, version: str
) -> Answer:
    with translate_errors(place.url):
        answer = place.run(_repeat, get, place, start, stop, version)
    if version and answer.version != version:
        raise refuse_changed(place.url)
    return answer


def refuse_changed(url: str) -> InputError:
    """Return the error of an object that is not the one of the first request."""
    return InputError(Fault("changed while it was being read", where=url, hint=CHANGED))


async def _repeat(get: Callable[..., Coroutine[Any, Any, Answer]], *arguments: Any) -> Answer:
    """Return what a request gives; one that fails in a way that may pass is repeated."""
    for delay in DELAYS:
        try:
            return await get(*arguments)
        except Exception as error:
            place = arguments[0]
            if not may_pass(error) or (place.is_s3 and find_status(error)):  # below, those are repeated already
                raise
        await asyncio.sleep(delay)
    return await get(*arguments)


async def _get_from_web(place: Place, start: int, stop: int, version: str) -> Answer:
    import aiohttp  # an optional package

    filesystem: Any = place.filesystem
    session = await filesystem.set_session()
    headers = {**filesystem.kwargs.get("headers", {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    if version.startswith('"'):  # a weak tag (W/"...") matches nothing
        headers["If-Match"] = version
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE, sock_read=_SILENCE)
    options = {"timeout": timeout, **filesystem.kwargs, "headers": headers}
    async with session.get(filesystem.encode_url(place.path), **options) as response:
        if response.status == 404:
            raise FileNotFoundError(place.url)
        if response.status == 412:
            raise refuse_changed(place.url)
        found = response.headers.get("ETag") or response.headers.get("Last-Modified", "")
        bounds = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status == 416 and start == 0 and bounds and bounds[3] == "0":
            return Answer(0, b"", 0, found)
        response.raise_for_status()
        if response.status != 206:
            return Answer(0, data := await _read_whole(response, place.url), len(data), found)
        if bounds is None or bounds[1] is None or int(bounds[1]) != start or not bounds[3].isdigit():
            raise InputError(Fault("the server sent another range than it was asked for", where=place.url))
        data = await _read(response, min(stop, int(bounds[2]) + 1) - start, place.url)
        return Answer(start, data, int(bounds[3]), found)


async def _read(response: Any, size: int, url: str) -> bytes:
    """Return the bytes of a range."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise InputError(Fault("the server compresses ranges, so that their places are unknown", where=url))
    data: bytes = await response.content.readexactly(size)
    return data


async def _read_whole(response: Any, url: str) -> bytes:
    """Return the content that a server sends instead of a range. Raises InputError when it is too large."""
    limit, declared = MAX_WITHOUT_RANGES, response.headers.get("Content-Length", "")
    pieces: list[bytes] = []
    size = int(declared) if declared.isdigit() else 0
    while size <= limit and (piece := await response.content.read(_PIECE)):
        pieces.append(piece)
        size = max(size, sum(map(len, pieces)))
    if size > limit:
        response.close()
        message = f"has {format_bytes(size)}, and the server does not send ranges of it"
        if not declared.isdigit():
            message = f"goes on beyond {format_bytes(limit)}, and the server does not send ranges of it"
        raise InputError(Fault(message, where=url, hint="download it first, or serve it with ranges"))
    return b"".join(pieces)


async def _get_from_s3(place: Place, start: int, stop: int, version: str) -> Answer:
    filesystem: Any = place.filesystem
    bucket, key, number = filesystem.split_path(place.path)
    condition = {"IfMatch": version} if version else {}
    numbered = {"VersionId": number} if number else {}
    wanted = f"bytes={start}-{stop - 1}"
    try:
        response = await filesystem._call_s3("get_object", Bucket=bucket, Key=key, Range=wanted, **condition, **numbered)
    except OSError as error:
        status = find_status(error)
        if status == 412:
            raise refuse_changed(place.url) from error
        if status == 416 and start == 0:
            response = await filesystem._call_s3("get_object", Bucket=bucket, Key=key, **condition, **numbered)
            return Answer(0, b"", 0, response["ETag"])
        raise
    try:
        data: bytes = await response["Body"].read()
    finally:
        response["Body"].close()
    return Answer(start, data, _total(response, place.url), response["ETag"])


def _total(response: Mapping[str, Any], url: str) -> int:
    bounds = _CONTENT_RANGE.fullmatch(response.get("ContentRange", ""))
    if bounds is None:
        raise InputError(Fault("the server does not send ranges", where=url))
    return int(bounds[3])
