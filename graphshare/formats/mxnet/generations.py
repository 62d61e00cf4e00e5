"""The generations of symbol files, told apart by the keys their nodes have."""

from __future__ import annotations

from graphshare.ir.graph import Graph

# Oldest last: a file may mix keys, and the oldest one present tells what wrote it.
_BY_KEY = (
    ("param", "2015 (StaticGraph, up to 0.8)"),
    ("attr", "0.9 (NNVM, 0.9 to 0.12)"),
    ("attrs", "1.0 (1.0 and later)"),
)


def recognize_generation(graph: Graph) -> str:
    """Return which generation of MXNet wrote a file like this one.

    ``param`` came with the first format and went with NNVM (0.9), which wrote ``attr`` until 1.0 renamed it ``attrs``. A file
    without attributes is dated by its version.
    """
    keys = {key for node in graph.nodes if node.form is not None for key in node.form.keys}
    for key, name in _BY_KEY:
        if key in keys:
            return name
    version = graph.version
    return _BY_KEY[0][1] if version is None else _BY_KEY[1][1] if version < 10000 else _BY_KEY[2][1]


def shows_generation(graph: Graph) -> bool:
    """Return whether the nodes show the generation: a few variables without attributes do not."""
    return any(key in ("param", "attr", "attrs") for node in graph.nodes if node.form is not None for key in node.form.keys)
