"""What differs between two models whose values are compared."""

from __future__ import annotations

from graphshare.analysis.branches import HeadPairs
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.params.lookup import compare_parameters
from graphshare.ir.compare import Pairing
from graphshare.verification.pairing import SidePair, pair_heads, pair_nodes
from graphshare.verification.report import OTHER_MODEL


def find_changes(left: Checkpoint, right: Checkpoint, *, across_dtypes: bool) -> tuple[Pairing, tuple[str, ...]]:
    """Return the pairs of nodes of two models, whose outputs are paired by name or in their order, and what differs, in words.

    With ``across_dtypes`` weights of unlike dtypes are not a difference.
    """
    _, heads = pair_heads(left, right)
    pairing = pair_nodes(HeadPairs("", OTHER_MODEL, tuple(left.graph.heads), tuple(heads)), left, right)
    sides = SidePair(left, right)
    parameters = [(a, b) for a, b in pairing.variables if sides.is_parameter(a, b)]
    compared = compare_parameters(parameters, sides.is_auxiliary, *sides.records)
    different = [p for p in compared if p.how == "different" and not (across_dtypes and p.detail.startswith("types "))]
    return pairing, (*pairing.describe(), *(f"{p.left.name!r} and {p.right.name!r}: {p.detail}" for p in different))
