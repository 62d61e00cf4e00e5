"""A ``file://`` URL is a path for every function, without fsspec: for a folder, a glob or an output."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

import graphshare as gs
from tests import pictures
from tests.surroundings import ROOT

Place = Callable[[str], str]
LENET, SMALL = ROOT / "fixtures" / "lenet", ROOT / "fixtures" / "small.onnx"
SHAPES = {"data": (1, 1, 28, 28)}


def export(place: Place) -> object:
    exported = gs.export(gs.load(place("lenet")), out=place(""), shapes=SHAPES)
    return exported.where


def inspect_folder(place: Place) -> object:
    return [facts.graph for facts in gs.inspect_folder(place(""))]


def inspect_shared(place: Place) -> object:
    return gs.inspect_shared(place("")).weights


def compare(place: Place) -> object:
    return bool(gs.compare(place("small.onnx"), place("small.onnx"), reduce=place("part")))


def run_fleet(place: Place) -> object:
    words = ["rename", "{}", "--prefix", "a-"]
    with gs.foreach([place("*-symbol.json")], words, out=place("out")) as fleet:
        return [result.outputs for result in fleet]


def open_images(place: Place) -> object:
    return repr(gs.open_images(place("images")))


def reshape(place: Place) -> object:
    path = place("net.onnx")
    gs.export(gs.load(place("lenet")), out=path, shapes=SHAPES, verify=False)
    report = gs.reshape(path, dynamic_batch=True, witness=path).report
    return [verdict for _, verdict in report.proof.witnesses]  # type: ignore[union-attr]


def check(place: Place) -> object:
    """Any collection of paths is one, however it is stored."""
    path = place("lenet-symbol.json")
    collections = [{path: None}.keys(), {0: path}.values(), deque([path]), {path}, iter((path,))]
    return [len(gs.check(each).files) for each in collections]


@pytest.mark.parametrize(
    "function",
    [export, inspect_folder, inspect_shared, compare, run_fleet, open_images, reshape, check],
)
def test_a_file_url_means_the_same_as_its_path(
    function: Callable[[Place], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for name in ("lenet-symbol.json", "lenet-0000.params", "small.onnx"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    (tmp_path / "images").mkdir()
    pictures.save(tmp_path / "images" / "photo.png", pictures.texture(30, 40))
    assert function(lambda name: f"{tmp_path.as_uri()}/{name}") == function(
        lambda name: f"{tmp_path}/{name}"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: gs.draw(SMALL, highlight="file://"),
        lambda: gs.check(SMALL, config="file://"),
        lambda: gs.compare(SMALL, SMALL, reduce="file://"),
        lambda: gs.export(gs.load(LENET), out="file://", shapes=SHAPES),
        lambda: gs.check(["file:///a%00b"]),
    ],
)
def test_a_file_url_of_no_path_is_refused_as_an_empty_path_is(call: Callable[[], object]) -> None:
    with pytest.raises(gs.UsageError, match="cannot"):
        call()
