"""graphshare: share parameters inside serialized MXNet/NNVM graphs, and prove that the result is
right.

Every command is a typed function here. A rewrite takes a model and returns one, and prints nothing;
nothing is written before :func:`save`::

    import graphshare as gs

    model = gs.load("nin")
    siamese = gs.duplicate(model, "sha-", mode="tie")
    assert gs.verify(siamese)
    gs.save(siamese, "siam")

Names are imported when first used, so that a command loads only the modules that it needs.
"""

# With -m the current folder is on the path until __main__ runs: before that nothing is imported,
# not even from __future__.
from graphshare.version import __version__

TYPE_CHECKING = False  # typing is not imported: the command handles Ctrl-C before it imports anything that takes time
if TYPE_CHECKING:
    from graphshare.api.bind import bind as bind
    from graphshare.api.check import check as check
    from graphshare.api.compare import compare as compare
    from graphshare.api.diff import diff as diff
    from graphshare.api.diff_params import diff_params as diff_params
    from graphshare.api.downgrade import downgrade as downgrade
    from graphshare.api.draw import draw as draw
    from graphshare.api.draw_difference import draw_difference as draw_difference
    from graphshare.api.draw_proof import draw_proof as draw_proof
    from graphshare.api.duplicate import duplicate as duplicate
    from graphshare.api.export import export as export
    from graphshare.api.extract import extract as extract
    from graphshare.api.fingerprint import fingerprint as fingerprint
    from graphshare.api.fold import fold as fold
    from graphshare.api.foreach import foreach as foreach
    from graphshare.api.format import format as format
    from graphshare.api.group import group as group
    from graphshare.api.inspect import infer_shapes as infer_shapes
    from graphshare.api.inspect import inspect as inspect
    from graphshare.api.inspect import inspect_checkpoint as inspect_checkpoint
    from graphshare.api.inspect import inspect_folder as inspect_folder
    from graphshare.api.inspect import inspect_shared as inspect_shared
    from graphshare.api.load_rules import load_rules as load_rules
    from graphshare.api.open_images import open_images as open_images
    from graphshare.api.params import convert as convert
    from graphshare.api.params import list_params as list_params
    from graphshare.api.params import measure_params as measure_params
    from graphshare.api.params import show_params as show_params
    from graphshare.api.pool import pool as pool
    from graphshare.api.rank_classes import rank_classes as rank_classes
    from graphshare.api.rename import rename as rename
    from graphshare.api.rename_params import rename_params as rename_params
    from graphshare.api.reshape import reshape as reshape
    from graphshare.api.rules import check_rules as check_rules
    from graphshare.api.rules import explain as explain
    from graphshare.api.run import run as run
    from graphshare.api.share import detect as detect
    from graphshare.api.share import share as share
    from graphshare.api.split import split as split
    from graphshare.api.tie_params import tie_params as tie_params
    from graphshare.api.train import train as train
    from graphshare.api.upgrade import upgrade as upgrade
    from graphshare.api.verify import verify as verify
    from graphshare.checkpoint.load import load as load
    from graphshare.checkpoint.model import Checkpoint as Checkpoint
    from graphshare.checkpoint.save import save as save
    from graphshare.drawing.languages import GraphvizError as GraphvizError
    from graphshare.errors import DisprovedError as DisprovedError
    from graphshare.errors import Fault as Fault
    from graphshare.errors import GraphshareError as GraphshareError
    from graphshare.errors import InputError as InputError
    from graphshare.errors import OutputError as OutputError
    from graphshare.errors import RefusedError as RefusedError
    from graphshare.errors import SelfCheckError as SelfCheckError
    from graphshare.errors import UsageError as UsageError
    from graphshare.execute.bound import Bound as Bound
    from graphshare.execute.plan import UnsupportedError as UnsupportedError
    from graphshare.execute.train.sgd import Sgd as Sgd
    from graphshare.files.staged_file import overwriting as overwriting
    from graphshare.fleet.records import SchedulerError as SchedulerError
    from graphshare.ir.graph import Entry as Entry
    from graphshare.ir.graph import Graph as Graph
    from graphshare.ir.graph import Node as Node
    from graphshare.ir.graph import Rewrite as Rewrite
    from graphshare.resources import Resources as Resources
    from graphshare.rewrite.rules.model import Rule as Rule
    from graphshare.rewrite.rules.model import Ruleset as Ruleset
    from graphshare.verification.comparison import Tolerance as Tolerance
    from graphshare.verification.inputs import Inputs as Inputs

# The public names of each module.
_NAMES = {
    "api.bind": "bind",
    "api.check": "check",
    "api.compare": "compare",
    "api.diff": "diff",
    "api.diff_params": "diff_params",
    "api.downgrade": "downgrade",
    "api.draw": "draw",
    "api.draw_difference": "draw_difference",
    "api.draw_proof": "draw_proof",
    "api.duplicate": "duplicate",
    "api.export": "export",
    "api.extract": "extract",
    "api.fingerprint": "fingerprint",
    "api.fold": "fold",
    "api.foreach": "foreach",
    "api.format": "format",
    "api.group": "group",
    "api.load_rules": "load_rules",
    "api.inspect": "infer_shapes inspect inspect_checkpoint inspect_folder inspect_shared",
    "api.open_images": "open_images",
    "api.params": "convert list_params measure_params show_params",
    "api.pool": "pool",
    "api.rank_classes": "rank_classes",
    "api.rename": "rename",
    "api.rename_params": "rename_params",
    "api.reshape": "reshape",
    "api.rules": "check_rules explain",
    "api.run": "run",
    "api.share": "detect share",
    "api.split": "split",
    "api.tie_params": "tie_params",
    "api.train": "train",
    "api.upgrade": "upgrade",
    "api.verify": "verify",
    "checkpoint.load": "load",
    "checkpoint.model": "Checkpoint",
    "checkpoint.save": "save",
    "drawing.languages": "GraphvizError",
    "errors": "DisprovedError Fault GraphshareError InputError OutputError RefusedError SelfCheckError UsageError",
    "execute.bound": "Bound",
    "execute.plan": "UnsupportedError",
    "execute.train.sgd": "Sgd",
    "files.staged_file": "overwriting",
    "fleet.records": "SchedulerError",
    "ir.graph": "Entry Graph Node Rewrite",
    "resources": "Resources",
    "rewrite.rules.model": "Rule Ruleset",
    "verification.comparison": "Tolerance",
    "verification.inputs": "Inputs",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]


if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'graphshare' has no attribute {name!r}")
        from importlib import import_module  # start-up: see above

        value = getattr(import_module(f"graphshare.{_HOMES[name]}"), name)
        if name[0].islower():  # a function
            # Start-up: a command checks its options itself
            from graphshare.arguments import check_arguments

            value = check_arguments(value)
            value.__module__ = __name__  # where pickle finds it
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
