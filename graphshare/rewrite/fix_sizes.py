"""Fixed sizes for inputs with free ones: types state the numbers, and operators stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphshare.errors import Fault, UsageError
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Branch, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild_graph
from graphshare.ir.walk import list_named_outputs

Size = int | str | None


def fix_sizes(
    graph: Graph, inputs: Mapping[str, Sequence[Size]], sizes: Mapping[tuple[str, int], int]
) -> Rewrite:
    """Give ``inputs`` (shapes by name) the ``sizes`` by (input, axis).

    A named size is fixed wherever it occurs. Raises UsageError for two numbers of one name.
    """
    numbers: dict[Size, int] = {}
    faults = []
    for (name, axis), number in sizes.items():
        symbol = inputs[name][axis]
        if isinstance(symbol, str) and numbers.setdefault(symbol, number) != number:
            message = f"the size {symbol!r} gets two numbers, {numbers[symbol]} and {number}"
            faults.append(Fault(message, node=name))
    UsageError.raise_any(faults)

    def fix(shape: Sequence[Size]) -> list[Size]:
        return [numbers.get(size, size) for size in shape]

    fixed = {name: fix(shape) for name, shape in inputs.items()}
    for (name, axis), number in sizes.items():
        fixed[name][axis] = number
    known = {name: _list_numbers(shape) for name, shape in fixed.items()}
    entries = list_named_outputs(node for node in graph.nodes if node.op)
    shapes: dict[Node, dict[int, Sequence[Size]]] = {
        n: {0: fixed[n.name]} for n in graph.variables() if n.name in fixed
    }
    format_ = find_format(graph)
    types = format_.types.find_types(graph, entries, shapes=known, independent=True)
    for (node, index), kind in types.items():
        shape = kind.parts[1]
        if shape is not None:
            shapes.setdefault(node, {})[index] = fix(shape)

    def restate(node: Node) -> Node:
        return format_.editing.restate_shapes(node, shapes[node]) if node in shapes else node

    changed, images = rebuild_graph(graph, restate)
    return Rewrite(changed, (Branch("", graph, images),))


def _list_numbers(shape: Sequence[Size]) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in shape]
