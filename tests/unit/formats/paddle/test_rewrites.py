"""Rewrites of programs of Paddle: names there and back, branches, cuts, joins, and what is said of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.cli import main
from graphshare.formats.paddle.read import read_program
from graphshare.formats.paddle.write import encode_program
from tests import paddle_programs as build

BUILDERS = {"dense": build.dense, "bodies": build.bodies, "odd": build.odd}
Built = Callable[[], tuple[build.Program, dict[str, bytes]]]


@pytest.fixture(params=list(BUILDERS))
def stem(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The stem of a program with its parameters."""
    program, arrays = BUILDERS[request.param]()
    return program.save(tmp_path / "source", arrays)


@pytest.fixture
def dense(tmp_path: Path) -> str:
    """The stem of one matrix product and one sum."""
    program, arrays = build.dense()
    return program.save(tmp_path / "source", arrays)


@pytest.mark.parametrize("new", ["fc.w", "x", "out", "fc.b"])
@pytest.mark.parametrize("old", ["fc.w", "x", "out", "fc.b"])
def test_no_two_names_of_a_program_become_one(old: str, new: str, dense: str) -> None:
    """Parameters, inputs and outputs are one scope in Paddle."""
    if old == new:
        return
    with pytest.raises(gs.RefusedError, match=f"{old}.*{new}|{new}.*{old}|are called '{new}'"):
        gs.rename(dense, names={old: new})


def read(stem: str) -> tuple[bytes, bytes]:
    return Path(f"{stem}.json").read_bytes(), Path(f"{stem}.pdiparams").read_bytes()


def operators(stem: str) -> list[dict[str, Any]]:
    document = json.loads(Path(f"{stem}.json").read_bytes())
    block: list[dict[str, Any]] = document["program"]["regions"][0]["blocks"][0]["ops"]
    return block


def test_a_rename_and_its_inverse_give_the_same_bytes(stem: str, tmp_path: Path) -> None:
    away, back, map_ = str(tmp_path / "away"), str(tmp_path / "back"), tmp_path / "map.json"
    gs.save(gs.rename(stem, prefix="zz."), away, map=map_)
    gs.save(gs.rename(away, map=map_, inverse=True), back, verify_bytes=True)
    assert read(back) == read(stem)
    assert read(away)[0] != read(stem)[0]
    assert [node.name for node in gs.load(away).graph.nodes if node.name] == [
        f"zz.{node.name}" for node in gs.load(stem).graph.nodes if node.name
    ]


def test_a_renamed_parameter_moves_in_the_parameter_file(dense: str, tmp_path: Path) -> None:
    _, arrays = build.dense()
    gs.save(gs.rename(dense, names={"fc.b": "z", "x": "out", "out": "x"}), tmp_path / "moved")
    assert read(str(tmp_path / "moved"))[1] == arrays["fc.w"] + arrays["fc.b"]
    inspection = gs.inspect(tmp_path / "moved")
    assert (inspection.inputs, inspection.outputs) == (["out"], ["x"])


def test_a_parameter_that_no_file_holds_is_renamed_in_the_graph_alone(tmp_path: Path) -> None:
    program, arrays = build.odd()
    stem = program.save(tmp_path, arrays)
    gs.save(gs.rename(stem, names={"scratch": "memory"}), tmp_path / "out")
    (first, *_) = operators(str(tmp_path / "out"))
    assert first["A"] == [0, 1, 1, "memory"]
    assert first["OA"] == [0, 0, 1]
    assert read(str(tmp_path / "out"))[1] == read(stem)[1]


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_branches_read_back_and_have_the_parameters_of_their_mode(
    stem: str, mode: Any, tmp_path: Path
) -> None:
    result = gs.duplicate(stem, "b_", mode=mode)
    out = str(tmp_path / "two")
    gs.save(result, out)
    (_, before), (text, after) = read(stem), read(out)
    assert len(after) == len(before) * (2 if mode == "copy" else 1)
    numbers = [
        result["%"]
        for op in operators(out)
        for result in (op["O"] if isinstance(op["O"], list) else [op["O"]])
    ]
    assert len(numbers) == len(set(numbers))
    assert encode_program(read_program(text)) == text
    names = gs.inspect(stem).outputs
    assert gs.inspect(out).outputs == [*names, *(f"b_{name}" for name in names)]
    columns = [op["A"][1]["AT"]["D"] for op in operators(out) if op["#"] == "1.fetch"]
    assert sorted(columns) == list(range(2 * len(names)))


def test_an_original_is_dropped_and_the_copy_alone_is_as_it_was_but_for_names(
    dense: str, tmp_path: Path
) -> None:
    gs.save(gs.duplicate(dense, "b_", drop_original=True), tmp_path / "copy")
    gs.save(gs.rename(dense, prefix="b_"), tmp_path / "renamed")
    assert read(str(tmp_path / "copy")) == read(str(tmp_path / "renamed"))


def test_a_target_is_a_value_by_its_number(dense: str, tmp_path: Path) -> None:
    gs.save(gs.extract(dense, "%4"), tmp_path / "cut")
    inspection = gs.inspect(tmp_path / "cut")
    assert (inspection.outputs, inspection.inputs, inspection.parameters) == (
        ["%4"],
        ["x"],
        ["fc.w"],
    )
    assert [op["#"] for op in operators(str(tmp_path / "cut"))] == [
        "p",
        "1.data",
        "1.matmul",
        "1.fetch",
    ]
    gs.save(gs.extract(tmp_path / "cut", "%4"), tmp_path / "again")
    assert read(str(tmp_path / "again")) == read(str(tmp_path / "cut"))


def test_a_cut_is_an_input_of_the_type_of_its_value(dense: str, tmp_path: Path) -> None:
    gs.save(gs.extract(dense, "out", cuts="%4"), tmp_path / "rest")
    (data,) = (op for op in operators(str(tmp_path / "rest")) if op["#"] == "1.data")
    assert data["O"][0]["TT"] == build.tensor_type((-1, 2))
    assert [item["AT"]["D"] for item in data["A"]] == ["%4", [-1, 2], "float32", [0, 0, ""]]
    assert gs.inspect(tmp_path / "rest").inputs == ["%4"]


def test_a_cut_in_front_of_a_body_feeds_the_body(tmp_path: Path) -> None:
    program, arrays = build.bodies()
    stem = program.save(tmp_path, arrays)
    gs.save(gs.extract(stem, "%4", cuts="%3"), tmp_path / "rest")
    assert gs.inspect(tmp_path / "rest").inputs == ["x", "%3"]
    (switch,) = (op for op in operators(str(tmp_path / "rest")) if op["#"] == "1.if")
    (data,) = (
        op
        for op in operators(str(tmp_path / "rest"))
        if op["#"] == "1.data" and op["A"][0]["AT"]["D"] == "%3"
    )
    assert switch["I"] == [{"%": data["O"][0]["%"]}]


def test_a_part_without_parameters_has_no_parameter_file_which_paddle_would_refuse(
    tmp_path: Path,
) -> None:
    program, arrays = build.bodies()
    gs.save(gs.extract(program.save(tmp_path / "source", arrays), "%3"), tmp_path / "part")
    assert [path.name for path in tmp_path.glob("part*")] == ["part.json"]
    assert gs.inspect(tmp_path / "part").outputs == ["%3"]
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(gs.InputError, match="does not exist"):
        gs.inspect(tmp_path / "other")


def test_a_value_of_several_tensors_is_no_input(tmp_path: Path) -> None:
    program = build.Program()
    x = program.data("x", -1, 2)
    parts = program.op("1.split_with_num", x)
    program.ops[-1]["O"][0]["TT"] = {
        "#": "0.t_vec",
        "D": [build.tensor_type((-1, 1)), build.tensor_type((-1, 1))],
    }
    program.fetch(program.op("1.concat", parts), "out")
    (tmp_path / "graph.json").write_bytes(program.encode())
    with pytest.raises(gs.RefusedError, match=r"%2 is a .*sequence.*, and inputs are tensors"):
        gs.extract(tmp_path / "graph.json", "out", cuts="%2")


def test_an_output_that_feeds_an_input_is_passed_on_without_its_fetch(
    dense: str, tmp_path: Path
) -> None:
    program, arrays = build.bodies()
    after = gs.rename(program.save(tmp_path / "after", arrays), prefix="b_")
    gs.save(gs.group([dense, after], connect={"out": "b_x"}), tmp_path / "chain")
    inspection = gs.inspect(tmp_path / "chain")
    assert (inspection.inputs, inspection.outputs) == (["x"], ["b_out"])
    numbers = {
        op["#"]: op["O"][0]["%"]
        for op in operators(str(tmp_path / "chain"))
        if op["#"] in ("1.add", "1.any")
    }
    (test,) = (op for op in operators(str(tmp_path / "chain")) if op["#"] == "1.any")
    assert test["I"] == [{"%": numbers["1.add"]}]


def test_parts_are_joined_to_the_same_bytes(dense: str, tmp_path: Path) -> None:
    parts = gs.split(dense, at="%4").parts
    stems = [str(tmp_path / f"part{i}") for i in range(len(parts))]
    for part, stem in zip(parts, stems, strict=True):
        gs.save(part, stem)
    gs.save(gs.group(stems, connect={"%4": "%4"}), tmp_path / "joined")
    assert gs.inspect(tmp_path / "joined").outputs == ["out"]
    assert not gs.diff(dense, tmp_path / "joined")
    assert read(str(tmp_path / "joined"))[1] == read(dense)[1]


def test_a_shared_parameter_is_one_record(dense: str, tmp_path: Path) -> None:
    gs.save(gs.duplicate(dense, "b_"), tmp_path / "two")
    gs.save(gs.share(tmp_path / "two", aliases={"b_fc.w": "fc.w"}), tmp_path / "shared")
    names = [array.name for array in gs.list_params(tmp_path / "shared").arrays]
    assert names == ["b_fc.b", "fc.b", "fc.w"]
    (first, second) = (op for op in operators(str(tmp_path / "shared")) if op["#"] == "1.matmul")
    assert first["I"][1] == second["I"][1]


def test_programs_of_two_versions_are_not_joined(dense: str, tmp_path: Path) -> None:
    program, arrays = build.dense()
    program.version = 3
    other = program.save(tmp_path / "older", arrays)
    with pytest.raises(gs.RefusedError, match="base_code version is 4 in one and 3 in the other"):
        gs.group([dense, other], prefixes=["a_", "b_"])


def test_an_indented_text_is_written_on_one_line_and_that_is_said(tmp_path: Path) -> None:
    program, arrays = build.dense()
    stem = program.save(tmp_path / "source", arrays)
    Path(f"{stem}.json").write_text(json.dumps(program.document(), indent=2))
    renamed = gs.rename(stem, prefix="a_")
    assert renamed.notes == ("the graph is written on one line, as Paddle writes it",)
    gs.save(renamed, tmp_path / "out")
    assert b"\n" not in read(str(tmp_path / "out"))[0]


def test_two_parameters_of_one_name_are_refused(dense: str, tmp_path: Path) -> None:
    with pytest.raises(gs.GraphshareError, match=r"fc\.b"):
        gs.save(gs.rename(dense, names={"fc.w": "fc.b"}), tmp_path / "out")


def test_differences_and_pictures_name_what_a_file_has(dense: str, tmp_path: Path) -> None:
    gs.save(gs.rename(dense, names={"fc.w": "weight"}), tmp_path / "renamed")
    report = str(gs.diff(dense, tmp_path / "renamed"))
    assert "1 node renamed" in report
    picture = gs.draw(dense, to="mermaid").text
    assert "matmul" in picture
    assert "6 weights" in picture
    assert gs.inspect(dense).generation == "PIR version 4"


def test_models_of_a_folder_are_found_by_the_parameter_files_beside_them(
    dense: str, tmp_path: Path
) -> None:
    folder = Path(dense).parent
    (folder / "config.json").write_text("{}")
    assert [model.graph for model in gs.inspect_folder(folder)] == [f"{dense}.json"]
    assert all(
        done
        for done in gs.foreach(folder, ["rename", "{}", "--prefix", "q_"], out=tmp_path / "out")
    )
    assert sorted(path.name for path in (tmp_path / "out").glob("inference.*")) == [
        "inference.json",
        "inference.pdiparams",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["upgrade"], "an upgrade is for MXNet graphs, and this is a Paddle graph"),
        (["fold"], "convert it with paddle2onnx, and `graphshare fold` the ONNX model"),
        (["export"], "writes an ONNX model of it"),
        (["pool"], "convert it with paddle2onnx, and `graphshare pool` the ONNX models"),
        (
            ["reshape", "--shape", "x=1,3"],
            "convert it with paddle2onnx, and `graphshare reshape` the ONNX model",
        ),
        (
            ["duplicate", "--prefix", "b_", "--mode", "batch"],
            "--mode tie runs every branch by itself",
        ),
    ],
)
def test_what_needs_knowledge_of_operators_is_refused_with_the_way(
    words: list[str], expected: str, dense: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command, *options = words
    assert main.run([command, dense, *options, "-o", str(tmp_path / "out")]) == 2
    assert expected in capfd.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_a_file_beside_the_model_that_is_not_copied_is_named(
    dense: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(dense).parent
    (folder / "inference.yml").write_text("Global: {}\n")
    assert main.run(["rename", dense, "--prefix", "a_", "-o", str(tmp_path / "out")]) == 0
    assert f"{folder}/inference.yml is not copied" in capfd.readouterr().err
    assert main.run(["rename", dense, "--prefix", "a_", "-o", str(folder / "out")]) == 0
    assert "not copied" not in capfd.readouterr().err


def test_either_file_leads_to_the_other(
    dense: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main.run(["rename", f"{dense}.json", "--prefix", "a_", "-o", str(tmp_path / "out.json")])
        == 0
    )
    assert f"wrote {tmp_path}/out.json, {tmp_path}/out.pdiparams" in capfd.readouterr().err
    assert main.run(["inspect", f"{dense}.pdiparams"]) == 2
    assert f"the graph of this checkpoint is {dense}.json" in capfd.readouterr().err
