"""The command of each model, and where its outputs are placed: always below the folder of the outputs."""

from __future__ import annotations

import os

import pytest

from graphshare.errors import RefusedError
from graphshare.fleet.records import FleetModel
from graphshare.fleet.tasks import Template, leads_outside, make_task, refuse_escapes

LENET = FleetModel("in/sub/lenet-symbol.json", "in/sub/lenet-0003.params", 3)
BARE = FleetModel("in/sub/lenet-symbol.json", "", 3)
DASH = FleetModel("-x-symbol.json", "", 0)
NET = FleetModel("in/net.onnx", "", 3)
ALL = (("--out", "graph"), ("--params-out", "params"), ("--map-out", "map"))


@pytest.mark.parametrize(
    ("template", "model", "words"),
    [
        (Template(("check", "{}")), LENET, "check in/sub/lenet-symbol.json"),
        (Template(("check", "{stem}", "{name}.x")), LENET, "check in/sub/lenet lenet.x"),
        (
            Template(("rename", "{}"), ALL, takes_params=True),
            LENET,
            (
                "rename in/sub/lenet-symbol.json --params in/sub/lenet-0003.params --out o/sub/lenet-symbol.json "
                "--params-out o/sub/lenet-0003.params --map-out o/sub/lenet-map.json"
            ),
        ),
        (
            Template(("rename", "{}"), ALL, takes_params=True),
            BARE,
            "rename in/sub/lenet-symbol.json --out o/sub/lenet-symbol.json --map-out o/sub/lenet-map.json",
        ),
        (Template(("rename", "{}"), takes_params=False), LENET, "rename in/sub/lenet-symbol.json"),
        (
            Template(("pool", "--", "{}"), (("-o", "folder"),), extra=("--format", "json")),
            LENET,
            "pool -o o/sub --format json -- in/sub/lenet-symbol.json",
        ),
        (
            Template(("run", "{}"), (("-o", ".npz"),), subject="stem"),
            LENET,
            "run in/sub/lenet -o o/sub/lenet.npz",
        ),
        (
            Template(("params", "list", "{}"), subject="params"),
            LENET,
            "params list in/sub/lenet-0003.params",
        ),
        (
            Template(("params", "list", "{}"), subject="params"),
            BARE,
            "params list in/sub/lenet-symbol.json",
        ),
        (Template(("run", "{}"), subject="stem"), NET, "run in/net.onnx"),
        (
            Template(("fold", "{}"), ALL),
            NET,
            "fold in/net.onnx --out o/net.onnx --map-out o/net-map.json",
        ),
        (
            Template(("fold", "{}"), ALL[2:], has_exports=True),
            NET,
            "fold in/net.onnx --map-out o/net.onnx-map.json",
        ),
        (
            Template(("fold", "{}"), ALL[2:], has_exports=True),
            BARE,
            "fold in/sub/lenet-symbol.json --map-out o/sub/lenet-map.json",
        ),
        (
            Template(("a", "{}", "{stem}.x", "--b={}", "-{}")),
            DASH,
            "a ./-x-symbol.json ./-x.x --b=-x-symbol.json --x-symbol.json",
        ),
        (Template(("-a", "{}")), LENET, "-a in/sub/lenet-symbol.json"),
    ],
)
def test_the_command_of_a_model(template: Template, model: FleetModel, words: str) -> None:
    task = make_task(template, model, "o")
    assert task.words == tuple(words.split())
    assert (task.model, task.command) == (model, template.words)


def test_the_folder_of_an_output_in_the_folder_of_the_caller() -> None:
    assert make_task(Template(("pool", "{}"), (("-o", "folder"),)), DASH, "").words == (
        "pool",
        "./-x-symbol.json",
        "-o",
        ".",
    )


def test_names_that_mean_other_folders_on_windows_are_refused_for_local_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template, models = (
        Template(("x", "{}"), (("-o", "graph"),)),
        [FleetModel(f"m/C:{i}-symbol.json", "", 2) for i in range(7)],
    )
    refuse_escapes(template, models, "out")
    monkeypatch.setattr(os, "name", "nt")
    refuse_escapes(template, models, "s3://bucket/out")
    refuse_escapes(Template(("x", "{}")), models, "out")
    with pytest.raises(RefusedError) as raised:
        refuse_escapes(template, models, "out")
    monkeypatch.undo()
    assert [str(fault) for fault in raised.value.faults] == [
        f"m/C:{i}-symbol.json: its outputs would be outside of out" for i in range(5)
    ]


@pytest.mark.parametrize("relative", ["../up", "m/../../up", "m/..", "/up", "//up", ".."])
def test_paths_that_lead_out_of_a_folder(relative: str) -> None:
    assert leads_outside(relative, on_windows=False)
    assert leads_outside(relative, on_windows=True)


@pytest.mark.parametrize(
    "relative",
    ["..\\up", "m/..\\..\\up", "\\up", "\\\\host\\share\\up", "C:up", "c:/up", "m/C:up", "a\\b"],
)
def test_paths_that_lead_out_of_a_folder_on_windows_alone(relative: str) -> None:
    assert leads_outside(relative, on_windows=True)
    assert not leads_outside(relative, on_windows=False)


@pytest.mark.parametrize(
    "relative", ["a", "a/b", "..a", "a..", "a/...", ".a/b", "./a", "a:b/c" * 9, "ab:c"]
)
def test_paths_that_stay_in_a_folder(relative: str) -> None:
    assert not leads_outside(relative, on_windows=False)


def test_names_of_windows_that_have_a_colon_later() -> None:
    assert not leads_outside("ab:c/d", on_windows=True)
