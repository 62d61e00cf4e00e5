"""Match names of Gluon's ``save_parameters`` (``features.0.weight``) with the exported graph's
names.

Layers match if they have the same attributes and shapes, several such layers by their order: of
operators, or of the numbers in names. Where the two disagree, as in the shortcut of a residual
block, the order wins in which data passes through more blocks by number.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, combinations
from operator import or_

import msgspec

from graphshare.analysis.name_lists import auxiliary_variables
from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.format import Plan, read_index
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable
from graphshare.ops.inference import infer
from graphshare.text.format import format_names, format_shape
from graphshare.text.names import join_key

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
        """Whether the attributes are the same, and no known size differs."""
        own = self.kind
        if [name for name, _ in own] != [name for name, _ in kind]:
            return False
        return all(
            _may_equal(shape, other) for (_, shape), (_, other) in zip(own, kind, strict=True)
        )

    def describe(self) -> str:
        return ", ".join(f"{attribute} {format_shape(shape)}" for attribute, shape in self.kind)


def _may_equal(shape: Sizes | None, other: Sizes | None) -> bool:
    """Whether a shape whose sizes or rank may be unknown (None) can be the shape ``other``."""
    if shape is None:
        return True
    sizes = other or ()
    if len(shape) != len(sizes):
        return False
    return all(a in (None, b) for a, b in zip(shape, sizes, strict=True))


def name_for_graph(graph: Graph, file: ParameterFile, plan: Plan) -> Plan:
    """Replace names of blocks in a plan by names of the graph.

    Raises RefusedError as :func:`match_blocks`.
    """
    auxiliary = {node.name for node in auxiliary_variables(reachable(graph))}
    names = {record.full_name: record.name for record in file.records}
    if not {node.name for node in graph.variables()}.issuperset(names.values()):
        names = match_blocks(graph, file, {})
    keys = {
        old: join_key("aux" if name in auxiliary else "arg", name) for old, name in names.items()
    }
    return [(record, keys[record.full_name]) for record, _ in plan]


def name_for_blocks(graph: Graph, file: ParameterFile, plan: Plan, blocks: str) -> Plan:
    """Replace names of the graph in a plan by names of the file ``blocks``, in the file's order.

    Raises:
        InputError: ``blocks`` cannot be read.
        RefusedError: as :func:`match_blocks`, or the names in the plan are not the graph's
            parameters.
    """
    records = {record.name: record for record, _ in plan}
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
        name, _, attribute = record.full_name.rpartition(".")
        layer = layers.setdefault(name, _Layer(name, {}))
        layer.parameters[attribute] = (record.full_name, record.shape)
    return layers


def match_blocks(graph: Graph, blocks: ParameterFile, known: Mapping[str, Sizes]) -> dict[str, str]:
    """Map each key of ``blocks`` to a parameter of ``graph``; ``known`` has known shapes of these.

    Raises:
        RefusedError: layers have no counterpart or several.
    """
    if not blocks.named:
        raise RefusedError(Fault("has arrays without names", where=blocks.path))
    left = [*_read_layers(blocks).values()]
    attributes = set(chain.from_iterable(layer.parameters for layer in left))
    nodes = reachable(graph)
    right = _list_layers(nodes, graph, known, attributes)
    kinds = _assign_kinds(left, right)
    flow = _Flow(nodes, right)
    winners: list[dict[_Layer, _Layer]] = []
    best = 0
    for order in (right, _sort_numbers(right)):
        pairs = _pair_in_order(left, order, kinds)
        score = flow.rate(pairs)
        if score > best:
            winners, best = [pairs], score
        elif score == best:
            winners.append(pairs)
    unsure = [layer.name for layer in left if len({pairs[layer] for pairs in winners}) != 1]
    if unsure:
        hint = "the net's own code knows: load_parameters, then export"
        message = f"blocks of equal shapes cannot be told apart: {format_names(unsure, 6)}"
        raise RefusedError(Fault(message, where=blocks.path, hint=hint))
    return {
        key: winners[0][layer].parameters[own][0]
        for layer in left
        for own, (key, _) in layer.parameters.items()
    }


def _pair_in_order(
    blocks: Iterable[_Layer], layers: Sequence[_Layer], kinds: Mapping[_Layer, Kind]
) -> dict[_Layer, _Layer]:
    """Pair each layer of the blocks with the graph's next layer of its kind."""
    waiting: dict[Kind, deque[_Layer]] = {}
    for layer in layers:
        waiting.setdefault(kinds[layer], deque()).append(layer)
    return {block: waiting[block.kind].popleft() for block in blocks}


def _list_layers(
    nodes: Sequence[Node], graph: Graph, known: Mapping[str, Sizes], attributes: Collection[str]
) -> list[_Layer]:
    """Group the variables whose names end in one of ``attributes`` by the rest of the name."""
    variables = [node for node in nodes if node.is_variable]
    known_shapes = {node: known[node.name] for node in variables if node.name in known}
    shapes = infer(graph, known_shapes, None).shapes
    layers: dict[str, _Layer] = {}
    for node in variables:
        # With a separator before the name, the whole name is an ending, too.
        endings = [each for each in attributes if f"_{node.name}".endswith(f"_{each}")]
        if not endings:
            continue
        attribute = max(endings, key=len)
        name = node.name[: -len(attribute)].removesuffix("_")
        layer = layers.setdefault(name, _Layer(name, {}))
        layer.parameters[attribute] = (node.name, shapes[node][0])
    return list(layers.values())


def _assign_kinds(left: Sequence[_Layer], right: Sequence[_Layer]) -> dict[_Layer, Kind]:
    """Return the kind of each layer of the graph, whose own shapes may be unknown.

    Raises RefusedError if a layer of either side is left over, or its shapes fit several kinds.
    """
    rest = Counter(layer.kind for layer in left)
    kinds: dict[_Layer, Kind] = {}
    pending = list(right)
    while True:
        for layer in pending:
            fitting = [kind for kind in +rest if layer.fits(kind)]
            if len(fitting) == 1:
                kinds[layer] = fitting[0]
                rest[fitting[0]] -= 1
        unassigned = [layer for layer in pending if layer not in kinds]
        if len(unassigned) == len(pending):
            break
        # Kinds were used up, so that fewer may fit the layers that had several.
        pending = unassigned
    unlike = [("the graph", layer) for layer in pending]
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
        same.sort(key=_list_numbers, reverse=True)
    return [forms[_NUMBER.sub("#", layer.name)].pop() for layer in layers]


def _list_numbers(layer: _Layer) -> list[int]:
    return [int(number[:18]) for number in _NUMBER.findall(layer.name)]


class _Flow:
    """For each layer of a graph, the layers that data passes through before it, as bits."""

    def __init__(self, nodes: Sequence[Node], layers: Sequence[_Layer]) -> None:
        bits = {
            name: 1 << i for i, layer in enumerate(layers) for name, _ in layer.parameters.values()
        }
        self._bit = {layer: 1 << i for i, layer in enumerate(layers)}
        self._before = dict.fromkeys(self._bit.values(), 0)
        behind: dict[Node, int] = {}  # the layers whose parameters a value depends on
        own = {node: bits[node.name] for node in nodes if node.is_variable and node.name in bits}
        for node in nodes:
            inputs = [entry.node for entry in node.inputs]
            passed = reduce(or_, map(behind.__getitem__, inputs), own.get(node, 0))
            behind[node] = passed
            for source in inputs:
                if source in own:
                    self._before[own[source]] |= passed & ~own[source]

    def rate(self, pairs: Mapping[_Layer, _Layer]) -> int:
        """Count pairs of blocks that follow each other in numeric order; -1 if a pair goes
        backward.
        """
        paths = [(block.name.split("."), self._bit[layer]) for block, layer in pairs.items()]
        score = 0
        for (one, m), (other, n) in combinations(paths, 2):
            parts = zip(one, other, strict=False)
            x, y = next((pair for pair in parts if pair[0] != pair[1]), ("", ""))
            if not (x.isdecimal() and y.isdecimal()):
                continue
            first, second = (m, n) if int(x[:18]) < int(y[:18]) else (n, m)
            if self._before[first] & second:
                return -1
            score += bool(self._before[second] & first)
        return score
