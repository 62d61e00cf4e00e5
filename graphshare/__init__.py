"""graphshare: share parameters inside serialized MXNet/NNVM graphs, and prove that the result is right.

Everything a command does is a typed function here. They take graphs and options, return a rewrite or a report, and print
nothing::

    import graphshare

    source = graphshare.load("nin")
    rewrite = graphshare.duplicate(source.graph, ["sha-"], mode="tie")
    graphshare.save(rewrite, source, "siam")

Names are imported when first used, so that a command pays only for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graphshare.api import (
        Rule,
        Ruleset,
        duplicate,
        extract,
        group,
        inspect,
        load,
        load_rules,
        rename,
        rename_by_rules,
        save,
        share,
        upgrade,
        verify,
    )
    from graphshare.differences.diff import diff
    from graphshare.drawing.draw import draw
    from graphshare.errors import Fault, GraphshareError
    from graphshare.execute.bind import Bound, bind
    from graphshare.execute.run import run
    from graphshare.execute.sgd import Sgd
    from graphshare.execute.train import train
    from graphshare.formats.params.diff import diff_params
    from graphshare.ir.graph import Entry, Graph, Node, Rewrite

_HOMES = {
    **dict.fromkeys(("Rule", "Ruleset", "duplicate", "extract", "group", "inspect", "load", "load_rules"), "graphshare.api"),
    **dict.fromkeys(("rename", "rename_by_rules", "save", "share", "upgrade"), "graphshare.api"),
    **dict.fromkeys(("Fault", "GraphshareError"), "graphshare.errors"),
    "Sgd": "graphshare.execute.sgd",
    "train": "graphshare.execute.train",
    **dict.fromkeys(("Bound", "bind"), "graphshare.execute.bind"),
    "diff": "graphshare.differences.diff",
    "diff_params": "graphshare.formats.params.diff",
    "draw": "graphshare.drawing.draw",
    "run": "graphshare.execute.run",
    "verify": "graphshare.api",
    **dict.fromkeys(("Entry", "Graph", "Node", "Rewrite"), "graphshare.ir.graph"),
}

__all__ = [
    "Bound",
    "Entry",
    "Fault",
    "Graph",
    "GraphshareError",
    "Node",
    "Rewrite",
    "Rule",
    "Ruleset",
    "Sgd",
    "__version__",
    "bind",
    "diff",
    "diff_params",
    "draw",
    "duplicate",
    "extract",
    "group",
    "inspect",
    "load",
    "load_rules",
    "rename",
    "rename_by_rules",
    "run",
    "save",
    "share",
    "train",
    "upgrade",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphshare' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
