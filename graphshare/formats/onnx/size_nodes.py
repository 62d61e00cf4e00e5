"""Operators that compute rows of integers, such as the target of a Reshape, from the sizes of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphshare.formats.onnx.compose import ValueScope, make_operator
from graphshare.ir.graph import Node
from graphshare.ir.onnx import Tensor


class SizeNodes:
    """Makes such operators in a scope: ``nodes`` are those made so far, in order.

    ``places`` are values by the name of a size, each with the axis that has it, ``take`` returns a name that is free for
    another one, and ``add_constant`` adds a constant under such a name and returns it.
    """

    def __init__(
        self,
        scope: ValueScope,
        places: Mapping[str, tuple[str, int]],
        take: Callable[[str], str],
        add_constant: Callable[[str, Sequence[int]], str],
    ) -> None:
        self.nodes: list[Node] = []
        self._scope, self._places, self._take, self._add_constant = scope, places, take, add_constant
        self._sizes: dict[str, str] = {}

    def compute(self, label: str, rest: Sequence[int], factors: Mapping[str, Sequence[int]]) -> str:
        """Return the name of a row: ``rest`` plus, for each size, ``factors[name]`` times it."""
        total = self._add_constant(f"{label}/fixed", rest)
        for name, factor in factors.items():
            if any(factor):
                product = f"{label}/{name}"
                factors_name = self._add_constant(f"{product}/factor", factor)
                product = self.emit("Mul", (self._find_size(name), factors_name), product)
                total = self.emit("Add", (total, product), f"{product}/sum")
        return total

    def emit(self, op: str, inputs: tuple[str, ...], name: str) -> str:
        """Add an operator with one output, and return the name of that."""
        name = self._take(name)
        self.nodes.append(self._scope.connect(make_operator(op, (name,), label=name), inputs))
        return name

    def _find_size(self, name: str) -> str:
        """Return the value that holds a size, as a row of one integer."""
        if name not in self._sizes:
            value, place = self._places[name]
            shape = self.emit("Shape", (value,), f"{value}/shape")
            axis = self._add_constant(f"{value}/axis of {name}", (place,))
            self._sizes[name] = self.emit("Gather", (shape, axis), f"{value}/{name}")
        return self._sizes[name]


def make_row(values: Sequence[int], dtype: str = "int64") -> Tensor:
    """Return a row of integers."""
    width = 8 if dtype == "int64" else 4
    return Tensor(dtype, (len(values),), b"".join(value.to_bytes(width, "little", signed=True) for value in values))
