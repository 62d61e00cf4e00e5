"""The files that a glob matches, on this machine or at a URL. ``**`` stands for any folders."""

from __future__ import annotations

import glob
import os
import re

from graphshare.errors import Fault, InputError
from graphshare.formats.byte_source import ListedFile
from graphshare.formats.paths import exists, extend
from graphshare.text.path_globs import match_path
from graphshare.text.urls import is_url, split_url


def is_pattern(path: str) -> bool:
    """Return whether a path is a glob, and not the path of a file that has such characters in its name."""
    if is_url(path):
        head, name, _ = split_url(path)
        return any(mark in head + name for mark in "*[?")
    return glob.has_magic(path) and not exists(path) and not exists(extend(path, "-symbol.json"))


def match_paths(pattern: str) -> list[str]:
    """Return the paths of the files that a glob matches, sorted. Raises InputError when there is none."""
    if is_url(pattern):
        paths = [file.path for file in list_matches(pattern)]
    else:
        paths = sorted(path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path))
    if not paths:
        raise InputError(Fault("matches no file", where=pattern, hint="name symbol files, stems, folders or globs"))
    return paths


def list_matches(pattern: str) -> list[ListedFile]:
    """Return the files at URLs that a glob matches, by path. Raises InputError when they cannot be listed."""
    head, name, _ = split_url(pattern)
    matches = []
    for file in list_candidates(pattern):
        own, last, _ = split_url(file.path)
        if match_path(own + last, head + name):
            matches.append(file)
    return matches


def list_candidates(pattern: str) -> list[ListedFile]:
    """Return the files below the folder before the first wildcard of a URL, as many levels down as the pattern has."""
    from graphshare.formats.remote.listing import find_files  # start-up: only URLs need it

    root = find_root(pattern)
    head, name, _ = split_url(pattern)
    rest = (head + name)[len(split_url(root)[0]) :]
    depth = rest.count("/") + 1
    # A store lists a thousand objects with a request, of any folders; a web server lists folder by folder.
    return find_files(root, depth=depth if depth == 1 or ("**" not in rest and head.startswith("http")) else None)


def find_root(pattern: str) -> str:
    """Return the folder of a URL before its first wildcard, with a slash at its end."""
    head, name, tail = split_url(pattern)
    folder, slash, _ = re.split(r"[*?\[]", head + name, maxsplit=1)[0].rpartition("/")
    return f"{folder}{slash}{tail}"
