"""The self-check of the output: what was written is read back and compared with the graph and its source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from types import MappingProxyType

from graphshare.errors import Fault, InputError, SelfCheckError
from graphshare.formats.mxnet.document import Buffer
from graphshare.formats.mxnet.graph_differences import find_differences
from graphshare.ir.graph import Entry, Graph, Kept, Node, Rewrite

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
    attributes_may_differ: frozenset[tuple[str, str]] = frozenset(),
    tied: Collection[Node] = (),
    copies: Mapping[Node, Node] | None = None,
    replaced: Mapping[tuple[int, Node], Entry] = MappingProxyType({}),
) -> None:
    """Compare a rewrite with its source: every image must be its source node but for the name, and its inputs images.

    ``attributes_may_differ`` are pairs of operator and attribute that the transform changes on purpose. ``tied`` variables
    became another one, with the attributes of that. ``copies`` tell which image a copy stands for. ``replaced`` gives, by a
    branch's number and a source variable, the entry of the new graph that the branch reads in that variable's place.

    Raises:
        SelfCheckError: a branch is not isomorphic to what it was made from.
    """
    exempt = dict(attributes_may_differ)
    copies = copies or {}
    faults: list[Fault] = []
    for number, branch in enumerate(rewrite.branches):
        images = branch.images
        if isinstance(images, Kept):  # every node is its own image
            continue
        for node, image in images.items():
            if image is node and not any(images[e.node] is not e.node or (number, e.node) in replaced for e in node.inputs):
                continue
            same = image.attrs is node.attrs or image.attrs == node.attrs
            alike = image.op == node.op and (same or node in tied or _differ_in(node, image, exempt))
            alike = alike and len(image.inputs) == len(node.inputs)
            for entry, new in zip(node.inputs, image.inputs, strict=False):
                other = replaced.get((number, entry.node)) if replaced else None
                wanted, index = (images[entry.node], entry.index) if other is None else (other.node, other.index)
                if wanted is not (copies.get(new.node, new.node) if copies else new.node) or index != new.index:
                    alike = False
            if not alike or (node.control_deps and [images[dep] for dep in node.control_deps] != list(image.control_deps)):
                faults.append(Fault(f"is not what node {node.name!r} became", node=image.name, hint=_BUG))
    if faults:
        raise SelfCheckError(faults[:_REPORTED])


def _differ_in(node: Node, image: Node, exempt: Mapping[str, str]) -> bool:
    """Return whether the attributes of two nodes differ only in the one that may."""
    key = exempt.get(node.op)
    return key is not None and {**node.attrs, key: ""} == {**image.attrs, key: ""}
