"""Changed graphs for the loader: what a file could say, whether or not anyone would write it.

Seeded, so always the same.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
VERSIONS = (None, 701, 800, 899, 900, 903, 904, 905, 906, 10000, 10900, 10901, 10902, 20000)


def change_version(graph: Json, chance: random.Random) -> None:
    version = chance.choice(VERSIONS)
    graph.pop("attrs", None)
    if version is not None:
        graph["attrs"] = {"mxnet_version": ["int", version]}


def drop_inputs(graph: Json, chance: random.Random) -> None:
    """Takes the last inputs away from some operators."""
    for node in chance.sample(operators(graph), k=min(3, len(operators(graph)))):
        if node["inputs"]:
            del node["inputs"][-chance.randint(1, min(2, len(node["inputs"]))) :]


def hide(graph: Json, chance: random.Random) -> None:
    """Adds hidden keys in their plain and suffixed spellings, to operators and variables."""
    for node in chance.sample(graph["nodes"], k=min(4, len(graph["nodes"]))):
        name = chance.choice(HIDDEN)
        before = chance.choice(
            ("", "", "weight_", "bias_", "gamma_", "data_", "lhs_", "arg0_", "foo_", "__")
        )
        after = chance.choice(("", "", "", "__", "_x"))
        node.setdefault(attribute_key(node), {})[before + name + after] = chance.choice(
            ("0.5", "dev1", "True", "")
        )


def permute(graph: Json, chance: random.Random) -> None:
    """Shuffles the list of nodes; ids follow."""
    count = len(graph["nodes"])
    order = list(range(count))
    chance.shuffle(order)
    renumber(graph, order)


def add_unreachable(graph: Json, chance: random.Random) -> None:
    first = len(graph["nodes"])
    graph["nodes"] += [
        {"op": "null", "name": "nobody", "inputs": []},
        {
            "op": chance.choice(("relu", "Flatten", "_copy")),
            "name": "nothing",
            "inputs": [[first, 0, 0]],
        },
    ]
    graph["arg_nodes"].append(first)


def mix_keys(graph: Json, chance: random.Random) -> None:
    """Moves attributes among ``param``, ``attr`` and ``attrs``; a later map replaces an earlier one but ``param``."""
    for node in chance.sample(graph["nodes"], k=min(5, len(graph["nodes"]))):
        found = node.pop(attribute_key(node), {})
        keys = list(found)
        split = chance.randint(0, len(keys))
        some, rest = ({key: found[key] for key in part} for part in (keys[:split], keys[split:]))
        way = chance.randrange(5)
        if way == 0:
            node.update(param=some, attr=rest)
        elif way == 1:
            node.update(
                attrs=some,
                param={**rest, **dict.fromkeys(keys[:1], found[keys[0]] if keys else "")},
            )
        elif way == 2:
            node.update(attr=some, attrs=found)
        elif way == 3:
            node.update(attrs={}, attr=found)
        else:
            node.update(attr=found)


def insert_casts(graph: Json, chance: random.Random) -> None:
    """Puts amp_cast (or amp_multicast) before some inputs; now and then a head or a control
    dependency refers to one.
    """
    for node in chance.sample(operators(graph), k=min(3, len(operators(graph)))):
        if not node["inputs"]:
            continue
        number = len(graph["nodes"])
        if chance.random() < 0.3 and len(node["inputs"]) > 1:
            cast = {
                "op": "amp_multicast",
                "name": f"multi{number}",
                "inputs": copy.deepcopy(node["inputs"]),
            }
            cast["attrs"] = {"num_outputs": str(len(node["inputs"]))}
            node["inputs"] = [[number, i, 0] for i in range(len(node["inputs"]))]
        else:
            slot = chance.randrange(len(node["inputs"]))
            cast = {"op": "amp_cast", "name": f"cast{number}", "attrs": {"dtype": "float16"}}
            cast["inputs"] = [list(node["inputs"][slot])]
            node["inputs"][slot] = [number, 0, 0]
        graph["nodes"].append(cast)
        if chance.random() < 0.3:
            graph["heads"].append([number, 0, 0])
        if chance.random() < 0.3:
            other = {
                "op": "_copy",
                "name": f"other{number}",
                "inputs": [list(graph["heads"][0])],
                "control_deps": [number],
            }
            graph["nodes"].append(other)
            graph["heads"].append([number + 1, 0, 0])


def depend(graph: Json, chance: random.Random) -> None:
    """A control dependency of the last head on a variable. No cycle: graphshare refuses those, MXNet sees none."""
    last = graph["heads"][-1][0]
    variables = [i for i, node in enumerate(graph["nodes"]) if node["op"] == "null" and i != last]
    if variables:
        graph["nodes"][last].setdefault("control_deps", []).append(chance.choice(variables))


def more_heads(graph: Json, chance: random.Random) -> None:
    number = chance.randrange(len(graph["nodes"]))
    graph["heads"].insert(chance.randint(0, len(graph["heads"])), [number, 0, 0])


def change_attributes(graph: Json, chance: random.Random) -> None:
    """An unknown key, a negative axis, another spelling of a value, an initialiser."""
    for node in chance.sample(graph["nodes"], k=min(3, len(graph["nodes"]))):
        key, value = chance.choice(
            [
                ("axis", "-1"),
                ("axis", " -1"),
                ("foo", "1"),
                ("__init__", '["one", {}]'),
                ("num_hidden", "x"),
                ("__mine__", "é"),
            ]
        )
        node.setdefault(attribute_key(node), {})[key] = value


def short_entries(graph: Json, chance: random.Random) -> None:
    """Entries of two numbers, and versions of entries."""
    for node in graph["nodes"]:
        node["inputs"] = [
            e[:2] if chance.random() < 0.3 else [*e[:2], chance.choice((0, 1, 7))]
            for e in node["inputs"]
        ]


def use_aliases(graph: Json, chance: random.Random) -> None:
    names = {
        "elemwise_add": "_Plus",
        "Flatten": "flatten",
        "Concat": "concat",
        "SoftmaxOutput": "Softmax",
        "Reshape": "reshape",
    }
    for node in graph["nodes"]:
        node["op"] = names.get(node["op"], node["op"])


MUTATIONS: tuple[Callable[[Json, random.Random], None], ...] = (
    change_version,
    change_version,
    drop_inputs,
    hide,
    hide,
    permute,
    add_unreachable,
    mix_keys,
    insert_casts,
    depend,
    more_heads,
    change_attributes,
    short_entries,
    use_aliases,
)


def mutated(source: Json, seed: int) -> tuple[Json, list[str]]:
    """A changed copy of a graph, and the names of what was done to it."""
    chance = random.Random(seed)
    graph = copy.deepcopy(source)
    graph.pop("node_row_ptr", None)
    chosen = [chance.choice(MUTATIONS) for _ in range(chance.randint(1, 4))]
    for mutation in chosen:
        mutation(graph, chance)
    return graph, [mutation.__name__ for mutation in chosen]


def operators(graph: Json) -> list[Json]:
    return [node for node in graph["nodes"] if node["op"] != "null"]


def attribute_key(node: Json) -> str:
    return next((key for key in ("attrs", "attr", "param") if key in node), "attrs")


def renumber(graph: Json, order: list[int]) -> None:
    """``order[new]`` is the old id of each node."""
    new = {old: i for i, old in enumerate(order)}
    graph["nodes"] = [graph["nodes"][old] for old in order]
    for node in graph["nodes"]:
        node["inputs"] = [[new[e[0]], *e[1:]] for e in node["inputs"]]
        if "control_deps" in node:
            node["control_deps"] = [new[dep] for dep in node["control_deps"]]
    graph["heads"] = [[new[e[0]], *e[1:]] for e in graph["heads"]]
    graph["arg_nodes"] = sorted(new[old] for old in graph["arg_nodes"])


def mxnet_text(graph: Json) -> str:
    """JSON that MXNet reads: no escapes but its own."""
    return json.dumps(graph, ensure_ascii=False)
