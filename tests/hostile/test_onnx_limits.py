"""Models that end ONNX's inference or keep it busy: every command that infers ends with one error,
and a folder is reported.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import graphshare

onnx = pytest.importorskip("onnx", reason="onnx is of the onnx extra")
from tests.onnx_files.ending_models import nest_functions  # noqa: E402 (it needs onnx)

helper, TensorProto = onnx.helper, onnx.TensorProto

SECONDS = 2


def write(path: Path, nodes: list[object], functions: list[object] | None = None) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Neg", ["z"], ["y"], "end")], "g", ends[:1], ends[1:]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions or [], ir_version=8)
    path.write_bytes(model.SerializeToString())


def write_endless(path: Path, depth: int = 40) -> None:
    write(
        path,
        [helper.make_node(f"F{depth - 1}", ["x"], ["z"], "first", domain="own")],
        nest_functions(depth),
    )


def write_crashing(path: Path) -> None:
    """EyeLike of a value without a type."""
    nodes = [
        helper.make_node("Strange", ["x"], ["f"], "first", domain="own"),
        helper.make_node("EyeLike", ["f"], ["z"], dtype=1),
    ]
    write(path, nodes)


MODELS = {"endless": write_endless, "crashing": write_crashing}
COMMANDS = [
    "duplicate {} --prefix b- --upto z -o made.onnx",
    "extract {} --target z -o made.onnx",
    "extract {} --cut z --target y -o made.onnx",
    "draw {} --to svg -o made.svg",
    "draw {} -o made.html",
    "inspect {} --shape x=2,3",
    "inspect {} --names",
    "diff {} {} --format html",
    "group {} {} --switch first -o made.onnx",
    "reshape {} --dynamic-batch -o made.onnx",
]


@pytest.mark.parametrize("model", [pytest.param("endless", marks=pytest.mark.large), "crashing"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends(command: str, model: str, tmp_path: Path) -> None:
    MODELS[model](tmp_path / "net.onnx")
    words = command.format("net.onnx", "net.onnx").split()
    done = graphshare(*words, "--time-limit", str(SECONDS), cwd=tmp_path)
    message = done.stderr.decode()
    assert "Traceback" not in message
    if done.returncode == 2:
        assert (
            "the time limit of 2 s has passed" in message
            if model == "endless"
            else "ended without an answer" in message
        )
        assert not list(tmp_path.glob("made*"))
    else:  # it has not inferred anything
        assert done.returncode == 0


@pytest.mark.large
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_folder_is_reported_whole(jobs: str, tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path / f"right{number}.onnx", [helper.make_node("Abs", ["x"], ["z"], "first")])
    write_endless(tmp_path / "endless.onnx")
    write_crashing(tmp_path / "crashing.onnx")
    done = graphshare("check", ".", "--jobs", jobs, "--format", "json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert len(report["files"]) == 22
    found = {
        (Path(each["file"]).stem, each["message"].partition(" (")[0])
        for each in report["findings"]
        if each["level"] == "error"
    }
    assert found == {
        ("endless", "ONNX's inference took more than 30 s and was ended"),
        ("crashing", "ONNX's inference ended without an answer"),
    }
