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
    from graphshare.api.check import check as check
    from graphshare.api.duplicate import duplicate as duplicate
    from graphshare.api.export import export as export
    from graphshare.api.extract import extract as extract
    from graphshare.api.fold import fold as fold
    from graphshare.api.foreach import foreach as foreach
    from graphshare.api.group import group as group
    from graphshare.api.images import open_images as open_images
    from graphshare.api.inspect import infer_shapes as infer_shapes
    from graphshare.api.inspect import inspect as inspect
    from graphshare.api.inspect import inspect_folder as inspect_folder
    from graphshare.api.inspect import inspect_shared as inspect_shared
    from graphshare.api.params import convert as convert
    from graphshare.api.params import diff_params as diff_params
    from graphshare.api.params import list_params as list_params
    from graphshare.api.params import measure_params as measure_params
    from graphshare.api.params import show_params as show_params
    from graphshare.api.pictures import draw_difference as draw_difference
    from graphshare.api.pictures import draw_proof as draw_proof
    from graphshare.api.pool import pool as pool
    from graphshare.api.rename import rename as rename
    from graphshare.api.share import detect as detect
    from graphshare.api.share import share as share
    from graphshare.api.upgrade import format as format
    from graphshare.api.upgrade import upgrade as upgrade
    from graphshare.checkpoint.load import load as load
    from graphshare.checkpoint.model import Checkpoint as Checkpoint
    from graphshare.checkpoint.save import save as save
    from graphshare.differences.diff import diff as diff
    from graphshare.drawing.draw import draw as draw
    from graphshare.drawing.languages import GraphvizError as GraphvizError
    from graphshare.errors import DisprovedError as DisprovedError
    from graphshare.errors import Fault as Fault
    from graphshare.errors import GraphshareError as GraphshareError
    from graphshare.errors import InputError as InputError
    from graphshare.errors import OutputError as OutputError
    from graphshare.errors import RefusedError as RefusedError
    from graphshare.errors import SelfCheckError as SelfCheckError
    from graphshare.errors import UsageError as UsageError
    from graphshare.execute.bind import Bound as Bound
    from graphshare.execute.bind import bind as bind
    from graphshare.execute.classes import rank_classes as rank_classes
    from graphshare.execute.plan import UnsupportedError as UnsupportedError
    from graphshare.execute.run import run as run
    from graphshare.execute.train.sgd import Sgd as Sgd
    from graphshare.execute.train.train import train as train
    from graphshare.files.staged_file import overwriting as overwriting
    from graphshare.fleet.records import SchedulerError as SchedulerError
    from graphshare.ir.graph import Entry as Entry
    from graphshare.ir.graph import Graph as Graph
    from graphshare.ir.graph import Node as Node
    from graphshare.ir.graph import Rewrite as Rewrite
    from graphshare.rewrite.rules.explain import check_rules as check_rules
    from graphshare.rewrite.rules.explain import explain as explain
    from graphshare.rewrite.rules.load import load_rules as load_rules
    from graphshare.rewrite.rules.model import Rule as Rule
    from graphshare.rewrite.rules.model import Ruleset as Ruleset
    from graphshare.verification.verify import verify as verify

# Public name: the module that holds it.
_ERRORS = "DisprovedError Fault GraphshareError InputError OutputError RefusedError SelfCheckError UsageError"
_HOMES = {
    **dict.fromkeys(_ERRORS.split(), "errors"),
    "Bound": "execute.bind",
    "Checkpoint": "checkpoint.model",
    "Entry": "ir.graph",
    "Graph": "ir.graph",
    "GraphvizError": "drawing.languages",
    "Node": "ir.graph",
    "Rewrite": "ir.graph",
    "Rule": "rewrite.rules.model",
    "Ruleset": "rewrite.rules.model",
    "SchedulerError": "fleet.records",
    "Sgd": "execute.train.sgd",
    "UnsupportedError": "execute.plan",
    "bind": "execute.bind",
    "check": "api.check",
    "check_rules": "rewrite.rules.explain",
    "convert": "api.params",
    "detect": "api.share",
    "diff": "differences.diff",
    "diff_params": "api.params",
    "draw": "drawing.draw",
    "draw_difference": "api.pictures",
    "draw_proof": "api.pictures",
    "duplicate": "api.duplicate",
    "explain": "rewrite.rules.explain",
    "export": "api.export",
    "extract": "api.extract",
    "fold": "api.fold",
    "foreach": "api.foreach",
    "format": "api.upgrade",
    "group": "api.group",
    "infer_shapes": "api.inspect",
    "inspect": "api.inspect",
    "inspect_folder": "api.inspect",
    "inspect_shared": "api.inspect",
    "list_params": "api.params",
    "load": "checkpoint.load",
    "load_rules": "rewrite.rules.load",
    "measure_params": "api.params",
    "open_images": "api.images",
    "overwriting": "files.staged_file",
    "pool": "api.pool",
    "rank_classes": "execute.classes",
    "rename": "api.rename",
    "run": "execute.run",
    "save": "checkpoint.save",
    "share": "api.share",
    "show_params": "api.params",
    "train": "execute.train.train",
    "upgrade": "api.upgrade",
    "verify": "verification.verify",
}

__all__ = ["__version__", *_HOMES]


if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'graphshare' has no attribute {name!r}")
        from importlib import import_module  # start-up: see above

        value = getattr(import_module(f"graphshare.{_HOMES[name]}"), name)
        if name[0].islower():  # a function
            from graphshare.arguments import checked  # start-up: a command checks its options itself

            value = checked(value)
            value.__module__ = __name__  # where pickle finds it
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
