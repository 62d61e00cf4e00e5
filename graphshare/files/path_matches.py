"""The files that a glob matches, on this machine or at a URL.

``*``, ``?`` and ``[...]`` match within a name, ``**`` any folders; only a written dot matches
hidden names.
"""

from __future__ import annotations

import glob
import os
import re
from functools import lru_cache

from graphshare.files.byte_source import ListedFile
from graphshare.files.paths import exists, extend
from graphshare.text.patterns import Matcher, compile_pattern
from graphshare.text.urls import is_url, split_url


def is_pattern(path: str, *, stem_end: str = "") -> bool:
    """Whether a path is a glob, and not the name of a file (without ``stem_end`` its stem)."""
    if is_url(path):
        return any(mark in split_url(path).path for mark in "*[?")
    return glob.has_magic(path) and not exists(path) and not exists(extend(path, stem_end))


def match_paths(pattern: str) -> list[str]:
    """Return the files that a glob matches, sorted. Raises InputError if a URL cannot be listed."""
    if is_url(pattern):
        return [file.path for file in list_matches(pattern)]
    return sorted(path for path in glob.iglob(pattern, recursive=True) if not os.path.isdir(path))


def list_matches(pattern: str) -> list[ListedFile]:
    """Return the files at URLs that a glob matches, by path. Raises InputError."""
    wanted = split_url(pattern).path
    files = list_candidates(pattern)
    return [file for file in files if match_path(split_url(file.path).path, wanted)]


def list_candidates(pattern: str) -> list[ListedFile]:
    """Return the files below the folder before a URL's first wildcard, as deep as the pattern."""
    root, path = find_root(pattern), split_url(pattern).path
    rest = path[len(split_url(root).folder) :]
    depth = rest.count("/") + 1
    # A store lists a thousand objects of any folders at once; a web server one folder.
    return find_below(
        root, depth=depth if depth == 1 or ("**" not in rest and path.startswith("http")) else None
    )


def find_below(folder: str, *, depth: int | None = None) -> list[ListedFile]:
    """Return the files below a URL's folder, at most ``depth`` levels down. Raises InputError."""
    from graphshare.files.remote.listing import find_files  # start-up: only URLs need it

    return find_files(folder, depth=depth)


def find_root(pattern: str) -> str:
    """Return the folder of a URL before its first wildcard, with a final slash."""
    parts = split_url(pattern)
    folder, slash, _ = re.split(r"[*?\[]", parts.path)[0].rpartition("/")
    return f"{folder}{slash}{parts.tail}"


def match_path(path: str, pattern: str) -> bool:
    """Whether a glob matches a whole path, in time at most the product of their lengths."""
    names, globs = path.split("/"), pattern.split("/")
    at = wanted = 0
    retry: tuple[int, int] | None = None  # the last ** and how many names it stands for, up to here
    while at < len(names):
        if wanted < len(globs) and globs[wanted] == "**":
            retry = wanted, at
            wanted += 1
        elif wanted < len(globs) and _match_name(names[at], globs[wanted]):
            at, wanted = at + 1, wanted + 1
        # Only the last ** takes one more name: the names between earlier ones have matched.
        elif retry is not None and not names[retry[1]].startswith("."):
            retry = retry[0], retry[1] + 1
            at, wanted = retry[1], retry[0] + 1
        else:
            return False
    return all(glob == "**" for glob in globs[wanted:])


def _match_name(name: str, glob: str) -> bool:
    if not glob or (name.startswith(".") and not glob.startswith(".")):
        return name == glob
    return _compile(glob)(name)


@lru_cache(maxsize=64)
def _compile(glob: str) -> Matcher:
    # Elsewhere these begin other patterns
    marked = f"[{glob[0]}]{glob[1:]}" if glob.startswith(("=", "re:")) else glob
    return compile_pattern(marked)
