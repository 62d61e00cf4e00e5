"""All outputs of a command are one transaction: on any error none of them is in place, and old files are as they were."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.checkpoint.save import Outputs, resolve_outputs, write_outputs
from graphshare.files.paths import is_stem
from graphshare.formats.model_format import refuse_differences
from graphshare.resources import time_limit
from tests.processes import files_in, write_json, write_params
from tests.processes import graphshare as command
from tests.surroundings import ROOT
from tests.symbols import document, operator, variable

LENET = ROOT / "fixtures" / "lenet"


@pytest.fixture
def lenet() -> gs.Checkpoint:
    return gs.load(LENET)


def test_graph_parameters_map_and_arrays_are_written_together(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("g.json", "p.safetensors", "m.json", "a.npz")]
    outputs = Outputs(*paths)
    write_outputs(outputs, gs.duplicate(lenet, "b-"), arrays={"y": np.arange(3)})
    assert outputs.files() == paths
    assert gs.load(paths[0], params=paths[1]).params["b-fc2_bias"].shape == (10,)
    assert np.load(paths[3])["y"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("broken", ["graph", "params", "map", "arrays"])
def test_one_output_that_cannot_be_written_leaves_all_as_they_were(lenet: gs.Checkpoint, tmp_path: Path, broken: str) -> None:
    places = {name: str(tmp_path / f"{name}.npz") for name in ("graph", "params", "map", "arrays")}
    for path in places.values():
        Path(path).write_text("old")
    places[broken] = str(tmp_path / "no" / "such" / "folder.npz")
    before = files_in(tmp_path)
    with pytest.raises(gs.GraphshareError, match="folder"):
        write_outputs(Outputs(**places), gs.duplicate(lenet, "b-"), arrays={"y": np.arange(3)})
    assert files_in(tmp_path) == before
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}


def test_trained_parameters_and_outputs_of_run_are_one_transaction(tmp_path: Path) -> None:
    arguments = ["--seed", "0", "--shape", "data=1,1,28,28", "--sgd-steps", "1", "--params-out", "new.params"]
    failed = command("run", LENET, *arguments, "-o", "no/such/folder.npz", cwd=tmp_path)
    assert failed.returncode == 2
    assert b"no/such/folder.npz" in failed.stderr
    assert files_in(tmp_path) == []


def test_parameters_with_new_names_need_a_place(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    renamed = gs.rename(lenet, prefix="x_")
    with pytest.raises(gs.GraphshareError, match="so they need an output"):
        gs.save(renamed, tmp_path / "x.json")
    with pytest.raises(gs.GraphshareError, match="there is no parameter file"):
        gs.save(gs.Checkpoint(lenet.graph), tmp_path / "x.json", params=tmp_path / "x.params")
    with pytest.raises(gs.GraphshareError, match="map"):
        gs.save(renamed, tmp_path / "x", map="-")
    assert files_in(tmp_path) == []
    tied = gs.duplicate(lenet, "x-", mode="tie")
    assert gs.save(tied, tmp_path / "tied.json").files() == [str(tmp_path / "tied.json")]


SHARED = {
    "tied": {"overrides": {"right": "left"}},
    "renamed": {"overrides": {"right": "third"}},
    "copied": {"untie": ["shared"]},
    "told apart": {"doctor": "separate"},
}


@pytest.mark.parametrize("what", SHARED)
def test_sharing_that_changes_names_needs_a_place_for_parameters(what: str, tmp_path: Path) -> None:
    """Each change alone does."""
    names = {"copied": ["shared", "shared"], "told apart": ["w", "w"]}.get(what, ["left/w", "right/w"])
    nodes = [variable("x"), *map(variable, names[: 1 if what == "copied" else 2])]
    first = len(nodes)
    dense = {"num_hidden": "2", "no_bias": "True"}
    nodes += [
        operator("FullyConnected", f"{side}/fc", [0, place], attrs=dense) for side, place in (("left", 1), ("right", first - 1))
    ]
    write_json(tmp_path / "net-symbol.json", document(nodes, [first, first + 1]))
    write_params(tmp_path / "net-0000.params", [f"arg:{name}" for name in dict.fromkeys(names)])
    before = files_in(tmp_path)
    shared = gs.share(tmp_path / "net", **SHARED[what])
    with pytest.raises(gs.GraphshareError, match="the parameters get new names, so they need an output"):
        gs.save(shared, tmp_path / "graph.json")
    assert files_in(tmp_path) == before
    gs.save(shared, tmp_path / "out")


def test_a_stem_has_no_suffix_and_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert [is_stem(str(tmp_path / name)) for name in ("a", "resnet-1.5", "a.json", "file", "folder")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not is_stem("-")


def test_a_stem_names_the_parameters_of_the_same_epoch(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    gs.save(lenet, tmp_path / "a")
    (tmp_path / "a-0000.params").rename(tmp_path / "a-0012.params")
    outputs = resolve_outputs(gs.load(tmp_path / "a"), tmp_path / "b")
    assert outputs.params == str(tmp_path / "b-0012.params")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no time limits")
def test_a_time_limit_does_not_end_what_is_written(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    """The answer is there; a process that ends in the middle would leave new files beside old ones."""
    with time_limit(600):
        with ThreadPoolExecutor() as pool:  # another thread has no limit, and leaves that of the main one alone
            pool.submit(gs.save, lenet, tmp_path / "other").result()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        gs.save(lenet, tmp_path / "same")
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_written_file_that_the_system_cannot_read_is_an_error_of_the_output() -> None:
    """It is not a fault of the program, which a file is that reads back as something else."""

    def fail(cause: Exception | None) -> Iterator[gs.Fault]:
        raise gs.InputError("cannot be read: Input/output error") from cause
        yield

    with pytest.raises(gs.OutputError, match=r"out\.onnx: cannot be read: Input/output error; nothing was written"):
        refuse_differences(lambda: fail(OSError(5, "Input/output error")), where="out.onnx")
    with pytest.raises(gs.SelfCheckError, match="this is a bug in graphshare"):
        refuse_differences(lambda: fail(None), where="out.onnx")
