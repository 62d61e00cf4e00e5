"""The files that GRAPH and FILE mean: paths, stems, epochs and stdin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.checkpoint import load
from graphshare.checkpoint.load import (
    check_variable_names,
    find_both_params,
    find_params,
    graph_path,
    list_siblings,
    load_both,
    read_graph,
    sibling_params,
)
from graphshare.errors import Fault, InputError, RefusedError, UsageError
from graphshare.formats.model_names import FORMAT_NAMES
from graphshare.ir.graph import Node
from tests import paddle_programs
from tests.surroundings import ROOT

MXNET = FORMAT_NAMES["mxnet"]
LENET = ROOT / "fixtures" / "lenet"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models, of which one has two epochs, and an ONNX model."""
    monkeypatch.chdir(tmp_path)
    for stem in ("net", "net-large"):
        gs.save(gs.load(LENET), stem)
    Path("net-0012.params").write_bytes(Path("net-0000.params").read_bytes())
    Path("small.onnx").write_bytes((ROOT / "fixtures" / "small.onnx").read_bytes())
    Path("sub").mkdir()
    Path("net-0x.params").touch()
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_graph_is_a_file_or_a_stem() -> None:
    assert [graph_path(source) for source in ("net", "net-symbol.json", "small", "small.onnx", "-")] == [
        ("net-symbol.json", "net"), ("net-symbol.json", ""), ("small.onnx", "small"), ("small.onnx", ""), ("<stdin>", "")
    ]  # fmt: skip
    # No request: reading it tells whether it is there
    assert graph_path("memory://a/b.onnx") == ("memory://a/b.onnx", "")
    for source, words in (
        ("sub", "sub: is a directory"),
        ("nett", "did you mean 'net'?"),
        ("net-0000.params.x", "does not exist"),
        ("gone/net", "the directory 'gone' does not exist"),
        ("sub/x", "and no sub/x-symbol.json, sub/x.onnx, sub/x.json beside sub/x.pdiparams"),
    ):
        with pytest.raises(InputError) as caught:
            graph_path(source)
        assert words in f"{caught.value.faults[0]}\n{caught.value.faults[0].hint}"


@pytest.mark.usefixtures("folder")
def test_a_stem_of_two_models_is_refused_unless_one_is_a_symbol_file() -> None:
    """paddle2onnx writes its model beside the program: which of them is meant is not for us to say."""
    program, arrays = paddle_programs.dense()
    program.save(Path(), arrays, "small")
    with pytest.raises(UsageError, match=r"small: names 2 models: small.onnx, small.json"):
        gs.load("small")
    assert gs.load("small.json").parameter_file is not None
    assert gs.load("small.onnx").where == "small.onnx"
    program.save(Path(), arrays, "net")
    assert gs.load("net", epoch=12).where == "net-symbol.json"


@pytest.mark.usefixtures("folder")
def test_a_stem_has_the_parameters_of_one_epoch() -> None:
    assert list_siblings("net", MXNET) == ["net-0000.params", "net-0012.params"]
    assert [sibling_params(stem, epoch, MXNET) for stem, epoch in (("net", 12), ("net-large", None), ("small", None))] == [
        "net-0012.params", "net-large-0000.params", None
    ]  # fmt: skip
    with pytest.raises(UsageError) as usage:
        sibling_params("net", None, MXNET)
    (fault,) = usage.value.faults
    assert (fault.message, fault.where) == ("has 2 parameter files", "net")
    assert (
        fault.hint
        == "there are epochs 0, 12: choose with `epoch`, or name a file, such as net-0000.params"
    )
    with pytest.raises(InputError) as caught:
        sibling_params("net-large", 3, MXNET)
    assert caught.value.faults[0].where == "net-large-0003.params"
    with pytest.raises(InputError) as caught:
        sibling_params("small", 3, MXNET)
    assert caught.value.faults[0].hint == "there is no small-NNNN.params"
    assert list_siblings("gone/net", MXNET) == []


def test_a_web_server_without_listings_has_the_first_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str, *, prefix: str) -> list[str]:
        raise InputError(Fault("the server refuses access (403)", where=folder))

    asked: list[str] = []
    monkeypatch.setattr(load, "list_names", refuse)
    monkeypatch.setattr(load, "exists", lambda path: asked.append(path) or "net" in path)
    assert list_siblings("http://h/a/net?b=c", MXNET) == ["http://h/a/net-0000.params?b=c"]
    assert list_siblings("http://h/a/gone", MXNET) == []
    assert asked == ["http://h/a/net-0000.params?b=c", "http://h/a/gone-0000.params"]


@pytest.mark.usefixtures("folder")
def test_a_file_of_parameters_is_a_path_or_that_of_a_stem() -> None:
    sources = (
        "net-0000.params",
        "net-large",
        "small",
        "small.onnx",
        "-",
        "gone",
        "net-symbol.json",
        "memory://a/b.params",
    )
    files = ["net-0000.params", "net-large-0000.params", "small.onnx", "small.onnx", "-", "gone", "net-symbol.json",
             "memory://a/b.params"]  # fmt: skip
    assert [find_params(source) for source in sources] == files
    assert find_params("net", epoch=12) == "net-0012.params"
    with pytest.raises(
        UsageError, match=r"`epoch=0` needs a stem, but 'net-0000.params' is a file"
    ):
        find_params("net-0000.params", epoch=0)
    assert find_both_params("net", "net-0000.params", epoch=12) == (
        "net-0012.params",
        "net-0000.params",
    )
    assert find_both_params("net-0000.params", "net-large") == (
        "net-0000.params",
        "net-large-0000.params",
    )
    with pytest.raises(
        UsageError,
        match=r"`epoch=0` needs a stem, but 'net-0000.params' and 'small.onnx' are files",
    ):
        find_both_params("net-0000.params", "small.onnx", epoch=0)


@pytest.mark.usefixtures("folder")
def test_what_a_model_was_loaded_from_is_kept() -> None:
    def load_from(*arguments: Any, **options: Any) -> tuple[str, str, int, str]:
        model = gs.load(*arguments, **options)
        file = model.parameter_file
        return model.where, model.stem, model.epoch, "" if file is None else file.path

    assert load_from("net", epoch=12) == ("net-symbol.json", "net", 12, "net-0012.params")
    assert load_from("net-large") == (
        "net-large-symbol.json",
        "net-large",
        0,
        "net-large-0000.params",
    )
    assert load_from("net-symbol.json") == ("net-symbol.json", "", 0, "")
    assert load_from("net-symbol.json", params="net-0012.params") == (
        "net-symbol.json",
        "",
        12,
        "net-0012.params",
    )
    assert load_from("small") == ("small.onnx", "small", 0, "small.onnx")
    with pytest.raises(
        UsageError, match=r"`epoch=0` needs a stem, but 'net-symbol.json' is a file"
    ):
        gs.load("net-symbol.json", epoch=0)
    for options in ({"params": "net-0000.params"}, {"epoch": 0}):
        with pytest.raises(
            RefusedError,
            match=f"`{next(iter(options))}` is for MXNet graphs and Paddle graphs, and this is an ONNX model",
        ):
            gs.load("small", **options)  # type: ignore[arg-type]
    left, right = load_both("net", "net-symbol.json", epoch=12)
    assert (left.epoch, right.epoch, right.parameter_file) == (12, 0, None)
    with pytest.raises(
        UsageError,
        match=r"`epoch=1` needs a stem, but 'small.onnx' and 'net-symbol.json' are files",
    ):
        load_both("small.onnx", "net-symbol.json", epoch=1)
    format_, graph, data = read_graph("net-symbol.json")
    assert (format_.name, len(graph.nodes), data) == (
        "mxnet",
        len(left.graph.nodes),
        Path("net-symbol.json").read_bytes(),
    )


def test_stdin_is_a_graph_or_parameters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("net-symbol.json") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        model = gs.load("-", params="net-0012.params")
    assert (model.where, model.epoch) == ("<stdin>", 12)
    with open("net-0000.params") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        file = gs.load("net-symbol.json", params="-").parameter_file
    assert file is not None
    named = gs.load("net-large").parameter_file
    assert named is not None
    assert (file.path, len(file.records)) == ("<stdin>", len(named.records))
    with pytest.raises(
        UsageError, match="the graph and its parameters cannot both come from stdin"
    ):
        gs.load("-", params="-")


def test_each_name_that_is_not_one_of_a_variable_is_refused() -> None:
    variables = [Node("", "data"), Node("", "weight")]
    check_variable_names(variables, {"`a`": ("data",), "`b`": ("weight", "data")})
    with pytest.raises(RefusedError) as caught:
        check_variable_names(variables, {"`a`": ("dat", "data"), "`b`": ("x",)})
    assert [fault.message for fault in caught.value.faults] == [
        "`a` 'dat' names no variable",
        "`b` 'x' names no variable",
    ]
    assert "data" in caught.value.faults[0].hint
