"""Terms: one number for each value, whichever graph computes it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from graphshare.ir.graph import Entry, Node
from graphshare.ir.terms import GraphTerms, NormalForm, TermTable


class Plain(NormalForm):
    """A form without identities, in which an attribute is the content of a constant."""

    def find_constant(self, node: Node) -> Hashable | None:
        return node.attrs.get("value")

    def make_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        return self.number_outputs(node, node.op, *operands, bodies)


def terms_of(table: TermTable, *nodes: Node) -> list[int]:
    """Return the terms of all outputs of nodes, in a graph of their own."""
    graph = GraphTerms(Plain(table), lambda node: node.name, {})
    for node in nodes:
        graph.add(node)
    return [graph.of(Entry(node, index)) for node in nodes for index in range(node.num_outputs or 1)]


def constant(name: str, value: str) -> Node:
    return Node("", name, {"value": value}, num_outputs=1)


def apply(op: str, *inputs: Node, outputs: int | None = 1, index: int = 0) -> Node:
    return Node(op, "n", inputs=tuple(Entry(node, index) for node in inputs), num_outputs=outputs)


def test_inputs_are_told_apart_by_their_names_and_constants_by_their_content() -> None:
    table = TermTable()
    x, y, one, again, two = terms_of(
        table, Node("", "x"), Node("", "y"), constant("a", "1"), constant("b", "1"), constant("c", "2")
    )
    assert (one == again, len({x, y, one, two})) == (True, 4)
    assert terms_of(table, Node("", "y"), constant("x", "1")) == [y, one]


def test_an_operator_is_told_by_its_operands_in_their_order() -> None:
    table, x, y = TermTable(), Node("", "x"), Node("", "y")
    _, _, first, swapped, other = terms_of(table, x, y, apply("sub", x, y), apply("sub", y, x), apply("add", x, y))
    assert len({first, swapped, other}) == 3
    a, b = Node("", "x"), Node("", "y")
    assert terms_of(table, b, a, apply("sub", a, b))[2] == first


def test_outputs_of_an_operator_have_terms_of_their_own() -> None:
    table, x = TermTable(), Node("", "x")
    several = terms_of(table, x, apply("split", x, outputs=3))[1:]
    assert len(set(several)) == 3
    # Unused further outputs make no other term.
    assert terms_of(table, x, apply("split", x))[1:] == terms_of(table, x, apply("split", x, outputs=None))[1:] == several[:1]
    split = apply("split", x, outputs=3)
    left, right = terms_of(table, x, split, apply("relu", split), apply("relu", split, index=1))[4:]
    assert left != right


def test_draws_are_never_one_term() -> None:
    form = Plain(TermTable())
    assert [form.count_drawn("uniform"), form.count_drawn("uniform"), form.count_drawn("normal")] == [1, 2, 1]


def test_contents_are_read_once() -> None:
    contents: dict[Node, Hashable | None] = {}
    node = constant("a", "1")
    first = GraphTerms(Plain(TermTable()), lambda each: each.name, contents)
    first.add(node)
    assert contents == {node: "1"}
    contents[node] = "2"
    again = GraphTerms(Plain(TermTable()), lambda each: each.name, contents)
    again.add(node)
    assert again.key(Entry(node)) == ("constant", "2")
