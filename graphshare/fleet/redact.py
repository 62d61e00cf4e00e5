"""URLs without what must not be written down: user names, passwords, tokens in queries."""

from __future__ import annotations

import re

_URL = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/@'\"]*@)?([^\s?#'\"]*)(?:[?#][^\s'\"]*)?")


def redact_urls(text: str) -> str:
    """Return a text in which the URLs have neither credentials nor queries."""
    return _URL.sub(r"\1\2", text) if "://" in text else text


def redact(path: str) -> str:
    """Return a path; a URL without credentials and query."""
    return redact_urls(path)
