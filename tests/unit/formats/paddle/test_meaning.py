"""What is known of Paddle's operators: terms of equal programs, names in ONNX, and what forbids either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.analysis.name_lists import output_name
from graphshare.formats.paddle.edit import PaddleEditing
from graphshare.formats.paddle.meaning import PaddleMeaning
from graphshare.formats.paddle.read import read_program
from graphshare.formats.paddle.records import FETCH
from graphshare.formats.paddle.types import find_type
from graphshare.ir.graph import Entry
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from tests.paddle_programs import Program, attribute, bodies, dense, floats, odd, record

MEANING = PaddleMeaning()


def are_one_term(
    left: Program, right: Program, folder: Path, values: tuple[float, float] = (1, 1)
) -> bool:
    """Whether all outputs of two programs are equal by their terms; ``w`` has these values in them."""
    stems = []
    for name, program, value in zip(("left", "right"), (left, right), values, strict=True):
        has_weight = any(op["#"] == "p" for op in program.ops)
        stems.append(
            program.save(
                folder / name, {"w": record((2,), data=floats(value, 2))} if has_weight else {}
            )
        )
    return (
        make_judge(pair_models(gs.load(stems[0]), gs.load(stems[1]), (), {})).find_exact()
        is not None
    )


def scale(
    factor: float = 2.0, *, version: int = 4, dialect: str = "1", skip: int = 0, more: str = ""
) -> Program:
    """``w`` plus ``x``, scaled twice."""
    program = Program(version)
    weight = program.parameter("w", 2)
    program.values += skip
    value = program.op("1.add", program.data("x", -1, 2), weight)
    attributes = [attribute("scale", "0.a_f32", factor), attribute("struct_name", "0.a_str", more)]
    for _ in range(2):
        value = program.op(f"{dialect}.scale", value, attributes=attributes)
    program.fetch(value, "out")
    return program


def test_equal_operators_on_equal_operands_are_one_term(tmp_path: Path) -> None:
    assert are_one_term(scale(), scale(skip=7, more="/Scale/"), tmp_path)
    assert are_one_term(scale(dialect="3"), scale(dialect="3"), tmp_path)


@pytest.mark.parametrize(
    "other",
    [scale(3.0), scale(version=3), scale(dialect="3")],
    ids=["attribute", "version", "dialect"],
)
def test_other_attributes_versions_and_dialects_are_other_terms(
    other: Program, tmp_path: Path
) -> None:
    assert not are_one_term(scale(), other, tmp_path)


def test_other_values_of_a_parameter_are_another_term(tmp_path: Path) -> None:
    assert not are_one_term(scale(), scale(), tmp_path, (1, 3))


def write_and_read(*, is_read: bool, tag: str = "1.relu_") -> Program:
    """An operator that writes over a sum, which is read again if ``is_read``."""
    program = Program()
    total = program.op("1.add", program.data("x", -1, 2), program.parameter("w", 2))
    result = program.op(tag, total, attributes=[attribute("is_test", "0.a_bool", True)])
    program.fetch(program.op("1.add", result, total if is_read else result), "out")
    return program


def test_a_value_that_is_overwritten_and_read_depends_on_the_order_of_the_run(
    tmp_path: Path,
) -> None:
    assert not are_one_term(write_and_read(is_read=True), write_and_read(is_read=True), tmp_path)
    assert are_one_term(write_and_read(is_read=False), write_and_read(is_read=False), tmp_path)
    tests = [write_and_read(is_read=True, tag="1.batch_norm_") for _ in range(2)]
    assert are_one_term(*tests, tmp_path)


@pytest.mark.parametrize(
    ("tag", "name", "kind", "value", "draws"),
    [
        ("1.uniform", "seed", "0.a_i32", 0, True),
        ("1.uniform_inplace_", "seed", "0.a_i32", 0, True),
        ("1.uniform", "seed", "0.a_i32", 7, False),
        ("1.dropout", "is_test", "0.a_bool", True, False),
        ("1.dropout", "is_test", "0.a_bool", False, True),
        ("1.relu", "is_test", "0.a_bool", False, False),
    ],
)
def test_operators_without_a_seed_draw_numbers(
    tag: str, name: str, kind: str, value: object, draws: bool
) -> None:
    program = Program()
    program.fetch(
        program.op(tag, program.data("x", -1, 2), attributes=[attribute(name, kind, value)]), "out"
    )
    (node,) = (
        node for node in read_program(program.encode()).nodes if node.op and node.op != FETCH
    )
    assert MEANING.draws_numbers(node) is draws


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (
            dense,
            {"%4": "p2o.pd_op.matmul.0.0", "%5": "p2o.pd_op.add.0.0", "out": "p2o.pd_op.fetch.0.0"},
        ),
        (
            odd,
            {
                "%41": "p2o.pd_op.split.0.0",
                "%42": "p2o.pd_op.split.0.1",
                "%43": "p2o.custom_op.mine.0.0",
            },
        ),
        (bodies, {"%11": "p2o.pd_op.while.0.0", "%12": "p2o.pd_op.while.0.1"}),
    ],
)
def test_names_in_onnx_count_the_operators_of_a_kind(
    build: Callable[[], tuple[Program, dict[str, bytes]]], names: dict[str, str]
) -> None:
    graph = read_program(build()[0].encode())
    converted = {
        output_name(Entry(*place)): name
        for place, name in MEANING.list_converted_names(graph).items()
    }
    assert {key: converted.get(key) for key in names} == names


def test_a_new_input_states_its_type() -> None:
    node = PaddleEditing().make_input("x", "bfloat16", ["n", 3, None])
    assert str(find_type(Entry(node))) == "bfloat16 (?, 3, ?)"
    with pytest.raises(gs.RefusedError, match="Paddle has no tensors of uint16"):
        PaddleEditing().make_input("x", "uint16", [1])
