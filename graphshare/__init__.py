"""graphshare: share parameters inside serialized MXNet/NNVM graphs, and prove that the result is right.

The library is the command line: every command is a typed function here. A rewrite takes a model and returns one, and prints
nothing; nothing is written before :func:`save`::

    import graphshare as gs

    model = gs.load("nin")
    siamese = gs.duplicate(model, "sha-", mode="tie")
    assert gs.verify(siamese)
    gs.save(siamese, "siam")

Names are imported when first used, so that a command pays only for what it needs.
"""

from __future__ import annotations

from graphshare.version import __version__

TYPE_CHECKING = False  # typing is not imported: the command handles Ctrl-C before it imports anything that takes time
if TYPE_CHECKING:
    from typing import Any

    from graphshare.api.check import check
    from graphshare.api.diff import diff
    from graphshare.api.draw import draw
    from graphshare.api.duplicate import duplicate
    from graphshare.api.export import export
    from graphshare.api.extract import extract
    from graphshare.api.fold import fold
    from graphshare.api.group import group
    from graphshare.api.images import open_images
    from graphshare.api.inspect import infer_shapes, inspect, inspect_folder
    from graphshare.api.params import convert, diff_params
    from graphshare.api.rename import rename
    from graphshare.api.rules import check_rules, explain, load_rules
    from graphshare.api.run import bind, run, train
    from graphshare.api.share import detect, share
    from graphshare.api.upgrade import format, upgrade
    from graphshare.api.verify import verify
    from graphshare.checkpoint.load import load
    from graphshare.checkpoint.model import Checkpoint
    from graphshare.checkpoint.save import save
    from graphshare.cli.fleet import foreach
    from graphshare.drawing.graphviz import GraphvizError
    from graphshare.errors import (
        DisprovedError,
        Fault,
        GraphshareError,
        InputError,
        OutputError,
        RefusedError,
        SelfCheckError,
        UsageError,
    )
    from graphshare.execute.bind import Bound
    from graphshare.execute.classes import rank_classes
    from graphshare.execute.plan import UnsupportedError
    from graphshare.execute.sgd import Sgd
    from graphshare.fleet.records import SchedulerError
    from graphshare.formats.staged_file import overwriting
    from graphshare.inspection.params_list import list_params
    from graphshare.inspection.params_show import measure_params, show_params
    from graphshare.ir.graph import Entry, Graph, Node, Rewrite
    from graphshare.rewrite.rules.model import Rule, Ruleset

# Public name: the module that holds it, and its name there where that is another one.
_ERRORS = "DisprovedError Fault GraphshareError InputError OutputError RefusedError SelfCheckError UsageError"
_HOMES = {
    **dict.fromkeys(_ERRORS.split(), "errors"),
    "Bound": "execute.bind",
    "Checkpoint": "checkpoint.model",
    "Entry": "ir.graph",
    "Graph": "ir.graph",
    "GraphvizError": "drawing.graphviz",
    "Node": "ir.graph",
    "Rewrite": "ir.graph",
    "Rule": "rewrite.rules.model",
    "Ruleset": "rewrite.rules.model",
    "SchedulerError": "fleet.records",
    "Sgd": "execute.sgd",
    "UnsupportedError": "execute.plan",
    "bind": "api.run",
    "check": "api.check",
    "check_rules": "api.rules",
    "convert": "api.params",
    "detect": "api.share",
    "diff": "api.diff",
    "diff_params": "api.params",
    "draw": "api.draw",
    "duplicate": "api.duplicate",
    "explain": "api.rules",
    "export": "api.export",
    "extract": "api.extract",
    "fold": "api.fold",
    "foreach": "cli.fleet",
    "format": "api.upgrade",
    "group": "api.group",
    "infer_shapes": "api.inspect",
    "inspect": "api.inspect",
    "inspect_folder": "api.inspect",
    "list_params": "inspection.params_list",
    "load": "checkpoint.load",
    "load_rules": "api.rules",
    "measure_params": "inspection.params_show",
    "open_images": "api.images",
    "overwriting": "formats.staged_file",
    "rank_classes": "execute.classes",
    "rename": "api.rename",
    "run": "api.run",
    "save": "checkpoint.save",
    "share": "api.share",
    "show_params": "inspection.params_show",
    "train": "api.run",
    "upgrade": "api.upgrade",
    "verify": "api.verify",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphshare' has no attribute {name!r}")
    from importlib import import_module  # start-up: see above

    module, _, original = _HOMES[name].partition(":")
    value = getattr(import_module(f"graphshare.{module}"), original or name)
    if name[0].islower():  # a function
        from graphshare.arguments import checked

        value = checked(value)
        value.__module__ = __name__  # where pickle finds it
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
