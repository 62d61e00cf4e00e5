"""``split``: divide a model into consecutive parts, and prove it by joining them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from math import prod

import msgspec

from graphshare.analysis.name_lists import internals, output_name
from graphshare.api.diff import diff
from graphshare.api.group import group
from graphshare.api.stated_types import find_untyped, parse_types, refuse_types, state_untyped
from graphshare.arguments import Natural
from graphshare.checkpoint.load import Model, Names, as_checkpoint, as_names
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs
from graphshare.errors import BUG, Fault, SelfCheckError, UsageError, locate_refusals
from graphshare.formats.model_format import find_format
from graphshare.formats.params.lookup import RecordsByName
from graphshare.formats.params.records import ITEM_SIZES
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.rewrite.split_graph import (
    Crossing,
    GraphParts,
    extract_parts,
    split_at,
    split_evenly,
)
from graphshare.text.summary import ShortRepr


class Splitting(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """The parts of a model in the order in which they run, and the values that cross between them.

    ``inputs`` are inputs of the model that several parts read, ``unused`` inputs that no part
    reads. ``outputs`` cross and are also outputs of the model; a join omits them, like every output
    that feeds an input.
    """

    parts: tuple[Checkpoint, ...]
    crossings: tuple[Crossing, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    unused: tuple[str, ...]


def split(
    model: Model,
    *,
    at: Names = (),
    into: Natural | None = None,
    types: Mapping[str, str] | None = None,
) -> Splitting:
    """Divide a model into parts that compute it in sequence.

    Each name in ``at`` is a value (as for :func:`extract`) that ends a part, starting from the
    inputs; the last part has the rest. Alternatively, ``into`` is a number of parts with about
    equal weights. Values that later parts read are outputs of the part that computes them and
    inputs of the later parts, under the same names; a part may read values of any earlier part.
    Bodies and functions stay whole, and each part has the weights that it reads. The parts are
    joined in memory and compared with the model. A value that crosses needs a type: if neither the
    file nor ONNX's inference gives it, it is taken from ``types`` (``{"gelu": "float32[n,3]"}``),
    else it is the dtype and rank that onnxruntime computes for drawn inputs.

    Raises:
        UsageError: neither or both of ``at`` and ``into`` are given; a type is malformed, or given
            for a value whose type is known.
        RefusedError: a name is not in the graph, a part would have no operator, or the type of a
            value that crosses is unknown; all are listed.
        SelfCheckError: the joined parts differ from the model.
    """
    names = as_names(at)
    if bool(names) == (into is not None):
        raise UsageError(
            Fault(
                "a split takes `at` or `into`",
                hint="name values with `at`, or give `into` a number of parts",
            )
        )
    source = as_checkpoint(model)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        measure = _measure_weights(source)

        def place(graph: Graph) -> dict[Node, int]:
            return split_at(graph, names) if into is None else split_evenly(graph, into, measure)

        source = _state_crossing(source, place(source.graph), types or {})
        divided = extract_parts(source.graph, place(source.graph))
    splitting = _describe(source, divided)
    _prove(source, splitting)
    return splitting


def _describe(source: Checkpoint, divided: GraphParts) -> Splitting:
    parts = tuple(follow_rewrite(source, rewrite, drop_unused=True) for rewrite in divided.rewrites)
    crossing = {each.name for each in divided.crossings}
    parts_with = Counter(chain.from_iterable(map(_list_free, parts)))
    inputs = tuple(name for name, count in parts_with.items() if count > 1 and name not in crossing)
    heads = map(output_name, source.graph.heads)
    outputs = tuple(name for name in heads if name in crossing)
    unused = tuple(name for name in _list_free(source) if name not in parts_with)
    return Splitting(parts, divided.crossings, inputs, outputs, unused)


def _list_free(model: Checkpoint) -> list[str]:
    """Return the names of the variables that are not weights: inputs, and values that cross."""
    return [node.name for node in model.graph.variables() if not _is_weight(model, node)]


def _measure_weights(source: Checkpoint) -> Callable[[Node], int]:
    records = None if source.parameter_file is None else RecordsByName(source.parameter_file)
    entries = [Entry(node) for node in source.graph.nodes if node.op and not node.inputs]
    types = find_format(source.graph).types.find_types(source.graph, entries) if entries else {}

    def measure(node: Node) -> int:
        record = None if records is None else records.of(node)
        if record is not None:
            return record.data_size
        if (node, 0) not in types:
            return 0
        dtype, shape = types[node, 0].parts
        if dtype is None or shape is None:
            return 0
        sizes = [size for size in shape if isinstance(size, int)]
        is_known = len(sizes) == len(shape)
        return prod(sizes) * ITEM_SIZES.get(dtype, 0) if is_known else 0

    return measure


def _state_crossing(
    source: Checkpoint, places: Mapping[Node, int], types: Mapping[str, str]
) -> Checkpoint:
    refuse_types(source.graph, types)
    crossing: dict[tuple[Node, int], Entry] = {}
    for node, place in places.items():
        for entry in node.inputs:
            if entry.node.op and places.get(entry.node, place) != place:
                crossing[entry.node, entry.index] = entry
    untyped = find_untyped(source.graph, [*crossing.values()])
    named = [(output_name(entry), entry) for entry in untyped]
    stated = parse_types(types, named, "a value that crosses")
    rewrite = state_untyped(source, source.graph, untyped, stated)
    return source if rewrite is None else follow_rewrite(source, rewrite)


def _is_weight(part: Checkpoint, node: Node) -> bool:
    if node.details.holds_value is True:
        return True
    return part.held is not None and node.name in part.held


def _prove(source: Checkpoint, splitting: Splitting) -> None:
    """Raise SelfCheckError unless the joined parts equal the model, node by node."""
    names = {each.name: each.name for each in splitting.crossings}
    joined = group(
        splitting.parts,
        connect=names,
        share_inputs=[f"={name}" for name in splitting.inputs],
        on_collision="tie-if-equal",
    )
    values = dict(internals(joined.graph.nodes))
    heads = [values[output_name(head)] for head in source.graph.heads]
    whole = follow_rewrite(joined, extract_entries(joined.graph, heads), drop_unused=True)
    needed = follow_rewrite(
        source, extract_entries(source.graph, source.graph.heads), drop_unused=True
    )
    difference = diff(needed, whole)
    if difference:
        raise SelfCheckError(
            Fault(
                f"the parts are not the model: {difference.verdict}", where=source.where, hint=BUG
            )
        )
