"""All outputs of a command are one transaction: on any error none of them is in place, and old
files are as they were.
"""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.checkpoint.save import (
    Outputs,
    find_stale,
    resolve_outputs,
    resolve_run_outputs,
    write_outputs,
    write_stdout,
    write_text,
)
from graphshare.files.atomic import OutputTransaction
from graphshare.files.paths import UsedFile, is_stem
from graphshare.formats.read_back import refuse_differences
from graphshare.resources import time_limit
from tests.processes import files_in, write_json, write_params
from tests.processes import graphshare as command
from tests.surroundings import ROOT
from tests.symbols import document, operator, variable

LENET = ROOT / "fixtures" / "lenet"


@pytest.fixture
def lenet() -> gs.Checkpoint:
    return gs.load(LENET)


def test_graph_parameters_map_and_arrays_are_written_together(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    paths = [str(tmp_path / name) for name in ("g.json", "p.safetensors", "m.json", "a.npz")]
    outputs = Outputs(*paths)
    write_outputs(outputs, gs.duplicate(lenet, "b-"), arrays={"y": np.arange(3)})
    assert outputs.files() == paths
    assert gs.load(paths[0], params=paths[1]).params["b-fc2_bias"].shape == (10,)
    assert np.load(paths[3])["y"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("broken", ["graph", "params", "map", "arrays"])
def test_one_output_that_cannot_be_written_leaves_all_as_they_were(
    lenet: gs.Checkpoint, tmp_path: Path, broken: str
) -> None:
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
    arguments = [
        "--seed",
        "0",
        "--shape",
        "data=1,1,28,28",
        "--sgd-steps",
        "1",
        "--params-out",
        "new.params",
    ]
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
    names = {"copied": ["shared", "shared"], "told apart": ["w", "w"]}.get(
        what, ["left/w", "right/w"]
    )
    nodes = [variable("x"), *map(variable, names[: 1 if what == "copied" else 2])]
    first = len(nodes)
    dense = {"num_hidden": "2", "no_bias": "True"}
    nodes += [
        operator("FullyConnected", f"{side}/fc", [0, place], attrs=dense)
        for side, place in (("left", 1), ("right", first - 1))
    ]
    write_json(tmp_path / "net-symbol.json", document(nodes, [first, first + 1]))
    write_params(tmp_path / "net-0000.params", [f"arg:{name}" for name in dict.fromkeys(names)])
    before = files_in(tmp_path)
    shared = gs.share(tmp_path / "net", **SHARED[what])
    with pytest.raises(
        gs.GraphshareError, match="the parameters get new names, so they need an output"
    ):
        gs.save(shared, tmp_path / "graph.json")
    assert files_in(tmp_path) == before
    gs.save(shared, tmp_path / "out")


def test_a_stem_has_no_suffix_and_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert [
        is_stem(str(tmp_path / name)) for name in ("a", "resnet-1.5", "a.json", "file", "folder")
    ] == [True, True, False, False, False]
    assert not is_stem("-")


def test_a_stem_names_the_parameters_of_the_same_epoch(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    gs.save(lenet, tmp_path / "a")
    (tmp_path / "a-0000.params").rename(tmp_path / "a-0012.params")
    outputs = resolve_outputs(gs.load(tmp_path / "a"), tmp_path / "b")
    assert outputs.params == str(tmp_path / "b-0012.params")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no time limits")
def test_a_time_limit_does_not_end_what_is_written(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    """The answer is there; a process that ends in the middle would leave new files beside old ones."""
    with time_limit(600):
        # Another thread has no limit, and leaves that of the main one alone
        with ThreadPoolExecutor() as pool:
            pool.submit(gs.save, lenet, tmp_path / "other").result()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        gs.save(lenet, tmp_path / "same")
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_written_file_that_the_system_cannot_read_is_an_error_of_the_output() -> None:
    """It is not a fault of the program, which a file is that reads back as something else."""

    def fail(cause: Exception | None) -> Iterator[gs.Fault]:
        raise gs.InputError("cannot be read: Input/output error") from cause
        yield

    with pytest.raises(
        gs.OutputError, match=r"out\.onnx: cannot be read: Input/output error; nothing was written"
    ):
        refuse_differences(lambda: fail(OSError(5, "Input/output error")), where="out.onnx")
    with pytest.raises(gs.SelfCheckError, match="this is a bug in graphshare"):
        refuse_differences(lambda: fail(None), where="out.onnx")


def test_a_parameter_file_that_is_left_beside_a_new_graph_is_noted(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    gs.save(lenet, tmp_path / "net")
    (tmp_path / "net-0003.params").write_bytes(b"damaged")
    renamed = gs.rename(lenet, prefix="x_")
    outputs = Outputs(str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0007.params"))
    notes = list(find_stale(outputs, renamed))
    words = "was there before and does not fit the new net-symbol.json: it "
    for note, name in zip(notes, ("net-0000.params", "net-0003.params"), strict=True):
        assert note.startswith(f"{tmp_path / name} {words}")
    assert "lacks parameters of the graph: x_conv1_weight" in notes[0]
    assert "ends after 7 bytes" in notes[1] or "is not a parameter file" in notes[1]
    own = Outputs(str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params"))
    assert len(list(find_stale(own, renamed))) == 1
    assert len(list(find_stale(own, lenet))) == 1
    for graph in (
        str(tmp_path / "other-symbol.json"),
        str(tmp_path / "net.json"),
        "memory://net-symbol.json",
    ):
        assert not list(find_stale(Outputs(graph), renamed))


def test_in_place_means_the_files_that_a_model_came_from(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    gs.save(lenet, tmp_path / "net")
    graph, params = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    model = gs.load(tmp_path / "net")
    renamed = gs.rename(model, prefix="x_")
    for out in (None, graph):
        outputs = resolve_outputs(renamed, out, in_place=True)
        assert (outputs.graph, outputs.params, outputs.in_place) == (graph, params, True)
    other = str(tmp_path / "new.params")
    assert resolve_outputs(renamed, None, other, in_place=True).params == other
    elsewhere = resolve_outputs(renamed, tmp_path / "b", in_place=True)
    assert (elsewhere.graph, elsewhere.params) == (
        str(tmp_path / "b-symbol.json"),
        str(tmp_path / "b-0000.params"),
    )
    assert resolve_run_outputs(model, "", in_place=True).params == params
    assert resolve_run_outputs(model, "", other, in_place=True).params == other
    with pytest.raises(gs.UsageError, match="replaces the parameter file, and there is none"):
        resolve_run_outputs(gs.load(graph), "", in_place=True)
    both = gs.group([model, gs.load(tmp_path / "net")], prefixes=["a-", "b-"])
    with pytest.raises(gs.UsageError, match="2 graphs are read, and `in_place` replaces one"):
        resolve_outputs(both, None, in_place=True)
    with pytest.raises(gs.UsageError, match="the graph comes from none"):
        resolve_outputs(gs.Checkpoint(model.graph), None, in_place=True)
    onnx = gs.load(ROOT / "fixtures" / "small.onnx")
    outputs = resolve_outputs(onnx, None, in_place=True)
    assert (outputs.graph, outputs.params) == (onnx.where, "")


def test_a_directory_gives_outputs_the_name_of_their_model(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    gs.save(lenet, tmp_path / "net")
    (tmp_path / "net-0000.params").rename(tmp_path / "net-0012.params")
    (tmp_path / "out").mkdir()
    out = str(tmp_path / "out")
    model = gs.load(tmp_path / "net")
    outputs = resolve_outputs(model, out, map=out)
    names = ("net-symbol.json", "net-0012.params", "net-map.json")
    assert (outputs.graph, outputs.params, outputs.map) == tuple(
        str(tmp_path / "out" / name) for name in names
    )
    outputs = resolve_run_outputs(model, out, out)
    assert (outputs.arrays, outputs.params) == tuple(
        str(tmp_path / "out" / name) for name in ("net.npz", "net-0012.params")
    )
    gs.save(model, tmp_path / "x.json", params=tmp_path / "x.safetensors")
    model = gs.load(tmp_path / "x.json", params=tmp_path / "x.safetensors")
    assert resolve_outputs(model, tmp_path / "y.json", out).params == str(
        tmp_path / "out" / "x-0000.safetensors"
    )
    for where, words in (("", "no file"), ("<stdin>", "stdin")):
        with pytest.raises(
            gs.UsageError,
            match=f"the graph comes from {words}, so it has no name in this directory",
        ):
            resolve_outputs(gs.Checkpoint(lenet.graph, where=where), out)
    with pytest.raises(
        gs.UsageError, match="is the path of an ONNX model, but a symbol file is written"
    ):
        resolve_outputs(model, tmp_path / "y.onnx")
    assert resolve_outputs(model, None).graph == resolve_outputs(model, "-").graph == "-"


def test_a_report_is_written_by_itself_or_with_others(tmp_path: Path) -> None:
    write_text(str(tmp_path / "a"), b"1")
    with OutputTransaction() as stage:
        stage.open(tmp_path / "b").write(b"2")
        write_text(str(tmp_path / "c"), b"3", stage=stage)
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"1", b"2", b"3"]
    with pytest.raises(gs.RefusedError, match="is also an input"):
        write_text(str(tmp_path / "a"), b"4", inputs=[UsedFile(str(tmp_path / "a"), "graph")])


def test_stdout_is_written_whole_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []

    class Slow(io.RawIOBase):
        def write(self, data: Any, /) -> int:
            taken.append(bytes(data[:3]))
            return min(len(data), 3)

    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=Slow()))
    write_stdout([b"01234", b"56"])
    assert taken == [b"012", b"34", b"56"]
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=SimpleNamespace(write=lambda data: 0)))
    with pytest.raises(gs.OutputError, match="<stdout>: cannot be written"):
        write_stdout([b"0"])
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(gs.OutputError, match="<stdout>: is closed"):
        write_stdout([b"0"])


@pytest.mark.parametrize(("is_np_shape", "layout"), [(None, "V2"), (0, "V2"), (1, "V3")])
def test_new_arrays_of_a_graph_in_np_shape_are_written_as_v3(
    is_np_shape: int | None, layout: str, tmp_path: Path
) -> None:
    found = document([variable("x"), variable("w"), operator("elemwise_add", "y", [0, 1])], [2])
    if is_np_shape is not None:
        found["attrs"]["is_np_shape"] = ["int", is_np_shape]
    write_json(tmp_path / "a-symbol.json", found)
    model = gs.load(tmp_path / "a-symbol.json").with_params({"w": np.ones(2, "float32")})
    gs.save(model, tmp_path / "b")
    file = gs.load(tmp_path / "b").parameter_file
    assert file is not None
    assert [(record.key, record.layout) for record in file.records] == [("arg:w", layout)]
