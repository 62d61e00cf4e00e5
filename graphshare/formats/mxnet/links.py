"""Check the ids of a file: references to nothing, cycles, and an order in which nodes can be built.

Used when nodes do not simply refer to earlier ones. Every fault is found before anything is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshare.errors import Fault, InputError
from graphshare.ir.graph import VARIABLE_OP
from graphshare.text.format import format_count

Records = Sequence[dict[str, Any]]


def check_ids(graph: Mapping[str, Any], records: Records) -> None:
    """Check every id of a graph object against its node records: inputs, control dependencies, heads, ``arg_nodes``.

    Raises:
        InputError: ids that are out of range, or in ``arg_nodes`` name an operator, which MXNet refuses; all are listed.
    """
    count = len(records)
    faults: list[Fault] = []
    for i, record in enumerate(records):
        _check_entries(faults, record["inputs"], count, f"$.nodes[{i}].inputs", record["name"])
        deps = [(dep,) for dep in record.get("control_deps", ())]
        _check_entries(faults, deps, count, f"$.nodes[{i}].control_deps", record["name"])
    _check_entries(faults, [(i,) for i in graph["arg_nodes"]], count, "$.arg_nodes")
    for position, i in enumerate(graph["arg_nodes"]):
        if i < count and records[i]["op"] != VARIABLE_OP:
            hint = "arg_nodes lists the ids of the variables (op null) and nothing else"
            message = f"refers to node {i}, which is an operator ({records[i]['op']})"
            faults.append(Fault(message, path=f"$.arg_nodes[{position}]", node=records[i]["name"], hint=hint))
    _check_entries(faults, graph["heads"], count, "$.heads")
    if faults:
        raise InputError(faults)


def building_order(records: Records) -> list[int]:
    """Return the ids of ``records`` so that each comes after the ids it refers to, otherwise as early as in MXNet's walk.

    Raises:
        InputError: nodes form a cycle, which the message shows as a path.
    """
    order: list[int] = []
    state = bytearray(len(records))  # 0 unseen, 1 on the path, 2 done
    for root in range(len(records)):
        if not state[root]:
            _visit(root, records, state, order)
    return order


def _visit(root: int, records: Records, state: bytearray, order: list[int]) -> None:
    path = [root]
    pending = [iter(_references(records[root]))]
    state[root] = 1
    while path:
        for reference in pending[-1]:
            if state[reference] == 1:
                raise InputError(_cycle(path[path.index(reference) :], records))
            if not state[reference]:
                state[reference] = 1
                path.append(reference)
                pending.append(iter(_references(records[reference])))
                break
        else:
            pending.pop()
            done = path.pop()
            state[done] = 2
            order.append(done)


def _references(record: dict[str, Any]) -> list[int]:
    return [entry[0] for entry in record["inputs"]] + list(record.get("control_deps", ()))


def _check_entries(
    faults: list[Fault], entries: Sequence[Sequence[int]], count: int, path: str, node: str | None = None
) -> None:
    hint = "ids count from 0 in the order of $.nodes; the file was cut or edited by hand"
    for position, entry in enumerate(entries):
        if entry[0] >= count:
            message = f"refers to node {entry[0]}, but the graph has {format_count(count, 'node')}"
            faults.append(Fault(message, path=f"{path}[{position}]", node=node, hint=hint))


def _cycle(ids: list[int], records: Records) -> Fault:
    path_ids = ids if len(ids) <= 8 else [*ids[:4], -1, *ids[-3:]]
    names = [
        f"{records[i]['name'] or records[i]['op']} (node {i})" if i >= 0 else f"... {len(ids) - 7} more ..." for i in path_ids
    ]
    path = " <- ".join([*names, names[0]])
    hint = "a graph must be acyclic; MXNet loads such a file without an error and computes nonsense"
    return Fault(f"needs its own output: {path}", path=f"$.nodes[{ids[0]}].inputs", node=records[ids[0]]["name"], hint=hint)
