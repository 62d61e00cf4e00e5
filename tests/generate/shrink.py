"""Shrink a generated graph: cut away whatever a failure does not need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tests.generate.grow import Model
from tests.symbols import variable


def shrink(model: Model, fails: Callable[[Model], bool]) -> Model:
    """Return the smallest graph found that still fails: single heads first, then nodes replaced by
    variables of their value.
    """
    for head in model.document["heads"]:
        candidate = _prune(_with(model, heads=[head]))
        if fails(candidate):
            model = candidate
            break
    changed = True
    while changed:
        changed = False
        for number in sorted(model.cases, reverse=True):
            candidate = cut(model, number)
            if candidate is not None and fails(candidate):
                model, changed = candidate, True
                break
    return model


def single_node(model: Model, number: int) -> Model:
    """Return the graph of one operator whose inputs are variables of the values they had."""
    record = model.document["nodes"][number]
    sources = list(dict.fromkeys((i, k) for i, k, _ in record["inputs"]))
    nodes = [variable(f"v{place}") for place in range(len(sources))]
    nodes.append(
        {**record, "inputs": [[sources.index((i, k)), 0, v] for i, k, v in record["inputs"]]}
    )
    last = len(sources)
    outputs = {k: x for (i, k), x in model.values.items() if i == number}
    document = {
        **model.document,
        "nodes": nodes,
        "arg_nodes": list(range(last)),
        "heads": [[last, k, 0] for k in outputs or [0]],
    }
    values = {(place, 0): model.values[source] for place, source in enumerate(sources)}
    feeds = {f"v{place}": x for (place, _), x in values.items()}
    values |= {(last, k): x for k, x in outputs.items()}
    return model._replace(
        document=document, feeds=feeds, cases={last: model.cases[number]}, values=values
    )


def cut(model: Model, number: int) -> Model | None:
    """Replace an operator of one used output by a variable; None where more of its outputs are used, or a head is."""
    uses = {
        entry[1]
        for record in model.document["nodes"]
        for entry in record["inputs"]
        if entry[0] == number
    }
    if (
        uses != {0}
        or any(head[0] == number for head in model.document["heads"])
        or (number, 0) not in model.values
    ):
        return None
    nodes = list(model.document["nodes"])
    name = nodes[number]["name"]
    nodes[number] = variable(name)
    cases = {key: case for key, case in model.cases.items() if key != number}
    return _prune(
        _with(model, nodes=nodes)._replace(
            cases=cases, feeds={**model.feeds, name: model.values[number, 0]}
        )
    )


def cut_all(model: Model, numbers: Collection[int]) -> Model:
    """Replace operators by variables of the values that others use of them; what nothing uses any
    more becomes a head.
    """
    uses = sorted(
        {
            (i, k)
            for n, record in enumerate(model.document["nodes"])
            if n not in numbers
            for i, k, _ in record["inputs"]
        }
    )
    nodes: list[dict[str, Any]] = []
    place: dict[tuple[int, int], tuple[int, int]] = {}
    feeds = dict(model.feeds)
    cases: dict[int, dict[str, Any]] = {}
    values: dict[tuple[int, int], Any] = {}
    for number, record in enumerate(model.document["nodes"]):
        if number not in numbers:
            entries = [[*place[i, k], v] for i, k, v in record["inputs"]]
            outputs = [k for i, k in model.values if i == number]
            place |= {(number, k): (len(nodes), k) for k in outputs}
            values |= {place[number, k]: model.values[number, k] for k in outputs}
            if number in model.cases:
                cases[len(nodes)] = model.cases[number]
            nodes.append({**record, "inputs": entries})
            continue
        for i, k in uses:
            if i == number:
                place[i, k] = (len(nodes), 0)
                values[len(nodes), 0] = feeds[f"{record['name']}_out{k}"] = model.values[i, k]
                nodes.append(variable(f"{record['name']}_out{k}"))
    used = {(i, k) for record in nodes for i, k, _ in record["inputs"]}
    heads = [[i, k, 0] for i, k in values if i in cases and (i, k) not in used]
    refused = None if len(model.document["nodes"]) - 1 in numbers else model.refused
    if refused is not None:
        heads = [[len(nodes) - 1, 0, 0]]
    document = {**model.document, "nodes": nodes, "heads": heads}
    document["arg_nodes"] = [i for i, record in enumerate(nodes) if record["op"] == "null"]
    return _prune(
        model._replace(document=document, feeds=feeds, cases=cases, values=values, refused=refused)
    )


def _with(model: Model, **changes: Any) -> Model:
    return model._replace(document={**model.document, **changes})


def _prune(model: Model) -> Model:
    """Remove the nodes that no head needs, and number the others anew."""
    records = model.document["nodes"]
    needed, waiting = set(), [head[0] for head in model.document["heads"]]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            waiting += [entry[0] for entry in records[number]["inputs"]]
    place = {old: new for new, old in enumerate(sorted(needed))}
    nodes = [
        {**records[old], "inputs": [[place[i], k, v] for i, k, v in records[old]["inputs"]]}
        for old in place
    ]
    document = {
        **model.document,
        "nodes": nodes,
        "heads": [[place[i], k, v] for i, k, v in model.document["heads"]],
    }
    document["arg_nodes"] = [i for i, record in enumerate(nodes) if record["op"] == "null"]
    names = {record["name"] for record in nodes}
    return model._replace(
        document=document,
        feeds={name: x for name, x in model.feeds.items() if name in names},
        cases={place[i]: case for i, case in model.cases.items() if i in place},
        values={(place[i], k): x for (i, k), x in model.values.items() if i in place},
    )
