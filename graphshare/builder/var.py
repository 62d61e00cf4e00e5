"""``Var``: the typed input and output of every operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.ir.graph import Entry, Node
from graphshare.kernels.kernel import Shape
from graphshare.text.format import format_shape

if TYPE_CHECKING:
    from graphshare.builder.session import Session

Number = int | float


class Var(msgspec.Struct, frozen=True, eq=False):
    """A value in the graph: a variable, or an output of an operator. Compared by identity; there is one for each.

    ``+ - * /`` and ``-x`` apply MXNet's operators, elementwise where the shapes are known to be equal, else broadcasting.
    """

    session: Session
    entry: Entry

    __array_ufunc__ = None  # numpy's numbers leave arithmetic to Var

    @property
    def node(self) -> Node:
        """The variable or operator."""
        return self.entry.node

    @property
    def name(self) -> str:
        """The name as MXNet lists it: a variable's own; of an operator's output ``fc1_output``."""
        return output_name(self.entry)

    @property
    def op(self) -> str:
        """The operator's canonical name; ``null`` for a variable."""
        return self.node.op

    @property
    def shape(self) -> Shape:
        """What is known of the shape: None in place of a size that is not, None for all where not even the rank is."""
        return self.session.registry.shapes[self.node][self.entry.index]

    @property
    def dtype(self) -> str | None:
        """The numpy name of its type, None where nothing settles it yet."""
        return self.session.registry.types[self.node][self.entry.index]

    def __add__(self, other: Var | Number) -> Var:
        return _applied("add", self, other)

    def __radd__(self, other: Number) -> Var:
        return _applied("add", self, other)

    def __sub__(self, other: Var | Number) -> Var:
        return _applied("sub", self, other)

    def __rsub__(self, other: Number) -> Var:
        return _applied("rsub", self, other)

    def __mul__(self, other: Var | Number) -> Var:
        return _applied("mul", self, other)

    def __rmul__(self, other: Number) -> Var:
        return _applied("mul", self, other)

    def __truediv__(self, other: Var | Number) -> Var:
        return _applied("div", self, other)

    def __rtruediv__(self, other: Number) -> Var:
        return _applied("rdiv", self, other)

    def __neg__(self) -> Var:
        return _applied("mul", self, -1.0)

    def __repr__(self) -> str:
        return f"<Var {self.name} {format_shape(self.shape)} {self.dtype or '?'}>"


def _applied(what: str, left: Var, right: Var | Number) -> Var:
    from graphshare.builder.arithmetic import applied

    return applied(what, left, right)
