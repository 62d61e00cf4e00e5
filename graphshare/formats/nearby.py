"""Suggest files for a path that does not exist, and files that belong to another."""

from __future__ import annotations

import os
import re

from graphshare.errors import Fault, InputError
from graphshare.formats.model_names import STEM_END, split_params
from graphshare.formats.paths import exists, join, list_names, split
from graphshare.text.names import find_similar
from graphshare.text.urls import is_url

_MOST = 3
_MISSPELLED_URL = r"(https?|s3|gs|memory|zip):/?[^/].*"


def refuse_missing(path: str, hint: str) -> Fault:
    """Return the fault of a path, or a URL, without a file."""
    if is_url(path) or re.fullmatch(_MISSPELLED_URL, path, re.IGNORECASE) is None:
        return Fault("does not exist", where=path, hint=hint)
    return Fault("does not exist", where=path, hint=hint or "a URL has two slashes behind its colon, as in s3://models/nin")


def suggest_files(path: str, ends: tuple[str, ...], *, stems: bool = False) -> str:
    """Return a hint with files near ``path``, or an empty text: those that start like it, else those of similar spelling.

    The files end in one of ``ends``; with ``stems`` also what precedes ``-symbol.json``, and of both the shorter that fits.
    """
    folder, name = split(path)
    try:
        entries = list_names(folder)
    except InputError:  # a URL
        return ""
    except OSError:
        return f"the directory {folder!r} does not exist" if folder and not os.path.lexists(folder) else ""
    known = {entry.removesuffix(STEM_END): entry for entry in entries if stems and entry.endswith(STEM_END)}
    known |= {entry: entry for entry in entries if entry.endswith(ends)}
    near = find_similar(name, known, limit=_MOST, key=known.__getitem__)
    return f"did you mean {' or '.join(repr(join(folder, entry)) for entry in near)}?" if near else ""


def suggest_graph(path: str) -> str:
    """Return a hint with the graph beside a parameter file that MXNet's names belong to, or an empty text."""
    parts = split_params(path)
    symbol = parts[0] + STEM_END if parts else ""
    return f"the graph of this checkpoint is {symbol}; {parts[0]} names both" if parts and _exists(symbol) else ""


def suggest_parameters(path: str) -> str:
    """Return a hint with the parameter file beside a graph that MXNet's names belong to, or an empty text."""
    folder, name = split(path.removesuffix(".gz"))
    if not name.endswith(STEM_END):
        return ""
    stem = name.removesuffix(STEM_END)
    try:
        entries = list_names(folder, prefix=f"{stem}-")
    except (OSError, InputError):
        return ""
    beside = [entry for entry in entries if (split_params(entry) or ("",))[0] == stem]
    return f"its parameters are in {join(folder, beside[0])}" if beside else ""


def _exists(path: str) -> bool:
    try:
        return exists(path)
    except InputError:  # a URL of which that cannot be known
        return False
