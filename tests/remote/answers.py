"""Errors of requests as the packages of file systems raise them."""

from __future__ import annotations


def refuse(status: int) -> OSError:
    """Return the error of aiohttp for an answer with this status."""
    error = OSError("refused")
    error.status = status  # type: ignore[attr-defined]
    return error


def refuse_in_s3(status: int) -> OSError:
    """Return the error of botocore for an answer with this status."""
    error = OSError("refused")
    error.response = {"ResponseMetadata": {"HTTPStatusCode": status}}  # type: ignore[attr-defined]
    return error
