"""Suggest files for a path that does not exist."""

from __future__ import annotations

import os

from graphshare.text.names import find_similar

STEM_END = "-symbol.json"
GRAPHS = (".json",)
_MOST = 3


def suggest_files(path: str, ends: tuple[str, ...], *, stems: bool = False) -> str:
    """Return a hint with files near ``path``, or an empty text: those that start like it, else those of similar spelling.

    The files end in one of ``ends``; with ``stems`` also what precedes ``-symbol.json``.
    """
    folder, name = os.path.split(path)
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return f"the directory {folder!r} does not exist" if folder and not os.path.lexists(folder) else ""
    known = [entry.removesuffix(STEM_END) for entry in entries if stems and entry.endswith(STEM_END)]
    known += [entry for entry in entries if entry.endswith(ends)]
    near = [entry for entry in known if name and entry.startswith(name)][:_MOST] or find_similar(name, known, limit=_MOST)
    return f"did you mean {' or '.join(repr(os.path.join(folder, entry)) for entry in near)}?" if near else ""
