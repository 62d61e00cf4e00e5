"""What a session knows of the graph that is being authored: names that are taken, variables, shapes.

Nodes are frozen, so a graph grows by new nodes alone; nothing here ever changes one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.analysis.roles import Kind
from graphshare.builder.naming import Naming
from graphshare.builder.settings import Settings
from graphshare.builder.var import Var
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Node
from graphshare.kernels.inference import unify
from graphshare.kernels.kernel import Shape


class Variable(msgspec.Struct, eq=False):
    """A variable that was authored: what it is and the settings it was made with."""

    var: Var
    kind: Kind
    settings: Settings


class Registry:
    """The names, variables and shapes of one session."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.variables: dict[str, Variable] = {}
        self.shapes: dict[Node, list[Shape]] = {}
        self.types: dict[Node, list[str | None]] = {}
        self.outputs: dict[Node, tuple[Var, ...]] = {}
        self._taken: dict[str, int] = {}
        self.mutations: dict[Node, int] = {}

    def is_taken(self, name: str) -> bool:
        """Whether a node or a name scope bears ``name``."""
        return name in self._taken

    def take(self, name: str) -> str:
        """Marks ``name`` as borne; returns it."""
        self._taken.setdefault(name, 0)
        return name

    def unique(self, name: str, naming: Naming) -> str:
        """:meth:`free`, and the name is taken from now on."""
        return self.take(self.free(name, naming))

    def free(self, name: str, naming: Naming) -> str:
        """``name``, or what ``naming`` makes of a name that is taken.

        Raises:
            RefusedError: it is taken, and the policy does not number repeated names.
        """
        if name not in self._taken:
            return name
        number = self._taken[name]
        while True:
            number += 1
            other = naming.repeated(name, number)
            if other is None:
                hint = "give it another name, or choose a naming policy that numbers repeated names"
                raise RefusedError(Fault(f"{name!r} already exists, disallowed", hint=hint))
            if other not in self._taken:
                self._taken[name] = number - 1
                return other

    def mutated(self, var: Var) -> int:
        """The version that an operator which writes into ``var`` sees: MXNet counts such operators from 1 for each variable.

        What is written into is an auxiliary state from now on.
        """
        self.variables[var.node.name].kind = Kind.AUXILIARY
        self.mutations[var.node] = self.mutations.get(var.node, 0) + 1
        return self.mutations[var.node]

    def add(self, node: Node, shapes: list[Shape], types: list[str | None], outputs: tuple[Var, ...]) -> None:
        """Keeps a new node, its outputs and what is known of them."""
        self.names[node.name] = node
        self.shapes[node] = shapes
        self.types[node] = types
        self.outputs[node] = outputs

    def learned(self, var: Var, shape: Shape, dtype: str | None) -> None:
        """Keeps what became known of ``var``, which fits what was known."""
        index = var.entry.index
        self.shapes[var.node][index] = unify(self.shapes[var.node][index], shape)
        self.types[var.node][index] = self.types[var.node][index] or dtype

    def parameters(self) -> Mapping[str, Variable]:
        """The variables that training or a file fills, auxiliary states among them, in the order they were made."""
        return {name: v for name, v in self.variables.items() if v.kind in (Kind.PARAMETER, Kind.AUXILIARY)}
