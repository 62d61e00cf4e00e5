"""A ``file://`` URL is a path for every function, without fsspec: for a folder, a glob or an output."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import graphshare as gs
from tests import pictures
from tests.surroundings import ROOT

Place = Callable[[str], str]
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


@pytest.mark.parametrize(
    "function", [export, inspect_folder, inspect_shared, compare, run_fleet, open_images]
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
