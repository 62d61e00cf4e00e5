"""Which graphs of the corpus are the same but for names, for how they were written, and for the
widths of dense layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.registry import canonical, lookup

_INDIFFERENT = ("num_hidden", "workspace", "cudnn_tune", "cudnn_off")


def likeness(graph: Graph) -> tuple[Any, ...]:
    """Operators with their attributes, defaults filled in, and how they are wired."""
    nodes = post_order(entry.node for entry in graph.heads)
    place = {node: i for i, node in enumerate(nodes)}
    rows = [
        (
            canonical(n.op),
            _attributes(n),
            tuple((place[e.node], e.index) for e in n.inputs),
            *map(likeness, n.subgraphs),
        )
        for n in nodes
    ]
    return (*rows, tuple((place[e.node], e.index) for e in graph.heads))


def _attributes(node: Node) -> str:
    if node.is_variable:
        return ""
    signature = lookup(node.op)
    found = dict(node.attrs) if signature is None else dict(signature.parse(node.attrs)[0])
    return repr(
        sorted(
            (k, str(v))
            for k, v in found.items()
            if k not in _INDIFFERENT and not k.startswith("__")
        )
    )


def first_alike(corpus: Path, stems: Sequence[str]) -> dict[str, str]:
    """For each graph the first one that it is like and that was recorded on inputs of the same
    shapes: itself, mostly.
    """
    firsts: dict[Any, str] = {}
    found = {}
    for stem in stems:
        path = corpus / "graphs" / f"{stem}.json"
        with np.load(corpus / "oracle" / f"{stem}.io.npz") as arrays:
            shapes = [
                (key, arrays[key].shape) for key in sorted(arrays.files) if key.startswith("in__")
            ]
        key = (
            likeness(read_symbol(path.read_bytes(), where=path.name)),
            repr(sorted(shape for _, shape in shapes)),
        )
        found[stem] = firsts.setdefault(key, stem)
    return found
