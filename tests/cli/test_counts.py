"""Nodes, parameters and arrays are counted alike wherever a model is described."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import graphshare as gs
from tests import paddle_programs
from tests.processes import ROOT, done, graphshare


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("counts")
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, where)
    shutil.copytree(ROOT / "fixtures" / "gpt", where / "gpt")
    gs.save(
        gs.export(where / "lenet", shapes={"data": (1, 1, 28, 28)}, verify=False),
        where / "net.onnx",
    )
    program, arrays = paddle_programs.dense()
    program.save(where, arrays)
    return where


def read_text(where: Path, *arguments: str) -> str:
    return done(graphshare(*arguments, cwd=where)).stdout.decode()


def find(text: str, title: str, pattern: str) -> tuple[str, ...]:
    """Return the groups of ``pattern`` in the line of ``title``."""
    match = re.search(rf"^{title} +{pattern}", text, re.M)
    assert match is not None, text
    return match.groups()


@pytest.mark.parametrize(
    ("name", "nodes", "operators"),
    [("lenet", 31, 13), ("net.onnx", 13, 13), ("inference.json", 6, 3)],
)
def test_a_model_has_one_count_of_each(name: str, nodes: int, operators: int, folder: Path) -> None:
    model = gs.load(folder / name)
    facts, text = gs.inspect(model), read_text(folder, "inspect", name)
    numbers, arrays = find(text, "parameters", r"([\d,]+) in (\d+) arrays?")
    assert find(text, "nodes", r"(\d+)$") == (str(nodes),)
    assert (facts.nodes, sum(facts.ops.values()), len(facts.parameters)) == (
        nodes,
        operators,
        int(arrays),
    )
    assert model.graph.source.count_parts(model.graph.nodes)["node"] == nodes
    assert f", {model.graph.source.describe_parts(model.graph.nodes)}, " in repr(model)
    assert f"{arrays} arrays" in repr(model)
    assert f"{nodes} nodes" in repr(model.graph)
    report = json.loads(read_text(folder, "inspect", name, "--format", "json"))
    assert (report["nodes"], len(report["parameters"])) == (nodes, int(arrays))
    (row,) = [
        row
        for row in gs.inspect_folder(folder)
        if Path(row.graph).name.startswith(name.split(".")[0])
    ]
    assert (row.nodes, row.parameters, f"{row.numbers:,}") == (nodes, int(arrays), numbers)
    listed = gs.list_params(model.parameter_file.path if model.parameter_file else "")
    assert len(listed.arrays) == int(arrays)
    page = re.search(r'id="data">(.*?)</script>', gs.draw(model, to="html").text, re.S)
    assert page is not None
    drawn = json.loads(page[1])
    assert (sum(node["op"] != "variable" for node in drawn["nodes"]), len(drawn["parameters"])) == (
        operators,
        int(arrays),
    )
    with_shape = read_text(
        folder, "inspect", name, *(["--shape", "data=1,1,28,28"] if name == "lenet" else [])
    )
    assert find(with_shape, "parameters", r"([\d,]+) in (\d+) arrays?") == (numbers, arrays)


def test_a_checkpoint_folder_has_one_count_of_tensors_and_numbers(folder: Path) -> None:
    facts = gs.inspect_checkpoint(folder / "gpt")
    tensors, numbers = find(
        read_text(folder, "inspect", "gpt"), "tensors", r"(\d+): ([\d,]+) numbers"
    )
    assert (facts.tensors, f"{facts.numbers:,}") == (int(tensors), numbers)
    (row,) = [row for row in gs.inspect_folder(folder) if Path(row.graph).name == "gpt"]
    assert (row.parameters, f"{row.numbers:,}") == (int(tensors), numbers)
    assert len(gs.list_params(folder / "gpt").arrays) == int(tensors)
    assert re.search(rf"gpt +- +{numbers} ", read_text(folder, "inspect", "."))
