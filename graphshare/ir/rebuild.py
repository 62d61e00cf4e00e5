"""The one place that copies nodes: a transform states what changes; edges and captures follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.progress import track_batches

Change = Callable[[Node], Node]
"""Returns the replacement of a node: itself, or a changed node with the inputs of its source."""
Redirect = Callable[[Entry, Node], Entry | None]
"""Returns the new entry for an input of a node, or None if it follows the images."""


def keep(node: Node) -> Node:
    """Return ``node`` unchanged."""
    return node


def rebuild(
    nodes: Sequence[Node],
    change: Change = keep,
    *,
    redirect: Redirect | None = None,
    images: dict[Node, Node] | None = None,
    task: str = "",
) -> dict[Node, Node]:
    """Return the image of every node, in the order of ``nodes``, or inputs first if not
    topological.

    A node that ``change`` leaves alone, and whose inputs are unchanged, is its own image.
    ``images`` may hold other nodes, and gets the new ones. ``task`` names the progress.
    """
    images = {} if images is None else images
    before = dict(images)
    try:
        # Nearly every file has inputs before consumers.
        _rebuild(nodes, change, redirect, images, task)
    except KeyError:  # a node stands before one that it needs
        images.clear()
        images.update(before)
        members = set(nodes)
        order = [node for node in post_order(nodes, stop=before) if node in members]
        _rebuild(order, change, redirect, images, task)
    return images


def _rebuild(
    nodes: Sequence[Node],
    change: Change,
    redirect: Redirect | None,
    images: dict[Node, Node],
    task: str,
) -> None:
    """Raises KeyError if a node comes before its input."""
    for node in track_batches(nodes, task, "nodes") if task else nodes:
        image = change(node)
        inputs, deps = image.inputs, image.control_deps
        if inputs:
            if redirect is None:
                linked = tuple(
                    [
                        e if (new := images[e.node]) is e.node else Entry(new, e.index, e.version)
                        for e in inputs
                    ]
                )
            else:
                linked = tuple([redirect(e, node) or relink(e, images) for e in inputs])
            if linked != inputs:  # entries are equal only to themselves
                image = replace(image, inputs=linked)
        if deps:
            new_deps = tuple([images[dep] for dep in deps])
            if new_deps != deps:
                image = replace(image, control_deps=new_deps)
        images[node] = image


def rebuild_graph(graph: Graph, change: Change) -> tuple[Graph, dict[Node, Node]]:
    """Return a graph of the images of all nodes, with the same source, and the images."""
    images = rebuild(graph.nodes, change)
    nodes = tuple([images[node] for node in graph.nodes])
    return replace(graph, nodes=nodes, heads=relink_all(graph.heads, images)), images


class StoredNames(Struct, frozen=True):
    """The names that a file stores beside a node's own."""

    outputs: tuple[str, ...]
    label: str = ""


def rename_node(node: Node, name: str, stored: StoredNames | None = None) -> Node:
    """Rename ``node``; output names and label come from ``stored`` or :func:`follow_name`."""
    details = node.details
    if stored is None and not details.outputs and not details.label:
        return replace(node, name=name)
    if stored is not None:
        return replace(
            node, name=name, details=replace(details, outputs=stored.outputs, label=stored.label)
        )
    old, outputs, label = node.name, details.outputs, details.label
    if outputs == (old,):  # as nearly always, and a large graph has many
        outputs = (name,)
    else:
        outputs = tuple([name if text == old else follow_name(text, old, name) for text in outputs])
    label = follow_name(label, old, name) if label else ""
    return replace(node, name=name, details=replace(details, outputs=outputs, label=label))


def follow_name(text: str, old: str, new: str) -> str:
    """Return the new form of ``text`` when a name changes from ``old`` to ``new``.

    It follows if ``old``, alone or before a separator, begins it, or if the change adds or removes
    a prefix.
    """
    if not text:
        return text
    if old and text.startswith(old) and not text[len(old) : len(old) + 1].isalnum():
        return new + text[len(old) :]
    if new.endswith(old):
        return new[: len(new) - len(old)] + text
    return text.removeprefix(old[: len(old) - len(new)]) if old.endswith(new) else text


def prefix_node(node: Node, prefix: str) -> Node:
    """Return ``node`` with ``prefix`` before its name, label and stored output names, unless
    empty.
    """
    name = prefix + node.name if node.name else ""
    details = node.details
    if not details.outputs and not details.label:
        return replace(node, name=name)
    outputs = (
        (name,)
        if details.outputs == (node.name,)
        else tuple([prefix + t if t else "" for t in details.outputs])
    )
    label = prefix + details.label if details.label else ""
    return replace(node, name=name, details=replace(details, outputs=outputs, label=label))


def relink(entry: Entry, images: Mapping[Node, Node]) -> Entry:
    """Return the entry of the node's image; the same object if unchanged."""
    image = images[entry.node]
    return entry if image is entry.node else Entry(image, entry.index, entry.version)


def relink_all(entries: Iterable[Entry], images: Mapping[Node, Node]) -> tuple[Entry, ...]:
    """Apply :func:`relink` to all entries, such as heads."""
    return tuple([relink(entry, images) for entry in entries])
