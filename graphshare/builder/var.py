"""Values, the state of the graph, and settings of variables.

Nodes are frozen: a graph only grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Kind
from graphshare.builder.naming import Naming
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Shape
from graphshare.ops.unification import is_known, unify
from graphshare.text.format import format_shape


class Reuse(Enum):
    """The policy for a repeated parameter name."""

    FORBID = "forbid"
    REQUIRE = "require"
    AUTO = "auto"


AUTO_REUSE: Final = Reuse.AUTO
ReuseLike = Reuse | bool | None
"""None inherits, True requires that the parameter exists, ``AUTO_REUSE`` shares it if it does,
False forbids sharing.
"""


def resolve_reuse(reuse: ReuseLike, inherited: Reuse | None) -> Reuse | None:
    """Return the policy inside a scope. As in TensorFlow, False does not undo an outer policy."""
    if isinstance(reuse, Reuse) and reuse is not Reuse.FORBID:
        return reuse
    if reuse is True:
        return Reuse.REQUIRE
    forbids = reuse is False or reuse is Reuse.FORBID
    return Reuse.FORBID if forbids and inherited is None else inherited


class Settings(msgspec.Struct, frozen=True):
    """Properties of a parameter; None inherits from the next outer scope.

    ``initializer`` is the text of MXNet's ``__init__`` (:mod:`graphshare.builder.initializers`),
    ``regularizer`` the multiplier of weight decay (``__wd_mult__``), ``dtype`` a numpy name;
    ``trainable=False`` is a learning rate multiplier of 0.
    """

    initializer: str | None = None
    regularizer: float | None = None
    dtype: str | None = None
    trainable: bool | None = None

    def within(self, outer: Settings) -> Settings:
        """Return these settings, with unset ones from ``outer``."""
        own = {
            field: value
            for field in self.__struct_fields__
            if (value := getattr(self, field)) is not None
        }
        return msgspec.structs.replace(outer, **own)


Number = int | float

# MXNet's Symbol uses these operators for + - * /, and derives automatic names from them (`_plus0`,
# `_mulscalar0`).
_ELEMENTWISE = {"add": "_Plus", "sub": "_Minus", "mul": "_Mul", "div": "_Div"}
_SCALAR = {
    "add": "_PlusScalar",
    "sub": "_MinusScalar",
    "rsub": "_RMinusScalar",
    "mul": "_MulScalar",
    "div": "_DivScalar",
    "rdiv": "_RDivScalar",
}


class Owner(Protocol):
    """The part of a session that :class:`Var` uses."""

    @property
    def registry(self) -> Registry:
        """Return the names, variables and shapes."""

    def apply(
        self, operator: str, *inputs: Var, name: str | None = None, **named: object
    ) -> tuple[Var, ...]:
        """Apply an operator under the current scope and return its visible outputs."""


class Var(msgspec.Struct, frozen=True, eq=False):
    """A variable, or an output of an operator. Each value has one Var, compared by identity.

    ``+ - * /`` and ``-x`` apply MXNet's operators, elementwise if the shapes are known to be equal,
    else broadcasting.
    """

    session: Owner
    entry: Entry

    __array_ufunc__ = None  # numpy's numbers leave arithmetic to Var

    @property
    def node(self) -> Node:
        return self.entry.node

    @property
    def name(self) -> str:
        """The name as MXNet lists it: a variable's own, or ``fc1_output`` for an operator's output."""
        return output_name(self.entry)

    @property
    def op(self) -> str:
        """``null`` for a variable."""
        return self.node.operator_text

    @property
    def shape(self) -> Shape:
        """The known part of the shape: None for an unknown size, or for an unknown rank."""
        return self.session.registry.shapes[self.node][self.entry.index]

    @property
    def dtype(self) -> str | None:
        """None if nothing determines it yet."""
        return self.session.registry.dtypes[self.node][self.entry.index]

    def __add__(self, other: Var | Number) -> Var:
        return _apply_arithmetic("add", self, other)

    def __radd__(self, other: Number) -> Var:
        return _apply_arithmetic("add", self, other)

    def __sub__(self, other: Var | Number) -> Var:
        return _apply_arithmetic("sub", self, other)

    def __rsub__(self, other: Number) -> Var:
        return _apply_arithmetic("rsub", self, other)

    def __mul__(self, other: Var | Number) -> Var:
        return _apply_arithmetic("mul", self, other)

    def __rmul__(self, other: Number) -> Var:
        return _apply_arithmetic("mul", self, other)

    def __truediv__(self, other: Var | Number) -> Var:
        return _apply_arithmetic("div", self, other)

    def __rtruediv__(self, other: Number) -> Var:
        return _apply_arithmetic("rdiv", self, other)

    def __neg__(self) -> Var:
        # As in MXNet's Symbol.
        return _apply_arithmetic("mul", self, -1.0)

    def __repr__(self) -> str:
        return f"<Var {self.name} {format_shape(self.shape)} {self.dtype or '?'}>"


def _apply_arithmetic(operation: str, left: Var, right: Var | Number) -> Var:
    """``operation`` is ``add, sub, mul, div``, or with the number first ``rsub, rdiv``."""
    if not isinstance(right, Var):
        return left.session.apply(_SCALAR[operation], left, scalar=right)[0]
    same_shape = is_known(left.shape) and left.shape == right.shape
    return left.session.apply(
        _ELEMENTWISE[operation] if same_shape else f"broadcast_{operation}", left, right
    )[0]


class Variable(msgspec.Struct, eq=False):
    """An authored variable: its kind and initial settings."""

    var: Var
    kind: Kind
    settings: Settings


class Registry:
    """The names, variables and shapes of one session."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.variables: dict[str, Variable] = {}
        self.shapes: dict[Node, list[Shape]] = {}
        self.dtypes: dict[Node, list[str | None]] = {}
        self.outputs: dict[Node, tuple[Var, ...]] = {}
        self.mutations: dict[Node, int] = {}
        self._reserved: dict[str, int] = {}

    def is_taken(self, name: str) -> bool:
        return name in self._reserved

    def reserve(self, name: str) -> str:
        self._reserved.setdefault(name, 0)
        return name

    def find_free(self, name: str, naming: Naming) -> str:
        """Return ``name``, or the next free name that ``naming`` derives from it.

        Raises:
            RefusedError: the name is taken, and the policy does not number repeated names.
        """
        if name not in self._reserved:
            return name
        number = self._reserved[name]
        while True:
            number += 1
            candidate = naming.number_repeated(name, number)
            if candidate is None:
                hint = "give it another name, or choose a naming policy that numbers repeated names"
                raise RefusedError(Fault(f"{name!r} already exists, disallowed", hint=hint))
            if candidate not in self._reserved:
                # The candidate stays free until `reserve`: the next search begins with it again.
                self._reserved[name] = number - 1
                return candidate

    def count_mutation(self, var: Var) -> int:
        """Make ``var`` an auxiliary state; return the version that a writing operator reads.

        MXNet counts such operators from 1.
        """
        self.variables[var.node.name].kind = Kind.AUXILIARY
        self.mutations[var.node] = self.mutations.get(var.node, 0) + 1
        return self.mutations[var.node]

    def add(
        self, node: Node, shapes: list[Shape], dtypes: list[str | None], outputs: tuple[Var, ...]
    ) -> None:
        self.names[node.name] = node
        self.shapes[node] = shapes
        self.dtypes[node] = dtypes
        self.outputs[node] = outputs

    def add_variable(self, variable: Variable, shape: Shape) -> Var:
        var = variable.var
        self.add(var.node, [shape], [variable.settings.dtype], (var,))
        self.variables[var.node.name] = variable
        return var

    def refine(self, var: Var, shape: Shape, dtype: str | None) -> None:
        index = var.entry.index
        self.shapes[var.node][index] = unify(self.shapes[var.node][index], shape)
        self.dtypes[var.node][index] = self.dtypes[var.node][index] or dtype

    def parameters(self) -> Mapping[str, Variable]:
        """Return what training or a file fills, auxiliary states too, in creation order."""
        return {
            name: v
            for name, v in self.variables.items()
            if v.kind in (Kind.PARAMETER, Kind.AUXILIARY)
        }
