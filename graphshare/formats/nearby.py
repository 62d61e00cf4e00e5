"""Suggest files for a path that does not exist, and files that belong to another."""

from __future__ import annotations

import os
import re

from graphshare.errors import Fault
from graphshare.text.names import find_similar

STEM_END = "-symbol.json"
GRAPHS = (".json", ".json.gz")
_MOST = 3
_CHECKPOINT = r"(.+)-\d{4,}\.params"
_URL = r"([a-z][a-z0-9+]+):/{1,3}.*"
_DOWNLOADS = {"http": "curl -LO {url}", "https": "curl -LO {url}", "ftp": "curl -O {url}", "s3": "aws s3 cp {url} .",
              "gs": "gcloud storage cp {url} .", "hdfs": "hdfs dfs -get {url}"}  # fmt: skip


def refuse_missing(path: str, hint: str) -> Fault:
    """Return the fault of a path without a file, or of a URL, with the command that downloads it."""
    match = re.fullmatch(_URL, path, re.IGNORECASE)
    if match is None:
        return Fault("does not exist", where=path, hint=hint)
    scheme = match[1].lower()
    if scheme == "file":
        return Fault("is a URL, and files are given by their paths", where=path, hint=f"give /{path[5:].lstrip('/')}")
    from shlex import quote  # start-up: only this path needs it

    command = _DOWNLOADS.get(scheme, "").replace("{url}", quote(path))
    hint = f"download it first: `{command}`" if command else "download it first"
    return Fault("is a URL, and graphshare reads files", where=path, hint=hint)


def suggest_files(path: str, ends: tuple[str, ...], *, stems: bool = False) -> str:
    """Return a hint with files near ``path``, or an empty text: those that start like it, else those of similar spelling.

    The files end in one of ``ends``; with ``stems`` also what precedes ``-symbol.json``, and of both the shorter that fits.
    """
    folder, name = os.path.split(path)
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return f"the directory {folder!r} does not exist" if folder and not os.path.lexists(folder) else ""
    known = {entry.removesuffix(STEM_END): entry for entry in entries if stems and entry.endswith(STEM_END)}
    known |= {entry: entry for entry in entries if entry.endswith(ends)}
    near = find_similar(name, known, limit=_MOST, key=known.__getitem__)
    return f"did you mean {' or '.join(repr(os.path.join(folder, entry)) for entry in near)}?" if near else ""


def suggest_graph(path: str) -> str:
    """Return a hint with the graph beside a parameter file that MXNet's names belong to, or an empty text."""
    match = re.fullmatch(_CHECKPOINT, path)
    symbol = match[1] + STEM_END if match else ""
    return f"the graph of this checkpoint is {symbol}; {match[1]} names both" if match and os.path.exists(symbol) else ""


def suggest_parameters(path: str) -> str:
    """Return a hint with the parameter file beside a graph that MXNet's names belong to, or an empty text."""
    folder, name = os.path.split(path.removesuffix(".gz"))
    if not name.endswith(STEM_END):
        return ""
    stem = name.removesuffix(STEM_END)
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return ""
    beside = [entry for entry in entries if (match := re.fullmatch(_CHECKPOINT, entry)) and match[1] == stem]
    return f"its parameters are in {os.path.join(folder, beside[0])}" if beside else ""
