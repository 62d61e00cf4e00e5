"""Models, bound models, results and errors survive a pickle and a copy; files that changed meanwhile are refused."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import InputError, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.formats.onnx import stored
from tests.surroundings import ROOT
from tests.unit.api.test_repr import residual_chain

Copy = Callable[[Any], Any]


def pickle_and_load(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


COPIES = [pytest.param(pickle_and_load, id="pickle"), pytest.param(copy.deepcopy, id="deepcopy")]
X = np.linspace(-1, 1, 28 * 28, dtype=np.float32).reshape(1, 1, 28, 28)
FILES = {"lenet": "lenet-0000.params", "small.onnx": "small.onnx"}
"""What is loaded, and the file of its parameters."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params", "small.onnx"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return tmp_path


def variants(model: gs.Checkpoint) -> dict[str, gs.Checkpoint]:
    name, array = next(iter(model.params.items()))
    tied = gs.duplicate(model, "sha-", mode="tie")
    return {"loaded": model, "rewritten": tied, "changed": tied.with_params({name: array + 1})}


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("source", FILES)
@pytest.mark.parametrize("variant", ["loaded", "rewritten", "changed"])
def test_a_model_is_the_same_afterwards(
    source: str, variant: str, again: Copy, folder: Path
) -> None:
    model = variants(gs.load(folder / source))[variant]
    other = again(model)
    assert other.graph is not model.graph
    assert [node.name for node in other.graph.nodes] == [node.name for node in model.graph.nodes]
    assert not gs.diff(model, other)
    assert all(np.array_equal(other.params[name], array) for name, array in model.params.items())
    assert b"".join(find_format(model.graph).encode(model.graph)) == b"".join(
        find_format(other.graph).encode(other.graph)
    )
    assert (other.where, other.stem, other.data, other.notes) == (
        model.where,
        model.stem,
        model.data,
        model.notes,
    )


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("source", FILES)
def test_a_rewritten_model_remembers_its_branches(source: str, again: Copy, folder: Path) -> None:
    siamese = again(gs.duplicate(gs.load(folder / source), "sha-", mode="tie"))
    assert siamese.rewrite.graph is siamese.graph
    assert siamese.rewrite.branches[0].source is siamese.sources[0].graph
    assert gs.verify(siamese)
    assert gs.verify(gs.rename(siamese, prefix="net_"))


@pytest.mark.parametrize("again", COPIES)
def test_a_model_in_memory_needs_no_file(again: Copy, folder: Path) -> None:
    model = gs.load(folder / "lenet-symbol.json")
    arrays = {name: np.asarray(array) for name, array in gs.load(folder / "lenet").params.items()}
    held = pickle.dumps(model.with_params(arrays))
    want = gs.run(gs.load(folder / "lenet"), feeds={"data": X})
    for path in folder.iterdir():
        path.unlink()
    assert gs.run(again(pickle.loads(held)), feeds={"data": X}) == want


@pytest.mark.parametrize("again", COPIES)
def test_a_model_exported_in_memory(again: Copy, folder: Path) -> None:
    model = gs.export(gs.load(folder / "lenet"), shapes={"data": X.shape})
    other = again(model)
    assert other.report == model.report
    gs.save(other, folder / "again.onnx")
    assert gs.compare(folder / "again.onnx", model)


@pytest.mark.parametrize("again", COPIES)
def test_a_large_onnx_file_is_read_where_it_is(
    again: Copy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "_LARGE", 1)
    model = gs.load(folder / "small.onnx")
    assert not gs.diff(model, again(model))


@pytest.mark.parametrize("variant", ["loaded", "rewritten", "changed"])
@pytest.mark.parametrize("source", FILES)
def test_a_file_that_changed_is_refused_by_name(source: str, variant: str, folder: Path) -> None:
    model = variants(gs.load(folder / source))[variant]
    held = pickle.dumps(model)
    path = folder / FILES[source]
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    for again in (lambda: pickle.loads(held), lambda: copy.deepcopy(model)):
        with pytest.raises(InputError) as caught:
            again()
        (fault,) = caught.value.faults
        assert fault.where == str(path)
        assert (fault.message, "load the model again" in fault.hint) == (
            "changed since it was indexed",
            True,
        )
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        pickle.loads(held)


def test_a_long_chain_is_pickled_without_recursion() -> None:
    siamese = gs.duplicate(residual_chain(5000), "sha-")
    for again in (pickle_and_load, copy.deepcopy):
        assert len(again(siamese).graph.nodes) == len(siamese.graph.nodes)


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("again", [*COPIES, pytest.param(copy.copy, id="copy")])
def test_a_bound_model_is_bound_again(engine: str, again: Copy, folder: Path) -> None:
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    net = gs.bind(gs.load(folder / "lenet"), targets="fc1_output", engine=engine)
    want = net(X)["fc1_output"]
    other = again(net)
    assert other is not net
    assert np.array_equal(other(X)["fc1_output"], want)
    assert len(pickle.dumps(net)) < 20_000  # its arrays are not in it
    held = pickle.dumps(net)
    (folder / "lenet-0000.params").unlink()
    with pytest.raises(InputError, match=r"lenet-0000\.params: does not exist"):
        pickle.loads(held)


def test_an_array_without_a_name_is_the_only_input(folder: Path) -> None:
    model = gs.load(folder / "lenet")
    net = gs.bind(model)
    for outputs in (net(X), net(X.tolist()), net({"data": X})):
        assert np.array_equal(outputs["softmax_output"], net(data=X)["softmax_output"])
    with pytest.raises(RefusedError) as caught:
        gs.bind(gs.duplicate(model, "sha-"))(X)
    assert caught.value.faults[0].hint == "name them: net({'data': ..., 'sha-data': ...})"


def summarize(net: gs.Bound) -> float:
    return float(net(X)["softmax_output"].max())


def fail(stem: str) -> None:
    gs.extract(gs.load(stem), ["fc3_output"])


def test_worker_processes_take_models_and_raise_errors_as_they_are(folder: Path) -> None:
    net = gs.bind(gs.load(folder / "lenet"))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(summarize, [net, net])) == [summarize(net)] * 2
        with pytest.raises(RefusedError) as caught:
            pool.submit(fail, str(folder / "lenet")).result()
    assert "did you mean" in caught.value.faults[0].hint
