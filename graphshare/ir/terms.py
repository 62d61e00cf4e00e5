"""Values named by their computation: places with one term number have the same value in all graphs.

A term is an operator with the terms of its operands, a constant by its content, or an input. A
format's normal form may give different nodes one term.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from graphshare.ir.affine import AffineStep, FindConstant
from graphshare.ir.graph import EMPTY, Entry, Node
from graphshare.ir.walk import list_bodies, own_inputs, post_order

Place = tuple[Node, int]
"""An output of a node."""
Name = Callable[[Node], Hashable | None]
"""Returns what identifies the value of a variable."""


Content = tuple[str, tuple[int, ...], Hashable]
"""The content of an array: its dtype, its shape, and its bytes or a hash of them."""
ReadContent = Callable[[Node], Content | None]
"""Returns the content of a variable that has a value; None for any other."""
_SHORT = (
    64  # bytes up to which a value is kept; of a longer one its length and a cryptographic hash
)


def shorten(pieces: Iterable[bytes]) -> tuple[Hashable, ...]:
    """Return few bytes unchanged, more as their number and a cryptographic hash."""
    head, size = b"", 0
    digest = None
    for piece in pieces:
        if digest is None and size + len(piece) > _SHORT:
            from hashlib import sha256  # start-up: it loads OpenSSL, and few values are long

            digest = sha256(head)
        if digest is None:
            head += piece
        else:
            digest.update(piece)
        size += len(piece)
    return (head,) if digest is None else (size, digest.digest())


class TermTable:
    """Terms by number; each of ``keys`` is a kind, and the identity of the term within it."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []
        # Kinds: constant, input, argument, output, or one of a form or plan (operator, call, cut,
        # as).
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, *key: Hashable) -> int:
        """Return the number of the term with this key; add a new one."""
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number


class Facts(Struct, frozen=True):
    """Facts that follow from a graph's inputs alone: ``types``, and ``computed`` constants.

    A constant is its dtype, shape and bytes. ``ranks`` are known from a run.
    """

    types: Mapping[Place, Any] = EMPTY
    computed: Mapping[Place, tuple[str, tuple[int, ...], bytes]] = EMPTY
    ranks: Mapping[Place, int] = EMPTY


class NormalForm(ABC):
    """The rules by which nodes become terms; ``used`` counts identities that unified nodes."""

    def __init__(self, table: TermTable) -> None:
        self.table = table
        self.used: Counter[str] = Counter()
        self._drawn: Counter[Hashable] = Counter()

    @abstractmethod
    def find_constant(self, node: Node) -> Hashable | None:
        """Return the content of a variable, or operator without inputs, that has a value."""

    def find_outline(self, node: Node) -> Hashable | None:
        """Return the dtype and shape of a value in the graph's file, without reading it."""
        return None

    def read_statement(self, node: Node) -> Hashable:
        """Return an operator with its attributes as stated, for fingerprints."""
        return node.details.domain, node.op, tuple(sorted(node.attrs.items()))

    @abstractmethod
    def make_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        """Return the terms of an operator's outputs from its own inputs and ``bodies``."""

    def read_step(
        self, node: Node, operands: Sequence[int | None], find: FindConstant
    ) -> AffineStep | None:
        """Return an operator's constant factors and addends, if it has no other effect."""
        return None

    def read_number(self, term: int) -> tuple[str, tuple[int, ...], bytes] | None:
        """Return the dtype, shape and bytes of a small constant."""
        return None

    def read_version(self, term: int) -> int:
        """Return the version of a term's operator; 0 without one."""
        return 0

    def find_truth(self, term: int) -> bool | None:
        """Return the truth of a boolean constant."""
        return None

    def is_call(self, node: Node) -> bool:
        return False

    def may_be_default(self, node: Node, name: str) -> bool:
        """Return whether an attribute may equal its default, which holds where it is not stated."""
        return True

    def number_outputs(self, node: Node, *key: Hashable) -> list[int]:
        """Return the terms of all outputs of an operator with a key."""
        # Output 0 is the operator's own term, so unused further outputs make no difference.
        first = self.table.number(*key)
        return [
            first,
            *(
                self.table.number("output", first, index)
                for index in range(1, node.num_outputs or 1)
            ),
        ]

    @property
    def drawn(self) -> int:
        """The number of operators so far that may draw random numbers."""
        return self._drawn.total()

    def count_drawn(self, key: Hashable) -> int:
        """Number the operators of a key: two that draw random numbers are never one term."""
        self._drawn[key] += 1
        return self._drawn[key]


class GraphTerms:
    """The terms of a graph, added inputs first; ``name`` identifies its inputs.

    ``contents`` is shared by terms of one graph: weights are read and hashed once.
    """

    def __init__(self, form: NormalForm, name: Name, contents: dict[Node, Hashable | None]) -> None:
        self.form, self._name = form, name
        self.terms: dict[Place, int] = {}
        self._contents = contents

    def of(self, entry: Entry) -> int:
        place = entry.node, entry.index
        # An unknown operator has the outputs in use; a constant may name several.
        if place not in self.terms:
            self.terms[place] = self.form.table.number(
                "output", self.terms[entry.node, 0], entry.index
            )
        return self.terms[place]

    def key(self, entry: Entry) -> tuple[Any, ...]:
        return self.form.table.keys[self.of(entry)]

    def add(self, node: Node) -> None:
        if node.op:
            # By entry: bodies hold the entries under which their owner reads captured values.
            captured = {e: self.of(e) for e in node.inputs} if node.subgraphs else EMPTY
            bodies = self._read_bodies(node, captured, 1)
            terms = self.form.make_terms(
                node, [self.of(entry) for entry in own_inputs(node)], bodies
            )
            self.terms.update({(node, index): term for index, term in enumerate(terms)})
            return
        content = self.find_content(node)
        key = ("input", self._name(node)) if content is None else ("constant", content)
        self.terms[node, 0] = self.form.table.number(*key)

    def find_content(self, node: Node) -> Hashable | None:
        """Return the content of a constant, read once."""
        if node not in self._contents:
            self._contents[node] = self.form.find_constant(node)
        return self._contents[node]

    def _read_bodies(self, node: Node, outer: Mapping[Entry, int], depth: int) -> Hashable:
        """Return the terms of the subgraphs' heads; ``outer`` has the captured values' terms."""
        bodies = []
        for key, body in list_bodies(node).items():
            terms = {(variable, 0): outer[entry] for variable, entry in body.captured.items()}
            for inner in post_order(head.node for head in body.graph.heads):
                # A capture is a value of the enclosing graph, even under another name.
                if (inner, 0) in terms:
                    continue
                if inner.op:
                    captured = (
                        {e: terms[e.node, e.index] for e in inner.inputs}
                        if inner.subgraphs
                        else EMPTY
                    )
                    # The file's nesting bounds this recursion
                    nested = self._read_bodies(inner, captured, depth + 1)
                    operands = [terms[e.node, e.index] for e in own_inputs(inner)]
                    for index, term in enumerate(self.form.make_terms(inner, operands, nested)):
                        terms[inner, index] = term
                    continue
                content = self.find_content(inner)
                position = inner.details.values.get("position", inner.name)
                # Arguments bind by position; the depth separates arguments of nested bodies.
                own = ("argument", depth, position) if content is None else ("constant", content)
                terms[inner, 0] = self.form.table.number(*own)
            bodies.append((key, tuple([terms[head.node, head.index] for head in body.graph.heads])))
        return tuple(sorted(bodies))  # a file may state them in any order
