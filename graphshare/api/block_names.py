"""Match names of Gluon's ``save_parameters`` (``features.0.weight``) with the exported graph's
names.

Layers match if they have the same attributes and shapes, several such layers by their order: of
operators, or of the numbers in names. Where the two disagree, as in the shortcut of a residual
block, the order wins in which data passes through more blocks by number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

from graphshare.analysis.name_lists import auxiliary_variables
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.format import Plan, read_index
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.inference import infer
from graphshare.text.format import format_names, format_shape
from graphshare.text.names import join_key, split_key

Sizes = tuple[int | None, ...]
Kind = tuple[tuple[str, Sizes | None], ...]
_NUMBER = re.compile(r"(\d+)")


class _Layer(msgspec.Struct, frozen=True, eq=False):
    """A layer: the full name and the shape (None if unknown) of each parameter, by attribute."""

    name: str
    parameters: dict[str, tuple[str, Sizes | None]]

    @property
    def kind(self) -> Kind:
        return tuple(
            sorted((attribute, shape) for attribute, (_, shape) in self.parameters.items())
        )

    def fits(self, kind: Kind) -> bool:
        pairs = [
            (own, shape or ())
            for (_, own), (_, shape) in zip(self.kind, kind, strict=False)
            if own is not None
        ]
        sizes = [
            (a, b)
            for own, shape in pairs
            for a, b in zip((len(own), *own), (len(shape), *shape), strict=False)
        ]
        return [name for name, _ in self.kind] == [name for name, _ in kind] and all(
            a in (None, b) for a, b in sizes
        )

    def describe(self) -> str:
        return ", ".join(f"{attribute} {format_shape(shape)}" for attribute, shape in self.kind)


def name_for_graph(graph: Graph, file: ParameterFile, plan: Plan) -> Plan:
    """Replace names of blocks in a plan by names of the graph.

    Raises RefusedError as :func:`match_blocks`.
    """
    auxiliary = {node.name for node in auxiliary_variables(reachable(graph))}
    names = {record.key or "": split_key(record.key or "")[1] for record in file.records}
    if not {node.name for node in graph.variables()}.issuperset(names.values()):
        names = match_blocks(graph, file, {})
    keys = {
        old: join_key("aux" if name in auxiliary else "arg", name) for old, name in names.items()
    }
    return [(record, keys[record.key or ""]) for record, _ in plan]


def name_for_blocks(graph: Graph, file: ParameterFile, plan: Plan, blocks: str) -> Plan:
    """Replace names of the graph in a plan by names of the file ``blocks``, in the file's order.

    Raises:
        InputError: ``blocks`` cannot be read.
        RefusedError: as :func:`match_blocks`, or the names in the plan are not the graph's
            parameters.
    """
    records = {split_key(record.key or "")[1]: record for record, _ in plan}
    known = {name: record.shape for name, record in records.items() if record.shape is not None}
    keys = match_blocks(graph, read_index(blocks), known)
    faults = [
        Fault(f"has no array for {name!r}", where=file.path)
        for name in keys.values()
        if name not in records
    ]
    used = set(keys.values())
    faults += [
        Fault(f"{name!r} is not a parameter of the blocks", where=file.path)
        for name in records
        if name not in used
    ]
    if faults:
        raise RefusedError(faults)
    return [(records[name], key) for key, name in keys.items()]


def _read_layers(blocks: ParameterFile) -> dict[str, _Layer]:
    layers: dict[str, _Layer] = {}
    for record in blocks.records:
        layer, _, attribute = (record.key or "").rpartition(".")
        layers.setdefault(layer, _Layer(layer, {})).parameters[attribute] = (
            record.key or "",
            record.shape,
        )
    return layers


def match_blocks(graph: Graph, blocks: ParameterFile, known: Mapping[str, Sizes]) -> dict[str, str]:
    """Map each key of ``blocks`` to a parameter of ``graph``; ``known`` has known shapes of these.

    Raises:
        RefusedError: layers have no counterpart or several.
    """
    if not blocks.named:
        raise RefusedError(Fault("has arrays without names", where=blocks.path))
    left = _read_layers(blocks)
    nodes = reachable(graph)
    right = _list_layers(
        nodes,
        graph,
        known,
        {attribute for layer in left.values() for attribute in layer.parameters},
    )
    kinds = _assign_kinds([*left.values()], right)
    flow = _Flow(nodes, right)
    pairings = [
        _pair_in_order(left.values(), order, kinds) for order in (right, _sort_numbers(right))
    ]
    scores = list(map(flow.rate, pairings))
    winners = [
        pairs for score, pairs in zip(scores, pairings, strict=True) if score == max(scores) >= 0
    ]
    unsure = [
        layer.name for layer in left.values() if len({pairs[layer] for pairs in winners}) != 1
    ]
    if unsure:
        hint = "the net's own code knows: load_parameters, then export"
        message = f"blocks of equal shapes cannot be told apart: {format_names(unsure, 6)}"
        raise RefusedError(Fault(message, where=blocks.path, hint=hint))
    return {
        key: winners[0][layer].parameters[own][0]
        for layer in left.values()
        for own, (key, _) in layer.parameters.items()
    }


def _pair_in_order(
    blocks: Iterable[_Layer], layers: Sequence[_Layer], kinds: Mapping[_Layer, Kind]
) -> dict[_Layer, _Layer]:
    """Pair each layer of the blocks with the graph's next layer of its kind."""
    rest = {
        kind: iter([layer for layer in layers if kinds[layer] == kind]) for kind in kinds.values()
    }
    return {block: next(rest[block.kind]) for block in blocks}


def _list_layers(
    nodes: Sequence[Node], graph: Graph, known: Mapping[str, Sizes], attributes: Collection[str]
) -> list[_Layer]:
    """Group the variables whose names end in one of ``attributes`` by the rest of the name."""
    variables = [node for node in nodes if node.is_variable]
    shapes = infer(
        graph, {node: known[node.name] for node in variables if node.name in known}, None
    ).shapes
    layers: dict[str, _Layer] = {}
    for node in variables:
        endings = [
            each for each in attributes if node.name == each or node.name.endswith(f"_{each}")
        ]
        if endings:
            attribute = max(endings, key=len)
            layer = node.name[: -len(attribute)].removesuffix("_")
            layers.setdefault(layer, _Layer(layer, {})).parameters[attribute] = (
                node.name,
                shapes[node][0],
            )
    return list(layers.values())


def _assign_kinds(left: Sequence[_Layer], right: Sequence[_Layer]) -> dict[_Layer, Kind]:
    """Return the kind of each layer of the graph, whose own shapes may be unknown.

    Raises RefusedError if a layer of either side is left over, or its shapes fit several kinds.
    """
    rest = Counter(layer.kind for layer in left)
    kinds: dict[_Layer, Kind] = {}
    stuck = False
    while not stuck:
        stuck = True
        for layer in right:
            fitting = [kind for kind in +rest if layer not in kinds and layer.fits(kind)]
            if len(fitting) == 1:
                kinds[layer], stuck = fitting[0], False
                rest[fitting[0]] -= 1
    unlike = [("the graph", layer) for layer in right if layer not in kinds]
    unlike += [("the blocks", layer) for layer in left if rest[layer.kind]]
    if unlike:
        texts = [
            f"{layer.name!r} of {owner} has no counterpart, or several: {layer.describe()}"
            for owner, layer in unlike
        ]
        raise RefusedError(list(map(Fault, texts)))
    return kinds


def _sort_numbers(layers: Sequence[_Layer]) -> list[_Layer]:
    """Sort layers whose names differ only in numbers by these, within their joint positions."""
    forms: dict[str, list[_Layer]] = {}
    for layer in layers:
        forms.setdefault(_NUMBER.sub("#", layer.name), []).append(layer)
    for same in forms.values():
        same.sort(
            key=lambda layer: [int(number[:18]) for number in _NUMBER.findall(layer.name)],
            reverse=True,
        )
    return [forms[_NUMBER.sub("#", layer.name)].pop() for layer in layers]


class _Flow:
    """For each layer of a graph, the layers that data passes through before it, as bits."""

    def __init__(self, nodes: Sequence[Node], layers: Sequence[_Layer]) -> None:
        bits = {
            name: 1 << i for i, layer in enumerate(layers) for name, _ in layer.parameters.values()
        }
        self._bit = {layer: 1 << i for i, layer in enumerate(layers)}
        self._before = dict.fromkeys(self._bit.values(), 0)
        behind: dict[Node, int] = {}  # the layers whose parameters a value depends on
        for node in nodes:
            own = [
                bits[entry.node.name]
                for entry in node.inputs
                if entry.node.is_variable and entry.node.name in bits
            ]
            behind[node] = bits.get(node.name, 0) if node.is_variable else 0
            for entry in node.inputs:
                behind[node] |= behind[entry.node]
            for bit in own:
                self._before[bit] |= behind[node] & ~bit

    def rate(self, pairs: Mapping[_Layer, _Layer]) -> int:
        """Count pairs of blocks that follow each other in numeric order; -1 if a pair goes
        backward.
        """
        paths = [(block.name.split("."), self._bit[layer]) for block, layer in pairs.items()]
        score = 0
        for (one, m), (other, n) in combinations(paths, 2):
            x, y = next(((x, y) for x, y in zip(one, other, strict=False) if x != y), ("", ""))
            if x.isdecimal() and y.isdecimal():
                first, second = (m, n) if int(x[:18]) < int(y[:18]) else (n, m)
                if self._before[first] & second:
                    return -1
                score += bool(self._before[second] & first)
        return score
