"""Limits on waiting for a server: every request ends, even if the server never answers.

A server may send a byte now and then: bytes must also come at a pace. docs/urls.md has the limits.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any

CONNECT = 10.0
"""Seconds until a connection must be there."""
SILENCE = 30.0
"""Seconds until the next byte, and until the whole head of an answer, must be there."""
PACE = 10_000
"""Bytes per second that must come on average after the first ``SILENCE`` seconds."""
PER_PAGE = 2.0
"""Seconds that the page of a folder may take on average, after the first ``SILENCE`` seconds."""
DELAYS = (0.1, 0.4, 1.5)
"""Seconds before a request is repeated."""
AT_ONCE = 32
"""The limit of simultaneous requests."""
_PIECE = 1 << 20


async def read_paced(read: Callable[[int], Awaitable[bytes]], size: int) -> bytes:
    """Return up to ``size`` bytes, fewer at the end. Raises TimeoutError if they come too slowly."""
    started, pieces, left = time.monotonic(), list[bytes](), size
    # After a chunk whose size is not a number aiohttp waits without a limit.
    while left > 0 and (piece := await asyncio.wait_for(read(min(left, _PIECE)), SILENCE)):
        pieces.append(piece)
        left -= len(piece)
        if time.monotonic() - started > allow_seconds(size - left):
            raise TimeoutError
    return b"".join(pieces)


def allow_seconds(size: int) -> float:
    """Return the seconds that a request may take until ``size`` bytes are there."""
    return SILENCE + size / PACE


def describe_timeout(error: Exception) -> str:
    """Return the limits that a server did not keep; an empty text for another error."""
    kind = type(error).__name__
    if not isinstance(error, (TimeoutError, asyncio.TimeoutError)) and kind not in (
        "ReadTimeoutError",
        "ConnectTimeoutError",
    ):
        return ""
    pace = f"{PACE // 1000} kB per second"
    return (
        f"Timeout: no connection in {CONNECT:g} s, no answer or no further byte in {SILENCE:g} s, "
        f"or less than {pace}"
    )


def s3_options(configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs with these limits, overridden by ``configured``, the user's
    configuration.
    """
    from aiobotocore.config import AioConfig  # an optional package

    settings: dict[str, Any] = {
        "connect_timeout": CONNECT,
        "read_timeout": SILENCE,
        "max_pool_connections": AT_ONCE,
    }
    if not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"} & set(os.environ):
        settings["retries"] = {"total_max_attempts": 1 + len(DELAYS), "mode": "standard"}
    if "http_session_cls" in signature(AioConfig).parameters:  # older versions have none
        settings["http_session_cls"] = _make_session_class()
    return {**configured, "config_kwargs": {**settings, **configured.get("config_kwargs", {})}}


def http_options(configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of fsspec's HTTP with these limits, overridden by ``configured`` as for S3."""
    return {
        **configured,
        "client_kwargs": {
            "response_class": _make_response_class(),
            **configured.get("client_kwargs", {}),
        },
    }


@cache
def _make_response_class() -> type:
    from aiohttp import ClientResponse  # an optional package

    class PacedResponse(ClientResponse):
        async def start(self, connection: Any) -> Any:
            response = await asyncio.wait_for(super().start(connection), SILENCE)
            self.content: Any = _PacedStream(self.content, self.content_length or 0)
            return response

    return PacedResponse


class _PacedStream:
    """A stream of aiohttp with a limit on each wait, also after a chunk whose size is not a number."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._size = stream, size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def read(self, size: int = -1) -> bytes:
        data: bytes = await asyncio.wait_for(
            self._stream.read(size), allow_seconds(size if size > 0 else self._size)
        )
        return data


@cache
def _make_session_class() -> type:
    from aiobotocore.httpsession import AIOHTTPSession  # an optional package
    from botocore.exceptions import ReadTimeoutError

    class PacedSession(AIOHTTPSession):  # type: ignore[misc]
        async def send(self, request: Any) -> Any:
            sizes = [
                request.headers.get(name)
                for name in ("Content-Length", "X-Amz-Decoded-Content-Length")
            ]
            size = max(int(size) if size and size.isdigit() else 0 for size in sizes)
            try:
                return await asyncio.wait_for(super().send(request), allow_seconds(size))
            except asyncio.TimeoutError as error:
                raise ReadTimeoutError(endpoint_url=request.url, error=error) from error

    return PacedSession
