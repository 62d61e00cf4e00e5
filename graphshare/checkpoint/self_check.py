"""The self-check of a rewrite: it is compared with its source."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from graphshare.errors import Fault, SelfCheckError
from graphshare.formats.model_format import BUG
from graphshare.ir.compare import Exempt, compare_images
from graphshare.ir.graph import EMPTY, Entry, Kept, Node, Rewrite

_REPORTED = 20


def check_isomorphic(
    rewrite: Rewrite,
    *,
    exempt: Exempt = EMPTY,
    tied: Collection[Node] = (),
    copies: Mapping[Node, Node] = EMPTY,
    replaced: Mapping[tuple[int, Node], Entry] = EMPTY,
) -> None:
    """Check that every image is its source node but for the name, and that its inputs are images.

    ``exempt``, ``tied`` and ``copies`` are as in :func:`compare_images`; ``replaced`` has the number of the branch in its keys.

    Raises:
        SelfCheckError: a branch is not isomorphic to its source.
    """
    faults: list[Fault] = []
    for number, branch in enumerate(rewrite.branches):
        if isinstance(branch.images, Kept):  # every node is its own image
            continue
        own = {node: entry for (i, node), entry in replaced.items() if i == number}
        for wrong in compare_images(branch.images, exempt=exempt, tied=tied, copies=copies, replaced=own):
            message = f"is not what node {wrong.left.name!r} became: {wrong.what}"
            faults.append(Fault(message, node=wrong.right.name, hint=BUG))
    if faults:
        raise SelfCheckError(faults[:_REPORTED])
