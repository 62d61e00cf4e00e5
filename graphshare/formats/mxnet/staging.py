"""Write the file of a graph beside its target, and compare what was written with the graph."""

from __future__ import annotations

from mmap import ACCESS_READ, mmap

from graphshare.formats.atomic import OutputTransaction
from graphshare.formats.model_format import refuse_differences
from graphshare.formats.mxnet.document import Buffer
from graphshare.formats.mxnet.graph_differences import find_differences
from graphshare.formats.mxnet.layout import reuse_text, write_symbol
from graphshare.formats.output_paths import STDOUT
from graphshare.ir.graph import Graph
from graphshare.progress import task


def stage_graph(graph: Graph, target: str, stage: OutputTransaction) -> list[bytes]:
    """Write the graph beside its target and check it; what goes to stdout is returned instead.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """
    graph = reuse_text(graph)
    if target == "-":
        with task("writing", len(graph.nodes), "nodes") as advance:
            pieces = list(write_symbol(graph, advance))
        check_written(b"".join(pieces), graph, where=STDOUT)
        return pieces
    out = stage.open(target, last=True)
    with task("writing", len(graph.nodes), "nodes") as advance:
        for piece in write_symbol(graph, advance):
            out.write(piece)
    out.flush()
    if out.direct:  # a pipe or a device: it cannot be read back, so the text itself is
        check_written(b"".join(write_symbol(graph)), graph, where=target)
        return []
    with open(out.name, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        check_written(data, graph, where=target)
    return []


def check_written(data: Buffer, graph: Graph, *, where: str) -> None:
    """Compare the bytes of a written file with the graph that they came from.

    Raises:
        SelfCheckError: they do not read back as that graph.
    """
    refuse_differences(lambda: find_differences(data, graph), where=where)
