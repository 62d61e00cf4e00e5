"""Tell files from folders at URLs, and list the files below a folder.

A web server's page of a directory is a folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from typing import Any, Literal
from urllib.parse import urljoin

from graphshare.errors import Fault, InputError
from graphshare.files.byte_source import ListedFile
from graphshare.files.remote import retries
from graphshare.files.remote.filesystem import RemotePath, translate_errors
from graphshare.files.remote.ranges import choose_fetch
from graphshare.files.remote.source import RemoteFile, describe_version, read_url
from graphshare.text.urls import join_url, leaves_folder, split_url

_LINK = re.compile(rb"""[\s"']href\s*=\s*["']([^"'?#]{1,2048})["']""", re.IGNORECASE)
_MAX_PAGE = 4 << 20  # bytes of a page of links
_MAX_PAGES = 1000


def find_kind(url: str) -> Literal["file", "folder", ""]:
    """Return a URL's kind; empty if nothing is there. Raises InputError if that is unknown."""
    place = RemotePath(url)
    if place.is_web:
        if split_url(url).name == "":
            return "folder"
        fetch = choose_fetch(place)
        assert fetch is not None
        try:
            RemoteFile(url, fetch)
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return ""
            raise
        return "file"
    try:
        # s3fs answers from its cache of listings, also after another process has written.
        place.filesystem.invalidate_cache()
        kind = place.filesystem.info(place.path).get("type")
    except (FileNotFoundError, KeyError):
        return ""
    except Exception:
        with translate_errors(url):
            raise
    return "folder" if kind == "directory" else "file"


def list_folder(folder: str, *, prefix: str = "") -> list[ListedFile]:
    """Return the files right in a folder whose names begin with ``prefix``, by name.

    Raises InputError for a missing folder, as :func:`find_files`.
    """
    place = RemotePath(folder)
    if place.is_web:
        # A page of links states neither sizes nor versions.
        files = [ListedFile(url, -1, "") for url in _list_links(folder) if not url.endswith("/")]
        return sorted(
            (file for file in files if split_url(file.path).name.startswith(prefix)), key=_by_path
        )
    with translate_errors(folder):
        place.filesystem.invalidate_cache()
        if prefix and place.is_s3:  # of a million objects only those are listed
            entries: Iterable[Mapping[str, Any]] = place.filesystem.find(
                place.path, detail=True, prefix=prefix
            ).values()
        else:
            entries = place.filesystem.ls(place.path, detail=True)
    depth = len(_parts(place.path)) + 1
    files = [
        _describe(folder, _parts(facts["name"])[-1], facts)
        for facts in entries
        if _is_file(facts, depth)
    ]
    return sorted(
        (file for file in files if split_url(file.path).name.startswith(prefix)), key=_by_path
    )


def find_files(folder: str, *, depth: int | None = None) -> list[ListedFile]:
    """Return the files below a folder, at most ``depth`` levels down, by path."""
    place = RemotePath(folder)
    if place.is_web:
        return sorted(_follow_links(folder, depth), key=_by_path)
    with translate_errors(folder):
        place.filesystem.invalidate_cache()
        entries = place.filesystem.find(place.path, detail=True, maxdepth=depth)
    start = len(_parts(place.path))
    files = [
        _describe(folder, "/".join(_parts(name)[start:]), facts)
        for name, facts in entries.items()
        if _is_file(facts)
    ]
    return sorted(files, key=_by_path)


def _by_path(file: ListedFile) -> str:
    return file.path


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _is_file(facts: Mapping[str, Any], depth: int | None = None) -> bool:
    parts = _parts(facts["name"])
    return (
        facts.get("type") != "directory" and bool(parts) and (depth is None or len(parts) == depth)
    )


def _describe(folder: str, name: str, facts: Mapping[str, Any]) -> ListedFile:
    size = facts.get("size")
    return ListedFile(
        join_url(folder, name), -1 if size is None else int(size), describe_version(facts)
    )


def _list_links(folder: str) -> list[str]:
    """Folders end in a slash; links out of the folder, or deeper into it, do not count."""
    parts = split_url(folder)
    base, tail = parts.base, parts.tail
    links = dict.fromkeys(find_links(read_url(f"{base}{tail}", _MAX_PAGE)))
    urls = dict.fromkeys(_join_link(base, link.decode("utf-8", "replace")) for link in links)
    names = [url[len(base) :] for url in urls if url.startswith(base)]
    return [
        f"{base}{name}{tail}"
        for name in names
        if name and "/" not in name[:-1] and not leaves_folder(name)
    ]


def find_links(page: bytes) -> Iterator[bytes]:
    """Yield the target of each ``<a href="...">`` of a page, in linear time."""
    for piece in page.split(b"<"):
        if (
            piece[:1] in b"aA"
            and piece[1:2].isspace()
            and (match := _LINK.search(piece.partition(b">")[0]))
        ):
            yield match[1]


def _join_link(base: str, link: str) -> str:
    try:
        return urljoin(base, unescape(link))
    except ValueError:  # a bracket without its other one, or a number of thousands of digits
        return ""


def _follow_links(folder: str, depth: int | None) -> list[ListedFile]:
    """Raises InputError for too many or too slow pages."""
    files: list[ListedFile] = []
    level, pages, started = [folder], 0, time.monotonic()
    for _ in range(depth if depth is not None else _MAX_PAGES):
        below: list[str] = []
        for url in level:
            pages += 1
            if pages > _MAX_PAGES:
                hint = "name a folder further down"
                raise InputError(
                    Fault(f"has more than {_MAX_PAGES:,} folders below it", where=folder, hint=hint)
                )
            if (elapsed := time.monotonic() - started) > retries.SILENCE + pages * retries.PER_PAGE:
                message = f"its folders come too slowly: {pages - 1:,} in {elapsed:.0f} s"
                raise InputError(Fault(message, where=folder, hint="name a folder further down"))
            for link in _list_links(url):
                if split_url(link).name == "":
                    below.append(link)
                else:
                    files.append(ListedFile(link, -1, ""))
        if not below:
            break
        level = below
    return files
