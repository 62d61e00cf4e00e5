"""Write the file of a graph, read it back, and refuse it where it is not that graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from graphshare.errors import BUG, Fault, InputError, OutputError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import STDOUT
from graphshare.formats.model_file import HeldFile, ModelFile
from graphshare.ir.compare import compare_images
from graphshare.ir.graph import Graph
from graphshare.ir.walk import node_ids
from graphshare.text.format import format_count

_REPORTED = 20


def stage_file(
    data: bytes, read: Callable[[ModelFile], Graph], graph: Graph, target: str, stage: OutputTransaction
) -> list[bytes]:
    """Write ``data``, the file of ``graph``, beside ``target``, and compare what ``read`` makes of it with the graph.

    Bytes for stdout are returned instead.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """
    where = STDOUT if target == "-" else target
    if target != "-":
        out = stage.open(target, last=True)
        out.write(data)
        out.flush()
        if not out.direct:  # else it is a pipe or a device, which cannot be read back
            with open(out.name, "rb") as file:
                data = file.read()
    refuse_differences(lambda: _find_differences(read(HeldFile(where, data)), graph), where=where)
    return [data] if target == "-" else []


def _find_differences(actual: Graph, graph: Graph) -> Iterator[Fault]:
    """Yield the differences between ``graph`` and the graph that was read from its file, node by node in their order."""
    if len(actual.nodes) != len(graph.nodes):
        yield Fault(f"holds {format_count(len(actual.nodes), 'node')} instead of {len(graph.nodes)}")
        return
    images = dict(zip(graph.nodes, actual.nodes, strict=True))
    for node, image in images.items():
        if node.name != image.name:
            yield Fault(f"reads back with the name {image.name!r}", node=node.name)
    for difference in compare_images(images):
        yield Fault(f"does not read back as it was: {difference.what}", node=difference.left.name)
    if _list_places(actual) != _list_places(graph):
        yield Fault("does not read back with the outputs that it had")


def _list_places(graph: Graph) -> list[tuple[int, int]]:
    """Return the number of the node and the index of each output of a graph."""
    ids = node_ids(graph)
    return [(ids[entry.node], entry.index) for entry in graph.heads]


def refuse_differences(find: Callable[[], Iterable[Fault]], *, where: str) -> None:
    """Refuse a written file in which ``find`` finds differences from the graph that it came from.

    Raises:
        SelfCheckError: it does not read back as that graph.
        OutputError: the system cannot read it.
    """
    try:
        faults = list(islice(find(), _REPORTED))
    except InputError as error:
        faults = list(error.faults)
        if isinstance(error.__cause__, OSError):  # the system fails, not this program
            raise OutputError([Fault(f"{fault.message}; nothing was written", where=where) for fault in faults]) from error
    if faults:
        raise SelfCheckError([Fault(f.message, where=where, path=f.path, node=f.node, hint=BUG) for f in faults])
