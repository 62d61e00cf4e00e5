"""Suggest files for a path that does not exist."""

from __future__ import annotations

import os
import re

from graphshare.errors import Fault, InputError
from graphshare.files.paths import join, list_names, split
from graphshare.text.names import find_similar
from graphshare.text.urls import is_url

_MOST = 3
_MISSPELLED_URL = r"(https?|s3|gs|memory|zip):/?[^/].*"


def refuse_missing(path: str, hint: str) -> Fault:
    """Return the fault of a path, or a URL, without a file."""
    if is_url(path) or re.fullmatch(_MISSPELLED_URL, path, re.IGNORECASE) is None:
        return Fault("does not exist", where=path, hint=hint)
    return Fault("does not exist", where=path, hint=hint or "a URL has two slashes behind its colon, as in s3://models/nin")


def suggest_files(path: str, ends: tuple[str, ...], *, stem_end: str = "") -> str:
    """Return a hint with files near ``path``, or an empty text: those that start like it, else those of similar spelling.

    The files end in one of ``ends``; with ``stem_end`` also what precedes that, and of both the shorter that fits.
    """
    folder, name = split(path)
    try:
        entries = list_names(folder)
    except InputError:  # a URL
        return ""
    except OSError:
        return f"the directory {folder!r} does not exist" if folder and not os.path.lexists(folder) else ""
    known = {entry.removesuffix(stem_end): entry for entry in entries if stem_end and entry.endswith(stem_end)}
    known |= {entry: entry for entry in entries if entry.endswith(ends)}
    near = find_similar(name, known, limit=_MOST, key=known.__getitem__)
    return f"did you mean {' or '.join(repr(join(folder, entry)) for entry in near)}?" if near else ""
