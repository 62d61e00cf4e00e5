"""Ids of a file held against each other: what refers nowhere, what goes round in circles, and an order that can be built.

Used when nodes do not simply refer to earlier ones. Every fault is found before anything is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshare.errors import Fault, InputError

Records = Sequence[dict[str, Any]]


def building_order(records: Records) -> list[int]:
    """The ids of ``records`` so that each comes after the ids it refers to, otherwise as early as in MXNet's walk.

    Raises:
        InputError: an id is out of range, or nodes need each other in a circle, which is shown as a path.
    """
    faults = [fault for i, record in enumerate(records) for fault in _out_of_range(i, record, len(records))]
    if faults:
        raise InputError(faults)
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


def check_references(faults: list[Fault], entries: Sequence[Sequence[int]], count: int, path: str, node: str | None = None) -> None:
    """Adds a fault for each entry of ``entries`` whose node id is not below ``count``."""
    for position, entry in enumerate(entries):
        if entry[0] >= count:
            faults.append(_missing(entry[0], count, f"{path}[{position}]", node))


def check_arg_nodes(ids: Sequence[int], records: Records) -> None:
    """Holds ``arg_nodes`` against the nodes: MXNet refuses a file in which one is no variable.

    Raises:
        InputError: every id that is out of range or names an operator.
    """
    faults = []
    for position, i in enumerate(ids):
        path = f"$.arg_nodes[{position}]"
        if i >= len(records):
            faults.append(_missing(i, len(records), path, None))
        elif records[i]["op"] != "null":
            record = records[i]
            hint = "arg_nodes lists the ids of the variables (op null) and nothing else"
            faults.append(Fault(f"refers to node {i}, which is an operator ({record['op']})", path=path, node=record["name"], hint=hint))
    if faults:
        raise InputError(faults)


def _references(record: dict[str, Any]) -> list[int]:
    return [entry[0] for entry in record["inputs"]] + list(record.get("control_deps", ()))


def _out_of_range(i: int, record: dict[str, Any], count: int) -> list[Fault]:
    faults: list[Fault] = []
    check_references(faults, record["inputs"], count, f"$.nodes[{i}].inputs", record["name"])
    check_references(faults, [(dep,) for dep in record.get("control_deps", ())], count, f"$.nodes[{i}].control_deps", record["name"])
    return faults


def _missing(i: int, count: int, path: str, node: str | None) -> Fault:
    hint = "ids count from 0 in the order of $.nodes; the file was cut or edited by hand"
    return Fault(f"refers to node {i}, but there are {count} nodes", path=path, node=node, hint=hint)


def _cycle(ids: list[int], records: Records) -> Fault:
    shown = ids if len(ids) <= 8 else [*ids[:4], -1, *ids[-3:]]
    names = [f"{records[i]['name'] or records[i]['op']} (node {i})" if i >= 0 else f"... {len(ids) - 7} more ..." for i in shown]
    path = " <- ".join([*names, names[0]])
    hint = "a graph must be acyclic; MXNet loads such a file without complaint and computes nonsense"
    return Fault(f"needs its own output: {path}", path=f"$.nodes[{ids[0]}].inputs", node=records[ids[0]]["name"], hint=hint)
