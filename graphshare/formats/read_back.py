"""Write the file of a graph, read it back, and refuse it if it is not that graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from graphshare.errors import BUG, Fault, InputError, OutputError, SelfCheckError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import STDOUT
from graphshare.formats.model_file import HeldFile, ModelFile
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import node_ids
from graphshare.text.format import format_count

_REPORTED = 20


def stage_file(
    data: bytes,
    read: Callable[[ModelFile], Graph],
    graph: Graph,
    target: str,
    stage: OutputTransaction,
) -> list[bytes]:
    """Write ``data``, the file of ``graph``, beside ``target``, and compare it as returned by
    ``read``.

    Bytes for stdout are returned instead.

    Raises:
        SelfCheckError: it does not read back as that graph.
    """
    where = STDOUT if target == "-" else target
    if target != "-":
        out = stage.open(target, last=True)
        out.write(data)
        out.flush()
        if not out.direct:  # else it is a pipe or a device and cannot be read back
            with open(out.name, "rb") as file:
                data = file.read()
    refuse_differences(lambda: list_differences(read(HeldFile(where, data)), graph), where=where)
    return [data] if target == "-" else []


def list_differences(
    actual: Graph, graph: Graph, path: str = "$", *, inner_names: bool = False
) -> Iterator[Fault]:
    """Yield the differences between ``graph``, at ``path``, and the graph read from its file.

    With ``inner_names`` names in subgraphs count; some formats renumber them.
    """
    if len(actual.nodes) != len(graph.nodes):
        yield Fault(
            f"holds {format_count(len(actual.nodes), 'node')} instead of {len(graph.nodes)}",
            path=path,
        )
        return
    ids, read_ids = node_ids(graph), node_ids(actual)
    for i, (a, b) in enumerate(zip(actual.nodes, graph.nodes, strict=True)):
        is_renamed = a.name != b.name and (inner_names or path == "$")
        if (
            is_renamed
            or _list_content(a, read_ids) != _list_content(b, ids)
            or len(a.subgraphs) != len(b.subgraphs)
        ):
            yield Fault("does not read back as it was", path=f"{path}.nodes[{i}]", node=b.name)
            continue
        for k, (inner, expected) in enumerate(zip(a.subgraphs, b.subgraphs, strict=True)):
            yield from list_differences(
                inner, expected, f"{path}.nodes[{i}].subgraphs[{k}]", inner_names=inner_names
            )
    yield from list_changed_keys(actual.attrs, graph.attrs, f"{path}.attrs")
    if [_place(e, read_ids) for e in actual.heads] != [_place(e, ids) for e in graph.heads]:
        yield Fault("do not read back as they were", path=f"{path}.heads")


def list_changed_keys(
    actual: Mapping[str, Any], wanted: Mapping[str, Any], path: str
) -> Iterator[Fault]:
    """Yield the keys that only one mapping has, and keys whose values differ."""
    for key in {**wanted, **actual}:
        if key not in wanted or key not in actual or wanted[key] != actual[key]:
            yield Fault("does not read back as it was", path=f"{path}.{key}")


def _list_content(node: Node, ids: dict[Node, int]) -> tuple[Any, ...]:
    """Return all that a file states about a node, except its name.

    New values may be renumbered, so outputs are only counted.
    """
    details, inputs = node.details, [_place(entry, ids) for entry in node.inputs]
    typed = (details.domain, len(details.outputs), dict(details.values), details.absent)
    return (
        node.op,
        dict(node.attrs),
        inputs,
        [ids[dep] for dep in node.control_deps],
        dict(node.extra),
        typed,
    )


def _place(entry: Entry, ids: dict[Node, int]) -> tuple[int, int, int | None]:
    return ids[entry.node], entry.index, entry.version


def refuse_differences(find: Callable[[], Iterable[Fault]], *, where: str) -> None:
    """Refuse a written file if ``find`` finds differences from its graph.

    Raises:
        SelfCheckError: it does not read back as that graph.
        OutputError: the system cannot read it.
    """
    try:
        faults = list(islice(find(), _REPORTED))
    except InputError as error:
        faults = list(error.faults)
        if isinstance(error.__cause__, OSError):  # the system fails, not this program
            raise OutputError(
                [Fault(f"{fault.message}; nothing was written", where=where) for fault in faults]
            ) from error
    if faults:
        raise SelfCheckError(
            [Fault(f.message, where=where, path=f.path, node=f.node, hint=BUG) for f in faults]
        )
