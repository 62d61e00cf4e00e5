"""The rules on Paddle's programs: parameters that operators write, in bodies too, and the two files of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphshare as gs
from graphshare.reports.model import Finding
from tests import paddle_programs as build


def find(path: Path | str) -> list[tuple[str, str]]:
    return [(finding.code, finding.message) for finding in findings(path)]


def findings(path: Path | str) -> list[Finding]:
    return list(gs.check(path, isolated=True).findings)


def batch_norms(*, is_test: bool) -> build.Program:
    """Two batch_norm_ on one mean and one variance."""
    program = build.Program()
    names = ("mean", "var", "scale", "bias")
    parameters = [program.parameter(name, 2) for name in names]
    x = program.data("x", -1, 2)
    for i in range(2):
        shapes = [(-1, 2), (2,), (2,), (2,), (2,), (0,)]
        flags = [build.attribute("is_test", "0.a_bool", is_test)]
        (x, *_) = program.several("1.batch_norm_", x, *parameters, shapes=shapes, attributes=flags)
        program.fetch(x, f"out{i}", i)
    return program


def test_shared_statistics_are_written_unless_the_operator_only_tests(tmp_path: Path) -> None:
    records = {name: build.record((2,)) for name in ("mean", "var", "scale", "bias")}
    assert find(batch_norms(is_test=True).save(tmp_path, records, "test")) == []
    message = "batch_norm_ writes into {!r}, which batch_norm_ shares"
    expected = [("GS804", message.format(name)) for name in ("mean", "mean", "var", "var")]
    assert sorted(find(batch_norms(is_test=False).save(tmp_path, records, "train"))) == expected


def test_a_body_shares_a_parameter_that_the_program_writes(tmp_path: Path) -> None:
    program = build.Program()
    weight, x = program.parameter("w", 2), program.data("x", -1, 2)
    condition = program.op("1.any", x, shape=(), dtype="bool")
    bodies = [lambda block: [block.op("1.add", x, weight)], lambda block: [block.op("1.relu", x)]]
    program.fetch(program.op("1.if", condition, bodies=bodies), "out")
    stem = program.save(tmp_path, {"w": build.record((2,))})
    assert find(stem) == []
    program.op("1.scale_", weight, shape=(2,))
    stem = program.save(tmp_path, {"w": build.record((2,))})
    assert find(stem) == [("GS804", "scale_ writes into 'w', which add shares")]
    (finding,) = findings(stem)
    assert finding.path == "$.program.regions[0].blocks[0].ops[5]"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (build.record((2,)), "has 1 array, and the graph has 2 parameters"),
        (
            build.record((3, 2)) + build.record((2,)),
            "is float32 (3,2), and the graph states float32 (2) for 'fc.b'",
        ),
        (
            build.record((2,)) + build.record((3, 2), "float64"),
            "is float64 (3,2), and the graph states float32 (3,2)",
        ),
        (
            build.record((2,)) + build.record((3, 2)) + b"\0",
            "ends inside the version of the record",
        ),
        (build.record((2,)) + build.record((3, 2))[:-1], "ends inside the data"),
    ],
)
def test_records_that_are_not_those_of_the_program_are_named(
    content: bytes, message: str, tmp_path: Path
) -> None:
    program, arrays = build.dense()
    stem = program.save(tmp_path, arrays)
    assert find(tmp_path) == []
    Path(f"{stem}.pdiparams").write_bytes(content)
    found = findings(tmp_path)
    assert {finding.code for finding in found} == {"GS802"}
    assert any(message in finding.message for finding in found)
    assert all(finding.where == f"{stem}.pdiparams" for finding in found)


def test_a_broken_program_has_its_place_and_a_development_build_is_none(tmp_path: Path) -> None:
    program, _ = build.dense()
    program.ops[3]["I"][0]["%"] = 77
    path = tmp_path / "a.json"
    path.write_bytes(program.encode())
    (finding,) = findings(path)
    assert (finding.code, finding.message) == (
        "GS801",
        "uses value 77, which nothing before it defines",
    )
    assert finding.path == "$.program.regions[0].blocks[0].ops[3]"
    program, _ = build.dense()
    program.version = 0
    path.write_bytes(program.encode())
    assert find(path) == [
        ("GS801", "has version 0, that of a development build, which no released Paddle loads")
    ]


@pytest.mark.parametrize(
    ("name", "what"), [("x", "1 input and 1 output"), ("fc.w", "1 parameter and 1 output")]
)
def test_a_name_of_two_kinds_is_found(name: str, what: str, tmp_path: Path) -> None:
    program, _ = build.dense()
    path = tmp_path / "a.json"
    path.write_bytes(program.encode().replace(b'"D":"out"', b'"D":"%s"' % name.encode()))
    assert find(path) == [("GS803", f"{what} are called {name!r}")]


def test_two_inputs_or_outputs_with_one_name_are_found(tmp_path: Path) -> None:
    program = build.Program()
    program.fetch(program.data("x", -1, 2), "y")
    path = tmp_path / "a.json"
    path.write_bytes(program.encode())
    assert find(path) == []
    program.fetch(program.data("x", -1, 2), "y", 1)
    path.write_bytes(program.encode())
    assert find(path) == [
        ("GS803", "2 inputs are called 'x'"),
        ("GS803", "2 outputs are called 'y'"),
    ]
