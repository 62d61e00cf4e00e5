"""The self-check: a rewrite is compared with its source, and what was written is read back and compared with the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from graphshare.errors import Fault, InputError, SelfCheckError
from graphshare.formats.mxnet.document import Buffer
from graphshare.formats.mxnet.graph_differences import find_differences
from graphshare.ir.compare import Exempt, compare_images
from graphshare.ir.graph import EMPTY, Entry, Graph, Kept, Node, Rewrite

_REPORTED = 20
_BUG = "this is a bug of graphshare; nothing was written, please report it"


def check_written(data: Buffer, graph: Graph, *, where: str) -> None:
    """Compare the bytes of a written file with the graph that they came from.

    Raises:
        SelfCheckError: they do not read back as that graph.
    """
    try:
        faults = list(islice(find_differences(data, graph), _REPORTED))
    except InputError as error:
        faults = list(error.faults)
    if faults:
        raise SelfCheckError([Fault(f.message, where=where, path=f.path, node=f.node, hint=_BUG) for f in faults])


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
            faults.append(Fault(message, node=wrong.right.name, hint=_BUG))
    if faults:
        raise SelfCheckError(faults[:_REPORTED])
