"""Values of two models that read the same parameters last."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pytest

from graphshare.analysis.name_lists import output_name
from graphshare.formats.paddle.read import read_program
from graphshare.ir.graph import Node
from graphshare.verification.inner_pairs import pair_readers
from tests.paddle_programs import Program

LARGE = ("float32", (2, 2), (bytes(range(16)),))
OTHER = ("float32", (2, 2), (bytes(16),))
SMALL = ("float32", (2,), (bytes(8),))
HASHED = ("float32", (99,), (396, b"digest"))


def separate(weight: str = "w", bias: str = "b", *, reads: int = 1) -> Program:
    """A product and a sum, as two operators; the bias takes another shape first. ``reads`` products read the weight."""
    program = Program()
    a, b = program.parameter(weight, 2, 2), program.parameter(bias, 2)
    value = program.data("x", -1, 2)
    for _ in range(reads):
        value = program.op("1.matmul", value, a)
    program.fetch(program.op("1.add", value, program.op("1.reshape", b)), "out")
    return program


def fused(weight: str = "w", bias: str = "b") -> Program:
    """The same as one operator, and one that reads nothing."""
    program = Program()
    a, b = program.parameter(weight, 2, 2), program.parameter(bias, 2)
    program.fetch(
        program.op("1.relu", program.op("3.linear", program.data("x", -1, 2), a, b)), "out"
    )
    return program


def pair(left: Program, right: Program, *contents: Mapping[str, Hashable]) -> list[tuple[str, str]]:
    """Return the pairs by their names; ``contents`` are those of parameters of both."""
    sides = [read_program(program.encode()).nodes for program in (left, right)]

    def find(own: Mapping[str, Hashable], node: Node) -> Hashable | None:
        return own.get(node.name)

    finds = [lambda node, own=own: find(own, node) for own in contents or ({}, {})]
    return [(output_name(a), output_name(b)) for a, b in pair_readers(sides, finds)]


def test_each_operator_with_parameters_of_one_name_is_paired() -> None:
    assert pair(separate(), separate()) == [("%4", "%4"), ("%6", "%6")]


def test_the_last_of_several_operators_has_the_value_of_a_fused_one() -> None:
    assert pair(separate(), fused()) == [("%6", "%4")]
    assert pair(fused(), separate()) == [("%4", "%6")]


def test_a_parameter_that_two_operators_read_pairs_nothing() -> None:
    assert pair(separate(reads=2), separate(reads=2)) == [("%7", "%7")]


@pytest.mark.parametrize("content", [LARGE, HASHED])
def test_equal_parameters_are_paired_whatever_their_names(content: Hashable) -> None:
    assert pair(separate(), separate("v", "c"), {"w": content}, {"v": content}) == [("%4", "%4")]
    # Equal values go before equal names.
    assert pair(separate(), separate("b", "w"), {"w": content}, {"b": content}) == [("%4", "%4")]


def test_few_bytes_and_equal_parameters_of_one_model_tell_nothing() -> None:
    assert pair(separate(), separate("v", "c"), {"w": SMALL}, {"v": SMALL}) == []
    assert pair(separate(), separate("v", "c"), {"w": LARGE}, {"v": OTHER}) == []
    assert (
        pair(separate(), separate("v", "c"), {"w": LARGE, "b": LARGE}, {"v": LARGE, "c": OTHER})
        == []
    )
