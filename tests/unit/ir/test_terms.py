"""Values named by their computation: which places of two graphs are one term."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from graphshare.ir.graph import Entry, Graph, Node, NodeDetails
from graphshare.ir.terms import GraphTerms, NormalForm, TermTable
from graphshare.ir.walk import post_order


class Form(NormalForm):
    """Every operator is a term of its own kind; variables called c... are constants, and their
    names are the contents.
    """

    def __init__(self, table: TermTable) -> None:
        super().__init__(table)
        self.read: list[str] = []

    def find_constant(self, node: Node) -> Hashable | None:
        self.read.append(node.name)
        return node.name[:2] if node.name.startswith("c") else None

    def make_terms(self, node: Node, operands: Sequence[int], bodies: Hashable) -> list[int]:
        return self.number_outputs(node, node.op, tuple(operands), bodies)


def apply(
    op: str,
    *inputs: Node | tuple[Node, int],
    outputs: int | None = None,
    bodies: tuple[Graph, ...] = (),
) -> Node:
    entries = tuple(Entry(*each) if isinstance(each, tuple) else Entry(each) for each in inputs)
    return Node(op, "", inputs=entries, num_outputs=outputs, subgraphs=bodies)


def number(form: Form, *heads: Node | tuple[Node, int]) -> list[int]:
    """Return the terms of these outputs."""
    terms = GraphTerms(form, lambda node: node.name, {})
    entries = apply("heads", *heads).inputs
    for node in post_order(entry.node for entry in entries):
        terms.add(node)
    return [terms.of(entry) for entry in entries]


X, Y = Node("", "x"), Node("", "y")


def test_equal_computations_of_equal_inputs_are_one_term() -> None:
    form = Form(TermTable())
    first = number(form, apply("add", X, Y), apply("add", Y, X), apply("sub", X, Y), X, Y)
    assert len(set(first)) == 5
    assert number(form, apply("add", Node("", "x"), Node("", "y"))) == first[:1]
    assert number(form, Node("", "z"))[0] not in first


def test_constants_are_equal_by_content_and_read_once() -> None:
    form = Form(TermTable())
    constants = Node("", "c1 here"), Node("", "c1 there"), Node("", "c2"), Node("", "x")
    terms = number(form, *constants, apply("add", constants[0], constants[0]))
    assert terms[0] == terms[1]
    assert len(set(terms)) == 4
    contents: dict[Node, Hashable | None] = {}
    form.read.clear()
    for _ in range(2):
        shared = GraphTerms(form, lambda node: node.name, contents)
        for constant in constants:
            shared.add(constant)
    assert form.read == [constant.name for constant in constants]
    assert shared.key(Entry(constants[2])) == ("constant", "c2")
    assert shared.key(Entry(constants[3])) == ("input", "x")


def test_output_0_is_the_operator_and_the_others_are_terms_of_their_own() -> None:
    form = Form(TermTable())
    split = apply("split", X, outputs=3)
    terms = number(form, split, (split, 1), (split, 2))
    assert len(set(terms)) == 3
    assert number(form, apply("split", X)) == terms[:1]
    other = apply("split", X, outputs=3)
    assert number(form, (other, 2), (other, 1)) == [terms[2], terms[1]]


def test_an_unknown_operator_has_the_outputs_that_are_used() -> None:
    form = Form(TermTable())
    unknown, same = apply("mine", X), apply("mine", X)
    terms = number(form, unknown, (unknown, 3), (unknown, 1))
    assert len(set(terms)) == 3
    assert number(form, (same, 1), (same, 3), same) == [terms[2], terms[1], terms[0]]


def test_an_operator_of_unknown_outputs_is_one_term() -> None:
    form = Form(TermTable())
    counts = [
        len(form.number_outputs(apply("split", X, outputs=outputs), "split", outputs))
        for outputs in (None, 1, 2, 3)
    ]
    assert counts == [1, 1, 2, 3]


def test_operators_that_draw_are_counted_by_key() -> None:
    form = Form(TermTable())
    assert [form.count_drawn(key) for key in ("a", "a", "b", "a")] == [1, 2, 1, 3]


def argument(name: str, position: int) -> Node:
    return Node("", name, details=NodeDetails(values={"position": position}))


def loop(first: str, second: str, *, is_swapped: bool = False, around: Node = X) -> Node:
    """A loop whose body subtracts its second argument from its first, and adds a value around it and a constant."""
    a, b, captured, constant = (
        argument(first, 0),
        argument(second, 1),
        Node("", "captured"),
        Node("", "c1"),
    )
    difference = apply("sub", b, a) if is_swapped else apply("sub", a, b)
    total = apply("add", difference, captured, constant)
    body = Graph(
        (a, b, captured, constant, difference, total),
        (Entry(total), Entry(difference)),
        captures=(captured,),
    )
    return apply("loop", Y, around, bodies=(body,))


def test_arguments_of_a_body_are_known_by_position_and_captures_by_what_they_stand_for() -> None:
    form = Form(TermTable())
    (term,) = number(form, loop("a", "b"))
    assert number(form, loop("b", "a")) == [term]
    assert number(form, loop("a", "b", is_swapped=True)) != [term]
    assert number(form, loop("a", "b", around=Y)) != [term]


def nest(*, is_outer: bool) -> Node:
    """A loop in a loop, which gives its own argument or that of the outer one."""
    outer, captured, inner = argument("i", 0), Node("", "o"), argument("i", 0)
    used = captured if is_outer else inner
    result = apply("relu", used)
    body = Graph((captured, inner, result), (Entry(result),), captures=(captured,))
    middle = apply("loop", outer, outer, bodies=(body,))
    return apply("loop", X, bodies=(Graph((outer, middle), (Entry(middle),)),))


def test_arguments_of_nested_bodies_are_kept_apart() -> None:
    form = Form(TermTable())
    assert number(form, nest(is_outer=True)) == number(form, nest(is_outer=True))
    assert number(form, nest(is_outer=True)) != number(form, nest(is_outer=False))
