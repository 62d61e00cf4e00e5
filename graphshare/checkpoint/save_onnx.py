"""Save a model that was read from ONNX files: the file itself, checked before it is in place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError, SelfCheckError
from graphshare.formats.atomic import OutputTransaction
from graphshare.formats.byte_source import open_source
from graphshare.formats.onnx.differences import find_differences
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.formats.params.byte_ranges import write_all
from graphshare.ir.graph import Graph
from graphshare.text.format import format_bytes

LARGEST = (1 << 31) - 1
"""The largest message that protobuf takes, in bytes."""
_REPORTED = 20
_BUG = "this is a bug of graphshare; nothing was written, please report it"


def stage_onnx(model: Checkpoint, target: str, stage: OutputTransaction) -> list[bytes]:
    """Write the model's file beside its target and check it; what goes to stdout is returned instead.

    Raises:
        RefusedError: the file would be larger than protobuf allows.
        SelfCheckError: it does not read back as the graph that it was made from.
    """
    graph = model.graph
    data = encode_graph_file(graph)
    if data.size > LARGEST:
        hint = "keep the weights of one branch only (--mode tie), or move them to external data first"
        raise RefusedError(Fault(f"the model would take {format_bytes(data.size)}, and 2 GiB is the most", hint=hint))
    if target == "-":
        return [bytes(piece) for piece in data.pieces()]
    out = stage.open(target)
    for piece in data.pieces():
        write_all(out, piece)
    out.flush()
    if not out.direct:
        check_written(out.name, graph, where=target)
    return []


def check_written(path: str, graph: Graph, *, where: str) -> None:
    """Compare a written file with the graph that it came from.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """
    try:
        faults = list(islice(_compare(path, graph), _REPORTED))
    except InputError as error:
        faults = list(error.faults)
    if faults:
        raise SelfCheckError([Fault(f.message, where=where, path=f.path, node=f.node, hint=_BUG) for f in faults])


def _compare(path: str, graph: Graph) -> Iterator[Fault]:
    with open_source(path) as source:
        yield from find_differences(source, graph)
