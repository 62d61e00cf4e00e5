"""Models whose file of weights is absent: what reads no weight works, with one note, and the rest
is refused by name.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.files.schema import find_violations
from tests.onnx_files.made import MADE
from tests.processes import done, files_in, graphshare, in_process, refused

onnx = pytest.importorskip("onnx")

NOTE = "warning: m.onnx: has no weights (./w.bin does not exist); what does not read them works"
WORKS = {
    "inspect": "inspect m.onnx",
    "shapes": "inspect m.onnx --names",
    "json": "inspect m.onnx --format json",
    "rename": "rename m.onnx --prefix p_ -o r.onnx",
    "extract": "extract m.onnx --target out -o e.onnx",
    "duplicate": "duplicate m.onnx --prefix b_ --mode tie -o d.onnx",
    "copies": "duplicate m.onnx --prefix b_ -o d.onnx",
    "group": "group m.onnx m.onnx --prefix a_ --prefix b_ -o g.onnx",
    "fold": "fold m.onnx -o f.onnx",
}
REFUSED = ("run m.onnx --seed 0", "compare m.onnx m2.onnx", "params stats m.onnx", "params diff m.onnx m.onnx",
           "params convert m.onnx w.npz", "pool m.onnx m2.onnx -o pool",
           "rename m.onnx --prefix p_ -o sub/r.onnx")  # fmt: skip


REASONS = ("does not exist", "is too short", "has 20 bytes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose weight is in ``w.bin``, which is absent, and the same model under the name ``m2.onnx``."""
    for name in ("m.onnx", "m2.onnx"):
        (tmp_path / name).write_bytes(MADE["external"]().SerializeToString())
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize("what", WORKS)
def test_what_reads_no_weight_works_with_one_note(what: str, folder: Path) -> None:
    run = done(in_process(*WORKS[what].split(), cwd=folder))
    assert [line for line in run.stderr.decode().splitlines() if "w.bin" in line][:1] == [NOTE]
    assert run.stderr.decode().count("has no weights") == (2 if what == "group" else 1)


def test_a_picture_needs_no_weights(folder: Path) -> None:
    done(in_process("draw", "m.onnx", "-o", "m.mmd", cwd=folder))
    picture = (folder / "m.mmd").read_text(encoding="utf-8")
    assert all(
        node.op_type in picture
        for node in onnx.load(folder / "m.onnx", load_external_data=False).graph.node
    )
    run = done(in_process("draw", "m.onnx", "-o", "m.html", cwd=folder))
    assert (
        run.stderr.decode().splitlines()[0]
        == "drawn without the values of weights: ./w.bin does not exist"
    )


def test_a_rename_and_back_gives_the_same_bytes(folder: Path) -> None:
    done(
        in_process(
            "rename",
            "m.onnx",
            "--prefix",
            "p_",
            "--map-out",
            "map.json",
            "-o",
            "r.onnx",
            cwd=folder,
        )
    )
    done(
        in_process(
            "rename", "r.onnx", "--map", "map.json", "--inverse", "-o", "back.onnx", cwd=folder
        )
    )
    assert (folder / "back.onnx").read_bytes() == (folder / "m.onnx").read_bytes()
    tensor = onnx.load(folder / "r.onnx", load_external_data=False).graph.initializer[0]
    assert {pair.key: pair.value for pair in tensor.external_data}["location"] == "w.bin"


@pytest.mark.parametrize("line", REFUSED)
def test_what_reads_the_weights_is_refused_by_the_name_of_the_file(line: str, folder: Path) -> None:
    before = files_in(folder)
    run = graphshare(*line.split(), cwd=folder)
    assert run.returncode == 2
    assert any(
        f"w.bin{between} {reason}" in run.stderr.decode().split("error:")[1]
        for between in ("", ":")
        for reason in REASONS
    )
    assert files_in(folder) == before


def test_weights_that_are_given_are_not_missed(folder: Path) -> None:
    tensor = onnx.load(folder / "m.onnx", load_external_data=False).graph.initializer[0]
    model = gs.load(folder / "m.onnx").with_params(
        {tensor.name: np.ones(tuple(tensor.dims), "float32")}
    )
    gs.save(model, folder / "whole.onnx")
    assert gs.load(folder / "whole.onnx").params[tensor.name].sum() == np.prod(tuple(tensor.dims))
    done(graphshare("run", "whole.onnx", "--seed", "0", cwd=folder))


def test_there_is_one_finding_for_a_file_however_many_tensors_it_has(folder: Path) -> None:
    model = MADE["external"]()
    for number in range(300):
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(model.graph.initializer[0])
        tensor.name = f"more{number}"
    (folder / "many.onnx").write_bytes(model.SerializeToString())
    run = in_process("check", "many.onnx", "--select", "GS607", "--format", "json", cwd=folder)
    (finding,) = json.loads(run.stdout)["findings"]
    assert "initializer 'w', initializer 'more0'" in finding["message"]
    assert finding["message"].endswith("and 297 more is missing: ./w.bin does not exist")


def test_a_difference_says_what_was_not_compared(folder: Path) -> None:
    assert done(in_process("diff", "m.onnx", "m2.onnx", cwd=folder)).stdout.decode().splitlines()[
        -1
    ] == (
        "SAME: the graphs and their parameters"  # of one place in one file
    )
    (folder / "sub" / "m.onnx").write_bytes((folder / "m.onnx").read_bytes())
    run = done(in_process("diff", "m.onnx", "sub/m.onnx", cwd=folder))
    assert (
        run.stdout.decode().splitlines()[-1]
        == "SAME: the graphs; 1 parameter not compared: the values are missing"
    )
    found = json.loads(
        done(in_process("diff", "m.onnx", "sub/m.onnx", "--format", "json", cwd=folder)).stdout
    )
    assert find_violations(found, "diff") == []
    assert found["parameters"]["missing"] == ["w"]
    done(in_process("rename", "sub/m.onnx", "h=z", "-o", "sub/n.onnx", cwd=folder))
    run = in_process("diff", "m.onnx", "sub/n.onnx", cwd=folder)
    assert (run.returncode, run.stdout.decode().splitlines()[-1]) == (
        1,
        "DIFFERENT: 1 node renamed; 1 parameter not compared: the values are missing",
    )


@pytest.mark.parametrize("what", WORKS)
def test_a_file_that_is_too_short_is_missing_as_well(what: str, folder: Path) -> None:
    """A download that was cut off is one."""
    (folder / "w.bin").write_bytes(bytes(20))
    run = done(in_process(*WORKS[what].split(), cwd=folder))
    assert NOTE.replace("does not exist", "is too short") in run.stderr.decode().splitlines()


@pytest.mark.parametrize("line", REFUSED)
def test_weights_that_are_cut_off_are_not_read(line: str, folder: Path) -> None:
    (folder / "w.bin").write_bytes(bytes(20))
    test_what_reads_the_weights_is_refused_by_the_name_of_the_file(line, folder)


def test_an_offset_beyond_the_end_takes_no_memory(folder: Path) -> None:
    (folder / "w.bin").write_bytes(bytes(64))
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    next(
        pair for pair in model.graph.initializer[0].external_data if pair.key == "offset"
    ).value = str(1 << 60)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    done(in_process("rename", "m.onnx", "--prefix", "p_", "-o", "r.onnx", cwd=folder))
    refused(
        in_process("run", "m.onnx", "--seed", "0", cwd=folder),
        "has 64 bytes, and the data ends at byte",
    )


def test_weights_before_the_start_of_a_file_are_refused(folder: Path) -> None:
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    next(
        pair for pair in model.graph.initializer[0].external_data if pair.key == "offset"
    ).value = "-1"
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    refused(in_process("inspect", "m.onnx", cwd=folder), "external data is at byte -1 of 'w.bin'")


def test_the_case_of_adapters_that_come_later(cases: Path, tmp_path: Path) -> None:
    source = cases / "types" / "olive.onnx"
    (tmp_path / "m.onnx").write_bytes(source.read_bytes())
    lines = (
        "inspect m.onnx",
        "rename m.onnx -p p_ -o r.onnx",
        "diff m.onnx m.onnx",
        "extract m.onnx --target s -o e.onnx",
    )
    for line in lines:
        done(in_process(*line.split(), cwd=tmp_path))
    run = in_process("check", "m.onnx", cwd=tmp_path)
    assert run.stdout.decode().count("GS607") == 1
