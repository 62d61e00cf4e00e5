"""URLs as texts: their recognition, their parts, and the removal of credentials.

A chain such as ``zip://nin-symbol.json::s3://models/nin.zip`` names a file in an archive; its name
and folder come from the first link. The query of an ``http`` URL (``?signature=...``) stays last.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

# Compiled on first use: most commands see no URL. Bounds keep the time linear, because messages
# quote any names from files.
_URL = r"(?:[A-Za-z][\w+.-]+::)*([A-Za-z][\w+.-]+)://"
_LINK = r"(?s)((?:[A-Za-z][\w+.-]+::)*[A-Za-z][\w+.-]+://)(.*?)((?:::.*)?)"
_CREDENTIALS = r"(://)[^/@\s'\"]{0,999}@"
# A password may hold a slash; digits after the colon are a port instead.
_SLASH_IN_PASSWORD = r"(://)[^/\s'\"@:]{0,99}:(?!\d{0,9}(?:[/?#:\s'\"]|$))[^\s'\"@]{0,999}@"
_SECRETS = r"(?<=://)[^/?#]+(?=@)|(?<=[?#])[^?#]+(?=::|$)"
# A text may be redacted twice: `?...` stays unchanged.
_WEB_QUERY = r"(?i)(https?://[^\s'\"?#]{0,2999})[?#](?!\.\.\.)(?:(?!::)[^\s'\"])*"
# Elsewhere ? may be a wildcard of a glob; it begins a query only if a = follows.
_OTHER_QUERY = r"(://[^\s'\"?]{0,2999})\?(?!\.\.\.)(?=[^\s'\"=]{0,999}=)(?:(?!::)[^\s'\"])*"
_INVISIBLE = r"[\0-\x20\x7f]"  # some of these are dropped from URLs before they are requested
_MOST_QUOTED = 8  # times that a name may be percent-encoded


def is_url(path: str) -> bool:
    """Whether a path is a URL (also ``file://``): a scheme of two letters or more, then ``://``."""
    return "://" in path and re.match(_URL, path) is not None


def find_scheme(url: str) -> str:
    """Return the lower-case scheme of a URL, or of the first link with ``://``; empty for a
    path.
    """
    match = re.match(_URL, url)
    return match[1].lower() if match else ""


def list_schemes(url: str) -> list[str]:
    """Return each link's lower-case scheme; a link may have no path (``simplecache::``)."""
    return [link.partition("://")[0].lower() for link in url.split("::")]


def redact(text: str) -> str:
    """Remove credentials and queries of URLs from a text."""
    if "://" not in text:
        return text
    text = re.sub(_CREDENTIALS, r"\1", re.sub(_SLASH_IN_PASSWORD, r"\1", text))
    return re.sub(_OTHER_QUERY, r"\1?...", re.sub(_WEB_QUERY, r"\1?...", text))


def hide_secrets(text: str, url: str) -> str:
    """Remove credentials and query of ``url`` from a text, in every form that other packages
    quote.
    """
    for secret in re.findall(_SECRETS, url):
        for part in (secret, *re.split(r"[:&=]", secret)):
            # Shorter parts would be replaced inside of other words.
            text = text.replace(part, "...") if len(part) > 3 else text
    return text


class UrlParts(NamedTuple):
    """A URL: ``folder`` ends in a slash, ``name`` may be empty, ``tail`` is a query or further
    links.
    """

    folder: str
    name: str
    tail: str

    @property
    def path(self) -> str:
        """The URL without its tail."""
        return self.folder + self.name

    @property
    def base(self) -> str:
        """The URL of a folder, with a final slash and without its tail."""
        return f"{self.path}/" if self.name else self.folder

    def with_name(self, name: str) -> str:
        """Return the URL of ``name`` in the same folder."""
        return f"{self.folder}{name}{self.tail}"


def split_url(url: str) -> UrlParts:
    """Split a URL after the last slash and after the last name."""
    match = re.fullmatch(_LINK, url)
    if match is None:
        raise ValueError(f"{redact(url)!r} is not a URL")
    scheme, path, tail = match.groups()
    if scheme.lower().endswith(("http://", "https://")):
        bare = re.split(r"[?#]", path)[0]
        path, tail = bare, path[len(bare) :] + tail
    folder, slash, name = path.rpartition("/")
    return UrlParts(f"{scheme}{folder}{slash}", name, tail)


def join_url(folder: str, name: str) -> str:
    """Return the URL of ``name`` in a folder."""
    parts = split_url(folder)
    return f"{parts.base}{name}{parts.tail}"


def leaves_folder(name: str) -> bool:
    """Whether a name at a folder's URL may lead out of it, however often it is unquoted."""
    from urllib.parse import unquote  # start-up: only URLs need it

    for _ in range(_MOST_QUOTED):
        plain = re.sub(_INVISIBLE, "", name).replace("\\", "/")
        if plain.startswith("/") or any(
            re.split("[;?#]", part)[0] == ".." for part in plain.split("/")
        ):
            return True
        before, name = name, unquote(name)
        if name == before:
            return False
    return True


def extend_url(url: str, ending: str) -> str:
    """Return a URL whose name has a further ending."""
    parts = split_url(url)
    return parts.with_name(parts.name + ending)


def local_path(path: str) -> str:
    """Return the path of a ``file://`` URL on this machine; other paths stay."""
    if path[:7].lower() != "file://" or "::" in path:
        return path
    from urllib.parse import unquote, urlsplit  # start-up: only such URLs need it

    parts = urlsplit(path)
    if parts.netloc not in ("", "localhost"):
        return path
    decoded = unquote(parts.path)
    return decoded[1:] if re.match(r"/[A-Za-z]:/", decoded) else decoded  # a drive of Windows


def localize(value: Any) -> Any:
    """Return a path, or each one of a list, as text: see :func:`local_path`; others unchanged."""
    if isinstance(value, (str, os.PathLike)):
        return local_path(os.fspath(value))
    if isinstance(value, tuple):
        return tuple(map(localize, value))
    return [*map(localize, value)] if isinstance(value, list) else value
