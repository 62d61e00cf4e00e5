"""``diff``: what differs between two models, or between two parameter files."""

from __future__ import annotations

from graphshare.api.models import Model, Names, as_checkpoint, as_names
from graphshare.arguments import NotNegative
from graphshare.checkpoint.load import StrPath
from graphshare.checkpoint.map_file import read_map
from graphshare.differences.diff import Difference
from graphshare.differences.diff import diff as diff_models
from graphshare.errors import Fault, UsageError, locate_refusals


def diff(
    left: Model,
    right: Model,
    *,
    prefixes: Names = (),
    map: StrPath | None = None,
    renames: bool = True,
    ignore_names: bool = False,
    atol: NotNegative = 0.0,
    rtol: NotNegative = 0.0,
) -> Difference:
    """Find what differs between two graphs, and between their parameters where both have some.

    ``prefixes``: the right graph has nodes of the left one under these prefixes, beside or instead of the plain ones. ``map``
    is the map file of the rewrite, or a JSON object of old and new names. Without ``renames`` names alone pair the rest; with
    ``ignore_names`` another name is not a difference. The result is true if anything differs; ``verdict`` is one line.

    Raises:
        UsageError: ``map`` and ``prefixes`` are both given.
        InputError: the map cannot be read or is of other graphs.
        RefusedError: no node has the prefix.
    """
    if map and as_names(prefixes):
        raise UsageError(Fault("a map excludes prefixes"))
    a, b = as_checkpoint(left), as_checkpoint(right)
    map_file = read_map(map) if map else None
    with locate_refusals(b):
        return diff_models(
            a,
            b,
            prefixes=as_names(prefixes),
            map_file=map_file,
            renames=renames,
            ignore_names=ignore_names,
            atol=atol,
            rtol=rtol,
        )
