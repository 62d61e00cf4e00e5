"""Operators that compute rows of integers, such as a Reshape's target, from the sizes of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from graphshare.formats.onnx.compose import ValueScope, make_operator
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.onnx import Attributes, Tensor


class SizeNodes:
    """Makes such operators in a ``scope``; ``nodes`` has those made so far.

    ``places`` maps a size's name to a value and an axis; ``take`` returns a free name for a node.
    """

    def __init__(
        self,
        places: Mapping[str, tuple[str, int]],
        take: Callable[[str], str],
        scope: ValueScope | None = None,
    ) -> None:
        self.nodes: list[Node] = []
        self.scope, self._places, self._take = scope or ValueScope(), places, take
        self._sizes: dict[str, str] = {}

    def take_nodes(self) -> list[Node]:
        """Return the operators made since the last call."""
        nodes, self.nodes = self.nodes, []
        return nodes

    def add_constant(self, name: str, values: int | Sequence[int], dtype: str = "int64") -> str:
        """Add a constant, a row or a scalar, and return its name."""
        return self.emit("Constant", (), name, {"value": make_row(values, dtype)})

    def compute(self, label: str, rest: Sequence[int], factors: Mapping[str, Sequence[int]]) -> str:
        """Return the name of a row: ``rest`` plus, for each size, ``factors[name]`` times it."""
        total = self.add_constant(f"{label}/fixed", rest)
        for name, factor in factors.items():
            if any(factor):
                product = f"{label}/{name}"
                factors_name = self.add_constant(f"{product}/factor", factor)
                product = self.emit("Mul", (self._find_size(name), factors_name), product)
                total = self.emit("Add", (total, product), f"{product}/sum")
        return total

    def emit(self, op: str, inputs: tuple[str, ...], name: str, values: Attributes = EMPTY) -> str:
        """Add an operator with one output, and return its name."""
        name = self._take(name)
        self.nodes.append(
            self.scope.connect(make_operator(op, (name,), values, label=name), inputs)
        )
        return name

    def _find_size(self, name: str) -> str:
        if name not in self._sizes:
            value, place = self._places[name]
            shape = self.emit("Shape", (value,), f"{value}/shape")
            axis = self.add_constant(f"{value}/axis of {name}", (place,))
            self._sizes[name] = self.emit("Gather", (shape, axis), f"{value}/{name}")
        return self._sizes[name]


def take_shapes(graph: Graph, entries: Sequence[Entry]) -> Graph:
    """Return the graph whose outputs are the shapes of ``entries``."""
    nodes = (make_operator("Shape", (f"shape {number}",)) for number in range(len(entries)))
    heads = (
        Entry(replace(node, inputs=(entry,))) for node, entry in zip(nodes, entries, strict=True)
    )
    return replace(graph, heads=tuple(heads))


def make_row(values: int | Sequence[int], dtype: str = "int64") -> Tensor:
    """Return a row of integers, or a scalar."""
    width, row = 8 if dtype == "int64" else 4, (values,) if isinstance(values, int) else values
    shape = () if isinstance(values, int) else (len(row),)
    return Tensor(
        dtype, shape, b"".join(value.to_bytes(width, "little", signed=True) for value in row)
    )
